# SPDX-License-Identifier: Apache-2.0
"""Rules of the pure rooms: no OS, threads, clocks, randomness, or order of a hash map.

Unit tests beside the code are free of them (a test of a ring may start two threads)."""

import re

from source_tree import Violation

# Standard headers that bring in what a pure room must not have.
BANNED_STANDARD = {
    "thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore", "latch",
    "barrier", "stop_token", "chrono", "ctime", "random", "fstream", "iostream", "filesystem",
    "csignal", "coroutine",
}
# Headers with a `.h` or a folder are the operating system's or a library's; these are pure.
PURE_FOREIGN = {"immintrin.h", "xxhash.h", "nlohmann/json.hpp"}

BANNED_CODE = [
    (r"\bstd::(this_thread|thread|jthread|mutex|shared_mutex|condition_variable|async|future)\b", "threads"),
    (r"\bthread_local\b", "threads"),
    (r"\bstd::chrono\b|\bclock_gettime\b|\bgettimeofday\b|(?<![\w.>])time\s*\(|\b__rdtsc\b", "clocks"),
    (r"\bstd::random_device\b|\bgetrandom\b|(?<![\w.>:])s?rand\s*\(|\barc4random\b|\b_rdrand", "randomness"),
    (r"(?<![\w.>:])(socket|sendmsg|recvmsg|epoll_\w+|ioctl|mmap|munmap)\s*\(", "the OS"),
    (r"(?<![\w>)])::(read|write|open|close|mmap|munmap|send|recv|poll|fork|getpid|kill)\s*\(", "the OS"),
    (r"\bgetenv\b|\busleep\b|\bnanosleep\b|\bsyscall\s*\(", "the OS"),
    (r"\bco_(await|yield|return)\b", "coroutines (GCC 12 miscompiles common patterns)"),
]


# The seam where the explorer hooks in is per thread, so that explorers can run side by side.
ALLOWED_CODE = {("src/segment/atomics.h", "thread_local"), ("src/segment/atomics.cpp", "thread_local")}


def check(tree, rooms):
    for source in tree.cpp():
        if source.room not in rooms.pure or source.is_test:
            continue
        yield from _includes(source)
        yield from _code(source)
        yield from _unordered_iteration(source, tree)


def _includes(source):
    for include in source.includes:
        target = include.target
        if include.quoted or target.startswith("orlop/") or target in PURE_FOREIGN:
            continue
        if target in BANNED_STANDARD or "/" in target or target.endswith(".h"):
            yield Violation(source.path, include.line, "pure",
                            f"room '{source.room}' is pure: no <{target}>")


def _code(source):
    for pattern, what in BANNED_CODE:
        for match in re.finditer(pattern, source.code):
            if (source.path, match[0]) in ALLOWED_CODE:
                continue
            yield Violation(source.path, source.line_of(match.start()), "pure",
                            f"room '{source.room}' is pure, no {what}: '{match[0].strip()}'")


def _unordered_iteration(source, tree):
    names = set()
    for file in tree.with_includes(source):
        if file.room == source.room:
            names |= unordered_names(file.code)
    if not names:
        return
    either = "|".join(sorted(names))
    patterns = [
        rf"\bfor\s*\([^;()]*(?:\([^()]*\))?[^;()]*:\s*(?:\w+(?:\.|->))*({either})\s*\)",
        rf"\b({either})\s*\.\s*c?r?begin\s*\(",
    ]
    for pattern in patterns:
        for match in re.finditer(pattern, source.code):
            yield Violation(source.path, source.line_of(match.start()), "pure",
                            f"iterates over the unordered container '{match[1]}': its order is not "
                            "the same in every run")


def unordered_names(code):
    """Names declared with an unordered container's type or an alias of one."""
    aliases = set(re.findall(r"\busing\s+(\w+)\s*=\s*std::unordered_\w+", code))
    names = set()
    for match in re.finditer(r"\bstd::unordered_\w+\s*<", code):
        end = _closing_angle(code, match.end())
        names |= set(re.findall(r"\A\s*[&*]*\s*(\w+)\s*[;={(,)]", code[end:end + 80]))
    for alias in aliases:
        names |= set(re.findall(rf"\b{alias}\s*[&*]*\s+(\w+)\s*[;={{(,)]", code))
    return names


def _closing_angle(code, start):
    depth = 1
    for at in range(start, len(code)):
        depth += {"<": 1, ">": -1}.get(code[at], 0)
        if depth == 0:
            return at + 1
    return len(code)
