// SPDX-License-Identifier: Apache-2.0
#include "node/process_memory.h"

#include <string>

#include "platform/memory_files_text.h"
#include "platform/small_file.h"

namespace orlop::node {
namespace {

std::uint64_t anonymous_bytes(const std::string& process) {
  const auto text = read_text_file("/proc/" + process + "/status");
  if (!text) return 0;
  return labelled_value(*text, "RssAnon").value_or(0);
}

}  // namespace

ProcessMemory read_process_memory(std::uint32_t keeper_pid) {
  return {anonymous_bytes("self"), anonymous_bytes(std::to_string(keeper_pid))};
}

}  // namespace orlop::node
