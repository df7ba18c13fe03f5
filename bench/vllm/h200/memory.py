# SPDX-License-Identifier: Apache-2.0
"""Memory of a machine that gets more of it only when it is used, as the GPU machine does.

A node looks before it starts whether its memory is there, and a machine that began with 31 GiB of 128 has not
shown the rest yet.
"""

import mmap
import time

_STEP = 1 << 30
_KEEP_FREE = 3 << 30  # never the last of it: the kernel would end somebody
_PAGE = 4096


def available() -> int:
    with open("/proc/meminfo") as file:
        [line] = [line for line in file if line.startswith("MemAvailable:")]
    return int(line.split()[1]) << 10


def grow(wanted: int, limit_s: float) -> int:
    """Uses memory and gives it back until so many bytes are available, or the machine has no more, or time is
    over. Returns the bytes available."""
    until = time.monotonic() + limit_s
    held: list[mmap.mmap] = []
    try:
        while time.monotonic() < until and available() + len(held) * _STEP < wanted:
            if available() < _KEEP_FREE + _STEP:
                time.sleep(0.2)  # it may be on its way
                continue
            block = mmap.mmap(-1, _STEP)
            held.append(block)
            for page in range(0, _STEP, _PAGE):
                block[page] = 1
    finally:
        for block in held:
            block.close()
    return available()
