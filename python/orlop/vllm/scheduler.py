# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side: what is offered to the engine, pinned, ordered and given back.

States of a request's load: offered (pinned within one step) -> loading (the engine allocated blocks;
pinned until every rank has reported) -> reported. Only the report ends `loading`, also after an abort
or a failure. Thread: the engine's scheduler.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orlop
from orlop.engine.breaker import CircuitBreaker
from orlop.engine.counters import Counters
from orlop.engine.options import Options
from orlop.engine.reasons import Reason
from orlop.engine.recovery import Group
from orlop.engine.timeline import Timeline
from orlop.vllm.events import StoreEvents
from orlop.vllm.family import Family
from orlop.vllm.keys import RequestKeys
from orlop.vllm.messages import LoadOrder, SaveOrder, StepOrders, StepReport
from orlop.vllm.offers import MOST_KEYS, Finder, Offer, RequestPages, are_whole

_LOG = logging.getLogger("vllm.orlop")
_Tables = Sequence[Sequence[int]]  # a request's blocks, per cache group; 0: the engine's null block
# A request that begins in a step, or begins again: its name, tokens computed before, its whole tables.
_Begun = tuple[str, int, _Tables]


@dataclasses.dataclass
class Loading:
    """What the engine committed to. plans: pin it; what could not be pinned the ranks will see."""

    order: LoadOrder
    plans: list[orlop.ReadPlan] = dataclasses.field(default_factory=list)
    pages: int | None = None  # right on all ranks so far
    reason: Reason = Reason.HIT

    def release(self) -> None:
        for plan in self.plans:
            plan.release()


class RequestState:
    def __init__(self, request: Any, pages: RequestPages, groups: int) -> None:
        self.request = request
        self.pages = pages
        self.blocks: list[list[int]] = [[] for _ in range(groups)]
        #: per group the blocks from the first that were ordered to be saved, or are stored
        self.saved = [0] * groups
        self.running = False  # a step computed for it, since its last load
        self.loaded = 0  # blocks from the first that a load has just brought: they are stored
        self.complete_at = 0  # with fewer tokens computed no step completes another block
        self.local = 0  # tokens of the engine's own hit at the last look-up
        self.certain = 0  # tokens that were there when it got its blocks: own ones, or of a load that is over
        self.offer: Offer | None = None
        self.failed = False
        self.told: Reason | None = None  # of the last look-up, counted once
        self.may_load, self.may_save, self.misspelt = _permissions(request)
        self.is_supported = not _is_unsupported(request)

    def save_again_from(self, blocks: Sequence[int]) -> None:
        """Per group."""
        self.saved, self.complete_at = list(blocks), 0


class SchedulerSide:
    def __init__(self, options: Options, client: orlop.Client, family: Family, counters: Counters,
                 groups: Sequence[Group], hash_tokens: int, *, engine_hashes: bool,
                 steps_in_flight: int = 1) -> None:
        """groups: of the model's cache, in the engine's order. hash_tokens: of one key.
        steps_in_flight: that the engine may have scheduled without knowing their outcome."""
        self._options = options
        self._client = client
        self._family = family
        self._counters = counters
        self._groups = list(groups)
        self._whole_loads = are_whole(groups)
        self._hash_tokens = hash_tokens
        self._engine_hashes = engine_hashes
        self._finder = Finder(client, groups)
        self._breaker = CircuitBreaker(time.monotonic)
        self._timeline = Timeline(options.trace_requests, time.monotonic)
        self._requests: dict[str, RequestState] = {}
        self._offered: dict[str, RequestState] = {}
        self._loading: dict[str, Loading] = {}
        self._orders: list[LoadOrder] = []  # of this step
        self._allocated: list[int] = []  # blocks that requests got in this step, to be written
        self._steps_in_flight = steps_in_flight
        self._unknown_steps = 0  # in which the outcome of another connector's load is not known yet
        self._told_misspelt = False
        #: (order, revision of its namespaces) -> whether it has begun: of a worker's side on this thread
        self.begin_load: Callable[[LoadOrder, str], bool] = lambda order, revision: False
        self.events: StoreEvents | None = None  #: told of complete pages; closed with this object

    # ---- looking up -------------------------------------------------------------------------------

    def begin(self, request: Any) -> None:
        self._state(request)

    def look_up(self, request: Any, local: int) -> int:
        """Tokens after the engine's own `local` ones that can be loaded; pinned until orders()."""
        state = self._state(request)
        state.local = local
        self._drop_offer(state)
        reason = self._offer(state)
        offer = state.offer
        if reason is not state.told:
            state.told = reason
            self._counters.add("lookups", reason=reason)
            if offer is not None and offer.limited:
                self._counters.add("pin_limited")
            self._timeline.note(request.request_id, looked_up_at=None, local_tokens=local,
                                reason=reason, offered_pages=offer.pages if offer else 0)
        return 0 if offer is None else offer.tokens

    def _offer(self, state: RequestState) -> Reason:
        request, step = state.request, self._finder.alignment
        # The last token must be computed, or there is nothing to sample from.
        longest = request.num_tokens - 1
        for i, group in enumerate(self._groups):
            longest = min(longest, state.pages.complete(i) * group.page_tokens,
                          state.local + MOST_KEYS * group.page_tokens)
        longest = longest // step * step
        if not (self._options.loads and state.may_load):
            return Reason.ASKED_NOT_TO
        if getattr(request, "skip_reading_prefix_cache", False) or not state.is_supported:
            return Reason.UNSUPPORTED_REQUEST
        if longest <= state.local:
            return Reason.TOO_SHORT
        if state.failed:
            return Reason.FAILED_BEFORE
        groups = self._family.groups
        if groups is None:
            return Reason.FAMILY_UNKNOWN
        if not self._client.ready:
            return Reason.NO_NODE
        offer, reason = self._finder.find(state.pages, groups, state.local, longest)
        if offer is None:
            return reason
        if offer.tokens < self._options.min_hit_tokens:
            reason = Reason.BELOW_MINIMUM
        elif not self._breaker.allows():  # asked last: a trial is a load, and a miss is none
            reason = Reason.RESTING
        else:
            state.offer = offer
            self._offered[request.request_id] = state
            return Reason.HIT
        self._finder.cancel(offer.pins)
        return reason

    # ---- the engine's decision --------------------------------------------------------------------

    def allocated(self, request: Any, tables: _Tables, tokens: int) -> None:
        """tables: the request's whole ones; tokens: that the engine will load, 0 for none."""
        state = self._requests.get(request.request_id)
        if state is not None:
            state.blocks = [list(table) for table in tables]
            # The engine counts what a load brings once it is over, of one inside the step after this call.
            state.certain = max(state.local, request.num_computed_tokens)
        # By whomever: another connector of vLLM's MultiConnector loads into what we get with 0 tokens.
        for group, table in zip(self._groups, tables, strict=True):
            self._allocated += table[self._local(request.request_id) // group.page_tokens:]
        if tokens == 0:
            return
        order, pages = self._order(request.request_id, state, tables, tokens)
        if state is not None:
            state.running = False  # it may be one that was preempted
        loading = self._loading[order.request] = Loading(order)
        self._orders.append(order)
        offer = state.offer if state is not None else None
        if state is None or offer is None:
            return
        self._timeline.note(order.request, load_begun_at=None, pages=len(order.keys))
        self._counters.add("hit_tokens", tokens)
        if not order.keys:
            return  # the offer is dropped with the step
        state.offer = None
        self._offered.pop(order.request, None)
        for pin, length in zip(offer.pins, pages, strict=True):
            loading.plans.append(self._client.get_transfer(pin.handle, length))
        if self.engine_waits():
            order.begun = self.begin_load(order, self._family.revision)

    def _order(self, request: str, state: RequestState | None, tables: _Tables,
               tokens: int) -> tuple[LoadOrder, list[int]]:
        """With the number of pages of each pin. Without an offer of this length it has no keys: all
        its blocks are bad, or all of it is."""
        asynchronous = self._options.load_mode == "async"
        offer = state.offer if state is not None else None
        order = LoadOrder(request, [], [], asynchronous, whole=self._whole_loads)
        if self._whole_loads and offer is not None and offer.tokens == tokens:
            for pin in offer.pins:
                order.keys += pin.keys
                order.blocks += tables[pin.group][pin.first:pin.first + len(pin.keys)]
                order.spans.append((pin.group, len(pin.keys)))
            if len(order.blocks) == len(order.keys) and 0 not in order.blocks:
                return order, [len(pin.keys) for pin in offer.pins]
            order.keys, order.spans = [], []
        elif not self._whole_loads:  # the engine may have taken less of one group
            (table,), size = tables, self._groups[0].page_tokens
            pages = -(-tokens // size)
            first = len(table) - pages if state is None else state.local // size
            order.blocks = list(table[first:first + pages])
            if offer is not None:
                order.keys = offer.pins[0].keys[:pages]
        return order, [len(order.keys)]

    def engine_waits(self) -> bool:
        """No request but the one that loads would be served meanwhile."""
        return len(self._requests) <= 1

    def owe(self, request: Any, blocks: Any, tokens: int) -> None:
        """allocated() failed: the load that the engine waits for is ordered all the same, to fail."""
        name = request.request_id
        if not tokens or any(order.request == name for order in self._orders):
            return
        try:
            order, _ = self._order(name, self._requests.get(name), blocks.get_block_ids(), tokens)
            order.keys, order.spans = [], []
        except Exception:  # no block can be named: all of the request's load has failed
            order = LoadOrder(name, [], [], self._options.load_mode == "async", whole=True)
        self._loading.setdefault(name, Loading(order))
        self._orders.append(order)

    # ---- once a step ------------------------------------------------------------------------------

    def orders(self, output: Any) -> StepOrders:
        for offered in list(self._offered.values()):
            self._drop_offer(offered)
            self._counters.add("lookups", reason=Reason.NOT_TAKEN)
        begun = list(_begun(output))
        overwritten, self._allocated = self._allocated, []
        # Before 0.32 the engine does not say whether there are such loads: there may be.
        if getattr(output, "has_sync_kv_loads", True) and self._has_foreign_load(begun):
            self._unknown_steps = self._steps_in_flight
        wait, self._unknown_steps = self._unknown_steps > 0, max(0, self._unknown_steps - 1)
        saves: list[SaveOrder] = []
        for name, computed, tables in begun:
            for group, table in zip(self._groups, tables, strict=True):
                overwritten += table[computed // group.page_tokens:]
            if (state := self._requests.get(name)) is not None:
                state.running = True
                state.blocks = [list(table) for table in tables]
                # What was ordered before a preemption may have lost its blocks before it was read.
                state.save_again_from([state.loaded] * len(tables))
                state.loaded = 0
                if not wait:
                    saves += self._saves(state, computed, output.num_scheduled_tokens.get(name, 0))
        saves += self._go_on(output, overwritten, wait)
        loads, self._orders = self._orders, []
        # Of a request that runs and is not in this step the engine waits for a step before.
        idle = (output.total_num_scheduled_tokens == 0
                and not any(state.running for state in self._requests.values()))
        return StepOrders(loads, saves, overwritten, idle, self._family.revision)

    def _go_on(self, output: Any, overwritten: list[int], wait: bool) -> list[SaveOrder]:
        """Of the requests that were in a step before: runs for each of them in every step. Adds their new blocks to
        `overwritten`; what is to be saved, unless it has to wait."""
        cached, tokens, saves = output.scheduled_cached_reqs, output.num_scheduled_tokens, []
        for name, computed, tables in zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids,
                                          strict=True):
            if name in cached.resumed_req_ids:
                continue
            state = self._requests.get(name)
            if tables:  # most steps of a request that decodes add none
                for table in tables:
                    overwritten += table
                if state is not None:
                    for own, added in zip(state.blocks, tables, strict=True):
                        own += added  # in place: the table of a long request is not copied each step
            # and complete none.
            if state is not None and not wait and computed + tokens.get(name, 0) >= state.complete_at:
                saves += self._saves(state, computed, tokens.get(name, 0))
        return saves

    def _has_foreign_load(self, begun: Sequence[_Begun]) -> bool:
        """Whether another connector's load runs inside this step. It may fail without our knowing it in
        time: what is computed on it is stored later, if it still counts as computed then."""
        own = {order.request for order in self._orders}
        return any(name not in own and computed > self._certain(name) for name, computed, _ in begun)

    def _certain(self, name: str) -> int:
        state = self._requests.get(name)
        return 0 if state is None else state.certain

    def _local(self, name: str) -> int:
        state = self._requests.get(name)
        return 0 if state is None else state.local

    def orders_in_doubt(self) -> StepOrders:
        """orders() failed: loads are still owed, any block may be written, and the tables of blocks
        may have missed what was added in this step: nothing more is saved from them."""
        for state in self._requests.values():
            state.may_save = False
        loads, self._orders, self._allocated = self._orders, [], []
        return StepOrders(loads, [], None, False, self._family.revision)

    def _saves(self, state: RequestState, computed: int, scheduled: int) -> list[SaveOrder]:
        """Of what a step completes that computes `scheduled` tokens after `computed` ones."""
        groups = self._family.groups
        if (groups is None or not self._options.saves or not state.may_save
                or not state.is_supported or not self._client.ready):
            return []
        orders = [order for i, namespaces in enumerate(groups)
                  for order in self._save(state, i, namespaces, computed, scheduled)]
        state.complete_at = min((blocks + 1) * group.page_tokens
                                for blocks, group in zip(state.saved, self._groups, strict=True))
        return orders

    def _save(self, state: RequestState, group: int, namespaces: list[orlop.Namespace],
              computed: int, scheduled: int) -> list[SaveOrder]:
        size, table = self._groups[group].page_tokens, state.blocks[group]
        # Blocks that left the window before this step may hold another request's tokens by now.
        first = max(state.saved[group], self._groups[group].pages(computed).start)
        # scheduled counts drafts that may be rejected; complete() only accepted tokens.
        end = min((computed + scheduled) // size, state.pages.complete(group), len(table),
                  first + MOST_KEYS)
        if self._options.save == "prompt":
            end = min(end, state.request.num_prompt_tokens // size)
        if end <= first:
            return []
        late = sum(block != 0 for block in table[state.saved[group]:first])
        if late:
            self._counters.add("dropped_pages", late, reason=Reason.OVERWRITTEN)
        state.saved[group] = end
        keys = state.pages.of(group, first, end)
        if self.events is not None:
            self.events.note(state.request, group, namespaces, first, keys)
        there = [self._client.exists(namespace, keys).mask for namespace in namespaces]
        wanted = [i for i in range(len(keys)) if not all(mask[i] for mask in there)
                  and table[first + i] != 0]  # block 0 is the engine's null block
        self._counters.add("present_pages", len(keys) - len(wanted))
        # The next step may reuse at once what leaves the window with this one, which ends the order that
        # it is in: what stays has one of its own, and goes first.
        leaving = self._groups[group].pages(computed + scheduled).start - first
        orders = []
        for part in ([i for i in wanted if i >= leaving], [i for i in wanted if i < leaving]):
            if part:
                before = first + part[0] - 1
                parent = state.pages.of(group, before, before + 1)[0] if before >= 0 else None
                orders.append(SaveOrder([keys[i] for i in part], [table[first + i] for i in part],
                                        parent, group, leaving=part[0] < leaving))
        return orders

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    # ---- afterwards -------------------------------------------------------------------------------

    def reported(self, output: Any) -> None:
        """What the ranks did in a step."""
        report = output.kv_connector_worker_meta
        for name, (pages, reason) in (report.ends if isinstance(report, StepReport) else {}).items():
            loading = self._loading.get(name)
            if loading is None:
                continue
            if loading.pages is None or pages < loading.pages:
                loading.pages, loading.reason = pages, reason
            if not loading.order.asynchronous:
                self._end(name)
        for name in {*(output.finished_recving or ()), *(getattr(output, "failed_recving", None) or ())}:
            self._end(name)

    def reported_in_doubt(self, output: Any) -> None:
        """reported() failed: what the ranks are done with is unpinned, and offered nothing again."""
        report = output.kv_connector_worker_meta
        ended = set(report.ends) if isinstance(report, StepReport) else set()
        for name in ended | set(output.finished_recving or ()):
            loading, state = self._loading.pop(name, None), self._requests.get(name)
            if loading is not None:
                loading.release()
            if state is not None:
                state.failed = True

    def _end(self, name: str) -> None:
        loading = self._loading.pop(name, None)
        if loading is None:
            return
        loading.release()
        order, pages = loading.order, loading.pages or 0
        complete = pages >= order.pages
        self._timeline.note(name, load_ended_at=None, loaded_pages=pages,
                            outcome="loaded" if complete else loading.reason)
        if complete:
            self._breaker.succeeded()
            self._note_loaded(order)
            return
        self._breaker.failed()
        for group, part in order.by_group():
            if part.start <= pages < part.stop:
                self._finder.remember_failed(group, order.keys[pages])
        state = self._requests.get(name)
        if state is not None:
            state.failed = True
            # What failed is computed again, and may be stored again then.
            right = 0 if order.whole else pages
            state.save_again_from([min(saved, state.local // group.page_tokens + right)
                                   for saved, group in zip(state.saved, self._groups, strict=True)])

    def _note_loaded(self, order: LoadOrder) -> None:
        """What was loaded from the request's beginning on is not looked for again when it is to be saved,
        unless it is to be told."""
        state = self._requests.get(order.request)
        if (state is not None and order.asynchronous and not state.local and not self._whole_loads
                and self.events is None):
            state.loaded = order.pages

    def finish(self, request: Any) -> None:
        """The request ends, or was aborted. A load under way goes on until it is reported."""
        state = self._requests.pop(request.request_id, None)
        if state is not None:
            self._drop_offer(state)
            self._timeline.end(request.request_id, blocks=max(map(len, state.blocks)),
                               saved_blocks=max(state.saved))

    def renew(self) -> bool:
        if self.events is not None:
            self.events.clear()
        for state in self._requests.values():
            self._drop_offer(state)
            # Computed with the old weights, at least in part.
            state.may_load = state.may_save = False
        return self._family.renew()

    def renew_in_doubt(self) -> bool:
        """renew() failed: nothing of before is offered, and nothing stored, until a later one is done."""
        self._family.leave()
        for state in self._requests.values():
            state.may_load = state.may_save = False
        return False

    def close(self) -> None:
        for state in self._requests.values():
            self._drop_offer(state)
        for loading in self._loading.values():
            loading.release()
        self._requests.clear()
        self._loading.clear()
        self._timeline.close()
        if self.events is not None:
            self.events.close()

    def held(self) -> dict[str, int]:
        """Gauges that return to 0 when nothing is under way."""
        return {"requests": len(self._requests), "offers": len(self._offered),
                "loads": len(self._loading), "orders": len(self._orders)}

    def _state(self, request: Any) -> RequestState:
        state = self._requests.get(request.request_id)
        if state is None:
            keys = RequestKeys(request, self._hash_tokens, engine_hashes=self._engine_hashes)
            pages = RequestPages(keys, self._groups, self._hash_tokens)
            state = RequestState(request, pages, len(self._groups))
            self._requests[request.request_id] = state
            if state.misspelt:
                self._tell_misspelt(request)
        return state

    def _tell_misspelt(self, request: Any) -> None:
        self._counters.add("not_understood")
        if not self._told_misspelt:
            self._told_misspelt = True
            _LOG.warning('orlop: a request has kv_transfer_params {"orlop": %.60r}; give no_load, no_save or '
                         "both with a comma; told once, counted in not_understood", request.kv_transfer_params["orlop"])

    def _drop_offer(self, state: RequestState) -> None:
        offer, state.offer = state.offer, None
        self._offered.pop(state.request.request_id, None)
        if offer is not None:
            self._finder.cancel(offer.pins)


def _begun(output: Any) -> Iterator[_Begun]:
    for new in output.scheduled_new_reqs:
        yield new.req_id, new.num_computed_tokens, new.block_ids
    cached = output.scheduled_cached_reqs
    if cached.resumed_req_ids:
        for i, name in enumerate(cached.req_ids):
            if name in cached.resumed_req_ids:
                yield name, cached.num_computed_tokens[i], cached.new_block_ids[i]


def _is_unsupported(request: Any) -> bool:
    # Embeddings have no token ids; a streaming session takes tokens back.
    return request.prompt_embeds is not None or bool(getattr(request, "resumable", False))


def _permissions(request: Any) -> tuple[bool, bool, bool]:
    """(may load, may save, more was asked than these), from the request's kv_transfer_params
    {"orlop": "no_load,no_save"}."""
    asked = (request.kv_transfer_params or {}).get("orlop")
    words = {word.strip() for word in asked.split(",")} if isinstance(asked, str) else set()
    misspelt = asked is not None and not (words and words <= {"no_load", "no_save"})
    return "no_load" not in words, "no_save" not in words, misspelt
