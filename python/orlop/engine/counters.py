# SPDX-License-Identifier: Apache-2.0
"""Counts of one adapter: small, addable across processes, ready for an engine's metrics."""

import threading
from collections.abc import Mapping

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


class Counters:
    """name, or (name, reason) -> number. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: dict[str, float] = {}
        self._all: dict[str, float] = {}

    def add(self, name: str, by: float = 1, reason: str = "") -> None:
        if name not in NAMES:
            raise KeyError(f"{name} is not in counters.NAMES")
        key = f"{name}:{reason}" if reason else name
        with self._lock:
            self._new[key] = self._new.get(key, 0) + by

    def take(self) -> dict[str, float]:
        """What came since the last take; totals keep it."""
        self._add_threads(PROCESS.take())
        with self._lock:
            new, self._new = self._new, {}
            merge(self._all, new)
            return new

    def totals(self) -> dict[str, float]:
        """Everything since the start, taken or not."""
        self._add_threads(PROCESS.take(at_once=True))
        with self._lock:
            result = dict(self._all)
            merge(result, self._new)
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
