// SPDX-License-Identifier: Apache-2.0
// Test support of room copy: every kernel of this machine, through the cache and around it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "copy/copy.h"

namespace orlop {

struct CopyWay {
  CopyKind kind;
  bool around_cache;
};

inline std::vector<CopyWay> all_copy_ways() {
  std::vector<CopyWay> ways;
  for (const CopyKind kind : CopyEngine::supported_kinds()) {
    ways.push_back({kind, false});
    ways.push_back({kind, true});
  }
  return ways;
}

inline std::string copy_way_name(const testing::TestParamInfo<CopyWay>& info) {
  return std::string(to_string(info.param.kind)) +
         (info.param.around_cache ? "_streams" : "_plain");
}

}  // namespace orlop
