// SPDX-License-Identifier: Apache-2.0
// What only a C caller can do wrong: NULL, casts, sizes of structs, counts, texts.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "c_client.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();

// A worker's handles and one good key, to be spoiled one at a time.
struct Good {
  explicit Good(World& world)
      : client(world.worker().client.c()), ns(Client::c(world.worker().ns)) {}
  orlop_client* client;
  const orlop_namespace* ns;
  orlop_bytes item{"good", 4};
  orlop_keys keys{1, &item, nullptr, 0};
  std::array<std::byte, kValueLen> page{};
  orlop_bytes source{page.data(), page.size()};
  orlop_buffer target{page.data(), page.size()};
  orlop_outcome outcome{};
  orlop_put_plan* plan = nullptr;
  orlop_get_handle* handle = nullptr;
  std::uint32_t number = 0;

  orlop_status put_start(const orlop_put_options* options = nullptr) {
    return orlop_put_start(client, ns, &keys, options, &plan);
  }
  orlop_status put(std::size_t buffers = 1, std::size_t outcomes = 1) {
    return orlop_put(client, ns, &keys, &source, buffers, nullptr, &outcome, outcomes);
  }
  orlop_status exists() { return orlop_exists(client, ns, &keys, &number, nullptr, 0); }
};

using Call = std::function<orlop_status(Good&)>;

Row c_row(std::string name, std::vector<std::string> says, Call call, ErrorCode code = kInvalid) {
  return {Item::kCallFromC, std::move(name), code, std::move(says),
          [call = std::move(call)](World& world) {
            Good good(world);
            const auto answer = c_answer(call(good));
            EXPECT_EQ(good.plan, nullptr);
            EXPECT_EQ(good.handle, nullptr);
            return answer;
          }};
}
Row good_row(std::string name, Call call) {
  return {Item::kCallFromC, std::move(name), {}, {}, [call = std::move(call)](World& world) {
            Good good(world);
            const auto answer = c_answer(call(good));
            orlop_put_plan_free(good.plan);
            orlop_get_handle_free(good.handle);
            return answer;
          }};
}

Rows key_rows() {
  return {
      c_row("keys_null", {"keys", "NULL"},
            [](Good& g) { return orlop_put_start(g.client, g.ns, nullptr, nullptr, &g.plan); }),
      c_row("keys_count_0", {"keys", "empty", "at least one"},
            [](Good& g) {
              g.keys.count = 0;
              return g.put_start();
            }),
      c_row("keys_count_huge", {"keys", std::to_string(kHuge), "65535", "split it"},
            [](Good& g) {
              g.keys.count = kHuge;
              return g.put_start();
            }),
      c_row("keys_count_without_items", {"keys", "NULL", "3"},
            [](Good& g) {
              g.keys = {3, nullptr, nullptr, 0};
              return g.exists();
            }),
      c_row("keys_in_both_forms", {"keys", "items", "packed"},
            [](Good& g) {
              g.keys = {1, &g.item, "packed", 6};
              return g.exists();
            }),
      c_row("key_without_data", {"keys[0]", "NULL", "4"},
            [](Good& g) {
              g.item.data = nullptr;
              return g.exists();
            }),
      c_row("packed_keys_of_length_0", {"keys[0]", "0 bytes"},
            [](Good& g) {
              g.keys = {2, nullptr, "packed", 0};
              return g.exists();
            }),
      c_row("packed_keys_too_long", {"keys[0]", std::to_string(kHuge), "4096"},
            [](Good& g) {
              g.keys = {65'535, nullptr, "packed", kHuge};
              return g.exists();
            }),
      c_row("packed_key_twice", {"keys[2]", "keys[0]", "once"},
            [](Good& g) {
              g.keys = {3, nullptr, "aabbaa", 2};
              return g.put_start();
            }),
      good_row("packed_keys_are_read_in_order",
               [](Good& g) {
                 std::array<orlop_outcome, 3> outcomes{};
                 const std::array<orlop_bytes, 3> sources{g.source, g.source, g.source};
                 g.keys = {3, nullptr, "p1p2p3", 2};
                 EXPECT_EQ(orlop_put(g.client, g.ns, &g.keys, sources.data(), 3, nullptr,
                                     outcomes.data(), 3),
                           ORLOP_OK);
                 const std::array<orlop_bytes, 4> items{{{"p1", 2}, {"no", 2}, {"p3", 2}}};
                 const orlop_keys some{3, items.data(), nullptr, 0};
                 std::array<std::uint8_t, 2> bitmap{0xff, 0xff};
                 const auto status =
                     orlop_exists(g.client, g.ns, &some, &g.number, bitmap.data(), 2);
                 EXPECT_EQ(g.number, 1U);
                 EXPECT_EQ(bitmap[0], 0b101);
                 EXPECT_EQ(bitmap[1], 0);
                 return status;
               }),
  };
}

Rows array_rows() {
  return {
      c_row("buffers_null", {"buffers", "NULL", "1"},
            [](Good& g) {
              return orlop_put(g.client, g.ns, &g.keys, nullptr, 1, nullptr, &g.outcome, 1);
            }),
      c_row("buffers_of_another_count", {"buffers", "0 entries for 1 keys"},
            [](Good& g) { return g.put(0); }),
      c_row("buffers_huge_count", {"buffers", std::to_string(kHuge)},
            [](Good& g) { return g.put(kHuge); }),
      c_row("buffer_without_data", {"buffers[0]", "NULL", "4096"},
            [](Good& g) {
              g.source.data = nullptr;
              return g.put();
            }),
      c_row("get_buffer_of_other_size", {"buffers[0]", "4095 bytes", "4096"},
            [](Good& g) {
              g.target.size = kValueLen - 1;
              return orlop_get(g.client, g.ns, &g.keys, &g.target, 1, nullptr, &g.number);
            }),
      c_row("outcomes_of_another_count", {"outcomes", "2 entries", "1 keys"},
            [](Good& g) { return g.put(1, 2); }),
      c_row("outcomes_null", {"outcomes", "NULL"},
            [](Good& g) {
              return orlop_put(g.client, g.ns, &g.keys, &g.source, 1, nullptr, nullptr, 1);
            }),
      c_row("bitmap_too_small", {"bitmap", "1 bytes", "9 keys need 2"},
            [](Good& g) {
              std::uint8_t bitmap = 0;
              g.keys = {9, nullptr, "123456789", 1};
              return orlop_exists(g.client, g.ns, &g.keys, &g.number, &bitmap, 1);
            }),
      c_row("groups_null_with_a_count", {"atomic_group_lens", "NULL", "1"},
            [](Good& g) {
              auto options = sized<orlop_put_options>();
              options.atomic_group_count = 1;
              return g.put_start(&options);
            }),
      c_row("groups_huge_count", {"atomic_group_lens", std::to_string(kHuge)},
            [](Good& g) {
              const std::uint32_t one = 1;
              const orlop_get_options options{sizeof options, &one, kHuge};
              return orlop_get_start(g.client, g.ns, &g.keys, &options, &g.handle, nullptr);
            }),
      c_row("mask_value", {"replicate_mask[0]", "7", "0 or 1"},
            [](Good& g) {
              const std::uint8_t mask = 7;
              auto options = sized<orlop_put_options>();
              options.replicate_mask = &mask;
              options.replicate_mask_count = 1;
              return g.put_start(&options);
            }),
      c_row("ranks_null", {"ranks", "NULL", "2"},
            [](Good& g) {
              return orlop_get_start_cohort(g.client, nullptr, 2, &g.keys, nullptr, &g.handle,
                                            nullptr);
            }),
      c_row("ranks_huge_count", {"ranks", std::to_string(kHuge), "1024"},
            [](Good& g) {
              return orlop_get_start_cohort(g.client, &g.ns, kHuge, &g.keys, nullptr, &g.handle,
                                            nullptr);
            }),
      c_row("rank_null", {"ranks[1]", "NULL"},
            [](Good& g) {
              const orlop_namespace* ranks[2] = {g.ns, nullptr};
              return orlop_get_start_cohort(g.client, ranks, 2, &g.keys, nullptr, &g.handle,
                                            nullptr);
            }),
  };
}

// A struct of a header that knows one field more.
template <class Struct>
struct Newer {
  Struct known{};
  std::uint64_t unknown = 0;
};

Rows struct_rows() {
  return {
      c_row("client_options_size_0", {"options.struct_size", "is 0", "sizeof"},
            [](Good&) {
              orlop_client_options options{};
              orlop_client* client = nullptr;
              return orlop_open(&options, &client);
            }),
      c_row("put_options_too_small", {"options.struct_size", "is 8"},
            [](Good& g) {
              auto options = sized<orlop_put_options>();
              options.struct_size = 8;
              return g.put_start(&options);
            }),
      c_row("get_options_garbage_size", {"options.struct_size", std::to_string(kHuge)},
            [](Good& g) {
              auto options = sized<orlop_get_options>();
              options.struct_size = kHuge;
              return orlop_get_start(g.client, g.ns, &g.keys, &options, &g.handle, nullptr);
            }),
      c_row("result_too_small", {"result.struct_size", "is 4"},
            [](Good& g) {
              auto result = sized<orlop_get_result>();
              result.struct_size = 4;
              return orlop_get_start(g.client, g.ns, &g.keys, nullptr, &g.handle, &result);
            }),
      c_row("stats_too_small", {"stats.struct_size", "is 16"},
            [](Good& g) {
              auto stats = sized<orlop_client_stats>();
              stats.struct_size = 16;
              return orlop_stats(g.client, &stats);
            }),
      c_row("newer_put_options_in_use", {"options", "is set", "newer fields"},
            [](Good& g) {
              Newer<orlop_put_options> newer;
              newer.known.struct_size = sizeof newer;
              newer.unknown = 1;
              return g.put_start(&newer.known);
            }),
      good_row("newer_put_options_not_in_use",
               [](Good& g) {
                 Newer<orlop_put_options> newer;
                 newer.known.struct_size = sizeof newer;
                 return g.put_start(&newer.known);
               }),
      good_row("newer_stats_are_zero_beyond_what_is_known",
               [](Good& g) {
                 Newer<orlop_client_stats> newer;
                 newer.known.struct_size = sizeof newer;
                 newer.unknown = 77;
                 const auto status = orlop_stats(g.client, &newer.known);
                 EXPECT_EQ(newer.unknown, 0U);
                 EXPECT_EQ(newer.known.struct_size, sizeof newer);
                 return status;
               }),
      c_row("unknown_flag", {"options.flags", "8"},
            [](Good& g) {
              auto options = sized<orlop_put_options>();
              options.flags = 8;
              return g.put_start(&options);
            }),
      c_row("deadline_without_its_flag", {"options.deadline_ms", "5", "ORLOP_PUT_DEADLINE"},
            [](Good& g) {
              auto options = sized<orlop_put_options>();
              options.deadline_ms = 5;
              return g.put_start(&options);
            }),
      c_row("negative_deadline", {"deadline", "negative"},
            [](Good& g) {
              auto options = sized<orlop_put_options>();
              options.flags = ORLOP_PUT_DEADLINE;
              options.deadline_ms = -1;
              return g.put_start(&options);
            }),
      c_row("negative_budget", {"options.call_budget_ms", "-1"},
            [](Good&) {
              auto options = sized<orlop_client_options>();
              options.call_budget_ms = -1;
              orlop_client* client = nullptr;
              return orlop_open(&options, &client);
            }),
      c_row("ledger_beyond_32_bits", {"options.ledger_cells", "4294967296"},
            [](Good&) {
              auto options = sized<orlop_client_options>();
              options.ledger_cells = 1ULL << 32;
              orlop_client* client = nullptr;
              return orlop_open(&options, &client);
            }),
  };
}

orlop_status open_text(orlop_text socket) {
  auto options = sized<orlop_client_options>();
  options.socket = socket;
  orlop_client* client = nullptr;
  return orlop_open(&options, &client);
}

// JSON through C, for the words of the parser.
Row json_row(std::string name, ErrorCode code, std::vector<std::string> says, std::string json) {
  return c_row(
      std::move(name), std::move(says),
      [json = std::move(json)](Good& g) {
        orlop_namespace* ns = nullptr;
        const auto status = orlop_open_namespace_json(g.client, {json.data(), json.size()}, &ns);
        EXPECT_EQ(ns, nullptr);
        return status;
      },
      code);
}

std::string good_json_with(const std::string& more) {
  return canonical_text(descriptor()).value().insert(1, more);
}

Rows text_rows() {
  return {
      c_row("socket_null_with_a_length", {"options.socket", "NULL", "5"},
            [](Good&) { return open_text({nullptr, 5}); }),
      c_row("socket_with_its_terminator", {"options.socket", "byte 2", "zero"},
            [](Good&) { return open_text({"/x", 3}); }),
      c_row("descriptor_null", {"descriptor", "NULL"},
            [](Good& g) {
              orlop_namespace* ns = nullptr;
              return orlop_open_namespace(g.client, nullptr, &ns);
            }),
      c_row("descriptor_empty", {"engine"},
            [](Good& g) {
              auto empty = sized<orlop_namespace_descriptor>();
              orlop_namespace* ns = nullptr;
              return orlop_open_namespace(g.client, &empty, &ns);
            }),
      json_row("json_unknown_field", ErrorCode::kNamespaceConflict,
               {"unknown field", "modle", "model"}, good_json_with(R"("modle":"x",)")),
      json_row("json_field_twice", kInvalid, {"model", "twice"}, good_json_with(R"("model":"x",)")),
      json_row("json_is_none", kInvalid, {"namespace descriptor"}, std::string("\xff\x00{{", 4)),
      c_row("text_without_room", {"buffer", "1 bytes", "are needed"},
            [](Good&) {
              const std::string json = canonical_text(descriptor()).value();
              auto read = sized<orlop_namespace_descriptor>();
              char byte = 'x';
              std::size_t size = 0;
              const auto status =
                  orlop_parse_descriptor({json.data(), json.size()}, &read, &byte, 1, &size);
              EXPECT_EQ(byte, 'x');
              EXPECT_EQ(read.value_len, 0U);
              return status;
            }),
      good_row("texts_there_and_back",
               [](Good&) {
                 const std::string json = canonical_text(descriptor()).value();
                 const orlop_text given{json.data(), json.size()};
                 auto read = sized<orlop_namespace_descriptor>();
                 std::size_t size = 0;
                 EXPECT_EQ(orlop_parse_descriptor(given, &read, nullptr, 0, &size), ORLOP_OK);
                 std::string texts(size, ' '), back(json.size(), ' ');
                 EXPECT_EQ(orlop_parse_descriptor(given, &read, texts.data(), size, &size),
                           ORLOP_OK);
                 EXPECT_EQ(orlop_family_text(&read, nullptr, 0, &size), ORLOP_OK);
                 EXPECT_EQ(size, family_text(descriptor()).value().size());
                 const auto status = orlop_canonical_text(&read, back.data(), back.size(), &size);
                 EXPECT_EQ(back, json);
                 return status;
               }),
  };
}

}  // namespace

Rows c_rows() {
  Rows rows = c_handle_rows();
  for (auto part : {key_rows(), array_rows(), struct_rows(), text_rows()})
    rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

}  // namespace orlop::negative_test
