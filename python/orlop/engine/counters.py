# SPDX-License-Identifier: Apache-2.0
"""Counts of one adapter: small, addable across processes, ready for an engine's metrics."""

import threading
import time
from collections.abc import Callable, Mapping

from orlop.engine.processor import PROCESS

NAMES = {
    "hit_tokens": "tokens offered from the store",
    "loaded_pages": "pages brought back",
    "loaded_bytes": "bytes brought back",
    "load_seconds": "time that loads took, from the order to the last byte",
    "failed_loads": "loads of which at least one page failed, by reason",
    "failed_pages": "pages that the engine had to compute after all",
    "lookups": "look-ups, by reason of their end",
    "pin_limited": "hits that the node's limits of pins cut short",
    "saved_pages": "pages stored",
    "present_pages": "pages that were stored already",
    "saved_bytes": "bytes stored",
    "dropped_pages": "pages not stored, by reason",
    "refused": "parts of the adapter that are off, by reason",
    "not_understood": "requests that asked the adapter for something that there is not",
    "exceptions": "errors of the adapter, by hook",
    "hook_seconds": "time inside the engine's hooks",
    "thread_seconds": "processor time of Orlop's threads in this process",
}


# What grows with every step of an engine, and behind it: to hand it over costs the engine more than to count it.
_UNHURRIED = frozenset({"hook_seconds", "thread_seconds", "saved_pages", "saved_bytes", "present_pages"})
_TAKE_SECONDS = 0.1


class Counters:
    """name, or (name, reason) -> number. Thread-safe but for spent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.spent = 0.0  #: hook_seconds to come; of the thread that runs the hooks and takes
        self._lock = threading.Lock()
        self._new: dict[str, float] = {}
        self._all: dict[str, float] = {}
        self._clock = clock
        self._hurry = False
        self._taken_at = -_TAKE_SECONDS

    def add(self, name: str, by: float = 1, reason: str = "") -> None:
        if name not in NAMES:
            raise KeyError(f"{name} is not in counters.NAMES")
        key = f"{name}:{reason}" if reason else name
        with self._lock:
            self._new[key] = self._new.get(key, 0) + by
            self._hurry |= name not in _UNHURRIED

    def take(self) -> dict[str, float]:
        """What came since the last take; totals keep it. Nothing, mostly, while only such things came that grow with
        every step: ten times a second."""
        now = self._clock()
        if not self._hurry and now - self._taken_at < _TAKE_SECONDS:
            return {}
        self._add_threads(PROCESS.take())
        spent, self.spent = self.spent, 0.0
        with self._lock:
            self._hurry, self._taken_at = False, now
            new, self._new = self._new, {}
            if spent > 0:
                new["hook_seconds"] = spent
            merge(self._all, new)
            return new

    def totals(self) -> dict[str, float]:
        """Everything since the start, taken or not."""
        self._add_threads(PROCESS.take(at_once=True))
        with self._lock:
            result = dict(self._all)
            merge(result, self._new)
        if self.spent:
            merge(result, {"hook_seconds": self.spent})
        return result

    def _add_threads(self, seconds: float) -> None:
        # Of several adapters in one process whoever asks first counts all threads' time.
        if seconds > 0:
            self.add("thread_seconds", seconds)


def merge(into: dict[str, float], other: Mapping[str, float]) -> None:
    for key, value in other.items():
        into[key] = into.get(key, 0) + value


def split(key: str) -> tuple[str, str]:
    """(name, reason) of a key of take() and totals()."""
    name, _, reason = key.partition(":")
    return name, reason
