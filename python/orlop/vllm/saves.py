# SPDX-License-Identifier: Apache-2.0
"""Saves of one worker: a thread that stores complete blocks, and gives way when the engine needs them.

A block's bytes are read only between the step that completed it and the first step that may write it
again: protect() orders that step behind the copy (streams.py), never behind the node.
"""

import contextlib
import dataclasses
import itertools
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import orlop
from orlop.engine import reasons
from orlop.engine.breaker import CircuitBreaker
from orlop.engine.reasons import Reason
from orlop.gpu import Backup, PageCache
from orlop.vllm.messages import SaveOrder
from orlop.vllm.store import RankStore

_MOST_WAITING = 1024  # orders; one a request and step
_PART = 32  # pages of one copy: what is lost when its blocks are needed
_MOST_TOGETHER = 16  # orders whose pages are copied together
_MOST_PARTS = 4  # under copy or not yet answered
_FLUSH_SECONDS = 10.0
_ROOM_SECONDS = 10.0  # for one of them to be over
_LOOK_SECONDS = 0.05  # the longest wait for one part's answer while jobs may come


@dataclasses.dataclass
class _Step:
    """That completed blocks."""

    revision: str  # of the namespaces
    mark: Any


class _Job:
    def __init__(self, order: SaveOrder, step: _Step) -> None:
        self.order = order
        self.step = step
        self.untouched = set(order.blocks)  # no copy of them has begun
        self.cancelled = False


@dataclasses.dataclass
class _Piece:
    """Pages of one job that are put together."""

    job: _Job
    keys: list[bytes]
    blocks: list[int]
    parent: bytes | None


@dataclasses.dataclass
class _Part:
    """Pages that are being copied, or are copied and not yet answered."""

    backup: Backup
    blocks: frozenset[int]
    pages: int
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

    def submit(self, orders: Sequence[SaveOrder], revision: str) -> None:
        """All of a step."""
        if not orders:
            return
        step = _Step(revision, self._store.streams.mark())
        with self._change:
            room = max(_MOST_WAITING - len(self._jobs), 0)
            self._jobs.extend(_Job(order, step) for order in orders[:room])
            self._change.notify_all()
        for order in orders[room:]:
            self._drop(len(order.keys), Reason.BACKLOG)

    def protect(self, blocks: Sequence[int] | None) -> None:
        """After it the engine may submit work that writes these blocks (None: any)."""
        if blocks is not None and not blocks:
            return
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
                jobs = self._next_jobs()
                if not jobs and self._stopping:
                    return
            if jobs:
                self._run(jobs)
                with self._change:
                    for _ in jobs:
                        self._jobs.popleft()
                    self._change.notify_all()
            self._take_answers(0.0 if jobs else _LOOK_SECONDS)

    def _next_jobs(self) -> list[_Job]:
        """The first, and those behind it of the same step and group: requests that began together complete their
        blocks together, one each, and a copy for each of them would take most of this thread's time. What ends a
        copy ends it for all of its pages, so blocks that are about to be needed have their own."""
        jobs = list(itertools.islice(self._jobs, _MOST_TOGETHER))

        def is_beside(job: _Job) -> bool:
            return (job.step is jobs[0].step and job.order.group == jobs[0].order.group
                    and not (job.order.leaving or jobs[0].order.leaving))

        return jobs[:1] + list(itertools.takewhile(is_beside, jobs[1:]))

    def _run(self, jobs: list[_Job]) -> None:
        parts = deque(_parts_of(jobs))
        try:
            while parts:
                self._put(parts[0])
                parts.popleft()
        except orlop.Refused:
            self._drop(sum(map(_pages, parts)), Reason.OFF)
        except orlop.Error:
            self._breaker.failed()
            self._drop(sum(map(_pages, parts)), Reason.NO_NODE)
        except Exception:
            self._store.failed_unexpectedly("save")
            self._drop(sum(map(_pages, parts)), Reason.EXCEPTION)

    def _put(self, part: list[_Piece]) -> None:
        reason = self._why_not(part)
        wanted = [] if reason is not None else [piece for piece in part if not piece.job.cancelled]
        self._drop(_pages(part) - _pages(wanted), reason or Reason.OVERWRITTEN)
        if not wanted:
            return
        namespace = self._store.namespace(part[0].job.step.revision, part[0].job.order.group)
        cache = self._store.cache(part[0].job.order.group, time.monotonic() + self._deadline)
        with contextlib.ExitStack() as stack:
            plans = [stack.enter_context(self._store.client.put_start(
                namespace, piece.keys, parent=piece.parent, deadline=self._deadline)) for piece in wanted]
            prepared = [one for one in zip(wanted, plans, strict=True) if one[1].prepared]
            others = [outcome for plan in plans if not plan.prepared for outcome in plan.outcomes]
            if orlop.Outcome.NO_NODE in others:
                self._breaker.failed()
            else:
                self._breaker.succeeded()
            self._copy(cache, prepared, namespace.value_len)
        self._count(others, namespace.value_len)
        with self._change:
            for piece in wanted:
                piece.job.untouched.difference_update(piece.blocks)

    def _why_not(self, part: list[_Piece]) -> Reason | None:
        """Waits for room. The copies before may be waiting for the engine's own step, as long as that
        takes."""
        last = time.monotonic() + _ROOM_SECONDS
        while len(self._parts) >= _MOST_PARTS and not self._stopping:
            if all(piece.job.cancelled for piece in part):
                break
            if time.monotonic() > last:
                self._breaker.failed()
                return Reason.NO_NODE
            self._take_answers(_LOOK_SECONDS)
        return None if self._breaker.allows() else Reason.RESTING

    def _copy(self, cache: PageCache, prepared: list[tuple[_Piece, orlop.PutPlan]], value_len: int) -> None:
        """Begins it, but for pieces whose blocks the engine needs."""
        with self._change:
            wanted = [one for one in prepared if not one[0].job.cancelled]
            blocks = frozenset(block for piece, _ in wanted for block in piece.blocks)
            self._beginning = blocks
        self._drop(_pages(piece for piece, _ in prepared) - _pages(piece for piece, _ in wanted),
                   Reason.OVERWRITTEN)
        if not wanted:
            return
        try:
            backup = cache.backup([(plan, piece.blocks) for piece, plan in wanted],
                                  self._store.streams.after(wanted[0][0].job.step.mark))
            with self._change:
                self._parts.append(_Part(backup, blocks, _pages(piece for piece, _ in wanted), value_len))
        finally:
            with self._change:
                self._beginning = frozenset()
                self._change.notify_all()

    def _take_answers(self, seconds: float) -> None:
        """Of the parts that are over; of the first one after waiting for it. A part stays until nothing
        reads its blocks any more."""
        while self._parts:
            part = self._parts[0]
            try:
                self._count(list(itertools.chain(*part.backup.result(seconds))), part.value_len)
            except TimeoutError:
                return
            except orlop.Closed:
                self._drop(part.pages, Reason.OVERWRITTEN)
            except Exception:  # of the device; the part is over all the same
                self._store.failed_unexpectedly("save")
                self._drop(part.pages, Reason.EXCEPTION)
            with self._change:
                self._parts.popleft()
                self._change.notify_all()
            seconds = 0.0

    def _count(self, outcomes: list[orlop.Outcome], value_len: int) -> None:
        if stored := outcomes.count(orlop.Outcome.STORED):
            self._store.counters.add("saved_pages", stored)
            self._store.counters.add("saved_bytes", stored * value_len)
        if stored == len(outcomes):
            return
        for outcome in outcomes:
            if outcome in (orlop.Outcome.EXISTS, orlop.Outcome.IN_FLIGHT):
                self._store.counters.add("present_pages")
            elif outcome is not orlop.Outcome.STORED:
                self._drop(1, reasons.of_outcome(outcome))

    def _drop(self, pages: int, reason: Reason) -> None:
        if pages:
            self._store.counters.add("dropped_pages", pages, reason=reason)


def _parts_of(jobs: list[_Job]) -> list[list[_Piece]]:
    """Each of at most _PART pages; a job's pages in their order."""
    parts: list[list[_Piece]] = [[]]
    for job in jobs:
        keys, blocks, parent = job.order.keys, job.order.blocks, job.order.parent
        for begin in range(0, len(keys), _PART):
            piece = _Piece(job, keys[begin:begin + _PART], blocks[begin:begin + _PART], parent)
            if _pages(parts[-1]) + len(piece.keys) > _PART:
                parts.append([])
            parts[-1].append(piece)
            parent = piece.keys[-1]
    return parts


def _pages(part: Iterable[_Piece]) -> int:
    return sum(len(piece.keys) for piece in part)
