# SPDX-License-Identifier: Apache-2.0
"""The wall between an adapter and its engine: nothing raised here arrives there."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from orlop.engine.counters import Counters

_T = TypeVar("_T")
_LOG_PAUSE = 60.0  # seconds between two reports of one hook


class Guard:
    """Runs the body of a hook; counts the time inside, and what it raised by hook.

    Thread: any; hooks of one engine process do not overlap.
    """

    def __init__(self, counters: Counters, log: logging.Logger) -> None:
        self._counters = counters
        self._log = log
        self._told: dict[str, float] = {}

    def run(self, hook: str, body: Callable[[], _T], otherwise: Callable[[], _T]) -> _T:
        """What body returns. When it raises: what otherwise returns, which must keep the promises
        of the hook with plain assignments, not by calling what may have failed."""
        begun = time.perf_counter()
        try:
            return body()
        except Exception:
            self._counters.add("exceptions", reason=hook)
            now = time.monotonic()
            if now - self._told.get(hook, -_LOG_PAUSE) >= _LOG_PAUSE:
                self._told[hook] = now
                self._log.exception("orlop: %s failed and was treated as a miss; the engine goes on"
                                    " (please report this; told once a minute)", hook)
            return otherwise()
        finally:
            self._counters.spent += time.perf_counter() - begun


@contextlib.contextmanager
def not_counted(counters: Counters) -> Iterator[None]:
    """A wait inside a hook for which the engine has nothing else to do is no part of what the adapter costs it.

    counters: those of the hook's guard, which adds this time when the hook returns: the sum never shrinks."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        counters.spent -= time.perf_counter() - begun
