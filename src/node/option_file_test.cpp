// SPDX-License-Identifier: Apache-2.0
// A configuration file with every kind of mistake: one message each, with file, line, key, what is
// wrong and what to do.
#include "node/option_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "node/option_sources.h"
#include "node/option_test_file.h"

namespace orlop::node {
namespace {

using ::testing::ElementsAre;

struct Row {
  const char* name;
  std::string text;
  std::string words;  // behind the path
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

class OptionFileMistake : public ::testing::TestWithParam<Row> {};

TEST_P(OptionFileMistake, Is_told_with_place_and_remedy) {
  const OptionTestFile file(GetParam().text);
  EXPECT_THAT(settle_file(file.path()).mistakes, ElementsAre(file.path() + GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    Table, OptionFileMistake,
    ::testing::Values(
        Row{"empty_file", "",
            ": sets nothing; write at least memory.capacity (`orlop config sample` prints a file), "
            "or do not name it"},
        Row{"only_comments", "# capacity = 1\n\n",
            ": sets nothing; write at least memory.capacity (`orlop config sample` prints a file), "
            "or do not name it"},
        Row{"unknown_key", "[memory]\ncapcity = \"64MiB\"\n",
            ":2: unknown key \"memory.capcity\"; did you mean \"memory.capacity\"?"},
        Row{"unknown_key_without_table", "capacity = \"64MiB\"\n",
            ":1: unknown key \"capacity\"; did you mean \"memory.capacity\"?"},
        Row{"key_of_another_table", "[node]\npolicy = \"lru\"\n",
            ":2: unknown key \"node.policy\"; did you mean \"eviction.policy\"?"},
        Row{"key_like_no_other", "[memory]\nbanana = 1\n",
            ":2: unknown key \"memory.banana\"; `orlop config docs` lists what there is"},
        Row{"unknown_table", "[memoryy]\ncapacity = \"64MiB\"\n",
            ":1: unknown table [memoryy]; did you mean \"memory\"?"},
        Row{"size_without_unit", "[memory]\ncapacity = 64\n",
            ":2: memory.capacity: '64' has no unit; write B, KiB, MiB, GiB or TiB behind the "
            "number"},
        Row{"size_text_without_unit", "[memory]\n\ncapacity = \"64\"\n",
            ":3: memory.capacity: '64' has no unit; write B, KiB, MiB, GiB or TiB behind the "
            "number"},
        Row{"ambiguous_unit", "[memory]\ncapacity = \"64GB\"\n",
            ":2: memory.capacity: '64GB' has an ambiguous unit; write KiB, MiB, GiB or TiB (powers "
            "of 1024)"},
        Row{"unknown_unit", "[memory]\ncapacity = \"64 pages\"\n",
            ":2: memory.capacity: '64 pages' has an unknown unit; write B, KiB, MiB, GiB or TiB"},
        Row{"negative_size", "[memory]\ncapacity = -1\n",
            ":2: memory.capacity: '-1' does not start with a number; write for example 256MiB"},
        Row{"fraction_of_nothing", "[memory]\ncapacity = 1.5\n",
            ":2: memory.capacity wants a text such as \"1GiB\", not the number 1.5"},
        Row{"out_of_limits", "[memory]\ncapacity = \"1B\"\n",
            ":2: memory.capacity: '1B' is out of limits; write 4KiB to 15TiB"},
        Row{"duration_without_unit", "[memory]\nwait = 30\n",
            ":2: memory.wait: '30' has no unit; write ns, us, ms, s, m or h"},
        Row{"duration_out_of_limits", "[node]\nrestart_backoff = \"2h\"\n",
            ":2: node.restart_backoff: '2h' is out of limits; write 1ms to 1h"},
        Row{"switch_as_number", "[memory]\ntouch = 1\n",
            ":2: memory.touch wants true or false, not the number 1"},
        Row{"switch_as_word", "[memory]\ntouch = \"perhaps\"\n",
            ":2: memory.touch: 'perhaps' is neither on nor off"},
        Row{"choice_as_switch", "[memory]\nhuge = true\n",
            ":2: memory.huge wants a text such as \"try\", not true"},
        Row{"unknown_choice", "[log]\nlevel = \"verbose\"\n",
            ":2: log.level: 'verbose' is not known; write one of: debug, info, warn, error, off"},
        Row{"text_as_number", "[node]\nsocket = 5\n",
            ":2: node.socket wants a text such as \"/run/orlop/orlop.sock\", not the number 5"},
        Row{"users_by_name", "[node]\nallow_uids = [\"vllm\"]\n",
            ":2: node.allow_uids wants a list of user numbers such as [1000, 1001], not a list"},
        Row{"date_for_a_duration", "[memory]\nwait = 2025-01-31\n",
            ":2: memory.wait wants a text such as \"30s\", not a date or time"},
        Row{"table_for_a_value", "[memory.capacity]\nsize = \"64MiB\"\n",
            ":1: memory.capacity wants a text such as \"1GiB\", not a table"},
        Row{"value_for_a_table", "memory = \"64MiB\"\n",
            ":1: memory is a table of options and cannot be the text '64MiB'; write [memory] and "
            "its options below"},
        Row{"list_for_a_table", "[[memory]]\ncapacity = \"64MiB\"\n",
            ":1: memory is a table of options and cannot be a list; write [memory] and its options "
            "below"},
        Row{"key_twice", "[memory]\ncapacity = \"64MiB\"\ncapacity = \"1GiB\"\n",
            ":3: capacity is set a second time; keep one of the two"},
        Row{"table_twice", "[memory]\ncapacity = \"64MiB\"\n[memory]\ntouch = true\n",
            ":3: memory is set a second time; keep one of the two"},
        Row{"open_table", "[memory\ncapacity = \"64MiB\"\n",
            ":1: not TOML: Error while parsing table header: expected ']', saw '\\n'; lines are "
            "[group], key = \"text\" or # comment"},
        Row{"no_value", "[memory]\ncapacity =\n",
            ":2: not TOML: Error while parsing key-value pair: expected value, saw '\\n'; lines "
            "are [group], key = \"text\" or # comment"},
        Row{"text_without_quotes", "[memory]\ncapacity = 64GiB\n",
            ":2: not TOML: Error while parsing decimal integer: expected digit, saw 'G'; lines are "
            "[group], key = \"text\" or # comment"},
        Row{"open_text", "[memory]\ncapacity = \"64MiB\n",
            ":2: not TOML: Error while parsing string: unescaped control characters other than TAB "
            "(U+0009) are explicitly prohibited; lines are [group], key = \"text\" or # comment"},
        Row{"no_utf8", "[memory]\ncapacity = \"\xff\xfe\"\n",
            ":2: not TOML: Encountered invalid utf-8 sequence; lines are [group], key = \"text\" "
            "or # comment"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(OptionFile, Contradiction_names_both_lines) {
  const OptionTestFile file("[memory]\ncapacity = \"64MiB\"\npayload.bytes = \"1GiB\"\n");
  EXPECT_THAT(settle_file(file.path()).mistakes,
              ElementsAre("memory.capacity = 64MiB (" + file.path() +
                          ":2) and memory.payload.bytes = 1GiB (" + file.path() +
                          ":3) both say how large the memory is; keep one of the two forms"));
}

TEST(OptionFile, Mistakes_come_in_the_order_of_the_lines) {
  const OptionTestFile file(
      "[node]\nsocket = 5\nadmn = \"off\"\n[memory]\ntouch = 7\ncapcity = \"1GiB\"\n");
  EXPECT_THAT(read_option_file(file.path()).mistakes,
              ElementsAre(::testing::HasSubstr(":2: "), ::testing::HasSubstr(":3: "),
                          ::testing::HasSubstr(":5: "), ::testing::HasSubstr(":6: ")));
}

TEST(OptionFile, Unreadable_places_say_why) {
  const OptionTestFile place("");
  const std::string path = place.path();
  EXPECT_THAT(read_option_file("/nonexistent/orlop.toml").mistakes,
              ElementsAre("/nonexistent/orlop.toml: cannot be read: No such file or directory; "
                          "check the path"));
  EXPECT_THAT(read_option_file("/etc").mistakes,
              ElementsAre("/etc: is a folder; name the file in it, for example /etc/orlop.toml"));
  EXPECT_THAT(read_option_file(path + "/x").mistakes,
              ElementsAre(path + "/x: cannot be read: Not a directory; check the path"));
  EXPECT_THAT(read_option_file("/dev/null").mistakes,
              ElementsAre("/dev/null: is no regular file, and a reload reads it again; write a "
                          "file"));
  const OptionTestFile large("# " + std::string(kMaxOptionFileBytes, 'x') + "\n");
  EXPECT_THAT(read_option_file(large.path()).mistakes,
              ElementsAre(large.path() + ": has 1048579 bytes; a configuration has at most "
                                         "1048576"));
}

TEST(OptionFile, File_without_permission_says_so) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const OptionTestFile file("[memory]\ncapacity = \"1GiB\"\n");
  ASSERT_EQ(::chmod(file.path().c_str(), 0), 0);
  EXPECT_THAT(read_option_file(file.path()).mistakes,
              ElementsAre(::testing::HasSubstr("Permission denied")));
}

}  // namespace
}  // namespace orlop::node
