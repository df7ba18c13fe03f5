// SPDX-License-Identifier: Apache-2.0
// Contract: the text with which a client opens a namespace (any bytes).
//   * What is refused names a reason; nothing is guessed.
//   * What is accepted and within limits has one canonical text, short enough for the namespace
//     table; parsing that gives the same descriptor, and the same text again.
//   * Rank coordinates are no part of the family; nothing else is missing from it.
#include "fuzz_target.h"
#include "input.h"
#include "orlop/namespace.h"
#include "protocol/descriptor/fields.h"
#include "segment/geometry.h"

namespace orlop::fuzz {
namespace {

void check_family(const NamespaceDescriptor& descriptor, const std::string& family) {
  NamespaceDescriptor other = descriptor;
  other.tp_size = other.pp_size = other.cp_size = 2;
  other.tp_rank = other.pp_rank = other.cp_rank = 1;
  other.first_layer = 3;
  other.layers = 4;
  other.first_head = 5;
  other.heads = 6;
  CHECK(family_text(other).value() == family, "rank coordinates are no part of the family");
  other = descriptor;
  other.revision += other.revision.size() < kMaxDescriptorString ? "x" : "";
  if (other == descriptor) return;
  const auto changed = family_text(other);
  CHECK(!changed || *changed != family, "another revision is another family");
}

}  // namespace

void run_one(std::span<const std::byte> input) {
  const std::string_view text = as_text(input);
  const auto parsed = parse_descriptor(text);
  if (!parsed) {
    CHECK(!parsed.error().message.empty());
    return;
  }
  const auto canonical = canonical_text(*parsed);
  const auto family = family_text(*parsed);
  CHECK(canonical.has_value() == !refuse_descriptor(*parsed).has_value());
  if (!canonical) return;
  CHECK(family.has_value());
  CHECK(canonical->size() <= segment::kNamespaceTextBytes, "it fits into the table");
  CHECK(canonical->find('\n') == std::string::npos, "one line");
  const auto again = parse_descriptor(*canonical);
  CHECK(again.has_value() && *again == *parsed, "the canonical text says the same");
  CHECK(canonical_text(*again).value() == *canonical, "there is one canonical text");
  check_family(*parsed, *family);
}

std::vector<Seed> make_seeds() {
  NamespaceDescriptor d;
  d.engine = "vllm";
  d.layout = "vllm-0.32/NHD";
  d.model = "meta-llama/Llama-3.1-70B-Instruct";
  d.revision = "sha256:0123456789abcdef";
  d.dtype = "fp8_e4m3:per-tensor";
  d.page_tokens = 16;
  d.value_len = 4'718'592;
  std::vector<Seed> seeds = {text_seed("plain", canonical_text(d).value())};
  d.tp_rank = 3;
  d.tp_size = 8;
  d.pp_size = 2;
  d.layers = 40;
  d.heads = 8;
  d.model = "m\xc3\xbc\"\\\x01";
  if (const auto text = canonical_text(d)) seeds.push_back(text_seed("ranks-and-escapes", *text));
  seeds.push_back(text_seed("unknown-field", R"({"engine":"vllm","modle":"m"})"));
  seeds.push_back(text_seed("twice", R"({"engine":"vllm","engine":"sglang"})"));
  seeds.push_back(text_seed("wrong-types", R"({"engine":7,"value_len":"big","tp_rank":-1.5e3})"));
  seeds.push_back(text_seed("nested", R"({"engine":[[[[{"a":{"b":[null,true]}}]]]]})"));
  return seeds;
}

}  // namespace orlop::fuzz
