// SPDX-License-Identifier: Apache-2.0
// orlop_soak: a host at work for minutes or days, with faults at random (soak.h).
// Exit status: 0 everything held, 1 something did not, 2 usage.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <random>

#include "soak.h"

namespace orlop::soak {
namespace {

void write_csv(const std::string& path, const std::vector<Sample>& samples) {
  std::ofstream out(path);
  out << "seconds,event,keeper_kib,server_kib,witness_kib,keeper_fds,server_fds,witness_fds,"
         "pinned_groups,free_slots,committed_slots,clients,restarts,hits_a_second,wrong\n";
  for (const Sample& one : samples) {
    out << one.seconds << ',' << one.event << ',' << one.keeper.resident_kib << ','
        << one.server.resident_kib << ',' << one.witness.resident_kib << ','
        << one.keeper.descriptors << ',' << one.server.descriptors << ',' << one.witness.descriptors
        << ',';
    if (one.answered) {
      out << one.pinned_groups << ',' << one.free_slots << ',' << one.committed_slots << ','
          << one.clients << ',' << one.restarts << ',';
    } else {
      out << ",,,,,";
    }
    out << one.hits_a_second << ',' << one.wrong << '\n';
  }
}

void print(const SoakResult& result, bool json) {
  if (json) {
    const nlohmann::ordered_json object = {{"minutes", result.minutes},
                                           {"seed", result.seed},
                                           {"faults", result.faults},
                                           {"samples", result.samples.size()},
                                           {"hits", result.hits},
                                           {"wrong", result.wrong},
                                           {"longest_call_ms", result.longest_call_ms},
                                           {"keeper_growth_kib", result.keeper_growth_kib},
                                           {"server_growth_kib", result.server_growth_kib},
                                           {"witness_growth_kib", result.witness_growth_kib},
                                           {"complaints", result.complaints}};
    std::printf("%s\n", object.dump(2).c_str());
    return;
  }
  std::printf(
      "%.1f minutes, seed %llu: %llu faults, %llu hits, %llu wrong, longest call %.0f ms; grown by "
      "KiB: keeper %.0f, server %.0f, witness %.0f\n",
      result.minutes, static_cast<unsigned long long>(result.seed),
      static_cast<unsigned long long>(result.faults), static_cast<unsigned long long>(result.hits),
      static_cast<unsigned long long>(result.wrong), result.longest_call_ms,
      result.keeper_growth_kib, result.server_growth_kib, result.witness_growth_kib);
}

}  // namespace
}  // namespace orlop::soak

int main(int argc, char** argv) {
  using namespace orlop;
  double minutes = 1;
  std::uint64_t seed = std::random_device{}();
  std::string csv;
  bool json = false;
  CLI::App app("A host at work for a long time, with faults at random");
  app.add_option("--minutes", minutes, "how long")->check(CLI::Range(0.05, 100'000.0));
  app.add_option("--seed", seed, "chooses faults and times; default: another one each time");
  app.add_option("--csv", csv, "writes the samples there, one a second");
  app.add_flag("--json", json, "the result as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  soak::Soak soak(seed, static_cast<MonoNs>(minutes * 60 * static_cast<double>(kNsPerSecond)));
  const soak::SoakResult result = soak.run();
  if (!csv.empty()) soak::write_csv(csv, result.samples);
  soak::print(result, json);
  for (const std::string& one : result.complaints) std::fprintf(stderr, "FAILED %s\n", one.c_str());
  if (!result.complaints.empty()) std::fprintf(stderr, "%s\n", result.log.c_str());
  return result.complaints.empty() ? 0 : 1;
}
