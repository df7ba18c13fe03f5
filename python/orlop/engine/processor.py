# SPDX-License-Identifier: Apache-2.0
"""Processor time of the threads that Orlop runs inside an engine's process: those of the adapter, and
those of the native client and its copiers, which are named alike."""

import os
import threading
import time

_PREFIX = "orlop-"
_TASKS = "/proc/self/task"
_LOOK_SECONDS = 0.5
_LIST_SECONDS = 10.0  # to find ours among an engine's hundreds of threads takes milliseconds


class ThreadTime:
    """Of one process, whoever asks. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, float] = {}  # thread -> its time at the last look
        self._next_look = self._next_list = 0.0

    def take(self, at_once: bool = False) -> float:
        """Seconds since the last take; mostly 0, because it looks twice a second (at_once: now), for new
        threads every 10 s. A thread that ends between two looks takes what it used since the first
        with it."""
        now = time.monotonic()
        with self._lock:
            if now < self._next_look and not at_once:
                return 0.0
            self._next_look, threads = now + _LOOK_SECONDS, set(self._seen)
            if now >= self._next_list or at_once:
                self._next_list, threads = now + _LIST_SECONDS, _ours()
            before, self._seen = self._seen, {one: _time_of(one) for one in threads}
            return sum(max(used - before.get(one, 0.0), 0.0) for one, used in self._seen.items())


def _ours() -> set[int]:
    ours = {one.native_id for one in threading.enumerate()
            if one.native_id is not None and one.name.startswith(_PREFIX)}
    for task in os.listdir(_TASKS):
        try:
            with open(f"{_TASKS}/{task}/comm") as file:
                if file.read().startswith(_PREFIX):
                    ours.add(int(task))
        except OSError:
            pass  # it has just ended
    return ours


def _time_of(thread: int) -> float:
    try:
        # The kernel's number of a thread's clock: its id's complement, "per thread", "as scheduled".
        return time.clock_gettime((~thread << 3) | 6)
    except OSError:
        return 0.0


PROCESS = ThreadTime()
