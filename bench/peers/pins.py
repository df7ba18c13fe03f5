# SPDX-License-Identifier: Apache-2.0
"""Which core a process runs on: all threads it has, and by inheritance those it starts later."""

import os


def threads_of(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def descendants(pid: int) -> list[int]:
    """The living children of `pid`, their children and so on; not `pid` itself."""
    found = []
    for thread in threads_of(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children = [int(word) for word in file.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def pin(pid: int, core: int) -> None:
    """Again until nothing changes: a thread may be born between the listing and the call."""
    pinned: set[int] = set()
    while True:
        fresh = set(threads_of(pid)) - pinned
        if not fresh:
            return
        for thread in fresh:
            try:
                os.sched_setaffinity(thread, {core})
            except ProcessLookupError:
                pass
        pinned |= fresh


def check(pid: int, core: int) -> None:
    """Raises when a thread of `pid` may run elsewhere: a library has pinned it itself."""
    for thread in threads_of(pid):
        try:
            cores = os.sched_getaffinity(thread)
        except ProcessLookupError:
            continue
        if cores != {core}:
            raise RuntimeError(f"thread {thread} of process {pid} runs on {cores}, not on core {core}")
