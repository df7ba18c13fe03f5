# SPDX-License-Identifier: Apache-2.0
"""Rules about who includes and who links whom."""

import re

from source_tree import Violation

# Not part of orlop_base: the pure rooms do not log.
LOG_HEADER = "base/log.h"
LOG_LIBRARY = "orlop_log"

PUBLIC_C_HEADERS = {"stdint.h", "stddef.h", "stdbool.h"}


def check(tree, rooms):
    for source in tree.sources:
        if source.is_cpp:
            yield from _check_includes(source, rooms)
        elif source.is_cmake and source.room:
            yield from _check_links(source, rooms)
        if source.room and source.room not in rooms.below:
            yield Violation(source.path, 1, "layering", f"'{source.room}' is no room of cmake/rooms.txt")


def _check_includes(source, rooms):
    public = source.path.startswith("include/")
    for include in source.includes:
        if public:
            why = _public_include(include)
        elif source.room in rooms.below:
            why = _room_include(source, include, rooms)
        else:
            why = None  # tests and bench may include everything
        if why:
            yield Violation(source.path, include.line, "layering", why)


def _public_include(include):
    target = include.target
    if target.startswith("orlop/"):
        return None
    plain = "/" not in target and (not target.endswith(".h") or target in PUBLIC_C_HEADERS)
    if not include.quoted and plain:
        return None
    return f"include/orlop includes only include/orlop and the standard library, not '{target}'"


def _room_include(source, include, rooms):
    target, room = include.target, source.room
    if target.startswith("orlop/"):
        if target in rooms.everyone or rooms.may_use(room, "client"):
            return None
        return f"room '{room}' may not include the public header '{target}'"
    if not include.quoted:
        if re.match(r"spdlog/", target) and source.path != "src/base/log.cpp":
            return "only base/log.cpp knows spdlog; include base/log.h"
        return None
    first = target.split("/")[0]
    if "/" not in target or first not in rooms.below:
        return f"'{target}' is not named from src/ (\"room/file.h\")"
    if not rooms.may_use(room, first):
        return f"room '{room}' may not include room '{first}' ('{target}')"
    if target == LOG_HEADER and room in rooms.pure:
        return f"room '{room}' is pure and does not log"
    return None


def _check_links(source, rooms):
    text = re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), source.text)
    room = source.room
    for call in re.finditer(r"\b(orlop_room|orlop_library|orlop_test|target_link_libraries|add_dependencies)\s*\(([^)]*)\)", text):
        for word in re.finditer(r"\borlop_\w+", call[2]):
            why = _link(room, word[0], rooms)
            if why:
                line = source.line_of(call.start(2) + word.start())
                yield Violation(source.path, line, "layering", why)


def _link(room, library, rooms):
    if room not in rooms.below:
        return None
    name = library.removeprefix("orlop_").removesuffix("_sim")
    if library == LOG_LIBRARY:
        return f"room '{room}' is pure and does not log" if room in rooms.pure else None
    # orlop_ROOM or a part of a room, orlop_ROOM_part.
    owner = name.split("_")[0]
    if owner not in rooms.below:
        return f"'{library}' belongs to no room of cmake/rooms.txt"
    if not rooms.may_use(room, owner):
        return f"room '{room}' may not link '{library}'"
    return None
