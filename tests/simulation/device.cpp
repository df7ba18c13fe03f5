// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/bytes.h"

namespace orlop::simulation {

void Device::step(Rng& rng, std::uint32_t fail_per_mille) {
  if (copies_.empty()) return;
  const auto chosen =
      std::next(copies_.begin(), static_cast<std::ptrdiff_t>(rng.uniform(copies_.size())));
  Copy& copy = *chosen;
  const std::size_t piece = align_up(std::max<std::size_t>(copy.value.size() / 3, 8), 8);
  const std::size_t end = std::min(copy.value.size(), copy.done + piece);
  if (copy.writes) {
    write_value(copy.identity, copy.value, copy.done, end);
  } else if (!value_is_right(copy.identity, copy.value, copy.done, end)) {
    copy.wrong = true;
  }
  copy.done = end;
  copy.failed = rng.uniform(1000) < fail_per_mille;
  if (copy.done < copy.value.size() && !copy.failed) return;
  finished_.push_back(std::move(copy));
  copies_.erase(chosen);
}

std::vector<Copy> Device::take_finished() {
  return std::exchange(finished_, {});
}

void Device::drop_all() {
  copies_.clear();
  finished_.clear();
}

}  // namespace orlop::simulation
