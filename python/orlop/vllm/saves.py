# SPDX-License-Identifier: Apache-2.0
"""Saves of one worker: a thread that stores complete blocks, and gives way when the engine needs them.

A block's bytes are read only between the step that completed it and the first step that may write it
again: protect() orders that step behind the copy (streams.py), never behind the node.
"""

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import orlop
from orlop.engine import reasons
from orlop.engine.breaker import CircuitBreaker
from orlop.engine.reasons import Reason
from orlop.gpu import Backup, PageCache
from orlop.vllm.messages import SaveOrder
from orlop.vllm.store import RankStore

_MOST_WAITING = 1024  # orders; one a request and step
_PART = 32  # pages of one put: what is lost when its blocks are needed
_MOST_PARTS = 4  # under copy or not yet answered
_FLUSH_SECONDS = 10.0
_ROOM_SECONDS = 10.0  # for one of them to be over
_LOOK_SECONDS = 0.05  # the longest wait for one part's answer while jobs may come


class _Job:
    def __init__(self, order: SaveOrder, revision: str, mark: Any) -> None:
        self.order = order
        self.revision = revision
        self.mark = mark  # of the step that completed the blocks
        self.untouched = set(order.blocks)  # no copy of them has begun
        self.cancelled = False


@dataclasses.dataclass
class _Part:
    """Pages that are being copied, or are copied and not yet answered."""

    backup: Backup
    blocks: frozenset[int]
    value_len: int


class Saver:
    """Thread: the engine's worker calls; a thread of this object asks the node and waits for copies."""

    def __init__(self, store: RankStore, deadline: float) -> None:
        self._store = store
        self._deadline = deadline
        self._breaker = CircuitBreaker(time.monotonic)
        self._change = threading.Condition()
        self._jobs: deque[_Job] = deque()  # the first may be running
        self._parts: deque[_Part] = deque()
        self._beginning: frozenset[int] = frozenset()  # blocks of the part that is being submitted
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="orlop-save", daemon=True)
        self._thread.start()

    def submit(self, order: SaveOrder, revision: str) -> None:
        mark = self._store.streams.mark()
        with self._change:
            if len(self._jobs) < _MOST_WAITING:
                self._jobs.append(_Job(order, revision, mark))
                self._change.notify_all()
                return
        self._drop(len(order.keys), Reason.BACKLOG)

    def protect(self, blocks: Iterable[int] | None) -> None:
        """After it the engine may submit work that writes these blocks (None: any)."""
        needed = None if blocks is None else set(blocks)

        def meets(others: Iterable[int]) -> bool:
            return any(True for _ in others) if needed is None else not needed.isdisjoint(others)

        with self._change:
            for job in self._jobs:
                if meets(job.untouched):
                    job.cancelled = True
            self._change.wait_for(lambda: not meets(self._beginning))
            copies = [part.backup for part in self._parts if meets(part.blocks)]
        for backup in copies:
            self._store.streams.leave(backup)

    def under_way(self) -> int:
        with self._change:
            return len(self._jobs) + len(self._parts)

    def flush(self, seconds: float) -> bool:
        """Until everything that was submitted is stored or dropped. False: not in time."""
        with self._change:
            return self._change.wait_for(lambda: not self._jobs and not self._parts, seconds)

    def close(self) -> None:
        """No copy reads the pages any more, whether it could be flushed or not."""
        self.flush(_FLUSH_SECONDS)
        with self._change:
            self._stopping = True
            for job in self._jobs:
                job.cancelled = True
            copies = [part.backup for part in self._parts]
            self._change.notify_all()
        for backup in copies:
            backup.cancel()
        self._thread.join(_FLUSH_SECONDS)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._jobs or self._parts or self._stopping)
                job = self._jobs[0] if self._jobs else None
                if job is None and self._stopping:
                    return
            if job is not None:
                self._run(job)
                with self._change:
                    self._jobs.popleft()
                    self._change.notify_all()
            self._take_answers(0.0 if job is not None else _LOOK_SECONDS)

    def _run(self, job: _Job) -> None:
        keys, begun = job.order.keys, 0
        try:
            parent = job.order.parent
            for begun in range(0, len(keys), _PART):
                self._put(job, slice(begun, begun + _PART), parent)
                parent = keys[min(begun + _PART, len(keys)) - 1]
        except orlop.Refused:
            self._drop(len(keys) - begun, Reason.OFF)
        except orlop.Error:
            self._breaker.failed()
            self._drop(len(keys) - begun, Reason.NO_NODE)
        except Exception:
            self._store.failed_unexpectedly("save")
            self._drop(len(keys) - begun, Reason.EXCEPTION)

    def _put(self, job: _Job, part: slice, parent: bytes | None) -> None:
        keys, blocks = job.order.keys[part], job.order.blocks[part]
        reason = self._why_not(job)
        if reason is not None:
            self._drop(len(keys), reason)
            return
        namespace = self._store.namespace(job.revision, job.order.group)
        cache = self._store.cache(job.order.group, time.monotonic() + self._deadline)
        with self._store.client.put_start(namespace, keys, parent=parent,
                                          deadline=self._deadline) as plan:
            if plan.outcomes[0] is orlop.Outcome.NO_NODE:
                self._breaker.failed()
            else:
                self._breaker.succeeded()
            if not plan.prepared:
                self._count(plan.outcomes, namespace.value_len)
            elif not self._copy(cache, plan, job, blocks, namespace.value_len):
                self._drop(len(keys), Reason.OVERWRITTEN)
        with self._change:
            job.untouched.difference_update(blocks)

    def _why_not(self, job: _Job) -> Reason | None:
        """Waits for room. The copies before may be waiting for the engine's own step, as long as that
        takes."""
        last = time.monotonic() + _ROOM_SECONDS
        while len(self._parts) >= _MOST_PARTS and not (job.cancelled or self._stopping):
            if time.monotonic() > last:
                self._breaker.failed()
                return Reason.NO_NODE
            self._take_answers(_LOOK_SECONDS)
        if job.cancelled:
            return Reason.OVERWRITTEN
        return None if self._breaker.allows() else Reason.RESTING

    def _copy(self, cache: PageCache, plan: orlop.PutPlan, job: _Job, blocks: list[int],
              value_len: int) -> bool:
        """Begins it. False: the engine needs the blocks."""
        with self._change:
            if job.cancelled:
                return False
            self._beginning = frozenset(blocks)
        try:
            backup = cache.backup([(plan, blocks)], self._store.streams.after(job.mark))
            with self._change:
                self._parts.append(_Part(backup, frozenset(blocks), value_len))
        finally:
            with self._change:
                self._beginning = frozenset()
                self._change.notify_all()
        return True

    def _take_answers(self, seconds: float) -> None:
        """Of the parts that are over; of the first one after waiting for it. A part stays until nothing
        reads its blocks any more."""
        while self._parts:
            part = self._parts[0]
            try:
                (outcomes,) = part.backup.result(seconds)
                self._count(outcomes, part.value_len)
            except TimeoutError:
                return
            except orlop.Closed:
                self._drop(len(part.blocks), Reason.OVERWRITTEN)
            except Exception:  # of the device; the part is over all the same
                self._store.failed_unexpectedly("save")
                self._drop(len(part.blocks), Reason.EXCEPTION)
            with self._change:
                self._parts.popleft()
                self._change.notify_all()
            seconds = 0.0

    def _count(self, outcomes: list[orlop.Outcome], value_len: int) -> None:
        for outcome in outcomes:
            if outcome is orlop.Outcome.STORED:
                self._store.counters.add("saved_pages")
                self._store.counters.add("saved_bytes", value_len)
            elif outcome in (orlop.Outcome.EXISTS, orlop.Outcome.IN_FLIGHT):
                self._store.counters.add("present_pages")
            else:
                self._drop(1, reasons.of_outcome(outcome))

    def _drop(self, pages: int, reason: Reason) -> None:
        self._store.counters.add("dropped_pages", pages, reason=reason)
