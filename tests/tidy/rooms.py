# SPDX-License-Identifier: Apache-2.0
"""Reads cmake/rooms.txt, the one place where the layering is written."""

import re

TABLE = "cmake/rooms.txt"


class Rooms:
    def __init__(self, below, pure, everyone):
        self.below = below  # room -> rooms it may use, itself included
        self.pure = pure
        self.everyone = everyone  # public headers that every room may include

    def may_use(self, room, other):
        return other in self.below.get(room, ())


def parse(text):
    direct, pure, everyone = {}, set(), set()
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"([a-z_]+):\s*(.*)", line)
        if not match:
            raise ValueError(f"{TABLE}:{number}: not `room: rooms`: {line}")
        name, words = match[1], match[2].split()
        if name == "everyone":
            everyone.update(words)
            continue
        if "pure" in words:
            pure.add(name)
        direct[name] = [w for w in words if w != "pure"]
        for below in direct[name]:
            # Lowest first makes cycles impossible.
            if below not in direct or below == name:
                raise ValueError(f"{TABLE}:{number}: '{below}' is not a room above this line")
    below = {}
    for name, rooms in direct.items():
        below[name] = {name}.union(*(below[r] for r in rooms))
    return Rooms(below, pure, everyone)
