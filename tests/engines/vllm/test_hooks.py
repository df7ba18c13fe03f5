# SPDX-License-Identifier: Apache-2.0
"""Whatever is raised behind any hook, the hook returns what vLLM was promised, and it is counted."""

import inspect
from types import SimpleNamespace

import pytest
from conftest import prompt_of
from engine import sampling
from releases import FAILED_REQUESTS_ARE_TOLD, needs_failed_requests, received
from test_without_engine import configuration, connector, full, groups  # noqa: F401
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.v1.request import Request

import orlop
from orlop.engine.options import Options
from orlop.vllm import OrlopConnector
from orlop.vllm.loads import failed
from orlop.vllm.messages import LoadOrder, RankTold, SaveOrder, StepOrders
from orlop.vllm.scheduler import Loading
from orlop.vllm.store import RankStore
from orlop.vllm.streams import NoStreams
from orlop.vllm.worker import WorkerSide

# What a hook falls back to is written so that it cannot fail; everything else raises here.
FALLBACKS = {"renew_in_doubt", "owe", "orders_in_doubt", "reported_in_doubt", "protect_all", "fail"}
REQUEST = Request("r", prompt_of(1), sampling(1), None)
BLOCKS = SimpleNamespace(get_block_ids=lambda: ([1, 2, 3, 4],))
LOADS = StepOrders([LoadOrder("r", [b"k" * 32], [1], True)], [SaveOrder([b"s" * 32], [2], None)], [1], True, "rev")
TOLD = RankTold([{}])
OUTPUT = SimpleNamespace(kv_connector_worker_meta=None, finished_recving={"r"}, failed_recving=None)


def raising(*arguments):
    raise RuntimeError("injected")


class Failing:
    """The real side, of which every method raises but those that must not."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        value = getattr(self._real, name)
        if name in FALLBACKS or not callable(value):
            return value

        return raising


# Hook -> (arguments, what it must return or a check of it, name under which it is counted; None: it runs
# nothing of ours).
SCHEDULER = {
    "on_new_request": ((REQUEST,), None, "on_new_request"),
    "get_num_new_matched_tokens": ((REQUEST, 0), (0, False), "get_num_new_matched_tokens"),
    "update_state_after_alloc": ((REQUEST, BLOCKS, 64), None, "update_state_after_alloc"),
    "build_connector_meta": ((SimpleNamespace(),), lambda orders: orders.overwritten is None,
                             "build_connector_meta"),
    "update_connector_output": ((OUTPUT,), None, "update_connector_output"),
    "request_finished": ((REQUEST, [1]), (False, None), "request_finished"),
    "request_finished_all_groups": ((REQUEST, ([1],)), (False, None), "request_finished"),
    "reset_cache": ((), False, "reset_cache"),
    "set_xfer_handshake_metadata": (({0: TOLD},), None, "handshake"),
    "set_xfer_handshake_metadata_pp_aware": (({(0, 0): TOLD},), None, "handshake"),
    "take_events": ((), lambda events: list(events) == [], "take_events"),
    "has_pending_push_work": ((), False, "has_pending_push_work"),
    "shutdown": ((), None, "shutdown"),
}
WORKER = {
    "register_kv_caches": ((None,), None, "register_kv_caches"),
    "handle_preemptions": ((LOADS,), None, "handle_preemptions"),
    "start_load_kv": ((None,), None, "start_load_kv"),
    "wait_for_layer_load": (("layer",), None, None),
    "save_kv_layer": (("layer", None, None), None, None),
    "wait_for_save": ((), None, "wait_for_save"),
    "get_finished": ((set(),), (None, None), "get_finished"),
    "get_transfer_results": ((set(),), lambda all_of: not all_of.finished_recving, "get_finished"),
    "get_block_ids_with_load_errors": ((), set(), None),
    "build_connector_worker_meta": ((), lambda report: (report.ends, report.told) == ({}, [TOLD]), None),
    "get_kv_connector_stats": ((), lambda stats: stats is None or not stats.is_empty(), None),
    "get_handshake_metadata": ((), TOLD, None),
    "unregister_kv_caches": ((), None, "unregister_kv_caches"),
    "restore_kv_caches": ((), None, "register_kv_caches"),
    "shutdown": ((), None, "shutdown"),
}
OF_THE_CLASS = {"build_kv_connector_stats", "build_prom_metrics", "supports_sleep_mode"}


def test_every_hook_of_the_adapter_is_tried_here():
    hooks = {name for name, member in vars(OrlopConnector).items()
             if not name.startswith("_") and inspect.isfunction(getattr(member, "__func__", member))}
    assert hooks == set(SCHEDULER) | set(WORKER) | OF_THE_CLASS


@pytest.fixture
def scheduler(full, tmp_path):  # noqa: F811
    one = connector({"socket": str(tmp_path / "none")}, groups(full), KVConnectorRole.SCHEDULER,
                    kv_events_config=None)
    real = one._scheduler, one._family
    real[0].events = SimpleNamespace(take=raising, are_pending=raising, close=lambda: None)
    one._scheduler, one._family = map(Failing, real)
    yield one
    for side in (*real, one._client):
        if side is not None:
            side.close()


@pytest.fixture
def worker(full, tmp_path):  # noqa: F811
    one = connector({"socket": str(tmp_path / "none")}, groups(full), KVConnectorRole.WORKER)
    with orlop.Client(socket=str(tmp_path / "none")) as client:
        real = WorkerSide(Options(), RankStore(client, [], NoStreams(), [{}], one._counters))
        one._worker = Failing(real)
        one.bind_connector_metadata(LOADS)
        yield one
        real.close()


@pytest.mark.parametrize("hook", SCHEDULER)
def test_a_hook_of_the_scheduler_returns_its_promise(scheduler, hook):
    scheduler._scheduler._loading["r"] = Loading(LOADS.loads[0])  # else nothing is to be reported
    check(scheduler, hook, *SCHEDULER[hook])


@pytest.mark.parametrize("hook", [
    pytest.param(hook, marks=needs_failed_requests) if hook == "get_transfer_results" else hook
    for hook in WORKER])
def test_a_hook_of_the_worker_returns_its_promise(worker, hook):
    worker._worker._ends.append(failed(LOADS.loads[0]))  # else there is nothing to tell
    check(worker, hook, *WORKER[hook])


def check(one, hook, arguments, promised, counted):
    answer = getattr(one, hook)(*arguments)
    assert promised(answer) if callable(promised) else answer == promised
    counts = {name for name in one._counters.totals() if name.startswith("exceptions")}
    assert counts == ({f"exceptions:{counted}"} if counted else set())


def test_a_load_that_could_not_be_ordered_is_owed_and_ordered_to_fail(scheduler):
    scheduler.update_state_after_alloc(REQUEST, BLOCKS, 64)
    orders = scheduler.build_connector_meta(SimpleNamespace())
    (order,) = orders.loads
    assert (order.request, order.keys) == ("r", []) and order.asynchronous


def test_a_load_that_could_not_begin_is_answered(worker):
    worker.start_load_kv(None)
    real = worker._worker._real
    worker._worker = real  # the next step's calls succeed again
    assert received(worker) == {"r"}
    assert worker.get_block_ids_with_load_errors() == {1}
    assert received(worker) == set()


def test_a_load_of_unknown_blocks_fails_its_request_or_else_every_block(worker):
    worker._worker = worker._worker._real
    orders = StepOrders([LoadOrder("r", [], [], True, whole=True)], [], [], True, "rev")
    worker.handle_preemptions(orders)
    worker.bind_connector_metadata(orders)
    worker.start_load_kv(None)
    worker._worker._loader.wait_for_one(60)
    assert received(worker) == worker._step.failed == {"r"}
    every_block = {0, 1, 2, 3}
    assert worker.get_block_ids_with_load_errors() == (set() if FAILED_REQUESTS_ARE_TOLD else every_block)


@pytest.mark.parametrize("method", ["_begin", "_register"])
def test_a_start_that_fails_leaves_the_adapter_off(full, monkeypatch, tmp_path, method):  # noqa: F811
    monkeypatch.setattr(OrlopConnector, method, raising)
    one = connector({"socket": str(tmp_path / "none")}, groups(full), KVConnectorRole.WORKER)
    one.register_kv_caches({})
    assert one.get_handshake_metadata() is None and one.get_finished(set()) == (None, None)
    one.shutdown()
    assert sum(one._counters.totals()[f"exceptions:{name}"] for name in ("init", "register_kv_caches")
               if f"exceptions:{name}" in one._counters.totals()) == 1


def test_a_weight_update_that_fails_is_told_and_offers_nothing_old(engine, fresh_prompt, monkeypatch):
    prompt = fresh_prompt()
    plain = engine.plain([prompt])[0]
    engine.store([prompt])

    monkeypatch.setattr(engine.offers._scheduler, "renew", raising)
    with engine.counted() as new:
        assert not engine.llm.reset_prefix_cache(reset_connector=True)
    assert new["exceptions:reset_cache"] == 1
    monkeypatch.undo()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 0)
    engine.forget()
    assert engine.llm.reset_prefix_cache(reset_connector=True)
    engine.store([prompt])
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    engine.assert_nothing_held()


def test_a_misspelt_wish_of_a_request_is_told_once_and_counted(engine, fresh_prompt, caplog):
    prompt = fresh_prompt()
    engine.store([prompt])
    for wish in ("no-load", "no_load,nosave"):
        with engine.counted() as new:
            (output,) = engine.ask([prompt], orlop=wish)
        assert output.cached == (128 if wish == "no-load" else 0)  # what is understood is done
        assert new["not_understood"] == 1
        engine.forget()
    assert caplog.text.count("give no_load, no_save or both") <= 1
