# SPDX-License-Identifier: Apache-2.0
"""Namespaces and weight updates, on a real node: nothing from before an update is ever offered."""

import threading
from types import SimpleNamespace

import orlop
import pytest
from node import NodeProcess

from orlop.engine.counters import Counters
from orlop.engine.options import Options
from orlop.engine.recovery import Prefix
from orlop.vllm.family import Family
from orlop.vllm.scheduler import SchedulerSide

RANK = {"engine": "vllm", "layout": "l", "model": "m", "dtype": "f", "page_tokens": 32, "value_len": 1024,
        "layers": 2, "heads": 1, "tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1}


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "orlop.sock")


@pytest.fixture
def running(place):
    node = NodeProcess(place)
    yield node
    node.close()


@pytest.fixture
def client(place):
    client = orlop.Client(socket=place, name="family")
    yield client
    client.close()


def family_of(client, weights):
    family = Family(client, weights)
    family.tell([RANK], 1)
    return family


def test_update_while_the_weights_are_still_read_is_not_undone_by_their_end(running, client):
    gate = threading.Event()
    family = family_of(client, lambda: gate.wait(60) and "files")
    assert client.wait_ready(60) and family.revision == ""
    assert family.renew() and family.revision.startswith("updated:")
    updated = family.revision
    gate.set()
    family.close()
    assert family.revision == updated


def test_update_without_a_node_offers_nothing_until_one_is_confirmed(place, client):
    family = family_of(client, lambda: "files")
    family.close()
    assert family.revision == "files" and not family.renew()
    assert family.namespaces is None and "could not be told" in family.problem
    assert not family.renew() and family.namespaces is None
    node = NodeProcess(place)
    try:
        assert client.wait_ready(60) and family.renew()
        assert family.revision.startswith("updated:") and family.problem is None
    finally:
        node.close()


def test_update_forgets_the_pages_of_the_family(running, client):
    family = family_of(client, lambda: "files")
    family.close()
    assert client.wait_ready(60)
    (old,) = family.namespaces
    assert client.put(old, [b"k"], [b"\1" * 1024]) == [orlop.Outcome.STORED]
    assert family.renew() and client.get_bytes(old, [b"k"]) == []
    assert client.get_bytes(family.namespaces[0], [b"k"]) == []


def test_ranks_that_do_not_all_take_part_are_no_family(client):
    for ranks, size, why in [([], 1, "0 of 1 ranks"), ([RANK], 2, "1 of 2 ranks"),
                             ([RANK, {**RANK, "heads": 2}], 2, "not of one family")]:
        family = Family(client, lambda: "files")
        family.tell(ranks, size)
        assert family.namespaces is None and why in family.problem
        assert not family.renew() and family.namespaces is None


def test_ranks_with_the_same_heads_have_one_namespace(running, client):
    family = Family(client, lambda: "files")
    family.tell([{**RANK, "tp_size": 4, "tp_rank": first} for first in (0, 0, 2, 2)], 4)
    family.close()
    assert client.wait_ready(60) and len(family.namespaces) == 2


def test_ranks_that_tell_their_part_later_are_heard(running, client):
    family = Family(client, lambda: "files")
    family.tell([], 1)
    assert not family.told and "0 of 1 ranks" in family.problem
    family.tell([RANK], 1)
    family.close()
    assert family.told and family.problem is None and len(family.namespaces) == 1


def test_more_blocks_than_one_call_takes_are_saved_over_several_steps(running, client):
    family = family_of(client, lambda: "files")
    family.close()
    assert client.wait_ready(60)
    side = SchedulerSide(Options(), client, family, Counters(), [Prefix(1)], 1, engine_hashes=True)
    blocks = 70_000
    side.begin(SimpleNamespace(request_id="long", kv_transfer_params=None, prompt_embeds=None,
                               block_hashes=[i.to_bytes(32, "big") for i in range(blocks)]))
    begins = SimpleNamespace(req_id="long", num_computed_tokens=blocks, block_ids=([*range(1, blocks + 1)],))

    def saved(new, cached):
        output = SimpleNamespace(
            scheduled_new_reqs=new, num_scheduled_tokens={}, total_num_scheduled_tokens=0,
            has_sync_kv_loads=False,
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=cached, num_computed_tokens=[blocks] * len(cached),
                new_block_ids=[None] * len(cached), resumed_req_ids=set()))
        return [block for order in side.orders(output).saves for block in order.blocks]

    assert saved([begins], []) == [*range(1, 65_536)]
    assert saved([], ["long"]) == [*range(65_536, blocks + 1)]
    assert saved([], ["long"]) == []
    side.close()
