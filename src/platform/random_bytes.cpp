// SPDX-License-Identifier: Apache-2.0
#include "platform/random_bytes.h"

#include <sys/random.h>

#include <cerrno>

#include "platform/system_error.h"

namespace orlop {

Result<void> fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("getrandom", errno);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::uint64_t> random_id() {
  std::uint64_t id = 0;
  while (id == 0) {
    auto filled = fill_random(std::as_writable_bytes(std::span(&id, 1)));
    if (!filled) return std::unexpected(filled.error());
  }
  return id;
}

}  // namespace orlop
