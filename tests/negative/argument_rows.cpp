// SPDX-License-Identifier: Apache-2.0
// Arguments: keys, groups, masks, buffers. Each by liborlop, and, where a client without the
// library could send it, by the bare channel: the node does not trust the library's checks.
#include <gtest/gtest.h>

#include "raw_client.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

using process_test::RawClient;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

Row put_row(Item item, std::string name, std::vector<std::string> texts, PutOptions options,
            std::vector<std::string> says) {
  return {item, std::move(name), kInvalid, std::move(says),
          [texts = std::move(texts), options = std::move(options)](World& world) {
            const Keys keys(texts);
            return error_of(world.worker().client.put_start(world.worker().ns, keys, options));
          }};
}

PutOptions groups(std::vector<std::uint32_t> lens) {
  PutOptions options;
  options.atomic_group_lens = std::move(lens);
  return options;
}
PutOptions mask(std::vector<bool> bits) {
  PutOptions options = groups({2, 1});
  options.replicate_mask = std::move(bits);
  return options;
}

Row call_row(Item item, std::string name, std::vector<std::string> says,
             std::function<Result<void>(Client&, const Namespace&)> call) {
  return {item, std::move(name), kInvalid, std::move(says), [call = std::move(call)](World& world) {
            return call(world.worker().client, world.worker().ns);
          }};
}

// put_start as no library would send it; its error. Detaches afterwards.
Row raw_row(Item item, std::string name, std::vector<std::string> says,
            std::function<void(protocol::PutRequest&)> spoil) {
  return {item, std::move(name), kInvalid, std::move(says),
          [spoil = std::move(spoil)](World& world) -> Result<void> {
            auto raw = RawClient::attach(world.socket());
            if (!raw) return std::unexpected(raw.error());
            const std::vector<KeyId> keys = {{1, 9}, {2, 9}, {3, 9}};
            protocol::PutRequest request;
            request.row = (*raw)->open_namespace(kValueLen);
            request.value_len = kValueLen;
            request.keys = keys;
            spoil(request);
            constexpr std::uint64_t kCookie = 1'000'000;
            const auto posted = (*raw)->session().put_start(request, kCookie);
            if (posted.result != protocol::Post::kPosted)
              return fail(ErrorCode::kSystem, "not posted");
            const protocol::Answer answer = (*raw)->wait_answer(kCookie);
            (*raw)->detach();
            if (answer.status == protocol::kStatusOk) return {};
            return fail(static_cast<ErrorCode>(answer.status), answer.text);
          }};
}

Rows library_rows() {
  using enum Item;
  return {
      put_row(kEmptyKeyList, "put_no_keys", {}, {}, {"keys", "empty", "at least one"}),
      call_row(kEmptyKeyList, "get_no_keys", {"keys", "empty", "at least one"},
               [](Client& c, const Namespace& ns) { return error_of(c.get_start(ns, {})); }),
      call_row(kEmptyKeyList, "exists_no_keys", {"keys", "empty"},
               [](Client& c, const Namespace& ns) { return error_of(c.exists(ns, {})); }),
      call_row(kEmptyKeyList, "remove_no_keys", {"keys", "empty"},
               [](Client& c, const Namespace& ns) { return error_of(c.remove(ns, {})); }),
      put_row(kEmptyKeyList, "put_empty_key", {"a", ""}, {}, {"keys[1]", "0 bytes"}),
      put_row(kDuplicateKeys, "put_few_duplicates", {"a", "b", "a"}, {},
              {"keys[2]", "keys[0]", "once"}),
      call_row(kDuplicateKeys, "put_many_duplicates", {"keys[99]", "keys[7]", "once"},
               [](Client& c, const Namespace& ns) {
                 const Keys all(100);
                 const std::span<const Key> keys = all;
                 std::vector<Key> twice(keys.begin(), keys.end());
                 twice[99] = twice[7];
                 return error_of(c.put_start(ns, twice));
               }),
      put_row(kGroupLengths, "put_zero_group", {"a", "b", "c"}, groups({1, 0, 2}),
              {"atomic_group_lens[1]", "at least one key"}),
      put_row(kGroupLengths, "put_groups_too_long", {"a", "b", "c"}, groups({2, 2}),
              {"atomic_group_lens[1]", "4 keys", "has 3", "add up"}),
      put_row(kGroupLengths, "put_groups_too_short", {"a", "b", "c"}, groups({2}),
              {"atomic_group_lens", "add up to 2", "3 keys"}),
      put_row(kGroupLengths, "put_groups_overflow", {"a", "b"}, groups({4'294'967'295U, 3}),
              {"atomic_group_lens[0]", "add up"}),
      call_row(kGroupLengths, "get_zero_group", {"atomic_group_lens[0]", "at least one key"},
               [](Client& c, const Namespace& ns) {
                 return error_of(c.get_start(ns, Keys(2), {.atomic_group_lens = {0, 2}}));
               }),
      call_row(kGroupLengths, "get_groups_too_short", {"atomic_group_lens", "add up to 1"},
               [](Client& c, const Namespace& ns) {
                 return error_of(c.get_start(ns, Keys(2), {.atomic_group_lens = {1}}));
               }),
      put_row(kReplicateMask, "mask_of_wrong_length", {"a", "b", "c"}, mask({true}),
              {"replicate_mask", "1 entries for 3 keys", "one per key or none"}),
      put_row(kReplicateMask, "mask_not_uniform", {"a", "b", "c"}, mask({true, false, true}),
              {"replicate_mask[1]", "entry 0", "group 0", "whole or not at all"}),
      call_row(kValueLength, "put_buffer_of_other_length",
               {"buffers[1]", "7 bytes", "value_len is 4096"},
               [](Client& c, const Namespace& ns) {
                 const std::vector<std::byte> good(kValueLen), bad(7);
                 const std::vector<std::span<const std::byte>> buffers = {good, bad};
                 return error_of(c.put(ns, Keys(2), buffers));
               }),
      call_row(kValueLength, "get_buffer_of_other_length", {"buffers[0]", "4097 bytes"},
               [](Client& c, const Namespace& ns) {
                 std::vector<std::byte> bad(kValueLen + 1);
                 const std::vector<std::span<std::byte>> buffers = {bad};
                 return error_of(c.get(ns, Keys(1), buffers));
               }),
      call_row(kValueLength, "copy_in_of_other_length", {"source", "3 bytes", "value_len is 4096"},
               [](Client& c, const Namespace& ns) {
                 auto plan = c.put_start(ns, Keys(1, "short"));
                 return plan->copy_in(0, std::vector<std::byte>(3));
               }),
  };
}

Rows channel_rows() {
  using enum Item;
  static const std::vector<KeyId> twice = {{1, 9}, {2, 9}, {1, 9}};
  static const std::vector<std::uint32_t> short_groups = {1, 1}, zero_group = {0, 3};
  return {
      raw_row(kDuplicateKeys, "channel_duplicates", {"keys[2]", "keys[0]"},
              [](protocol::PutRequest& r) { r.keys = twice; }),
      raw_row(kGroupLengths, "channel_groups_too_short", {"atomic_group_lens", "add up to 2"},
              [](protocol::PutRequest& r) { r.group_lens = short_groups; }),
      raw_row(kGroupLengths, "channel_zero_group", {"atomic_group_lens[0]"},
              [](protocol::PutRequest& r) { r.group_lens = zero_group; }),
      raw_row(kValueLength, "channel_value_len_0", {"value_len is 0", "4096"},
              [](protocol::PutRequest& r) { r.value_len = 0; }),
      raw_row(kValueLength, "channel_value_len_of_another", {"value_len is 8192", "4096"},
              [](protocol::PutRequest& r) { r.value_len = 8192; }),
      raw_row(kValueLength, "channel_namespace_never_opened", {"row"},
              [](protocol::PutRequest& r) { r.row = NamespaceRow{77}; }),
  };
}

}  // namespace

Rows argument_rows() {
  Rows rows = library_rows();
  for (Row& row : channel_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace orlop::negative_test
