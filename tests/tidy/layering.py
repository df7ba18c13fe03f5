# SPDX-License-Identifier: Apache-2.0
"""Rules about who includes and who links whom."""

import re

from source_tree import Violation

# Not part of orlop_base: the pure rooms do not log.
LOG_HEADER = "base/log.h"
LOG_LIBRARY = "orlop_log"

PUBLIC_C_HEADERS = {"stdint.h", "stddef.h", "stdbool.h"}


def check(tree, rooms):
    owners = library_owners(tree)
    for source in tree.sources:
        if source.is_cpp:
            yield from _check_includes(source, rooms)
        elif source.is_cmake and source.room in rooms.below:
            yield from _check_links(source, rooms, owners)
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


def _commands(source, names):
    """The calls of these CMake commands: (offset of the arguments, arguments)."""
    text = re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), source.text)
    for call in re.finditer(rf"\b(?:{names})\s*\(([^)]*)\)", text):
        yield call.start(1), call[1]


def library_owners(tree):
    """library -> the room in whose folder it is defined. A room may have several."""
    owners = {}
    for source in tree.sources:
        if source.is_cmake and source.room:
            for _, arguments in _commands(source, "orlop_room"):
                owners["orlop_" + arguments.split()[0]] = source.room
            for _, arguments in _commands(source, "add_library"):
                owners[arguments.split()[0]] = source.room
    return owners


def _check_links(source, rooms, owners):
    names = "orlop_room|orlop_test|target_link_libraries|add_dependencies"
    for start, arguments in _commands(source, names):
        for word in re.finditer(r"(?<!\S)orlop_\w+", arguments):
            why = _link(source.room, word[0], rooms, owners)
            if why:
                yield Violation(source.path, source.line_of(start + word.start()), "layering", why)


def _link(room, library, rooms, owners):
    base_name = library.removesuffix("_sim")
    if base_name == LOG_LIBRARY:
        return f"room '{room}' is pure and does not log" if room in rooms.pure else None
    owner = owners.get(base_name)
    if owner is None:
        return f"no folder of src/ defines '{library}'"
    if not rooms.may_use(room, owner):
        return f"room '{room}' may not link '{library}' of room '{owner}'"
    return None
