// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_check.h"

#include <gtest/gtest.h>

#include <sstream>

namespace orlop::cli {
namespace {

std::vector<Section> sample() {
  return {{"machine",
           {{.name = "kernel", .finding = "Linux 6"},
            {.name = "memlock",
             .verdict = Verdict::kWarning,
             .finding = "8 MiB may be locked",
             .remedy = "raise it",
             .figures = {{"lockable_bytes", 8388608}}}}},
          {"node", {{.name = "node", .verdict = Verdict::kFailure, .finding = "none"}}}};
}

TEST(DoctorText, Is_a_line_a_check_with_what_to_do_below) {
  EXPECT_EQ(doctor_text(sample(), Painter(false), 80),
            "machine\n"
            "  ok    kernel              Linux 6\n"
            "  warn  memlock             8 MiB may be locked\n"
            "                            -> raise it\n"
            "\n"
            "node\n"
            "  fail  node                none\n"
            "\n"
            "fail: 1 failed, 1 warned\n");
}

TEST(DoctorText, Wraps_at_the_width) {
  auto sections = sample();
  sections[0].checks[0].finding = "one two three four five six seven eight nine ten eleven twelve";
  std::istringstream lines(doctor_text(sections, Painter(false), 60));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60u) << line;
  EXPECT_NE(doctor_text(sections, Painter(true), 0).find("\033["), std::string::npos);
}

TEST(DoctorJson, Has_verdict_sections_and_figures) {
  const auto json = doctor_json(sample());
  EXPECT_EQ(json["verdict"], "fail");
  EXPECT_EQ(json["sections"][0]["checks"][1]["figures"]["lockable_bytes"], 8388608);
  EXPECT_EQ(json["sections"][0]["checks"][1]["verdict"], "warn");
  EXPECT_EQ(json["sections"][1]["title"], "node");
}

TEST(Worst, Is_the_worst_of_all) {
  auto sections = sample();
  EXPECT_EQ(worst(sections), Verdict::kFailure);
  sections.pop_back();
  EXPECT_EQ(worst(sections), Verdict::kWarning);
  EXPECT_EQ(worst({}), Verdict::kOk);
}

}  // namespace
}  // namespace orlop::cli
