// SPDX-License-Identifier: Apache-2.0
// Remembers when a few members of a recency list were put at its young end, so that the age of the
// old end is known without a stamp in every row.
//
// Samples are in list order, because both only grow at the young end and a member that leaves its
// place takes its sample with it (the caller keeps one mark bit per member to know that it has
// one). About kSpread samples are spread evenly over the list: lists shorter than kSpread are known
// exactly, longer ones to about 1/kSpread of their length. Bound: kMaxSamples. Thread: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace orlop {

class RecencySamples {
 public:
  struct Sample {
    std::uint32_t member;
    std::uint64_t stamp;
  };

  static constexpr std::size_t kMaxSamples = 64;
  static constexpr std::size_t kSpread = 32;

  // `member` was put at the young end of a list that now has `length` members. True = it has a
  // sample now (set its mark). Marks of samples that make room are cleared through
  // `unmark(member)`.
  template <class Unmark>
  bool appended(std::uint32_t member, std::uint64_t stamp, std::uint64_t length, Unmark&& unmark) {
    if (++since_last_ <= length / kSpread) return false;
    since_last_ = 0;
    if (samples_.size() == kMaxSamples) drop_every_other(unmark);
    samples_.push_back({member, stamp});
    return true;
  }

  // A marked member left its place.
  void erase(std::uint32_t member) {
    const auto it = std::find_if(samples_.begin(), samples_.end(), [member](const Sample& sample) {
      return sample.member == member;
    });
    CHECK(it != samples_.end(), "a mark without a sample");
    last_erased_ = it->stamp;
    samples_.erase(it);
  }

  // Stamp of about the oldest member. Requires: the list is not empty.
  std::uint64_t oldest() const { return samples_.empty() ? last_erased_ : samples_.front().stamp; }

  const std::vector<Sample>& samples() const { return samples_; }  // oldest first

 private:
  template <class Unmark>
  void drop_every_other(Unmark&& unmark) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (i % 2 == 0) {
        samples_[kept++] = samples_[i];
      } else {
        unmark(samples_[i].member);
      }
    }
    samples_.resize(kept);
  }

  std::vector<Sample> samples_;
  std::uint64_t since_last_ = 0;   // members appended since the last sample was taken
  std::uint64_t last_erased_ = 0;  // best guess while no sample is left
};

}  // namespace orlop
