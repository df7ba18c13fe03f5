# SPDX-License-Identifier: Apache-2.0
"""KV events of the store, as a router reads them from vLLM's socket."""

import orlop
import pytest
from orlop.engine.counters import Counters
from orlop.vllm.events import StoreEvents, are_wanted
from serving import BLOCK
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored

_BLOCKS = 4
_PROMPT = _BLOCKS * BLOCK + 10


def blocks_of(told, medium):
    """hash -> (parent, tokens, extra key, fields that all blocks of an event share)."""
    blocks = {}
    for one in told:
        if not isinstance(one, BlockStored) or one.medium != medium:
            continue
        parent = one.parent_block_hash
        for i, block in enumerate(one.block_hashes):
            tokens = tuple(one.token_ids[i * one.block_size:(i + 1) * one.block_size])
            extra = None if one.extra_keys is None else one.extra_keys[i]
            blocks[block] = (parent, tokens, extra, one.block_size, one.lora_id, one.lora_name,
                             one.group_idx, one.kv_cache_spec_kind)
            parent = block
    return blocks


def of_prompt(prompt, medium):
    """A condition: blocks of the prompt that were told as stored, once all of them were."""
    wanted = [tuple(prompt[i * BLOCK:(i + 1) * BLOCK]) for i in range(len(prompt) // BLOCK)]

    def condition(told):
        found = {block: what for block, what in blocks_of(told, medium).items() if what[1] in wanted}
        return found if len(found) == len(wanted) else None

    return condition


def removed(told, medium):
    return {block for one in told if isinstance(one, BlockRemoved) and one.medium == medium
            for block in one.block_hashes}


def test_stored_pages_are_told_as_vllm_tells_its_own(served, fresh_prompt):
    prompt = fresh_prompt(_PROMPT)
    served.vllm.ask(prompt, 1)
    # No further request: the engine goes on for a moment by itself.
    stored = served.until_told(of_prompt(prompt, "CPU"))
    assert len(stored) == _BLOCKS
    assert stored == served.until_told(of_prompt(prompt, "GPU"))
    assert {one.locality for one in served.told
            if isinstance(one, BlockStored) and one.medium == "CPU"} == {"LOCAL"}


def test_page_that_somebody_removes_is_told(served, fresh_prompt):
    prompt = fresh_prompt(_PROMPT)
    served.vllm.ask(prompt, 1)
    stored = served.until_told(of_prompt(prompt, "CPU"))
    victim = next(block for block, what in stored.items() if what[1] == tuple(prompt[3 * BLOCK:4 * BLOCK]))
    with orlop.Client(socket=served.socket, call_budget=10.0) as other:
        assert other.wait_ready(60)
        assert other.remove(the_namespace(other, served), [victim]) == 1

    def told(events):
        served.step()
        return removed(events, "CPU") & set(stored)

    assert served.until_told(told) == {victim}


def test_reset_with_the_connector_clears_twice_and_what_is_stored_again_is_told(served, fresh_prompt):
    prompt = fresh_prompt(_PROMPT)
    served.vllm.ask(prompt, 1)
    before = set(served.until_told(of_prompt(prompt, "CPU")))

    def clears():
        served.step()
        return sum(isinstance(one, AllBlocksCleared) for one in served.told)

    def cleared_by(how):
        count = clears()
        served.vllm.forget(**how)
        served.until_told(lambda _: clears() > count)
        served.step()
        return clears() - count

    assert cleared_by({}) == 1  # vLLM's own
    assert cleared_by({"connector": True}) == 2  # and the store's
    seen = len(served.told)
    served.vllm.ask(prompt, 1)
    again = served.until_told(lambda told: of_prompt(prompt, "CPU")(told[seen:]))
    assert set(again) == before
    assert not removed(served.told[seen:], "CPU")


def the_namespace(client, served):
    """Of the engine: the only one of vLLM's whose rows have pages."""
    import json

    from orlop.vllm.doctor import _orlop

    status, text = _orlop("inspect", "namespaces", "--json", "--socket", served.socket)
    assert status == 0, text
    (found,) = [one["descriptor"] for one in json.loads(text)
                if one["descriptor"]["engine"] == "vllm" and one["slots"]]
    return client.open_namespace(found)


# ---- without an engine ----------------------------------------------------------------------------


class Group:
    def __init__(self, spec):
        self.kv_cache_spec = spec


@pytest.fixture
def specs():
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

    how = {"block_size": BLOCK, "num_kv_heads": 2, "head_size": 32, "dtype": torch.float32}
    return [Group(FullAttentionSpec(**how)), Group(SlidingWindowSpec(**how, sliding_window=64))]


def request_of(prompt, salt=None):
    from vllm import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.request import Request

    init_none_hash(sha256)
    return Request("r", prompt, SamplingParams(max_tokens=1), None, cache_salt=salt,
                   block_hasher=get_request_block_hasher(BLOCK, sha256))


def until(events, wanted):
    import time

    told, deadline = [], time.monotonic() + 60
    while len(told) < wanted:
        told += events.take()
        assert time.monotonic() < deadline, told
        time.sleep(0.005)
    return told


def test_groups_salts_and_hashes_have_vllms_form(specs, fresh_prompt):
    with orlop.serve(capacity="16MiB") as node, node.client(call_budget=10.0) as client:
        assert client.wait_ready(60)
        ns = client.open_namespace(engine="d", layout="l", model="m", revision="r", dtype="u8",
                                   page_tokens=BLOCK, value_len=64)
        request = request_of(fresh_prompt(3 * BLOCK), salt="pepper")
        keys = list(request.block_hashes)
        client.put(ns, keys[1:], [bytes(64)] * 2)
        events = StoreEvents(client, Counters(), specs, BLOCK)
        try:
            events.note(request, 1, [ns], 1, keys[1:])
            (stored,) = until(events, 1)
            # By default hashes go out as the low 64 bits.
            assert stored.block_hashes == [int.from_bytes(key[-8:], "big") for key in keys[1:]]
            assert stored.parent_block_hash == int.from_bytes(keys[0][-8:], "big")
            assert (stored.group_idx, stored.kv_cache_spec_kind, stored.kv_cache_spec_sliding_window) == (
                1, "sliding_window", 64)
            assert stored.extra_keys == [None, None]
            client.put(ns, [keys[0]], [bytes(64)])
            events.note(request, 0, [ns], 0, keys[:1])
            (first,) = until(events, 1)
            assert (first.extra_keys, first.parent_block_hash, first.group_idx) == ([("pepper",)], None, 0)
            assert first.kv_cache_spec_sliding_window is None
            client.flush(ns)
            gone = until(events, 2)
            assert {one.group_idx: len(one.block_hashes) for one in gone} == {1: 2, 0: 1}
            assert all(isinstance(one, BlockRemoved) and one.medium == "CPU" for one in gone)
        finally:
            events.close()


def test_events_are_told_only_when_they_are_asked_for():
    from types import SimpleNamespace

    from vllm.config.kv_events import KVEventsConfig

    assert not are_wanted(SimpleNamespace(kv_events_config=None))
    assert not are_wanted(SimpleNamespace(kv_events_config=KVEventsConfig()))
    assert are_wanted(SimpleNamespace(kv_events_config=KVEventsConfig(enable_kv_cache_events=True)))
