# SPDX-License-Identifier: Apache-2.0
"""The hooks that vLLM calls. Each catches everything, and then keeps its promise with plain means.

vLLM makes one object in the scheduler's process and one in each worker's; a hook belongs to one of
them. An object whose side could not be made answers every hook as a cache that is empty.
"""

import contextlib
import dataclasses
import logging
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorRole,
    SupportsHMA,
)

import orlop
from orlop.engine.counters import Counters
from orlop.engine.guard import Guard, not_counted
from orlop.engine.keys import CHAIN
from orlop.engine.options import Options, parse_options
from orlop.vllm import events, identity
from orlop.vllm.family import Family
from orlop.vllm.layouts import Refused, device_of, pages_of
from orlop.vllm.messages import LoadOrder, RankTold, StepOrders, StepReport
from orlop.vllm.metrics import OrlopPromMetrics, OrlopStats
from orlop.vllm.offers import are_whole
from orlop.vllm.scheduler import SchedulerSide
from orlop.vllm.store import RankStore
from orlop.vllm.streams import streams_of
from orlop.vllm.worker import NO_ENDS, WorkerSide

_LOG = logging.getLogger("vllm.orlop")  # below vLLM's own, so that it goes where theirs go
# The workers' objects of this process: where the scheduler's is on the same thread, a load need not wait for
# the step that orders it.
_WORKERS: "weakref.WeakSet[OrlopConnector]" = weakref.WeakSet()


class OrlopConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """See docs/engines/vllm.md."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._counters = Counters()
        self._guard = Guard(self._counters, _LOG)
        self._client: orlop.Client | None = None
        self._scheduler: SchedulerSide | None = None
        self._worker: WorkerSide | None = None
        self._family: Family | None = None
        self._options: Options | None = None
        self._step = NO_ENDS
        self._registered: dict[str, Any] = {}  # for restore_kv_caches
        self._is_copy = False  # this rank's pages are those of another one, which saves them
        self._told_with_step = False
        self._thread = threading.get_ident()
        self._guard.run("init", self._begin, lambda: None)

    # ---- start and end ----------------------------------------------------------------------------

    def _begin(self) -> None:
        transfer, config = self._kv_transfer_config, self._vllm_config
        try:
            self._options = _with_role(parse_options(transfer.kv_connector_extra_config), transfer)
            identity.check_configuration(config, self._kv_cache_config)
            contracts = identity.contracts_of(self._kv_cache_config)
        except (ValueError, Refused) as error:
            return self._refuse(error)
        if self.role is not KVConnectorRole.SCHEDULER:
            return None
        if transfer.kv_load_failure_policy != "recompute":
            _LOG.warning("orlop: kv_load_failure_policy is %r, so a page that is lost between look-up "
                         "and load ends its request with an error; set it to \"recompute\"",
                         transfer.kv_load_failure_policy)
        if self._options.load_mode == "sync" and (
                are_whole(contracts) or not _failures_are_known_in_time(config)):
            _LOG.warning("orlop: load_mode sync does not go with async_scheduling, several ranks or "
                         "a KV cache of more than full attention; async is used")
            self._options = dataclasses.replace(self._options, load_mode="async")
        options = self._options
        self._client = orlop.Client(socket=options.socket, name="vllm scheduler")
        self._family = Family(self._client, lambda: identity.weights_of(config, options))
        self._scheduler = SchedulerSide(
            options, self._client, self._family, self._counters, contracts,
            identity.hash_tokens(self._kv_cache_config),
            engine_hashes=identity.engine_hashes_are_keys(config),
            steps_in_flight=_steps_in_flight(config))
        self._scheduler.begin_load = self._begin_load
        if events.are_wanted(config):
            self._scheduler.events = events.StoreEvents(
                self._client, self._counters, self._kv_cache_config.kv_cache_groups,
                identity.hash_tokens(self._kv_cache_config))
        return None

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        self._guard.run("register_kv_caches", lambda: self._register(kv_caches), lambda: None)

    def _register(self, kv_caches: dict[str, Any]) -> None:
        if self._options is None:
            return None
        self._registered = kv_caches
        rank, self._is_copy = _rank(self._vllm_config, self._kv_cache_config)
        try:
            pages = pages_of(kv_caches, self._kv_cache_config)
            descriptors = identity.describe_rank(self._vllm_config, self._kv_cache_config, pages,
                                                 rank, CHAIN)
            streams = streams_of(device_of(kv_caches))
        except (ValueError, Refused) as error:
            return self._refuse(error)
        if self._client is None:
            self._client = orlop.Client(socket=self._options.socket, name="vllm worker")
        store = RankStore(self._client, [one.layout for one in pages], streams, descriptors, self._counters)
        if self._worker is not None:
            return self._worker.resume(store)
        self._worker = WorkerSide(self._options, store)
        _WORKERS.add(self)
        for one in descriptors:
            _LOG.info("orlop: %d bytes a block of %d tokens, namespace %s %s %s", one["value_len"],
                      one["page_tokens"], one["model"], one["layout"], one["component"])
        return None

    @classmethod
    def supports_sleep_mode(cls, kv_transfer_config: Any) -> bool:
        return True

    def unregister_kv_caches(self) -> None:
        """The engine takes the cache's memory away until restore_kv_caches (vLLM 0.33)."""
        if (side := self._worker) is not None:
            self._guard.run("unregister_kv_caches", side.suspend, lambda: None)

    def restore_kv_caches(self) -> None:
        if self._worker is not None:
            self.register_kv_caches(self._registered)

    def _refuse(self, error: Exception) -> None:
        self._options = None
        self._counters.add("refused", reason=type(error).__name__)
        _LOG.error("orlop is off, the engine goes on without it: %s", error)

    def shutdown(self) -> None:
        self._guard.run("shutdown", self._close, lambda: None)

    def _close(self) -> None:
        worker, scheduler, family, client = self._worker, self._scheduler, self._family, self._client
        self._worker = self._scheduler = self._family = self._client = None
        for side in (worker, scheduler, family, client):
            if side is not None:
                side.close()

    def get_handshake_metadata(self) -> RankTold | None:
        return RankTold(self._worker.store.descriptors) if self._worker is not None else None

    def set_xfer_handshake_metadata_pp_aware(self, metadata: dict[tuple[int, int], Any]) -> None:
        self._guard.run("handshake", lambda: self._told(metadata), lambda: None)

    def set_xfer_handshake_metadata(self, metadata: dict[int, Any]) -> None:
        self.set_xfer_handshake_metadata_pp_aware({(0, rank): one for rank, one in metadata.items()})

    def _told(self, metadata: dict[tuple[int, int], Any]) -> None:
        ranks = [metadata[rank] for rank in sorted(metadata)]
        told = [one for one in ranks if isinstance(one, RankTold)]
        # A MultiConnector hands what its first child tells to all: ours then comes with a step.
        if told or not ranks:
            self._tell(told)

    def _tell(self, told: list[RankTold]) -> None:
        if self._family is not None:
            self._family.tell([descriptor for one in told for descriptor in one.descriptors],
                              self._vllm_config.parallel_config.world_size)

    def _hear(self, output: Any) -> None:
        report = output.kv_connector_worker_meta
        if isinstance(report, StepReport) and report.told:
            self._tell(report.told)

    # ---- scheduler --------------------------------------------------------------------------------

    @property
    def requires_kv_delivery(self) -> bool:
        return False  # a save that is dropped is a future miss, nothing else

    def on_new_request(self, request: Any) -> None:
        if (side := self._scheduler) is not None:
            self._guard.run("on_new_request", lambda: side.begin(request), lambda: None)

    def get_num_new_matched_tokens(self, request: Any,
                                   num_computed_tokens: int) -> tuple[int | None, bool]:
        side = self._scheduler
        if side is None or self._options is None:
            return 0, False
        tokens = self._guard.run("get_num_new_matched_tokens",
                                 lambda: side.look_up(request, num_computed_tokens), lambda: 0)
        return tokens, tokens > 0 and self._options.load_mode == "async"

    def _begin_load(self, order: LoadOrder, revision: str) -> bool:
        worker = self._worker_beside()
        return worker is not None and worker.begin(order, revision)

    def _worker_beside(self) -> WorkerSide | None:
        beside = [one._worker for one in _WORKERS if one._worker is not None and one._is_beside(self)]
        return beside[0] if len(beside) == 1 else None  # of two nobody knows which one is this one's

    def _is_beside(self, scheduler: "OrlopConnector") -> bool:
        parallel = self._vllm_config.parallel_config
        return (self._kv_transfer_config.engine_id == scheduler._kv_transfer_config.engine_id
                and parallel.world_size == 1 and self._thread == threading.get_ident())

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if (side := self._scheduler) is not None:
            self._guard.run(
                "update_state_after_alloc",
                lambda: side.allocated(request, blocks.get_block_ids(), num_external_tokens),
                lambda: side.owe(request, blocks, num_external_tokens))

    def build_connector_meta(self, scheduler_output: Any) -> StepOrders:
        if (side := self._scheduler) is None:
            return StepOrders()
        return self._guard.run("build_connector_meta", lambda: side.orders(scheduler_output),
                               side.orders_in_doubt)

    def update_connector_output(self, connector_output: Any) -> None:
        report = connector_output.kv_connector_worker_meta
        if isinstance(report, StepReport) and (announced := report.announced) is not None:
            self._guard.run("announced", lambda: self._judge(connector_output, report, announced),
                            lambda: self._judge_in_doubt(connector_output, announced))
        if (side := self._scheduler) is not None:
            if self._family is not None and not self._family.told:
                self._guard.run("handshake", lambda: self._hear(connector_output), lambda: None)
            if side.is_loading:
                self._guard.run("update_connector_output", lambda: side.reported(connector_output),
                                lambda: side.reported_in_doubt(connector_output))

    def _judge(self, output: Any, report: StepReport, announced: str) -> None:
        """The engine is about to believe what the step announced: leaves only what has come true."""
        side, worker, end = self._scheduler, self._worker_beside(), None
        if side is not None and worker is not None:
            with not_counted(self._counters):
                end = worker.success(announced, wait=side.engine_waits())
        if end is None:
            _strike(output, announced)
        else:
            report.ends[end.request] = end.pages, end.reason

    def _judge_in_doubt(self, output: Any, announced: str) -> None:
        """Nobody can tell, now or later: steps report loads only when they are over."""
        _strike(output, announced)
        for one in _WORKERS:
            if one._worker is not None:
                one._worker.announces = False

    def request_finished(self, request: Any,
                         block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished_all_groups(request, (block_ids,))

    def request_finished_all_groups(
            self, request: Any,
            block_ids: tuple[list[int], ...]) -> tuple[bool, dict[str, Any] | None]:
        # Its blocks may go at once: saves under way are told before they are overwritten.
        if (side := self._scheduler) is not None:
            self._guard.run("request_finished", lambda: side.finish(request), lambda: None)
        return False, None

    def take_events(self) -> Iterable[Any]:
        told = self._scheduler.events if self._scheduler is not None else None
        return self._guard.run("take_events", told.take, list) if told is not None else ()

    def has_pending_push_work(self) -> bool:
        # vLLM publishes events with its steps: an engine that would rest takes a few more.
        told = self._scheduler.events if self._scheduler is not None else None
        return told is not None and self._guard.run(
            "has_pending_push_work", told.are_pending, lambda: False)

    def reset_cache(self) -> bool | None:
        if (side := self._scheduler) is None:
            return True  # nothing was ever offered, and nothing will be
        return self._guard.run("reset_cache", side.renew, side.renew_in_doubt)

    # ---- worker -----------------------------------------------------------------------------------

    def handle_preemptions(self, kv_connector_metadata: Any) -> None:
        self._step = NO_ENDS
        if (side := self._worker) is not None and isinstance(kv_connector_metadata, StepOrders):
            self._guard.run("handle_preemptions",
                            lambda: side.before_step(kv_connector_metadata), side.protect_all)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        if (side := self._worker) is not None and (orders := self._orders()) is not None and orders.loads:
            self._guard.run("start_load_kv", lambda: side.load(orders),
                            lambda: side.fail(orders.loads))

    def wait_for_layer_load(self, layer_name: str) -> None:
        return  # a load ends before the step that needs it begins

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any,
                      **kwargs: Any) -> None:
        return  # whole blocks are saved once their step is over

    def wait_for_save(self) -> None:
        if self._is_copy:
            return
        if (side := self._worker) is not None and (orders := self._orders()) is not None and orders.saves:
            self._guard.run("wait_for_save", lambda: side.save(orders), lambda: None)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        # The answers of a step are of the same loads; vLLM asks for this one first.
        side = self._worker
        if side is not None and side.has_nothing_to_tell:  # as in most steps
            self._step = NO_ENDS
        elif side is not None:
            self._step = self._guard.run("get_finished", side.take_ends, lambda: NO_ENDS)
        return None, set(self._step.received) or None

    def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
        """Not called by vLLM 0.26, which calls get_finished() only."""
        _, received = self.get_finished(finished_req_ids)
        return base.KVConnectorTransferResults(finished_recving=received or set(),
                                               failed_recving=set(self._step.failed))

    def get_block_ids_with_load_errors(self) -> set[int]:
        if self._step.failed and not hasattr(base, "KVConnectorTransferResults"):
            # vLLM 0.26 knows failed blocks only, and of this load no block is known: every one may be.
            return set(range(self._kv_cache_config.num_blocks))
        return set(self._step.bad_blocks)

    def build_connector_worker_meta(self) -> Any:
        report = self._step.report
        if self._told_with_step or (told := self.get_handshake_metadata()) is None:
            return report
        self._told_with_step = True
        return dataclasses.replace(report or StepReport({}), told=[told])

    def _orders(self) -> StepOrders | None:
        orders = self._connector_metadata
        return orders if isinstance(orders, StepOrders) else None

    # ---- statistics -------------------------------------------------------------------------------

    def get_kv_connector_stats(self) -> OrlopStats | None:
        if self._step.received and self._worker is not None and self._worker.idle:
            return None  # a request waits for this step's end: they come with the next
        new = self._counters.take()
        return OrlopStats(new) if new else None

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> OrlopStats:
        return OrlopStats(dict(data or {}))

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, metric_types: Any, labelnames: list[str],
                           per_engine_labelvalues: dict[int, list[object]]) -> OrlopPromMetrics:
        return OrlopPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)


# MultiConnector finds the class of its children's statistics by their name alone, when these come from the
# engine's process, and raises into the server when it does not.
with contextlib.suppress(ValueError):  # it is registered
    KVConnectorFactory.register_connector("OrlopConnector", "orlop.vllm", "OrlopConnector")

# Older releases have no such label.
if hasattr(base, "CacheHitSource"):
    OrlopConnector._cache_hit_source = base.CacheHitSource.HOST


def _with_role(options: Options, transfer: Any) -> Options:
    """kv_role narrows what the option mode allows. Raises ValueError when nothing is left."""
    loads = options.loads and transfer.is_kv_consumer
    saves = options.saves and transfer.is_kv_producer
    if not (loads or saves):
        raise ValueError(f"mode {options.mode} and kv_role {transfer.kv_role} leave nothing to do")
    if loads and saves:
        return options
    return dataclasses.replace(options, mode="load_only" if loads else "save_only")


def _strike(output: Any, request: str) -> None:
    if output.finished_recving:
        output.finished_recving.discard(request)


def _failures_are_known_in_time(config: Any) -> bool:
    """Of synchronous loads. Else a step that is scheduled, or a rank that loads the same pages without
    a failure, would save what it computed from bad ones."""
    return (config.parallel_config.world_size == 1
            and not getattr(config.scheduler_config, "async_scheduling", False))


def _steps_in_flight(config: Any) -> int:
    # Older releases do not say it: a step of each stage, and one scheduled ahead.
    return int(getattr(config, "max_concurrent_batches", 0)
               or getattr(config.parallel_config, "pipeline_parallel_size", 1) + 1)


def _rank(config: Any, kv_cache_config: Any) -> tuple[dict[str, int], bool]:
    """The descriptor's coordinates, and whether another rank has the same pages and saves them."""
    from vllm.distributed.parallel_state import get_pp_group, get_tp_group

    parallel = config.parallel_config
    rank, size = get_tp_group().rank_in_group, parallel.tensor_parallel_size
    first = rank - rank % identity.ranks_of_a_head(config, kv_cache_config)
    return {"tp_rank": first, "tp_size": size, "pp_rank": get_pp_group().rank_in_group,
            "pp_size": parallel.pipeline_parallel_size}, first != rank
