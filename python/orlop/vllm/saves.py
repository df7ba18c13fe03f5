# SPDX-License-Identifier: Apache-2.0
"""Saves of one worker: a thread that stores complete blocks, and gives way when the engine needs them.

A block's bytes are read only between the step that completed it and the first step that may write it
again: protect() waits for the page under copy, never for the node.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable

import orlop
from orlop.engine import reasons
from orlop.engine.breaker import CircuitBreaker
from orlop.engine.reasons import Reason
from orlop.vllm.messages import SaveOrder
from orlop.vllm.store import RankStore

_MOST_WAITING = 1024  # orders; one a request and step
_PART = 32  # pages of one put: what is lost when its blocks are needed
_MOST_UNANSWERED = 64  # commits
_FLUSH_SECONDS = 10.0
_FIRST_LOOK, _LAST_LOOK = 0.001, 0.032  # seconds between two looks for answers, doubled in between


class _Job:
    def __init__(self, order: SaveOrder, revision: str) -> None:
        self.order = order
        self.revision = revision
        self.unread = set(order.blocks)  # still to be copied
        self.copying = False
        self.cancelled = False


class Saver:
    """Thread: the engine's worker calls; the copies run on a thread of this object."""

    def __init__(self, store: RankStore, deadline: float) -> None:
        self._store = store
        self._deadline = deadline
        self._breaker = CircuitBreaker(time.monotonic)
        self._change = threading.Condition()
        self._jobs: deque[_Job] = deque()  # the first may be running
        self._unanswered: deque[tuple[orlop.Future, int, int]] = deque()  # with pages, bytes of one
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="orlop-save", daemon=True)
        self._thread.start()

    def submit(self, order: SaveOrder, revision: str) -> None:
        with self._change:
            if len(self._jobs) < _MOST_WAITING:
                self._jobs.append(_Job(order, revision))
                self._change.notify_all()
                return
        self._drop(len(order.keys), Reason.BACKLOG)

    def protect(self, blocks: Iterable[int] | None) -> None:
        """Returns when none of these blocks (None: no block) will be read again."""
        needed = None if blocks is None else set(blocks)
        with self._change:
            for job in self._jobs:
                if needed is None or not job.unread.isdisjoint(needed):
                    job.cancelled = True
            # The copy of one page from memory to memory: there is nothing to wait for but it.
            self._change.wait_for(
                lambda: not any(job.cancelled and job.copying for job in self._jobs))

    def under_way(self) -> int:
        with self._change:
            return len(self._jobs) + len(self._unanswered)

    def flush(self, seconds: float) -> bool:
        """Until everything that was submitted is stored or dropped. False: not in time."""
        with self._change:
            return self._change.wait_for(lambda: not self._jobs and not self._unanswered, seconds)

    def close(self) -> None:
        self.flush(_FLUSH_SECONDS)
        with self._change:
            self._stopping = True
            for job in self._jobs:
                job.cancelled = True
            self._change.notify_all()
        self._thread.join(_FLUSH_SECONDS)

    def _work(self) -> None:
        pause = _FIRST_LOOK
        while True:
            with self._change:
                # Answers are looked at while there are any; there is no event for them here.
                self._change.wait_for(lambda: self._jobs or self._stopping,
                                      pause if self._unanswered else None)
                pause = _FIRST_LOOK if self._jobs else min(2 * pause, _LAST_LOOK)
                job = self._jobs[0] if self._jobs else None
                if job is None and self._stopping:
                    return
            processor = time.thread_time()
            if job is not None:
                self._run(job)
            self._take_answers()
            self._store.counters.add("thread_seconds", time.thread_time() - processor)
            with self._change:
                if job is not None:
                    self._jobs.popleft()
                self._change.notify_all()

    def _run(self, job: _Job) -> None:
        keys, begun = job.order.keys, 0
        try:
            parent = job.order.parent
            for begun in range(0, len(keys), _PART):
                self._put(job, begun, keys[begun:begun + _PART], parent)
                parent = keys[min(begun + _PART, len(keys)) - 1]
        except orlop.Error:
            self._breaker.failed()
            self._drop(len(keys) - begun, Reason.NO_NODE)
        except Exception:
            self._store.counters.add("exceptions", reason="save")
            self._drop(len(keys) - begun, Reason.EXCEPTION)

    def _put(self, job: _Job, first: int, keys: list[bytes], parent: bytes | None) -> None:
        if job.cancelled or not self._breaker.allows():
            self._drop(len(keys), Reason.OVERWRITTEN if job.cancelled else Reason.RESTING)
            return
        namespace = self._store.namespace(job.revision, job.order.group)
        plan = self._store.client.put_start(namespace, keys, parent=parent, deadline=self._deadline)
        with plan:
            if plan.outcomes[0] is orlop.Outcome.NO_NODE:
                self._breaker.failed()
            else:
                self._breaker.succeeded()
            for i, outcome in enumerate(plan.outcomes):
                if outcome in (orlop.Outcome.EXISTS, orlop.Outcome.IN_FLIGHT):
                    self._store.counters.add("present_pages")
                elif outcome is not orlop.Outcome.PREPARED:
                    self._drop(1, reasons.of_outcome(outcome))
                elif not self._copy(plan, i, job, job.order.blocks[first + i]):
                    # The plan's end aborts it: what was copied is lost, nothing is half.
                    self._drop(len(keys) - i, Reason.OVERWRITTEN)
                    return
            if plan.prepared:
                self._unanswered.append((plan.commit(), len(keys), namespace.value_len))

    def _copy(self, plan: orlop.PutPlan, index: int, job: _Job, block: int) -> bool:
        with self._change:
            if job.cancelled:
                return False
            job.copying = True
        try:
            self._store.pages[job.order.group].copy_in(plan, index, block)
        finally:
            with self._change:
                job.copying = False
                job.unread.discard(block)
                self._change.notify_all()
        return True

    def _take_answers(self) -> None:
        while self._unanswered:
            future, pages, value_len = self._unanswered[0]
            if not future.ready() and len(self._unanswered) < _MOST_UNANSWERED:
                return
            try:
                outcomes = future.result(timeout=self._deadline)
            except TimeoutError:
                outcomes = []
                self._drop(pages, Reason.NO_NODE)
            with self._change:
                self._unanswered.popleft()
            for outcome in outcomes:
                if outcome is orlop.Outcome.STORED:
                    self._store.counters.add("saved_pages")
                    self._store.counters.add("saved_bytes", value_len)
                elif outcome is orlop.Outcome.EXISTS:
                    self._store.counters.add("present_pages")
                else:
                    self._drop(1, reasons.of_outcome(outcome))

    def _drop(self, pages: int, reason: Reason) -> None:
        self._store.counters.add("dropped_pages", pages, reason=reason)
