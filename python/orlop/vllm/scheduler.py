# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side: what is offered to the engine, pinned, ordered and given back.

States of a request's load: offered (pinned within one step) -> loading (the engine allocated blocks;
pinned until every rank has reported) -> reported. Only the report ends `loading`, also after an abort
or a failure. Thread: the engine's scheduler.
"""

import dataclasses
import logging
import time
from collections.abc import Iterator
from typing import Any

import orlop
from orlop.engine import reasons
from orlop.engine.breaker import CircuitBreaker
from orlop.engine.counters import Counters
from orlop.engine.failures import FailedKeys
from orlop.engine.options import Options
from orlop.engine.reasons import Reason
from orlop.engine.timeline import Timeline
from orlop.vllm.family import Family
from orlop.vllm.keys import RequestKeys
from orlop.vllm.messages import LoadOrder, SaveOrder, StepOrders, StepReport

_LOG = logging.getLogger("vllm.orlop")
_MOST_KEYS = 65_535  # of one call


@dataclasses.dataclass
class Offer:
    first: int  # block
    pages: int
    keys: list[bytes]
    handle: orlop.GetHandle


@dataclasses.dataclass
class Loading:
    """What the engine committed to. plan: pins it; None: could not be pinned, the ranks will see."""

    order: LoadOrder
    plan: orlop.ReadPlan | None
    pages: int | None = None  # right on all ranks so far
    reason: Reason = Reason.HIT


class RequestState:
    def __init__(self, request: Any, keys: RequestKeys) -> None:
        self.request = request
        self.keys = keys
        self.blocks: list[int] = []
        self.saved = 0  # blocks from the first that were ordered to be saved, or are stored
        self.local = 0  # tokens of the engine's own hit at the last look-up
        self.offer: Offer | None = None
        self.failed = False
        self.told: Reason | None = None  # of the last look-up, counted once
        self.packed: tuple[int, int, orlop.PackedKeys, list[bytes]] | None = None
        self.may_load, self.may_save = _permissions(request)


class SchedulerSide:
    def __init__(self, options: Options, client: orlop.Client, family: Family, counters: Counters,
                 block_size: int, *, engine_hashes: bool) -> None:
        self._options = options
        self._client = client
        self._family = family
        self._counters = counters
        self._block_size = block_size
        self._engine_hashes = engine_hashes
        self._failed_keys = FailedKeys(time.monotonic)
        self._breaker = CircuitBreaker(time.monotonic)
        self._timeline = Timeline(options.trace_requests, time.monotonic)
        self._requests: dict[str, RequestState] = {}
        self._offered: dict[str, RequestState] = {}
        self._loading: dict[str, Loading] = {}
        self._orders: list[LoadOrder] = []  # of this step

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
            self._timeline.note(request.request_id, looked_up_at=None, local_tokens=local,
                                reason=reason, offered_pages=offer.pages if offer else 0)
        if offer is None:
            return 0
        self._offered[request.request_id] = state
        return offer.pages * self._block_size

    def _offer(self, state: RequestState) -> Reason:
        request, size = state.request, self._block_size
        first = state.local // size
        # The last token must be computed, or there is nothing to sample from.
        end = min((request.num_tokens - 1) // size, state.keys.complete(), first + _MOST_KEYS)
        if not (self._options.loads and state.may_load):
            return Reason.ASKED_NOT_TO
        if getattr(request, "skip_reading_prefix_cache", False) or _is_unsupported(request):
            return Reason.UNSUPPORTED_REQUEST
        if end <= first:
            return Reason.TOO_SHORT
        if state.failed:
            return Reason.FAILED_BEFORE
        namespaces = self._family.namespaces
        if namespaces is None:
            return Reason.FAMILY_UNKNOWN
        if not self._client.ready:
            return Reason.NO_NODE
        packed, keys = self._keys(state, first, end)
        if not keys:
            return Reason.FAILED_RECENTLY
        handle = self._client.get_start(namespaces[0], packed) if len(namespaces) == 1 else (
            self._client.get_start_cohort(namespaces, packed))
        pages = handle.result.transferable_len
        if pages == 0 or pages * size < self._options.min_hit_tokens:
            self._client.cancel_get(handle)
            return Reason.BELOW_MINIMUM if pages else reasons.of_miss(handle.result.reason)
        if not self._breaker.allows():  # asked last: a trial is a load, and a miss is none
            self._client.cancel_get(handle)
            return Reason.RESTING
        state.offer = Offer(first, pages, keys, handle)
        return Reason.HIT

    def _keys(self, state: RequestState, first: int,
              end: int) -> tuple[orlop.PackedKeys, list[bytes]]:
        # A waiting request is looked up again at every step: its keys are packed once.
        if state.packed is None or state.packed[:2] != (first, end):
            keys = state.keys.of(first, end)
            state.packed = (first, end, orlop.PackedKeys(b"".join(keys), len(keys[0])), keys)
        packed, keys = state.packed[2:]
        usable = self._failed_keys.usable(keys)
        if usable == len(keys):
            return packed, keys
        return orlop.PackedKeys(b"".join(keys[:usable]), len(keys[0])), keys[:usable]

    # ---- the engine's decision --------------------------------------------------------------------

    def allocated(self, request: Any, blocks: list[int], tokens: int) -> None:
        """blocks: the request's whole table; tokens: that the engine will load, 0 for none."""
        state = self._requests.get(request.request_id)
        if state is not None:
            state.blocks = list(blocks)
        if tokens == 0:
            return
        order = self._order(request.request_id, state, blocks, tokens)
        loading = self._loading[order.request] = Loading(order, None)
        self._orders.append(order)
        offer = state.offer if state is not None else None
        if state is None or offer is None:
            return
        state.offer = None
        self._offered.pop(order.request, None)
        self._counters.add("hit_tokens", tokens)
        self._timeline.note(order.request, load_begun_at=None, pages=len(order.keys))
        loading.plan = self._client.get_transfer(offer.handle, len(order.keys))

    def _order(self, request: str, state: RequestState | None, blocks: list[int],
               tokens: int) -> LoadOrder:
        """Without an offer it has no keys: all its blocks will be reported as bad."""
        pages = -(-tokens // self._block_size)
        first = len(blocks) - pages if state is None else state.local // self._block_size
        offer = state.offer if state is not None else None
        keys = offer.keys[:pages] if offer is not None and offer.first == first else []
        return LoadOrder(request, keys[:offer.pages] if offer is not None else [],
                         blocks[first:first + pages], self._options.load_mode == "async")

    def owe(self, request: Any, blocks: list[int], tokens: int) -> None:
        """allocated() failed: the load that the engine waits for is ordered all the same, to fail."""
        name = request.request_id
        if tokens and not any(order.request == name for order in self._orders):
            order = self._order(name, self._requests.get(name), blocks, tokens)
            order.keys = []
            self._loading.setdefault(name, Loading(order, None))
            self._orders.append(order)

    # ---- once a step ------------------------------------------------------------------------------

    def orders(self, output: Any) -> StepOrders:
        for offered in list(self._offered.values()):
            self._drop_offer(offered)
            self._counters.add("lookups", reason=Reason.NOT_TAKEN)
        overwritten: list[int] = [block for order in self._orders for block in order.blocks]
        saves: list[SaveOrder] = []
        for name, computed, blocks, whole in _scheduled(output):
            overwritten += blocks[computed // self._block_size:] if whole else blocks
            state = self._requests.get(name)
            if state is None:
                continue
            if whole:
                state.blocks = blocks
            else:
                state.blocks += blocks  # in place: the table of a long request is not copied each step
            order = self._save(state, computed + output.num_scheduled_tokens.get(name, 0))
            if order is not None:
                saves.append(order)
        loads, self._orders = self._orders, []
        return StepOrders(loads, saves, overwritten, output.total_num_scheduled_tokens == 0,
                          self._family.revision)

    def orders_in_doubt(self) -> StepOrders:
        """orders() failed: loads are still owed, any block may be written, and the tables of blocks
        may have missed what was added in this step: nothing more is saved from them."""
        for state in self._requests.values():
            state.may_save = False
        loads, self._orders = self._orders, []
        return StepOrders(loads, [], None, False, self._family.revision)

    def _save(self, state: RequestState, computed: int) -> SaveOrder | None:
        # computed counts drafts that may be rejected; complete() only accepted tokens.
        first, namespaces = state.saved, self._family.namespaces
        end = min(computed // self._block_size, state.keys.complete(), len(state.blocks),
                  first + _MOST_KEYS)
        if self._options.save == "prompt":
            end = min(end, state.request.num_prompt_tokens // self._block_size)
        if (end <= first or namespaces is None or not self._options.saves or not state.may_save
                or not self._client.ready or _is_unsupported(state.request)):
            return None
        state.saved = end
        keys = state.keys.of(first, end)
        there = [self._client.exists(namespace, keys).mask for namespace in namespaces]
        wanted = [i for i in range(len(keys)) if not all(mask[i] for mask in there)
                  and state.blocks[first + i] != 0]  # block 0 is the engine's null block
        self._counters.add("present_pages", len(keys) - len(wanted))
        if not wanted:
            return None
        before = first + wanted[0] - 1
        return SaveOrder([keys[i] for i in wanted], [state.blocks[first + i] for i in wanted],
                         state.keys.of(before, before + 1)[0] if before >= 0 else None)

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
            if loading is not None and loading.plan is not None:
                loading.plan.release()
            if state is not None:
                state.failed = True

    def _end(self, name: str) -> None:
        loading = self._loading.pop(name, None)
        if loading is None:
            return
        if loading.plan is not None:
            loading.plan.release()
        order, pages = loading.order, loading.pages or 0
        complete = pages == len(order.blocks)
        self._timeline.note(name, load_ended_at=None, loaded_pages=pages,
                            outcome="loaded" if complete else loading.reason)
        if complete:
            self._breaker.succeeded()
            return
        self._breaker.failed()
        if pages < len(order.keys):
            self._failed_keys.add(order.keys[pages])
        state = self._requests.get(name)
        if state is not None:
            state.failed = True
            # What failed is computed again, and may be stored again then.
            state.saved = min(state.saved, state.local // self._block_size + pages)

    def finish(self, request: Any) -> None:
        """The request ends, or was aborted. A load under way goes on until it is reported."""
        state = self._requests.pop(request.request_id, None)
        if state is not None:
            self._drop_offer(state)
            self._timeline.end(request.request_id, blocks=len(state.blocks), saved_blocks=state.saved)

    def renew(self) -> bool:
        for state in self._requests.values():
            self._drop_offer(state)
            # Computed with the old weights, at least in part.
            state.may_load = state.may_save = False
        return self._family.renew()

    def close(self) -> None:
        for state in self._requests.values():
            self._drop_offer(state)
        for loading in self._loading.values():
            if loading.plan is not None:
                loading.plan.release()
        self._requests.clear()
        self._loading.clear()
        self._timeline.close()

    def held(self) -> dict[str, int]:
        """Gauges that return to 0 when nothing is under way."""
        return {"requests": len(self._requests), "offers": len(self._offered),
                "loads": len(self._loading), "orders": len(self._orders)}

    def _state(self, request: Any) -> RequestState:
        state = self._requests.get(request.request_id)
        if state is None:
            keys = RequestKeys(request, self._block_size, engine_hashes=self._engine_hashes)
            state = self._requests[request.request_id] = RequestState(request, keys)
        return state

    def _drop_offer(self, state: RequestState) -> None:
        offer, state.offer = state.offer, None
        self._offered.pop(state.request.request_id, None)
        if offer is not None:
            self._client.cancel_get(offer.handle)


def _scheduled(output: Any) -> Iterator[tuple[str, int, list[int], bool]]:
    """Of each request of a step: its name, tokens computed before, its blocks, and whether these are
    its whole table (it begins, or begins again) or were added to it."""
    for new in output.scheduled_new_reqs:
        yield new.req_id, new.num_computed_tokens, list(new.block_ids[0]), True
    cached = output.scheduled_cached_reqs
    for i, name in enumerate(cached.req_ids):
        blocks = cached.new_block_ids[i]
        yield (name, cached.num_computed_tokens[i], list(blocks[0]) if blocks else [],
               name in cached.resumed_req_ids)


def _is_unsupported(request: Any) -> bool:
    # Embeddings have no token ids; a streaming session takes tokens back.
    return request.prompt_embeds is not None or bool(getattr(request, "resumable", False))


def _permissions(request: Any) -> tuple[bool, bool]:
    """(may load, may save), from the request's kv_transfer_params {"orlop": "no_load,no_save"}."""
    asked = (request.kv_transfer_params or {}).get("orlop")
    words = {word.strip() for word in asked.split(",")} if isinstance(asked, str) else set()
    if asked is not None and not (words and words <= {"no_load", "no_save"}):
        _LOG.debug("kv_transfer_params orlop is %.60r; give no_load, no_save or both", asked)
    return "no_load" not in words, "no_save" not in words
