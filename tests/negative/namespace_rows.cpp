// SPDX-License-Identifier: Apache-2.0
// Namespace descriptors.
#include <gtest/gtest.h>

#include "node_memory.h"
#include "raw_client.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

using process_test::RawClient;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

Row open_row(Item item, std::string name, std::vector<std::string> says,
             NamespaceDescriptor wrong) {
  return {item, std::move(name), kInvalid, std::move(says),
          [wrong](World& world) { return error_of(world.worker().client.open_namespace(wrong)); }};
}

// The text as no library would send it.
Row text_row(Item item, std::string name, ErrorCode code, std::vector<std::string> says,
             std::function<std::string(std::string)> spoil) {
  return {item, std::move(name), code, std::move(says),
          [spoil = std::move(spoil)](World& world) -> Result<void> {
            auto raw = RawClient::attach(world.socket());
            if (!raw) return std::unexpected(raw.error());
            constexpr std::uint64_t kCookie = 1'000'000;
            const std::string text = spoil(canonical_text(descriptor()).value());
            const auto posted = (*raw)->session().open_namespace(text, kCookie);
            if (posted.result != protocol::Post::kPosted)
              return fail(ErrorCode::kSystem, "not posted");
            const protocol::Answer answer = (*raw)->wait_answer(kCookie);
            (*raw)->detach();
            if (answer.status == protocol::kStatusOk) return {};
            return fail(static_cast<ErrorCode>(answer.status), answer.text);
          }};
}

// No two texts with one digest of 128 bits are known, so the text that the node has stored is
// changed under it.
Result<void> open_with_equal_digest(World& world) {
  const NamespaceDescriptor stored = descriptor(kValueLen, "collides");
  EXPECT_TRUE(world.worker().client.open_namespace(stored));
  const std::string text = canonical_text(stored).value();
  const auto memory = open_control_memory(world.daemon());
  char* changed = nullptr;
  for (std::uint32_t r = 0; memory->area.current_index(NamespaceRow{r}).value != 0; ++r) {
    const auto known = memory->area.namespace_text(NamespaceRow{r});
    if (std::string_view(known.data(), text.size()) == text)
      changed = &known[text.find("collides")];
  }
  if (changed == nullptr) return fail(ErrorCode::kSystem, "the namespace is not in the table");
  *changed = 'C';
  Client other(Worker::options(world.socket(), "other"));
  EXPECT_TRUE(other.wait_ready(kPatience));
  auto refused = error_of(other.open_namespace(stored));
  *changed = 'c';
  EXPECT_TRUE(other.open_namespace(stored));
  return refused;
}

}  // namespace

Rows namespace_rows() {
  using enum Item;
  NamespaceDescriptor nameless = descriptor();
  nameless.engine.clear();
  return {
      open_row(kValueLength, "value_len_0", {"value_len"}, descriptor(0)),
      open_row(kValueLength, "value_len_over_the_limit", {"value_len", "536870912"},
               descriptor((1U << 29) + 1)),
      open_row(kValueLength, "value_len_over_a_slab",
               {"value_len 536870912", "slab of", "raise memory.max_value_len"},
               descriptor(1U << 29)),
      open_row(kUnknownDescriptorFields, "required_field_missing", {"engine"}, nameless),
      text_row(kUnknownDescriptorFields, "unknown_field", ErrorCode::kNamespaceConflict,
               {"unknown field", "modle", "model"},
               [](std::string text) { return text.insert(1, R"("modle":"x",)"); }),
      text_row(kUnknownDescriptorFields, "field_twice", kInvalid, {"model", "twice"},
               [](std::string text) { return text.insert(1, R"("model":"x",)"); }),
      text_row(kUnknownDescriptorFields, "field_of_another_type", kInvalid, {"tp_rank", "number"},
               [](std::string text) {
                 return text.replace(text.find("\"tp_rank\":0"), 11, "\"tp_rank\":\"0\"");
               }),
      text_row(kUnknownDescriptorFields, "no_json", kInvalid, {"namespace descriptor"},
               [](const std::string&) { return std::string("\xff\x00{{{{", 6); }),
      {kTwoDescriptorsOneDigest,
       "two_descriptors_one_digest",
       ErrorCode::kNamespaceConflict,
       {"same digest", "change one"},
       open_with_equal_digest},
  };
}

}  // namespace orlop::negative_test
