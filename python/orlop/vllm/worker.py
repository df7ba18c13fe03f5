# SPDX-License-Identifier: Apache-2.0
"""A worker's side: carries out what the scheduler's side ordered, and owes it an answer to every load.

Thread: the engine's worker.
"""

from orlop.engine.guard import not_counted
from orlop.engine.options import Options
from orlop.engine.reasons import Reason
from orlop.vllm.loads import Loader, failed
from orlop.vllm.messages import LoadEnd, LoadOrder, StepOrders, StepReport
from orlop.vllm.saves import Saver
from orlop.vllm.store import RankStore

# A step that computes nothing would otherwise spin; as long as a request that arrives may wait.
_IDLE_WAIT = 0.004


class WorkerSide:
    def __init__(self, options: Options, store: RankStore) -> None:
        self.store = store
        self._options = options
        self._loader = Loader(store, options.load_deadline)
        self._saver = Saver(store, options.save_deadline)
        self._ends: list[LoadEnd] = []  # not told yet
        self._answered: set[str] = set()  # of this step's orders
        self.idle = False  #: this step computes nothing
        self.announces = True  #: see take_ends()
        self._known: str | None = None  # the request whose load the scheduler's side had us begin
        self._tainted = False  # this step computes on blocks that its own load left bad
        self._asleep = False

    def before_step(self, orders: StepOrders) -> None:
        """Blocks that this step writes are read by nobody any more."""
        self._answered.clear()
        self.idle = orders.idle
        self._tainted = False
        self._saver.protect(orders.overwritten)

    def protect_all(self) -> None:
        self._saver.protect(None)

    def begin(self, order: LoadOrder, revision: str) -> bool:
        """Ahead of the step that orders it, which computes nothing as far as is known. False: not begun."""
        if self._asleep or not order.asynchronous:
            return False
        self._saver.protect(order.blocks)
        if not self._loader.begin(order, revision):
            return False
        self._known = order.request
        return True

    def load(self, orders: StepOrders) -> None:
        for order in orders.loads:
            if order.request in self._answered or order.begun:
                continue
            if self._asleep:
                self.store.counters.add("failed_loads", reason=Reason.ASLEEP)
                self._answer(failed(order, Reason.ASLEEP))
            elif not order.asynchronous:
                self._answer(self._loader.now(order, orders.revision))
            elif not (orders.idle and self._loader.begin(order, orders.revision)):
                self._loader.submit(order, orders.revision)
            self._answered.add(order.request)

    def _answer(self, end: LoadEnd) -> None:
        self._tainted |= bool(end.bad_blocks or end.failed) and not end.asynchronous
        self._ends.append(end)

    def fail(self, loads: list[LoadOrder]) -> None:
        """load() failed: what it did not begin is answered with bad blocks."""
        for order in loads:
            if order.request not in self._answered and not order.begun:
                self._answered.add(order.request)
                self._answer(failed(order))

    def save(self, orders: StepOrders) -> None:
        # A step that computed on bad blocks is computed again, and its pages are ordered again; other
        # requests of the step may share those blocks. Not told by the ends that are still to be taken:
        # with speculative decoding vLLM takes them first.
        if self._tainted or self._asleep:
            self.store.counters.add("dropped_pages", sum(len(order.keys) for order in orders.saves),
                                    reason=Reason.TAINTED if self._tainted else Reason.ASLEEP)
            return
        self._saver.submit(orders.saves, orders.revision)

    @property
    def has_nothing_to_tell(self) -> bool:
        """No load is under way or has ended since the last step."""
        return not self._ends and self._loader.is_quiet()

    def take_ends(self) -> "StepEnds":
        """What the step reports.

        vLLM schedules one more step before it looks at what this one reports, and a request whose load is
        over waits for that. So a load that the scheduler's side knows of is *announced* while it runs. When the
        engine comes to that report, the scheduler's side asks success() first, and takes the
        request out of the report if that has not come.
        """
        if (self.announces and self.idle and not self._ends and self._known is not None
                and self._known == self._loader.own()):
            return StepEnds(self._loader.take(), announced=self._known)
        if self.idle and not self._ends and self._loader.under_way():
            with not_counted(self.store.counters):
                self._loader.wait_for_one(_IDLE_WAIT)
        self._loader.hand_over()
        ends, self._ends = self._ends, []
        return StepEnds(ends + self._loader.take())

    def success(self, request: str, *, wait: bool) -> LoadEnd | None:
        """The end of an announced load if it is there, perhaps after a wait, and all of it is right; no step
        reports it then. None: one will, or has."""
        if self._loader.own() != request:
            return None
        return self._loader.success_of_own(_IDLE_WAIT if wait else 0.0)

    def under_way(self) -> dict[str, int]:
        """Gauges that return to 0 when nothing is under way."""
        return {"loads": self._loader.under_way(), "saves": self._saver.under_way(),
                "answers": len(self._ends)}

    def flush(self, seconds: float) -> bool:
        return self._saver.flush(seconds)

    def suspend(self) -> None:
        """Until resume() nothing touches the pages, and every load is a miss at once."""
        self.close()
        self._asleep = True
        self._ends += self._loader.take()

    def resume(self, store: RankStore) -> None:
        """store: of the same pages, perhaps at another place."""
        if not self._asleep:
            self.suspend()
        self.store, self._asleep = store, False
        self._loader = Loader(store, self._options.load_deadline)
        self._saver = Saver(store, self._options.save_deadline)

    def close(self) -> None:
        self._loader.close()
        self._saver.close()
        self.store.forget_memory()


class StepEnds:
    """The loads that a step reports: all of its answers are of the same ones."""

    def __init__(self, ends: list[LoadEnd], announced: str | None = None) -> None:
        self.received = {end.request for end in ends if end.asynchronous}
        if announced is not None:
            self.received.add(announced)
        self.failed = {end.request for end in ends if end.failed}  #: among received
        self.bad_blocks = {block for end in ends for block in end.bad_blocks}
        self.report = StepReport({end.request: (end.pages, end.reason) for end in ends},
                                 announced=announced) if ends or announced is not None else None


NO_ENDS = StepEnds([])
