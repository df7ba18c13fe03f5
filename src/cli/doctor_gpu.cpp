// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_gpu.h"

#include <algorithm>
#include <cstdio>

#include "cli/report.h"

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSameNode = 10;  // the firmware's number for no distance
// Copies below this share of what the link carries: something is wrong. Measured on good machines:
// 0.88 of 63 GB/s.
constexpr double kGoodShare = 0.75;

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// "PCIe 5 x16"; none if the machine does not tell.
std::optional<std::string> link_name(const std::optional<double>& speed,
                                     const std::optional<int>& width) {
  if (!speed || !width) return std::nullopt;
  const auto generation = pci_generation(*speed);
  return "PCIe " + (generation ? std::to_string(*generation) : decimal(*speed) + " GT/s") + " x" +
         std::to_string(*width);
}

// What the link carries at most as it runs now; 0: not told.
double carried_gb_s(const GpuFacts& gpu) {
  if (!gpu.link || !gpu.link->speed || !gpu.link->width) return 0;
  return pci_gb_s(*gpu.link->speed, *gpu.link->width);
}

// "device 1 (NVIDIA H200)".
std::string device_name(const std::vector<GpuFacts>& gpus, std::size_t i) {
  return "device " + std::to_string(i) + " (" + gpus[i].name + ")";
}

void add_sentence(Check& check, const std::string& sentence) {
  check.finding += (check.finding.empty() ? "" : "; ") + sentence;
}
void warn(Check& check, const std::string& remedy) {
  check.verdict = Verdict::kWarning;
  check.remedy = remedy;
}
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

void judge_link(const std::string& device, const GpuFacts& gpu, Check& check) {
  if (!gpu.link) {
    add_sentence(check, device + ": sysfs does not know it (" + gpu.link.error().message + ")");
    return;
  }
  const PciLink& link = *gpu.link;
  check.figures["devices"].push_back({{"speed_gt_s", or_null(link.speed)},
                                      {"most_speed_gt_s", or_null(link.most_speed)},
                                      {"width", or_null(link.width)},
                                      {"most_width", or_null(link.most_width)},
                                      {"bar_bytes", or_null(link.window_bytes)}});
  const auto now = link_name(link.speed, link.width);
  const auto most = link_name(link.most_speed, link.most_width);
  std::string sentence = device + ": ";
  if (!now) {
    sentence += "this machine does not tell its link (virtual PCI)";
  } else if (!most || *now == *most) {
    sentence += *now + (most ? ", the most it can do" : "");
  } else {
    sentence += *now + " of " + *most;
    warn(check,
         "the slot, a riser or power saving holds the link back, and copies with it: look into "
         "`lspci -vv` (LnkSta, LnkCap) while copies run, try another slot");
  }
  if (link.window_bytes) {
    sentence += ", largest BAR " + format_bytes(*link.window_bytes) +
                " (only direct access by other devices needs it)";
  }
  add_sentence(check, sentence);
}

std::string node_text(const std::optional<int>& node) {
  return node ? "node " + std::to_string(*node) : "an unknown node";
}

void judge_numa(const std::string& device, const GpuFacts& gpu, const GpuSurroundings& around,
                Check& check) {
  const std::optional<int> own = gpu.link ? gpu.link->numa_node : std::nullopt;
  check.figures["devices"].push_back({{"node", or_null(own)},
                                      {"node_here", or_null(around.node_here)},
                                      {"distance_here", or_null(gpu.distance_here)},
                                      {"node_of_values", or_null(around.node_of_values)},
                                      {"distance_to_values", or_null(gpu.distance_to_values)}});
  if (!own) {
    add_sentence(check, device + ": this machine does not tell its memory node");
    return;
  }
  std::string sentence = device + " is on " + node_text(own);
  if (gpu.distance_here) {
    sentence += ", this process on " + node_text(around.node_here) + " (distance " +
                std::to_string(*gpu.distance_here) + ")";
  }
  if (gpu.distance_to_values) {
    sentence += ", most value memory on " + node_text(around.node_of_values) + " (distance " +
                std::to_string(*gpu.distance_to_values) + ")";
    if (*gpu.distance_to_values > kSameNode) {
      warn(check,
           "copies cross the sockets' link: give each memory node with GPUs a node of its own "
           "(--numa node:N) and bind its engines there, or use --numa interleave if engines of "
           "both share pages");
    }
  }
  add_sentence(check, sentence);
}

void judge_copy(const std::string& device, const GpuFacts& gpu, Check& check) {
  const CudaBandwidth& measured = gpu.bandwidth;
  check.figures["devices"].push_back({{"to_device_gb_s", measured.to_device_gb_s},
                                      {"from_device_gb_s", measured.from_device_gb_s}});
  if (measured.to_device_gb_s == 0 || measured.from_device_gb_s == 0) {
    add_sentence(check, device + ": not measured: " + measured.why);
    warn(check, "GPU copies do not work in this process: see nvidia-smi and the driver's log");
    return;
  }
  std::string sentence = device + ": " + decimal(measured.to_device_gb_s) + " GB/s to it, " +
                         decimal(measured.from_device_gb_s) + " GB/s from it (256 MiB registered)";
  const double carried = carried_gb_s(gpu);
  if (carried > 0) {
    const double least = std::min(measured.to_device_gb_s, measured.from_device_gb_s);
    sentence += ", the link carries " + decimal(carried);
    if (least < kGoodShare * carried) {
      warn(check,
           "well below the link: other copies may be running, the memory may be on another node "
           "(gpu_numa), or an IOMMU translates each access");
    }
  }
  add_sentence(check, sentence);
}

Check judge_registration(const std::vector<GpuFacts>& gpus, const GpuSurroundings& around) {
  Check check{.name = "gpu_registration"};
  const std::string limit = around.lockable_bytes
                                ? "memlock allows " + format_bytes(*around.lockable_bytes)
                                : "memlock has no limit";
  double seconds = 0;
  for (const GpuFacts& gpu : gpus) {
    if (!gpu.bandwidth.registered) {
      check.finding = "memory cannot be registered: " + gpu.bandwidth.why + "; " + limit;
      check.verdict = Verdict::kFailure;
      check.remedy =
          "an engine's page cache cannot be opened then: raise memlock (ulimit -l, "
          "LimitMEMLOCK=infinity, --ulimit memlock=-1) and see that memory is free";
      return check;
    }
    seconds = std::max(seconds, gpu.bandwidth.register_seconds);
  }
  check.finding = "256 MiB could be registered in " + decimal(seconds * 1000) + " ms; " + limit;
  check.figures = {{"register_ms_256_mib", seconds * 1000},
                   {"lockable_bytes", or_null(around.lockable_bytes)}};
  if (around.lockable_bytes && *around.lockable_bytes < CudaBandwidth::kBytes)
    check.finding += ", which this driver does not count";
  if (around.value_bytes > 0) {
    const double all = seconds * static_cast<double>(around.value_bytes) /
                       static_cast<double>(CudaBandwidth::kBytes);
    check.finding += "; an engine registers the node's " + format_bytes(around.value_bytes) +
                     " once, about " + decimal(all) + " s";
    check.figures["register_s_all_values"] = all;
  }
  return check;
}

}  // namespace

std::vector<GpuFacts> measure_gpus(const CudaDriver& driver, const GpuSurroundings& around) {
  std::vector<GpuFacts> out;
  if (!driver.works) return out;
  for (std::size_t i = 0; i < driver.devices.size(); ++i) {
    GpuFacts gpu;
    gpu.name = driver.devices[i].name;
    gpu.bandwidth = measure_cuda_bandwidth(static_cast<int>(i));
    gpu.link = read_pci_link(driver.devices[i].pci_address);
    if (gpu.link && gpu.link->numa_node) {
      const int own = *gpu.link->numa_node;
      if (around.node_here) gpu.distance_here = numa_distance(own, *around.node_here);
      if (around.node_of_values)
        gpu.distance_to_values = numa_distance(own, *around.node_of_values);
    }
    out.push_back(std::move(gpu));
  }
  return out;
}

std::vector<Check> judge_gpus(const std::vector<GpuFacts>& gpus, const GpuSurroundings& around) {
  if (gpus.empty()) return {};
  Check link{.name = "gpu_link"}, numa{.name = "gpu_numa"}, copy{.name = "gpu_copy"};
  for (Check* check : {&link, &numa, &copy}) check->figures["devices"] = Json::array();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string device = device_name(gpus, i);
    judge_link(device, gpus[i], link);
    judge_numa(device, gpus[i], around, numa);
    judge_copy(device, gpus[i], copy);
  }
  return {std::move(link), std::move(numa), std::move(copy), judge_registration(gpus, around)};
}

}  // namespace orlop::cli
