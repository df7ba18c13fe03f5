#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every source and fails on what the house does not allow (design 70).

usage: tidy.py [ROOT]      prints one line a violation; exit status 1 if there is one
"""

import os
import sys

import layering
import purity
import rooms as rooms_table
import shape
import source_tree


def violations(tree, rooms):
    found = []
    for rules in (layering, purity, shape):
        found.extend(rules.check(tree, rooms))
    return sorted(found, key=lambda v: (v.path, v.line, v.rule, v.text))


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    root = arguments[0] if arguments else os.path.join(here, "..", "..")
    with open(os.path.join(root, rooms_table.TABLE), encoding="utf-8") as file:
        rooms = rooms_table.parse(file.read())
    tree = source_tree.load(root)
    if not tree.cpp():
        print(f"tidy: no source under {root}", file=sys.stderr)
        return 2
    found = violations(tree, rooms)
    for violation in found:
        print(violation)
    print(f"tidy: {len(tree.sources)} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
