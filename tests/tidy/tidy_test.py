#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of the tidy test must fire on a small bad tree and stay silent on a good one."""

import os
import unittest

import rooms as rooms_table
import shape
import source_tree
import tidy

HEAD = "// SPDX-License-Identifier: Apache-2.0\n"
HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "..", "..", rooms_table.TABLE), encoding="utf-8") as table:
    ROOMS = rooms_table.parse(table.read())


def found(files):
    """`rule` of every violation in a tree of {path: text}; C++ gets its licence line."""
    sources = []
    for path, text in files.items():
        if path.endswith(source_tree.CPP_SUFFIXES):
            text = HEAD + text
        sources.append(source_tree.Source(path, text))
    return tidy.violations(source_tree.Tree(sources), ROOMS)


class RuleTest(unittest.TestCase):
    def fires(self, rule, files, text="", line=None):
        violations = found(files)
        self.assertEqual([v.rule for v in violations], [rule], [str(v) for v in violations])
        self.assertIn(text, violations[0].text)
        if line is not None:
            self.assertEqual(violations[0].line, line)

    def silent(self, files):
        self.assertEqual([str(v) for v in found(files)], [])


class Layering(RuleTest):
    def test_include_of_a_lower_room(self):
        self.silent({"src/protocol/node/x.cpp": '#include "segment/slot.h"\n#include "base/ids.h"\n'})

    def test_include_of_a_higher_room(self):
        self.fires("layering", {"src/segment/x.h": '\n#include "protocol/node.h"\n'}, "'protocol'", 3)

    def test_include_of_a_sibling(self):
        self.fires("layering", {"src/segment/x.h": '#include "eviction/policy.h"\n'})
        self.fires("layering", {"src/client/x.h": '#include "node/keeper.h"\n'})

    def test_include_by_relative_path(self):
        self.fires("layering", {"src/segment/x.h": '#include "slot.h"\n'}, "not named from src/")
        self.fires("layering", {"src/segment/x.h": '#include "../base/ids.h"\n'}, "not named from src/")

    def test_unknown_room(self):
        self.fires("layering", {"src/attic/x.h": ""}, "'attic' is no room")

    def test_public_headers(self):
        self.silent({"src/base/x.h": '#include "orlop/error.h"\n'})
        self.silent({"src/client/x.h": '#include "orlop/client.h"\n'})
        self.fires("layering", {"src/segment/x.h": '#include "orlop/client.h"\n'}, "public header")

    def test_public_header_includes_only_public_and_standard(self):
        self.silent({"include/orlop/x.h": '#include "orlop/error.h"\n#include <span>\n#include <stdint.h>\n'})
        self.fires("layering", {"include/orlop/x.h": '#include "base/ids.h"\n'})
        self.fires("layering", {"include/orlop/x.h": "#include <unistd.h>\n"})
        self.fires("layering", {"include/orlop/x.h": "#include <sys/mman.h>\n"})

    def test_log(self):
        self.silent({"src/runtime/x.cpp": '#include "base/log.h"\n'})
        self.fires("layering", {"src/protocol/x.cpp": '#include "base/log.h"\n'}, "does not log")
        self.fires("layering", {"src/runtime/x.cpp": "#include <spdlog/spdlog.h>\n"}, "spdlog")

    def test_tests_and_bench_include_everything(self):
        self.silent({"tests/simulation/x.cpp": '#include "node/keeper.h"\n#include "client/client.h"\n',
                     "bench/micro/x.cpp": '#include "cli/bench.h"\n'})

    def links(self, room, line, *fires_with):
        """A tree with the libraries of three rooms and `line` in the room's CMakeLists.txt."""
        files = {"src/base/CMakeLists.txt": "orlop_room(base SIMULATION SOURCES a.cpp)\n",
                 "src/segment/CMakeLists.txt": "orlop_room(segment SOURCES a.cpp DEPS orlop_base)\n",
                 "src/protocol/part/CMakeLists.txt": "orlop_room(part SOURCES a.cpp DEPS orlop_segment)\n",
                 "src/runtime/CMakeLists.txt": "add_library(orlop_runtime STATIC a.cpp)\n"}
        path = f"src/{room}/CMakeLists.txt"
        files[path] = files.get(path, "\n") + line + "\n"
        if fires_with:
            self.fires("layering", files, *fires_with)
        else:
            self.silent(files)

    def test_link_of_a_lower_room(self):
        self.links("protocol", "orlop_test(x SOURCES a.cpp DEPS orlop_segment orlop_base_sim)  # orlop_cli")
        self.links("runtime", "target_link_libraries(orlop_runtime PUBLIC orlop_part orlop_log)")

    def test_link_of_a_higher_room(self):
        self.links("segment", "orlop_test(x SOURCES a.cpp\n DEPS orlop_runtime)", "may not link 'orlop_runtime'", 3)
        self.links("segment", "orlop_room(x SOURCES a.cpp DEPS orlop_part_sim)", "of room 'protocol'")
        self.links("copy", "target_link_libraries(x PUBLIC orlop_segment)", "may not link 'orlop_segment'")

    def test_link_of_the_log_or_the_unknown(self):
        self.links("segment", "orlop_room(x SOURCES a.cpp DEPS orlop_log)", "does not log")
        self.links("node", "orlop_room(x SOURCES a.cpp DEPS orlop_attic)", "no folder of src/ defines")


class Table(unittest.TestCase):
    def test_a_room_may_use_what_its_rooms_stand_on(self):
        rooms = rooms_table.parse("a:\nb: a\nc: b pure\neveryone: orlop/x.h\n")
        self.assertTrue(rooms.may_use("c", "a"))
        self.assertTrue(rooms.may_use("c", "c"))
        self.assertFalse(rooms.may_use("a", "c"))
        self.assertEqual(rooms.pure, {"c"})

    def test_a_cycle_or_an_unknown_room_is_refused(self):
        for text in ("a: b\nb: a\n", "a: a\n", "a: z\n", "A b\n"):
            with self.assertRaises(ValueError):
                rooms_table.parse(text)


class Purity(RuleTest):
    def test_headers(self):
        self.silent({"src/protocol/x.cpp": "#include <vector>\n#include <atomic>\n"})
        for header in ("thread", "chrono", "mutex", "random", "unistd.h", "sys/mman.h", "time.h"):
            for room in ("protocol", "segment", "eviction"):
                self.fires("pure", {f"src/{room}/x.cpp": f"#include <{header}>\n"}, header, 2)
        self.silent({"src/runtime/x.cpp": "#include <thread>\n#include <unistd.h>\n"})

    def test_code(self):
        for code in ("std::thread worker;", "auto t = std::chrono::seconds(1);", "std::random_device d;",
                     "int s = socket(1, 2, 3);", "::read(0, p, 1);", "x = time(nullptr);", "n = rand();",
                     "getenv(name);", "clock_gettime(0, &t);", "co_await x;", "thread_local int n;"):
            self.fires("pure", {"src/protocol/x.cpp": f"void f() {{ {code} }}\n"}, line=2)

    def test_words_that_only_look_alike(self):
        for code in ("policy.time(3);", "Ring::open(span);", "static int open(int a);", "my_rand(1);",
                     "// std::thread", 'log("std::mutex");', "run_time(1);", "rng.rand();"):
            self.silent({"src/protocol/x.cpp": f"void f() {{ {code}\n }}\n"})

    def test_unit_test_beside_the_code_is_free(self):
        for name in ("x_test.cpp", "fake_node.h", "test_bytes.h", "node_fixture.h"):
            self.silent({f"src/segment/{name}": "#include <thread>\nstd::thread t;\n"})

    def test_iteration_over_unordered(self):
        declaration = "std::unordered_map<int, std::vector<int>> by_key_;\n"
        self.fires("pure", {"src/protocol/x.cpp": declaration + "void f() { for (auto& [k, v] : by_key_) g(k); }\n"},
                   "'by_key_'", 3)
        self.fires("pure", {"src/protocol/x.cpp": declaration + "auto it = by_key_.begin();\n"})
        self.fires("pure", {"src/protocol/x.h": declaration,
                            "src/protocol/x.cpp": '#include "protocol/x.h"\nvoid f() { for (auto& e : s.by_key_) g(e); }\n'})
        self.fires("pure", {"src/protocol/x.cpp": "using Index = std::unordered_set<int>;\nIndex index;\n"
                                                  "void f() { for (int i : index) g(i); }\n"})

    def test_look_up_in_unordered_and_iteration_over_others(self):
        self.silent({"src/protocol/x.cpp": "std::unordered_map<int, int> m_;\nstd::vector<int> v_;\n"
                                           "void f() { m_.find(1); for (int i : v_) m_.erase(i); }\n"})


class Shape(RuleTest):
    def test_file_length(self):
        self.silent({"src/base/x.cpp": "int a;\n" * (shape.MAX_FILE_LINES - 1)})
        self.fires("file-length", {"src/base/x.cpp": "int a;\n" * shape.MAX_FILE_LINES})

    def test_licence(self):
        sources = [source_tree.Source("src/base/x.cpp", "int a;\n"), source_tree.Source("dev", "#!/bin/sh\n"),
                   source_tree.Source("tests/a.py", "#!/usr/bin/env python3\n# " + shape.SPDX + "\n"),
                   source_tree.Source("src/base/CMakeLists.txt", "# none needed\n")]
        violations = tidy.violations(source_tree.Tree(sources), ROOMS)
        self.assertEqual([(v.path, v.rule) for v in violations], [("dev", "spdx"), ("src/base/x.cpp", "spdx")])

    def test_leftovers(self):
        for word in ("FIX" "ME", "TO" "DO", "X" "XX"):
            self.fires("leftover", {"src/base/x.cpp": f"// {word}: later\n"}, word)
        self.silent({"src/base/x.cpp": 'const char* name = "/tmp/aXXXXXX";\n'})

    def test_folder(self):
        self.fires("folder", {"src/base/utils/x.cpp": ""})

    def body(self, head, lines, tail=""):
        return {"src/base/x.cpp": head + " {\n" + "  call(1);\n" * lines + "}" + tail + "\n"}

    def test_function_length(self):
        heads = ("void f(int a)", "int C::f(A<int> a) const noexcept", "TEST(Slot, Name)", "C::C(int a) : a_(a), b_{a}",
                 "template <class T>\nauto f(T t) -> int", "static void f(struct stat s)", "auto f = [](int a)")
        limit = shape.MAX_FUNCTION_LINES - 2
        for head in heads:
            self.silent(self.body(head, limit))
            self.fires("function-length", self.body(head, limit + 1), "101 lines")

    def test_long_scopes_that_are_no_functions(self):
        for head in ("namespace a", "class alignas(64) C : public B", "enum class E", "template <class T>\nstruct S"):
            self.silent(self.body(head, 300, ";"))

    def test_braces_in_text_do_not_count(self):
        self.silent({"src/base/x.cpp": "void f() { g(\"{\", '{'); /* { */ }\n" + "int a;\n" * 150 + "void h() {}\n"})


if __name__ == "__main__":
    unittest.main()
