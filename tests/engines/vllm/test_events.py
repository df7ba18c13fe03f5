# SPDX-License-Identifier: Apache-2.0
"""KV events of the store, as a router reads them from vLLM's socket."""

import json
import time
from types import SimpleNamespace

import orlop
import pytest
import torch
from orlop.engine.counters import Counters
from orlop.vllm import doctor
from orlop.vllm.events import StoreEvents, are_wanted
from orlop.vllm.keys import RequestKeys
from releases import HASHES_ARE_SEEDED
from served import of_prompt
from serving import BLOCK
from vllm import SamplingParams
from vllm.config.kv_events import KVEventsConfig
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from vllm.v1.request import Request

_BLOCKS = 4
_PROMPT = _BLOCKS * BLOCK + 10


def removed(told, medium):
    return {block for one in told if isinstance(one, BlockRemoved) and one.medium == medium
            for block in one.block_hashes}


def test_stored_pages_are_told_as_vllm_tells_its_own(served, fresh_prompt):
    prompt = fresh_prompt(_PROMPT)
    served.vllm.ask(prompt, 1)
    # No further request: the engine goes on for a moment by itself.
    stored = served.until_stored(prompt)
    assert len(stored) == _BLOCKS
    assert stored == served.until_stored(prompt, "GPU")
    assert {one.locality for one in served.told
            if isinstance(one, BlockStored) and one.medium == "CPU"} == {"LOCAL"}


def test_page_that_somebody_removes_is_told(served, fresh_prompt):
    prompt = fresh_prompt(_PROMPT)
    served.vllm.ask(prompt, 1)
    stored = served.until_stored(prompt)
    victim = next(block for block, what in stored.items() if what[1] == tuple(prompt[3 * BLOCK:4 * BLOCK]))
    key = [victim]
    if not HASHES_ARE_SEEDED:
        key = RequestKeys(Request("r", prompt, SamplingParams(), None), BLOCK, engine_hashes=False).of(3, 4)
    with orlop.Client(socket=served.socket, call_budget=10.0) as other:
        assert other.wait_ready(60)
        assert other.remove(the_namespace(other, served), key) == 1

    def told(events):
        served.step()
        return removed(events, "CPU") & set(stored)

    assert served.until_told(told) == {victim}


def test_reset_with_the_connector_clears_twice_and_what_is_stored_again_is_told(served, fresh_prompt):
    prompt = fresh_prompt(_PROMPT)
    served.vllm.ask(prompt, 1)
    before = set(served.until_stored(prompt))

    def clears():
        marker = fresh_prompt(BLOCK + 1)  # everything that was told before it has arrived then
        served.vllm.ask(marker, 1, "no_save")
        served.until_stored(marker, "GPU")
        return sum(isinstance(one, AllBlocksCleared) for one in served.told)

    count = clears()
    served.vllm.forget()
    assert clears() - count == 1  # vLLM's own
    served.vllm.forget(connector=True)
    assert clears() - count >= 3  # and the store's; more when it had to be asked again
    seen = len(served.told)
    served.vllm.ask(prompt, 1)
    again = served.until_told(lambda told: of_prompt(told[seen:], prompt, "CPU"))
    assert set(again) == before
    assert not removed(served.told[seen:], "CPU")


def the_namespace(client, served):
    """Of the engine: the only one of vLLM's whose rows have pages."""
    status, text = doctor._orlop("inspect", "namespaces", "--json", "--socket", served.socket)
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
    how = {"block_size": BLOCK, "num_kv_heads": 2, "head_size": 32, "dtype": torch.float32}
    return [Group(FullAttentionSpec(**how)), Group(SlidingWindowSpec(**how, sliding_window=64))]


def request_of(prompt, salt=None):
    init_none_hash(sha256)
    return Request("r", prompt, SamplingParams(max_tokens=1), None, cache_salt=salt,
                   block_hasher=get_request_block_hasher(BLOCK, sha256))


def until(events, wanted):
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
            assert stored.token_ids == request.all_token_ids[BLOCK:]
            # Of what was told is kept what its removal needs, not its tokens.
            assert [page.about.tokens for page, _ in events._presence._known.values()] == [[], []]
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
    assert not are_wanted(SimpleNamespace(kv_events_config=None))
    assert not are_wanted(SimpleNamespace(kv_events_config=KVEventsConfig()))
    assert are_wanted(SimpleNamespace(kv_events_config=KVEventsConfig(enable_kv_cache_events=True)))
