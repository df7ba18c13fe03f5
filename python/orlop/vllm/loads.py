# SPDX-License-Identifier: Apache-2.0
"""Loads of one worker: ordered pages are brought into the engine's blocks.

A load runs on a thread of its own, so that the engine goes on meanwhile. Where the engine has nothing
else to do, it runs on the engine's thread for a while, which saves two changes of thread.
"""

import functools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator

import orlop
from orlop.engine import reasons
from orlop.engine.reasons import Reason
from orlop.gpu import Restore
from orlop.vllm.messages import LoadEnd, LoadOrder
from orlop.vllm.store import RankStore

_STOP_SECONDS = 30.0  # for the value under copy, and the loads behind it, which fail at once
_STOP_LOOK = 0.1  # whether it was stopped, while something else than its copy is waited for
# A page that does not match is checked by the node and removed, within a millisecond where processors are
# free; until then a save of it would find it stored. Longer only if the node hangs too.
_REMOVAL_SECONDS = 0.25
_REMOVAL_LOOK = 0.001
_Wait = Callable[[float], bool]  # so many seconds; whether what was waited for is there


class Load:
    """One order, from its beginning to its end. One thread at a time goes on with it, stop() is any's."""

    def __init__(self, store: RankStore, order: LoadOrder, revision: str, seconds: float) -> None:
        """Thread: the engine's. seconds: that it may take, cut off then."""
        self.order = order
        self._store = store
        self._revision = revision
        self._begun = time.monotonic()
        self._deadline = self._begun + seconds
        self._mark = store.streams.mark()  # what the engine may still write into these blocks
        self._right = 0  # pages, of the groups that are over
        self._copy: Restore | None = None
        self._stopped = False
        self._wait: _Wait | None = None
        self._work = self._groups()

    def go_on(self, until: float) -> LoadEnd | None:
        """Its end; None if that has not come by then, by time.monotonic()."""
        try:
            while self._wait is None or self._is_there(self._wait, until):
                self._wait = next(self._work)
            return None
        except StopIteration as over:
            return self.ended(over.value)
        except orlop.Error:
            return self.ended(Reason.NO_NODE)

    def ended(self, reason: Reason) -> LoadEnd:
        return _end(self.order, self._right, reason, time.monotonic() - self._begun)

    def stop(self) -> None:
        """What is under copy is finished, what lies behind it fails."""
        self._stopped = True
        if (copy := self._copy) is not None:
            copy.cancel()

    def _is_there(self, wait: _Wait, until: float) -> bool:
        """Whether the work has to go on: also when its time is over or it was stopped, which it finds out
        itself."""
        limit = min(until, self._deadline)
        while not self._stopped and (left := limit - time.monotonic()) > 0:
            if wait(min(left, _STOP_LOOK)):
                return True
        return self._stopped or until >= self._deadline

    def _groups(self) -> Generator[_Wait, None, Reason]:
        """Yields what has to be waited for."""
        reason = Reason.EXCEPTION
        if self._stopped:
            return Reason.ABORTED
        if time.monotonic() > self._deadline:
            return Reason.DEADLINE
        for group, part in self.order.by_group():
            pages, reason = yield from self._group(group, self.order.keys[part], self.order.blocks[part])
            self._right += pages
            if pages < part.stop - part.start:
                break
        return reason

    def _group(self, group: int, keys: list[bytes],
               blocks: list[int]) -> Generator[_Wait, None, tuple[int, Reason]]:
        """How many pages are right, and why no more."""
        if not keys:
            return 0, Reason.EXCEPTION
        store = self._store
        namespace = store.namespace(self._revision, group)
        if not store.tried.is_set():
            yield store.tried.wait
        try:
            cache = store.cache(group, 0)
        except orlop.DeadlineExceeded:
            return 0, Reason.ABORTED if self._stopped else Reason.DEADLINE
        except orlop.Refused:
            return 0, Reason.OFF
        with store.client.read(namespace, keys) as plan:
            pages, reason = len(plan), reasons.of_miss(plan.result.reason)
            if pages == 0:
                return 0, reason
            self._copy = cache.restore([(plan, blocks[:pages])], store.streams.after(self._mark))
            if self._stopped:
                self._copy.cancel()
            yield functools.partial(_is_over, self._copy)
            right, why_not = self._result(self._copy)
        store.counters.add("loaded_bytes", right * namespace.value_len)
        if right == pages:
            return right, reason
        if why_not is Reason.MISMATCH:
            last = min(time.monotonic() + _REMOVAL_SECONDS, self._deadline)
            while (store.client.exists(namespace, [keys[right]])[0] and time.monotonic() < last
                   and not self._stopped):
                yield _a_moment
        return right, why_not

    def _result(self, copy: Restore) -> tuple[int, Reason]:
        """Pages that are right, and why others are not. Nothing writes the pages any more."""
        stopped = self._stopped or copy.ready()
        if not copy.ready():
            copy.cancel()
        try:
            (right,) = copy.result()
        except orlop.Closed:
            return 0, Reason.ABORTED if stopped else Reason.DEADLINE
        return right, Reason.MISMATCH


def _is_over(copy: Restore, seconds: float) -> bool:
    try:
        copy.result(seconds)
    except TimeoutError:
        return False
    except orlop.Error:
        pass  # the work asks again
    return True


def _a_moment(seconds: float) -> bool:
    time.sleep(min(seconds, _REMOVAL_LOOK))
    return True


class Loader:
    """Every order that was given to it ends in exactly one LoadEnd, whatever fails.

    Thread: the engine's worker calls; a thread of this object waits for the copies.
    """

    def __init__(self, store: RankStore, deadline: float) -> None:
        self._store = store
        self._deadline = deadline
        self._change = threading.Condition()
        self._own: Load | None = None  # goes on with the engine's thread
        self._waiting: deque[Load] = deque()
        self._running: set[Load] = set()
        self._ended: list[LoadEnd] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="orlop-load", daemon=True)
        self._thread.start()

    def submit(self, order: LoadOrder, revision: str) -> None:
        self._hand(self._new(order, revision))

    def begin(self, order: LoadOrder, revision: str) -> bool:
        """As submit(), but it goes on in wait_for_one() until hand_over(). False, and nothing has begun, if
        others are under way or if more than its copy has to be waited for."""
        if self.under_way() or not self._store.is_open(revision):
            return False
        load = self._new(order, revision)
        if not self._ends(load, time.monotonic()):
            self._own = load
        return True

    def own(self) -> str | None:
        """The request whose load began with begin() and is still the engine's thread's."""
        return None if self._own is None else self._own.order.request

    def success_of_own(self, seconds: float) -> LoadEnd | None:
        """The own load's end, if all of it is right by then: it is told to nobody else. Another end is among
        those to be taken."""
        if (own := self._take_own()) is None:
            return None
        end = self._go_on(own, time.monotonic() + seconds)
        if end is not None and end.pages == own.order.pages:
            self._leave(own)
            return end
        self._leave(own, end)
        if end is None:
            self._own = own
        return None

    def now(self, order: LoadOrder, revision: str) -> LoadEnd:
        """On the caller's thread, without waiting for others."""
        load = self._new(order, revision)
        end = self._go_on(load, math.inf)
        self._leave(load)
        return end or load.ended(Reason.EXCEPTION)

    def take(self) -> list[LoadEnd]:
        """What ended since the last take."""
        with self._change:
            ended, self._ended = self._ended, []
            return ended

    def wait_for_one(self, seconds: float) -> None:
        """Until something ended, or nothing is under way."""
        with self._change:
            if self._own is None or self._ended:
                self._change.wait_for(
                    lambda: self._ended or not (self._waiting or self._running), seconds)
                return
        own = self._take_own()
        if own is not None and not self._ends(own, time.monotonic() + seconds):
            self._own = own

    def hand_over(self) -> None:
        """The engine has other things to do."""
        own, self._own = self._own, None
        if own is not None:
            self._hand(own)

    def is_quiet(self) -> bool:
        """Nothing is under way, nothing to be taken. Without the lock: looks in the order in which loads move, and
        these are at the next place before they leave the last."""
        return not (self._own or self._waiting or self._running or self._ended)

    def under_way(self) -> int:
        with self._change:
            return len(self._waiting) + len(self._running) + (self._own is not None)

    def close(self) -> None:
        """The value under copy is finished; everything after it fails."""
        self.hand_over()
        with self._change:
            self._stopping = True
            running = list(self._running)
            self._change.notify_all()
        for load in running:
            load.stop()
        self._thread.join(_STOP_SECONDS)

    def _new(self, order: LoadOrder, revision: str) -> Load:
        return Load(self._store, order, revision, self._deadline)

    def _hand(self, load: Load) -> None:
        with self._change:
            self._waiting.append(load)
            self._change.notify_all()

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                load = self._waiting[0]
                self._running.add(load)  # before it leaves, for is_quiet()
                self._waiting.popleft()
            self._ends(load, math.inf)

    def _ends(self, load: Load, until: float) -> bool:
        """Whether it has by then, and is among those to be taken."""
        end = self._go_on(load, until)
        self._leave(load, end)
        return end is not None

    def _take_own(self) -> Load | None:
        with self._change:  # in one: it counts all the time
            own, self._own = self._own, None
            if own is not None:
                self._running.add(own)
        return own

    def _leave(self, load: Load, told: LoadEnd | None = None) -> None:
        """Nobody goes on with it at the moment. told: its end, for those who take."""
        with self._change:
            if told is not None:
                self._ended.append(told)  # before it leaves, for is_quiet()
            self._running.discard(load)
            self._change.notify_all()

    def _go_on(self, load: Load, until: float) -> LoadEnd | None:
        with self._change:
            self._running.add(load)
            if self._stopping:
                load.stop()
        try:
            end = load.go_on(until)
        except Exception:  # the engine waits for an end, whatever becomes of the load
            self._store.failed_unexpectedly("load")
            end = load.ended(Reason.EXCEPTION)
        if end is not None:
            self._count(end, load.order)
        return end

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
