# SPDX-License-Identifier: Apache-2.0
"""Loads of another connector beside ours in vLLM's MultiConnector: what they write is not read, and what
is computed on them is not stored before it is known that they did not fail."""

from types import SimpleNamespace

import pytest
from test_offers import FULL_AND_WINDOW, Store, client  # noqa: F401
from test_without_engine import connector, full, groups  # noqa: F401
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

from orlop.engine.counters import Counters
from orlop.engine.options import Options
from orlop.engine.recovery import Prefix
from orlop.vllm.family import Family
from orlop.vllm.scheduler import SchedulerSide


def side_of(store, **changed):
    options = Options(load_mode=changed.pop("load_mode", "async"))
    family = Family(store.client, lambda: "r")
    family._known = ("r", store.spaces)
    side = SchedulerSide(options, store.client, family, Counters(), store.groups, 32,
                         engine_hashes=True, **changed)
    side.begin(store.request)
    return side


def step(side, *, new=(), goes_on=(), sync=False):
    """new: (request, tokens computed before, tables, tokens); goes_on: (request, computed, tokens);
    sync: None: the engine does not say, as before 0.32."""
    tokens = {one[0].request_id: one[-1] for one in (*new, *goes_on)}
    said = {} if sync is None else {"has_sync_kv_loads": sync}
    return side.orders(SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id=request.request_id, num_computed_tokens=computed,
                                            block_ids=tables) for request, computed, tables, _ in new],
        num_scheduled_tokens=tokens, total_num_scheduled_tokens=sum(tokens.values()),
        **said, scheduled_cached_reqs=SimpleNamespace(
            req_ids=[request.request_id for request, _, _ in goes_on],
            num_computed_tokens=[computed for _, computed, _ in goes_on],
            new_block_ids=[None for _ in goes_on], resumed_req_ids=set())))


def test_blocks_that_another_connector_loads_into_are_read_no_more(client):  # noqa: F811
    """A finished request's blocks may still wait for their save when they are given to such a load."""
    store = Store(client, FULL_AND_WINDOW)
    side = side_of(store)
    assert side.look_up(store.request, 64) == 0
    side.allocated(store.request, ([1, 2, 33, 34], [11, 12, 43, 44]), 0)
    assert sorted(step(side).overwritten) == [33, 34, 43, 44]
    assert step(side).overwritten == []
    side.close()


def test_blocks_of_a_load_inside_the_step_are_read_no_more(client):  # noqa: F811
    store = Store(client, [Prefix(32)])
    side = side_of(store)
    assert side.look_up(store.request, 32) == 0
    side.allocated(store.request, ([1, 32, 33, 34, 35],), 0)
    orders = step(side, new=[(store.request, 128, ([1, 32, 33, 34, 35],), 8)], sync=True)
    assert set(orders.overwritten) == {32, 33, 34, 35} and not orders.saves
    side.close()


@pytest.mark.parametrize("sync", [True, None])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_nothing_is_saved_until_the_outcome_of_a_load_inside_a_step_is_known(client, in_flight,  # noqa: F811
                                                                             sync):
    """Also beside a load of ours inside the same step, whose failure we would know."""
    store, other = Store(client, [Prefix(32)]), Store(client, [Prefix(32)])
    store.put(0, 0, range(4))
    side = side_of(store, load_mode="sync", steps_in_flight=in_flight)
    side.begin(other.request)
    assert side.look_up(store.request, 0) == 128 and side.look_up(other.request, 0) == 0
    ours, theirs = ([1, 2, 3, 4, 5],), ([11, 12, 13, 14, 15],)
    side.allocated(store.request, ours, 128)
    side.allocated(other.request, theirs, 0)
    orders = step(side, new=[(store.request, 128, ours, 32), (other.request, 64, theirs, 64)], sync=sync)
    assert [order.request for order in orders.loads] == [store.request.request_id]
    assert not orders.saves
    for _ in range(in_flight - 1):
        assert not step(side, goes_on=[(store.request, 160, 1), (other.request, 128, 1)]).saves
    orders = step(side, goes_on=[(store.request, 161, 1), (other.request, 129, 1)])
    assert [order.blocks for order in orders.saves] == [[5], [11, 12, 13, 14]]
    side.close()
    store.assert_nothing_pinned()


@pytest.mark.parametrize("sync", [True, None])
def test_a_load_of_ours_inside_a_step_keeps_nothing_from_being_saved(client, sync):  # noqa: F811
    store = Store(client, [Prefix(32)])
    store.put(0, 0, range(4))
    side = side_of(store, load_mode="sync")
    assert side.look_up(store.request, 0) == 128
    side.allocated(store.request, ([1, 2, 3, 4, 5],), 128)
    orders = step(side, new=[(store.request, 128, ([1, 2, 3, 4, 5],), 32)], sync=sync)
    assert [order.blocks for order in orders.saves] == [[5]]
    side.close()


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("sync", [False, None])
def test_a_load_that_was_over_before_the_step_keeps_nothing_from_being_saved(client, sync, ours):  # noqa: F811
    store = Store(client, [Prefix(32)])
    if ours:
        store.put(0, 0, range(4))
    side = side_of(store)
    assert side.look_up(store.request, 0) == (128 if ours else 0)
    side.allocated(store.request, ([1, 2, 3, 4],), 128 if ours else 0)
    assert not step(side, sync=sync).saves
    store.request.num_computed_tokens = 128  # the engine counts what an asynchronous load brought
    side.allocated(store.request, ([1, 2, 3, 4, 5],), 0)
    orders = step(side, new=[(store.request, 128, ([1, 2, 3, 4, 5],), 32)], sync=sync)
    assert orders.saves[0].blocks[-1] == 5
    side.close()


@pytest.mark.parametrize(("said", "steps"), [({"max_concurrent_batches": 4}, 4), ({}, 3)])
def test_the_engine_says_how_many_steps_it_schedules_ahead(full, tmp_path, said, steps):  # noqa: F811
    one = connector({"socket": str(tmp_path / "none")}, groups(full), KVConnectorRole.SCHEDULER,
                    kv_events_config=None,
                    parallel_config=SimpleNamespace(world_size=2, pipeline_parallel_size=2), **said)
    try:
        assert one._scheduler._steps_in_flight == steps
    finally:
        one.shutdown()
