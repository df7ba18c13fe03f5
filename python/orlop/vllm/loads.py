# SPDX-License-Identifier: Apache-2.0
"""Loads of one worker: a thread that brings ordered pages into the engine's blocks."""

import threading
import time
from collections import deque
from typing import Any

import orlop
from orlop.engine import reasons
from orlop.engine.reasons import Reason
from orlop.gpu import Restore
from orlop.vllm.messages import LoadEnd, LoadOrder
from orlop.vllm.store import RankStore

_STOP_SECONDS = 30.0  # for the value under copy, and the loads behind it, which fail at once
# A page that does not match is checked by the node and removed, within a millisecond where processors are
# free; until then a save of it would find it stored. Longer only if the node hangs too.
_REMOVAL_SECONDS = 0.25
_REMOVAL_LOOK = 0.001


class Loader:
    """Every order that was given to submit() or now() ends in exactly one LoadEnd, whatever fails.

    Thread: the engine's worker calls; a thread of this object waits for the copies.
    """

    def __init__(self, store: RankStore, deadline: float) -> None:
        self._store = store
        self._deadline = deadline
        self._change = threading.Condition()
        self._waiting: deque[tuple[LoadOrder, str, float, Any]] = deque()
        self._running = 0
        self._copying: set[Restore] = set()
        self._ended: list[LoadEnd] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="orlop-load", daemon=True)
        self._thread.start()

    def submit(self, order: LoadOrder, revision: str) -> None:
        with self._change:
            self._waiting.append((order, revision, time.monotonic(), self._store.streams.mark()))
            self._change.notify_all()

    def now(self, order: LoadOrder, revision: str) -> LoadEnd:
        """On the caller's thread, without waiting for others."""
        return self._load(order, revision, time.monotonic(), self._store.streams.mark())

    def take(self) -> list[LoadEnd]:
        """What ended since the last take."""
        with self._change:
            ended, self._ended = self._ended, []
            return ended

    def wait_for_one(self, seconds: float) -> None:
        """Until something ended, or nothing is under way."""
        with self._change:
            self._change.wait_for(
                lambda: self._ended or not (self._waiting or self._running), seconds)

    def under_way(self) -> int:
        with self._change:
            return len(self._waiting) + self._running

    def close(self) -> None:
        """The value under copy is finished; everything after it fails."""
        with self._change:
            self._stopping = True
            copying = list(self._copying)
            self._change.notify_all()
        for restore in copying:
            restore.cancel()
        self._thread.join(_STOP_SECONDS)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                order, revision, since, mark = self._waiting.popleft()
                self._running = 1
            try:
                end = self._load(order, revision, since, mark)
            except Exception:  # the engine waits for an end, whatever becomes of the load
                self._store.failed_unexpectedly("load")
                end = failed(order)
            with self._change:
                self._running = 0
                self._ended.append(end)
                self._change.notify_all()

    def _load(self, order: LoadOrder, revision: str, since: float, mark: Any) -> LoadEnd:
        right, reason = 0, Reason.EXCEPTION
        try:
            if self._stopping:
                reason = Reason.ABORTED
            elif time.monotonic() - since > self._deadline:
                reason = Reason.DEADLINE
            else:
                for group, part in order.by_group():
                    pages, reason = self._group(group, order.keys[part], order.blocks[part], revision,
                                                since + self._deadline, mark)
                    right += pages
                    if pages < part.stop - part.start:
                        break
        except orlop.Error:
            reason = Reason.NO_NODE
        except Exception:
            self._store.failed_unexpectedly("load")
        end = _end(order, right, reason, time.monotonic() - since)
        self._count(end, order)
        return end

    def _group(self, group: int, keys: list[bytes], blocks: list[int], revision: str,
               deadline: float, mark: Any) -> tuple[int, Reason]:
        """How many pages are right, and why no more."""
        if not keys:
            return 0, Reason.EXCEPTION
        store = self._store
        namespace = store.namespace(revision, group)
        try:
            cache = store.cache(group, deadline)
        except orlop.DeadlineExceeded:
            return 0, Reason.DEADLINE
        except orlop.Refused:
            return 0, Reason.OFF
        with store.client.read(namespace, keys) as plan:
            pages, reason = len(plan), reasons.of_miss(plan.result.reason)
            if pages == 0:
                return 0, reason
            restore = cache.restore([(plan, blocks[:pages])], store.streams.after(mark))
            right, why_not = self._wait(restore, deadline)
        store.counters.add("loaded_bytes", right * namespace.value_len)
        if right == pages:
            return right, reason
        if why_not is Reason.MISMATCH:
            self._wait_until_removed(namespace, keys[right])
        return right, why_not

    def _wait(self, restore: Restore, deadline: float) -> tuple[int, Reason]:
        """Pages that are right, and why others are not. Nothing writes the pages any more."""
        with self._change:
            self._copying.add(restore)
            if self._stopping:
                restore.cancel()
        in_time = True
        try:
            try:
                (right,) = restore.result(max(deadline - time.monotonic(), 0.0))
            except TimeoutError:
                in_time = False
                restore.cancel()
                (right,) = restore.result()
            return right, Reason.MISMATCH
        except orlop.Closed:
            return 0, Reason.ABORTED if in_time else Reason.DEADLINE
        finally:
            with self._change:
                self._copying.discard(restore)

    def _wait_until_removed(self, namespace: orlop.Namespace, key: bytes) -> None:
        last = time.monotonic() + _REMOVAL_SECONDS
        while self._store.client.exists(namespace, [key])[0] and time.monotonic() < last:
            time.sleep(_REMOVAL_LOOK)

    def _count(self, end: LoadEnd, order: LoadOrder) -> None:
        self._store.counters.add("loaded_pages", end.pages)
        self._store.counters.add("load_seconds", end.seconds)
        if end.pages < order.pages:
            self._store.counters.add("failed_loads", reason=end.reason)
            # Of a load that was to be whole the engine keeps nothing.
            self._store.counters.add("failed_pages",
                                     order.pages if order.whole else order.pages - end.pages)


def failed(order: LoadOrder, reason: Reason = Reason.EXCEPTION) -> LoadEnd:
    """The end of an order that could not even begin."""
    return _end(order, 0, reason, 0.0)


def _end(order: LoadOrder, right: int, reason: Reason, seconds: float) -> LoadEnd:
    bad = [] if order.whole else order.blocks[right:]
    return LoadEnd(order.request, order.asynchronous, right, bad, reason, seconds,
                   failed=order.whole and right < order.pages)
