# SPDX-License-Identifier: Apache-2.0
"""Waiting for commits in asyncio.

One timer per event loop looks at all futures that are awaited in it: at once, then after 1, 2, 4
and at most 8 ms, starting again whenever one is done or a new one is awaited. No thread, no
descriptor, nothing that outlives the loop: only the loop holds what is awaited in it. A look is a few hundred nanoseconds per future.
"""

import asyncio
import weakref

from orlop import _native
from orlop.outcomes import Outcome

_FIRST_PAUSE_S = 0.001  # the resolution of an event loop's clock
_LONGEST_PAUSE_S = 0.008

_Pending = tuple[_native.Future, "asyncio.Future[None]"]


class _Watch:
    """The futures that are awaited in one event loop. Used in that loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._pending: list[_Pending] = []
        self._timer: asyncio.Handle | None = None
        self._pause = _FIRST_PAUSE_S

    def add(self, future: _native.Future, waiter: "asyncio.Future[None]") -> None:
        self._pending.append((future, waiter))
        self._pause = _FIRST_PAUSE_S
        if self._timer is not None:
            self._timer.cancel()
        self._timer = waiter.get_loop().call_soon(self._look)

    def _look(self) -> None:
        self._timer = None
        left = [one for one in self._pending if not _settle(*one)]
        progress = len(left) < len(self._pending)
        self._pending = left
        loop = self._loop()
        if not left or loop is None:
            return
        self._timer = loop.call_later(self._pause, self._look)
        self._pause = _FIRST_PAUSE_S if progress else min(2 * self._pause, _LONGEST_PAUSE_S)


def _settle(future: _native.Future, waiter: "asyncio.Future[None]") -> bool:
    if waiter.done():  # cancelled
        return True
    try:
        if not future.ready():
            return False
    except Exception as error:
        waiter.set_exception(error)
        return True
    waiter.set_result(None)
    return True


# Weak on both sides: a watch leads to its waiters and by them to its loop, which would never be
# collected otherwise. The loop's timer holds the watch as long as something is awaited.
_watches: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_Watch]]" = (
    weakref.WeakKeyDictionary())


def _watch_of(loop: asyncio.AbstractEventLoop) -> _Watch:
    known = _watches.get(loop)
    watch = known() if known is not None else None
    if watch is None:
        watch = _Watch(loop)
        _watches[loop] = weakref.ref(watch)
    return watch


async def wait(future: _native.Future) -> list[Outcome]:
    """The outcomes of a commit. Cancelling it leaves the commit alone."""
    if not future.ready():
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        _watch_of(loop).add(future, waiter)
        await waiter
    return future.result(0)
