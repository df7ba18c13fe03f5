# SPDX-License-Identifier: Apache-2.0
"""Loads of one worker: a thread that brings ordered pages into the engine's blocks."""

import threading
import time
from collections import deque

import orlop
from orlop.engine import reasons
from orlop.engine.reasons import Reason
from orlop.vllm.messages import LoadEnd, LoadOrder
from orlop.vllm.store import RankStore

_STOP_SECONDS = 30.0  # for the page under copy, and the loads behind it, which fail at once


class Loader:
    """Every order that was given to submit() or now() ends in exactly one LoadEnd, whatever fails.

    Thread: the engine's worker calls; the copies run on a thread of this object.
    """

    def __init__(self, store: RankStore, deadline: float) -> None:
        self._store = store
        self._deadline = deadline
        self._change = threading.Condition()
        self._waiting: deque[tuple[LoadOrder, str, float]] = deque()
        self._running = 0
        self._ended: list[LoadEnd] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="orlop-load", daemon=True)
        self._thread.start()

    def submit(self, order: LoadOrder, revision: str) -> None:
        with self._change:
            self._waiting.append((order, revision, time.monotonic()))
            self._change.notify_all()

    def now(self, order: LoadOrder, revision: str) -> LoadEnd:
        """On the caller's thread, without waiting for others."""
        return self._load(order, revision, time.monotonic())

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
        """The page under copy is finished; everything after it fails."""
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self._thread.join(_STOP_SECONDS)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                order, revision, since = self._waiting.popleft()
                self._running = 1
            processor = time.thread_time()
            try:
                end = self._load(order, revision, since)
            except Exception:  # the engine waits for an end, whatever becomes of the load
                self._store.counters.add("exceptions", reason="load")
                end = failed(order)
            self._store.counters.add("thread_seconds", time.thread_time() - processor)
            with self._change:
                self._running = 0
                self._ended.append(end)
                self._change.notify_all()

    def _load(self, order: LoadOrder, revision: str, since: float) -> LoadEnd:
        right, reason = 0, Reason.EXCEPTION
        try:
            if self._stopping:
                reason = Reason.ABORTED
            elif time.monotonic() - since > self._deadline:
                reason = Reason.DEADLINE
            else:
                for group, part in order.by_group():
                    pages, reason = self._group(group, order.keys[part], order.blocks[part], revision)
                    right += pages
                    if pages < part.stop - part.start:
                        break
        except orlop.Error:
            reason = Reason.NO_NODE
        except Exception:
            self._store.counters.add("exceptions", reason="load")
        end = _end(order, right, reason, time.monotonic() - since)
        self._count(end, order)
        return end

    def _group(self, group: int, keys: list[bytes], blocks: list[int],
               revision: str) -> tuple[int, Reason]:
        """How many pages are right, and why no more."""
        if not keys:
            return 0, Reason.EXCEPTION
        pages = self._store.pages[group]
        with self._store.client.read(self._store.namespace(revision, group), keys) as plan:
            right = 0
            while (right < len(plan) and not self._stopping
                   and pages.copy_out(plan, right, blocks[right])):
                right += 1
            if right == len(plan):
                reason = reasons.of_miss(plan.result.reason)
            else:
                reason = Reason.ABORTED if self._stopping else Reason.MISMATCH
        self._store.counters.add("loaded_bytes", right * pages.value_len)
        return right, reason

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
