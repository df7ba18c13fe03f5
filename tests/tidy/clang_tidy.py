#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over sources in parallel and remembers which inputs were clean.

usage: clang_tidy.py --build DIR [--jobs N] [--no-cache] [--shares N] FILE...

A file is looked at again only when it, a file of this repository that it includes, its compile
command, .clang-tidy or the version of clang-tidy has changed. For a header the sources that include
it are checked. --shares N: one N-th of the sources, another one for each commit id, so that all are
covered over time (CI's budget). Unit tests are left out: most of the time would go into GoogleTest's macros.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import time
import zlib

import source_tree

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "orlop", "clang-tidy")
PROGRAM = "clang-tidy-19"


def compile_commands(build):
    """path relative to the root -> compile command; the simulation variant wins: it has more code."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    commands = {}
    for entry in entries:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if path not in commands or "ORLOP_SIMULATION" in commands[path]:
            commands[path] = entry["command"]
    return commands


def chosen_sources(tree, commands, asked):
    asked = {os.path.relpath(os.path.abspath(path), ROOT) for path in asked}
    chosen = []
    for path in sorted(commands):
        source = tree.by_path.get(path)
        if source is None or source.is_test or not path.startswith("src/"):
            continue
        if any(file.path in asked for file in tree.with_includes(source)):
            chosen.append(source)
    return chosen


def share_of(sources, shares):
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    turn = int(head.stdout[:8], 16) % shares
    print(f"clang-tidy: share {turn + 1} of {shares}, by commit id")
    return [s for s in sources if zlib.crc32(s.path.encode()) % shares == turn]


def cache_key(tree, source, command, salt):
    digest = hashlib.sha256(salt)
    digest.update(command.replace(ROOT, ".").encode())  # the same in every clone
    for file in sorted(tree.with_includes(source), key=lambda f: f.path):
        digest.update(f"\0{file.path}\0{len(file.text)}\0{file.text}".encode())
    return os.path.join(CACHE, digest.hexdigest())


def check(build, source):
    result = subprocess.run([PROGRAM, "--quiet", "-p", build, source.path], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    # Counts of suppressed warnings in system headers are no news.
    lines = [l for l in result.stdout.splitlines() if " warnings generated" not in l]
    return result.returncode, "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--shares", type=int, default=1)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()

    build = os.path.abspath(arguments.build)
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, check=True).stdout
    with open(os.path.join(ROOT, ".clang-tidy"), "rb") as file:
        salt = version + file.read()
    os.makedirs(CACHE, exist_ok=True)

    tree = source_tree.load(ROOT)
    commands = compile_commands(build)
    sources = chosen_sources(tree, commands, arguments.files)
    if arguments.shares > 1:
        sources = share_of(sources, arguments.shares)
    keys = {s.path: cache_key(tree, s, commands[s.path], salt) for s in sources}
    todo = [s for s in sources if arguments.no_cache or not os.path.exists(keys[s.path])]

    start, failed = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = {pool.submit(check, build, source): source for source in todo}
        for run in concurrent.futures.as_completed(runs):
            code, output = run.result()
            if code == 0:
                open(keys[runs[run].path], "w", encoding="utf-8").close()
            else:
                failed += 1
                print(output, flush=True)
    print(f"clang-tidy: {len(sources)} sources, {len(sources) - len(todo)} clean from before, "
          f"{failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
