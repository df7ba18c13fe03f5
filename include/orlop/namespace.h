// SPDX-License-Identifier: Apache-2.0
// What makes bytes interchangeable. Two clients share values exactly when all fields agree; all but
// the rank coordinates make the *family*, inside which one page has one KeyId on every rank.
//
// Per-request parts (salt, LoRA, multimodal) belong into keys; replicas (DP), addresses and paths
// belong nowhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "orlop/error.h"

namespace orlop {

struct NamespaceDescriptor {
  std::string engine;            // "vllm", "sglang", "demo"; required
  std::string layout;            // engine's layout and its version, "vllm-0.32/NHD"; required
  std::string model;             // model id; required
  std::string revision;          // weights digest or revision; required
  std::string dtype;             // of the KV cache, scales identity included; required
  std::string component = "kv";  // kv, swa, mamba, indexer, draft ...
  std::string codec = "none";
  std::uint32_t page_tokens = 0;  // required
  std::uint32_t value_len = 0;    // bytes of one value, fixed per namespace; required
  // Rank coordinates.
  std::uint32_t tp_rank = 0, tp_size = 1;
  std::uint32_t pp_rank = 0, pp_size = 1;
  std::uint32_t cp_rank = 0, cp_size = 1;
  std::uint32_t first_layer = 0, layers = 0;
  std::uint32_t first_head = 0, heads = 0;

  bool operator==(const NamespaceDescriptor&) const = default;
};

// Canonical JSON, one line, fields in a fixed order; the form that is stored, compared and shown.
// Errors name the field that is missing or out of its limits.
Result<std::string> canonical_text(const NamespaceDescriptor& descriptor);
// The same without the rank coordinates.
Result<std::string> family_text(const NamespaceDescriptor& descriptor);
// Unknown fields are refused by name, with the nearest known one; also wrong types, duplicates.
Result<NamespaceDescriptor> parse_descriptor(std::string_view json);

}  // namespace orlop
