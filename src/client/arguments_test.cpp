// SPDX-License-Identifier: Apache-2.0
// Everything that a caller can get wrong: each error names argument and index, nothing is reserved.
#include "client/arguments.h"

#include <gtest/gtest.h>

#include <string>

#include "client/client_fixture.h"

namespace orlop::client::testing {
namespace {

using Call = std::function<Result<void>(Client&, const Namespace&)>;

template <class T>
Result<void> no_value(Result<T> result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

Call put_call(std::vector<std::string> texts, PutOptions options = {}) {
  return [texts = std::move(texts), options = std::move(options)](Client& c, const Namespace& ns) {
    const std::vector<Key> keys(texts.begin(), texts.end());
    return no_value(c.put_start(ns, keys, options));
  };
}
Call get_call(std::vector<std::string> texts, GetOptions options = {}) {
  return [texts = std::move(texts), options = std::move(options)](Client& c, const Namespace& ns) {
    const std::vector<Key> keys(texts.begin(), texts.end());
    return no_value(c.get_start(ns, keys, options));
  };
}

struct Misuse {
  const char* name;
  Call call;
  ErrorCode code;
  const char* says;  // part of the message: argument and index
};

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

// Lists that are wrong by themselves.
std::vector<Misuse> list_misuses() {
  const auto invalid = ErrorCode::kInvalidArgument;
  return {
      {"put_no_keys", put_call({}), invalid, "keys: is empty"},
      {"get_no_keys", get_call({}), invalid, "keys: is empty"},
      {"put_empty_key", put_call({"a", ""}), invalid, "keys[1]: has 0 bytes"},
      {"get_long_key", get_call({std::string(4097, 'x')}), invalid, "keys[0]: has 4097 bytes"},
      {"put_duplicate", put_call({"a", "b", "a"}), invalid, "keys[2]: is the same key as keys[0]"},
      {"put_zero_group", put_call({"a", "b", "c"}, groups({1, 0, 2})), invalid,
       "atomic_group_lens[1]: is 0"},
      {"put_groups_too_long", put_call({"a", "b", "c"}, groups({2, 2})), invalid,
       "atomic_group_lens[1]"},
      {"put_groups_too_short", put_call({"a", "b", "c"}, groups({2})), invalid,
       "atomic_group_lens: add up to 2"},
      {"get_groups_too_short", get_call({"a", "b"}, {.atomic_group_lens = {1}}), invalid,
       "atomic_group_lens: add up to 1"},
      {"put_mask_length", put_call({"a", "b", "c"}, mask({true})), invalid,
       "replicate_mask: has 1"},
      {"put_mask_in_group", put_call({"a", "b", "c"}, mask({true, false, true})), invalid,
       "replicate_mask[1]"},
  };
}

// Arguments that are wrong together.
std::vector<Misuse> argument_misuses() {
  const auto invalid = ErrorCode::kInvalidArgument;
  std::vector<Misuse> all;
  const auto add = [&](const char* name, ErrorCode code, const char* says, Call call) {
    all.push_back({name, std::move(call), code, says});
  };
  add("put_too_many_keys", invalid, "keys: has 65536 keys",
      [](Client& c, const Namespace& ns) { return no_value(c.put_start(ns, Keys(65'536))); });
  add("put_many_duplicate", invalid, "keys[99]: is the same key as keys[7]",
      [](Client& c, const Namespace& ns) {
        const Keys keys(100);
        std::vector<Key> twice(keys.first(100).begin(), keys.first(100).end());
        twice[99] = twice[7];
        return no_value(c.put_start(ns, twice));
      });
  add("put_empty_parent", invalid, "parent: has 0 bytes", [](Client& c, const Namespace& ns) {
    PutOptions options;
    options.parent = Key();
    return no_value(c.put_start(ns, Keys(1), options));
  });
  add("put_negative_deadline", invalid, "deadline: is negative",
      [](Client& c, const Namespace& ns) {
        PutOptions options;
        options.deadline = Milliseconds{-1};
        return no_value(c.put_start(ns, Keys(1), options));
      });
  add("put_buffer_count", invalid, "buffers: has 0 entries",
      [](Client& c, const Namespace& ns) { return no_value(c.put(ns, Keys(1), {})); });
  add("put_buffer_length", invalid, "buffers[1]: has 7 bytes", [](Client& c, const Namespace& ns) {
    const std::vector<std::byte> good(kValueLen), bad(7);
    const std::vector<std::span<const std::byte>> buffers = {good, bad};
    return no_value(c.put(ns, Keys(2), buffers));
  });
  add("get_buffer_length", invalid, "buffers[0]: has 8 bytes", [](Client& c, const Namespace& ns) {
    std::vector<std::byte> bad(8);
    const std::vector<std::span<std::byte>> buffers = {bad};
    return no_value(c.get(ns, Keys(1), buffers));
  });
  return all;
}

// Plans and handles at the wrong time.
std::vector<Misuse> plan_misuses() {
  const auto invalid = ErrorCode::kInvalidArgument;
  std::vector<Misuse> all;
  const auto add = [&](const char* name, ErrorCode code, const char* says, Call call) {
    all.push_back({name, std::move(call), code, says});
  };
  add("copy_in_length", invalid, "source: has 3 bytes", [](Client& c, const Namespace& ns) {
    auto plan = c.put_start(ns, Keys(1));
    return plan->copy_in(0, std::vector<std::byte>(3));
  });
  add("copy_in_index", invalid, "i: is 1, the plan has 1", [](Client& c, const Namespace& ns) {
    auto plan = c.put_start(ns, Keys(1));
    return plan->copy_in(1, std::vector<std::byte>(kValueLen));
  });
  add("copy_in_without_memory", invalid, "i: key 0 got no memory (in_flight)",
      [](Client& c, const Namespace& ns) {
        auto first = c.put_start(ns, Keys(1));
        auto second = c.put_start(ns, Keys(1));
        return second->copy_in(0, std::vector<std::byte>(kValueLen));
      });
  add("commit_twice", ErrorCode::kWrongState, "plan: was committed",
      [](Client& c, const Namespace& ns) {
        auto plan = c.put_start(ns, Keys(1, "twice"));
        auto future = c.put_commit(*plan);
        return no_value(c.put_commit(*plan));
      });
  add("abort_after_commit", ErrorCode::kWrongState, "plan: was committed",
      [](Client& c, const Namespace& ns) {
        auto plan = c.put_start(ns, Keys(1, "abort"));
        auto future = c.put_commit(*plan);
        return c.put_abort(*plan);
      });
  add("copy_in_after_abort", ErrorCode::kWrongState, "plan: was committed, aborted",
      [](Client& c, const Namespace& ns) {
        auto plan = c.put_start(ns, Keys(1));
        (void)c.put_abort(*plan);
        return plan->copy_in(0, std::vector<std::byte>(kValueLen));
      });
  add("transfer_twice", ErrorCode::kWrongState, "handle: was transferred",
      [](Client& c, const Namespace& ns) {
        auto handle = c.get_start(ns, Keys(1));
        auto plan = c.get_transfer(*handle);
        return no_value(c.get_transfer(*handle));
      });
  add("cancel_after_transfer", ErrorCode::kWrongState, "handle: was transferred",
      [](Client& c, const Namespace& ns) {
        auto handle = c.get_start(ns, Keys(1));
        auto plan = c.get_transfer(*handle);
        return c.cancel_get(*handle);
      });
  add("release_twice", ErrorCode::kWrongState, "plan: was released",
      [](Client& c, const Namespace& ns) {
        auto handle = c.get_start(ns, Keys(1));
        auto plan = c.get_transfer(*handle);
        (void)c.release_views(*plan);
        return c.release_views(*plan);
      });
  add("copy_out_after_release", ErrorCode::kWrongState, "plan: was released",
      [](Client& c, const Namespace& ns) {
        auto handle = c.get_start(ns, Keys(1));
        auto plan = c.get_transfer(*handle);
        (void)c.release_views(*plan);
        std::vector<std::byte> page(kValueLen);
        return no_value(plan->copy_out(0, page));
      });
  add("copy_not_registered", invalid, "copy: 77 is not registered",
      [](Client& c, const Namespace&) { return c.copy_done(77, true); });
  return all;
}

std::vector<Misuse> namespace_misuses() {
  const auto invalid = ErrorCode::kInvalidArgument;
  std::vector<Misuse> all;
  const auto add = [&](const char* name, ErrorCode code, const char* says, Call call) {
    all.push_back({name, std::move(call), code, says});
  };
  add("foreign_namespace", invalid, "ns: was not opened by this client",
      [](Client& c, const Namespace&) { return no_value(c.get_start(Namespace(), Keys(1))); });
  add("cohort_empty", invalid, "ranks: has 0 entries",
      [](Client& c, const Namespace&) { return no_value(c.get_start_cohort({}, Keys(1))); });
  add("cohort_twice", invalid, "ranks[1]: is the same as ranks[0]",
      [](Client& c, const Namespace& ns) {
        const std::vector<Namespace> ranks = {ns, ns};
        return no_value(c.get_start_cohort(ranks, Keys(1)));
      });
  add("cohort_family", invalid, "ranks[1]: is of another family",
      [](Client& c, const Namespace& ns) {
        const std::vector<Namespace> ranks = {
            ns, c.open_namespace(descriptor(kValueLen, "another")).value()};
        return no_value(c.get_start_cohort(ranks, Keys(1)));
      });
  add("descriptor_value_len_0", invalid, "value_len",
      [](Client& c, const Namespace&) { return no_value(c.open_namespace(descriptor(0))); });
  add("descriptor_value_len_over_a_slab", invalid, "value_len",
      [](Client& c, const Namespace&) { return no_value(c.open_namespace(descriptor(1U << 29))); });
  return all;
}

class MisuseTest : public ClientTest {
 protected:
  void expect_all_refused(const std::vector<Misuse>& misuses);
};

// Each error names argument and index, and nothing was reserved.
void MisuseTest::expect_all_refused(const std::vector<Misuse>& misuses) {
  for (const Misuse& misuse : misuses) {
    SCOPED_TRACE(misuse.name);
    const Result<void> result = misuse.call(client, ns);
    if (result.has_value()) {
      ADD_FAILURE() << "was accepted";
      continue;
    }
    EXPECT_EQ(result.error().code, misuse.code) << result.error().message;
    EXPECT_NE(result.error().message.find(misuse.says), std::string::npos)
        << result.error().message;
    const ClientStats stats = client.stats();
    EXPECT_EQ(stats.open_put_plans + stats.open_read_plans + stats.open_handles, 0U);
    EXPECT_EQ(stats.pinned_bytes, 0U);
  }
  EXPECT_EQ(put(Keys(3)), std::vector<Outcome>(3, Outcome::kStored));
}

TEST_F(MisuseTest, Wrong_lists_are_refused) {
  expect_all_refused(list_misuses());
}
TEST_F(MisuseTest, Wrong_arguments_are_refused) {
  expect_all_refused(argument_misuses());
}
TEST_F(MisuseTest, Plans_at_the_wrong_time_are_refused) {
  expect_all_refused(plan_misuses());
}
TEST_F(MisuseTest, Wrong_namespaces_are_refused) {
  expect_all_refused(namespace_misuses());
}

TEST_F(MisuseTest, Plan_of_another_client_is_refused) {
  Client other(with_socket({}));
  ASSERT_TRUE(other.wait_ready(kLong));
  auto writing = client.put_start(ns, Keys(1));
  auto handle = client.get_start(ns, Keys(1));
  EXPECT_EQ(other.put_commit(*writing).error().code, ErrorCode::kWrongState);
  EXPECT_EQ(other.get_transfer(*handle).error().code, ErrorCode::kWrongState);
  EXPECT_EQ(other.put_start(ns, Keys(1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(client.put_abort(*writing).has_value());
}

TEST(Attach, Socket_path_too_long_is_said) {
  Client client({.socket = "/tmp/" + std::string(200, 'x')});
  EXPECT_TRUE(eventually([&] {
    return client.last_attach_error().code == ErrorCode::kInvalidArgument;
  })) << client.last_attach_error().message;
  EXPECT_FALSE(client.ready());
}

TEST(WholeGroups, Count_groups_inside_the_prefix) {
  const std::vector<std::uint32_t> lens = {2, 3, 1};
  EXPECT_EQ(whole_groups(lens, 1).keys, 0U);
  EXPECT_EQ(whole_groups(lens, 4).keys, 2U);
  EXPECT_EQ(whole_groups(lens, 5).groups, 2U);
  EXPECT_EQ(whole_groups(lens, 6).keys, 6U);
  EXPECT_EQ(whole_groups({}, 4).groups, 4U);
}

}  // namespace
}  // namespace orlop::client::testing
