# SPDX-License-Identifier: Apache-2.0
"""Memory of a machine that gets more of it only when it is used, as the GPU machine does.

A node looks before it starts whether its memory is there, and a machine that began with 31 GiB of 128 has not
shown the rest yet.

  python memory.py BYTES SECONDS     uses memory until so much would be available without it, and ends
"""

import contextlib
import mmap
import subprocess
import sys
import time

_STEP = 1 << 30


def available() -> int:
    with open("/proc/meminfo") as file:
        [line] = [line for line in file if line.startswith("MemAvailable:")]
    return int(line.split()[1]) << 10


def grow(wanted: int, limit_s: float) -> int:
    """Until so many bytes are available, or the machine has no more, or time is over. Returns the bytes available.

    In a process of its own: if the machine has no more, the kernel ends that one.
    """
    if available() < wanted:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, __file__, str(wanted), str(limit_s)], check=False, timeout=limit_s + 30)
    return available()


def _use(wanted: int, limit_s: float) -> None:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    until = time.monotonic() + limit_s
    held: list[mmap.mmap] = []
    while time.monotonic() < until and available() + len(held) * _STEP < wanted:
        held.append(mmap.mmap(-1, _STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE))


if __name__ == "__main__":
    _use(int(sys.argv[1]), float(sys.argv[2]))
