#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds liborlop.so against orlop.h: the same names, no others, few dependencies.

usage: exports.py HEADER LIBRARY [SANITIZERS]
"""

import re
import subprocess
import sys

# What a library of C++ inside needs of a Linux that has no C++.
ALLOWED_LIBRARIES = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
VERSION_NODE = "ORLOP_0"


def declared(header):
    """Names of the calls that the header exports."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", header, flags=re.DOTALL)
    return set(re.findall(r"\bORLOP_EXPORT\b[^;]*?\b(orlop_\w+)\s*\(", code))


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def shown(library):
    """Defined dynamic symbols as {name: version}; the version node itself is left out."""
    found = {}
    for line in output("nm", "-D", "--defined-only", library).splitlines():
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.partition("@@")
        if not (kind == "A" and name == VERSION_NODE):
            found[name] = version
    return found


def needed(library):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library)))


def problems(header, library, sanitizers):
    names, symbols = declared(header), shown(library)
    if len(names) < 50:
        yield f"only {len(names)} calls found in the header: is it read right?"
    for name in sorted(names - symbols.keys()):
        yield f"{name}: declared in the header, not in the library"
    for name in sorted(symbols.keys() - names):
        yield f"{name}: shown by the library, not declared in the header"
    for name, version in sorted(symbols.items()):
        if version != VERSION_NODE:
            yield f"{name}: has version '{version}', not {VERSION_NODE}"
    if "NODELETE" not in output("readelf", "-d", library):
        yield "the library could be unloaded under its thread: link it with -z nodelete"
    if not sanitizers:
        for other in sorted(needed(library) - ALLOWED_LIBRARIES):
            yield f"{other}: a dependency that is not allowed"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        header = file.read()
    found = list(problems(header, sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""))
    print("\n".join(found) or f"{len(declared(header))} calls, as declared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
