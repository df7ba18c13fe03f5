# SPDX-License-Identifier: Apache-2.0
"""Loads of the real engine: right bytes, right tokens, and a control that finds wrong ones."""

import json

import orlop
import pytest
from conftest import prompt_of
from engine import BLOCK
from gates import loads_are_by
from orlop.gpu import PageCache
from orlop.vllm.loads import Loader


def test_engine_without_a_node_answers_and_says_why(started):
    engine, _, without = started
    (output,) = without["outputs"]
    assert output.cached == 0 and output.finish == "length"
    assert output.tokens == engine.plain([prompt_of(0)])[0]
    assert without["counts"]["lookups:family_unknown"] + without["counts"]["lookups:no_node"] == 1
    assert without["counts"]["exceptions"] == 0


def test_cold_then_hit_equal_tokens_and_equal_pages(engine, fresh_prompt):
    prompt = fresh_prompt()
    plain = engine.plain([prompt])[0]
    saved, loaded = {}, {}
    spy(engine, saved, loaded)
    with engine.counted() as cold:
        (output,) = engine.ask([prompt])
    assert output.tokens == plain and output.cached == 0
    assert cold["saved_pages"] == 4 and cold["saved_bytes"] == 4 * 32 * 1024
    assert cold["lookups:not_found"] == 1 and cold["hit_tokens"] == 0
    keys = engine.keys_of(prompt)
    stored = engine.offers._client.get_bytes(engine.namespace, keys)
    assert [engine.page(saved[key]) for key in keys] == stored
    assert len(set(stored)) == 4
    engine.forget()
    with engine.counted() as hit:
        (output,) = engine.ask([prompt])
    assert output.tokens == plain and output.cached == 128
    assert hit["loaded_pages"] == 4 and hit["hit_tokens"] == 128 and hit["saved_pages"] == 0
    assert hit["lookups:hit"] == 1 and hit["failed_loads"] == 0 and hit["present_pages"] == 0
    assert [engine.page(loaded[key]) for key in keys] == stored
    engine.assert_nothing_held()


def spy(engine, saved, loaded):
    """Notes where blocks come from and go to."""
    side = engine.worker._worker
    submit, load = side._saver.submit, side._loader._new

    def note_saves(orders, revision):
        for order in orders:
            saved.update(zip(order.keys, order.blocks, strict=True))
        submit(orders, revision)

    def note_load(order, revision):
        loaded.update(zip(order.keys, order.blocks, strict=True))
        return load(order, revision)

    side._saver.submit, side._loader._new = note_saves, note_load


@pytest.mark.parametrize(("by", "handed"), [("engine", 0), ("thread", 1), ("both", 1)])
def test_who_loads_is_the_same_to_the_answer(engine, fresh_prompt, by, handed, monkeypatch):
    prompt = fresh_prompt()
    plain = engine.plain([prompt])[0]
    engine.store([prompt])
    loads_are_by(by, monkeypatch)
    streams, ordered = engine.worker._worker.store.streams, []
    monkeypatch.setattr(streams, "mark", object)
    monkeypatch.setattr(streams, "after", lambda mark: (ordered.append(type(mark)), 0)[1])
    hand, taken = Loader._hand, []
    monkeypatch.setattr(Loader, "_hand", lambda loader, load: (taken.append(load), hand(loader, load)))
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    assert new["loaded_pages"] == 4 and len(taken) == handed
    assert ordered[0] is object  # its copy is ordered behind the engine's work, whoever begins it
    engine.assert_nothing_held()


@pytest.mark.parametrize("alone", [True, False])
def test_a_load_of_the_only_request_begins_before_its_step(engine, fresh_prompt, alone, monkeypatch):
    prompt, other = fresh_prompt(), fresh_prompt(40)
    plain = engine.plain([prompt])[0]
    engine.store([prompt])
    happened, scheduler = [], engine.offers._scheduler
    for owner, name in ((PageCache, "restore"), (scheduler, "orders")):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *how, name=name, original=original: (
            happened.append(name), original(*how))[1])
    if not alone:
        engine.add("other", other, tokens=30)
        engine.step()
    happened.clear()
    engine.add("a", prompt, tokens=8)
    while "restore" not in happened:
        engine.step()
    assert happened[0] == ("restore" if alone else "orders")
    assert engine.run_out()["a"] == plain
    monkeypatch.undo()
    engine.assert_nothing_held()


def test_other_bytes_in_the_store_change_the_answer(engine, fresh_prompt):
    """The control: if loaded bytes were not used, or replaced, the other tests would prove nothing."""
    prompt = fresh_prompt()
    plain = engine.plain([prompt])[0]
    engine.store([prompt])
    client, keys = engine.offers._client, engine.keys_of(prompt)
    page = client.get_bytes(engine.namespace, keys[1:2])[0]
    assert client.remove(engine.namespace, keys[1:2]) == 1
    assert client.put(engine.namespace, keys[1:2], [page[::-1]]) == [orlop.Outcome.STORED]
    (output,) = engine.ask([prompt])
    assert output.cached == 128 and output.tokens != plain


def test_prompts_cut_at_every_boundary(engine, fresh_prompt):
    prompt = fresh_prompt(161)
    lengths = [n + d for n in range(BLOCK, 161, BLOCK) for d in (-1, 0, 1)]
    plain = engine.plain([prompt[:n] for n in lengths])
    engine.store([prompt])
    for length, tokens in zip(lengths, plain, strict=True):
        engine.forget()
        (output,) = engine.ask([prompt[:length]])
        assert (length, output.tokens) == (length, tokens)
        assert (length, output.cached) == (length, (length - 1) // BLOCK * BLOCK)


def test_the_last_token_of_a_prompt_that_ends_on_a_block_is_computed(engine, fresh_prompt):
    prompt = fresh_prompt(128)
    plain = engine.plain([prompt])[0]
    engine.store([prompt], tokens=1)
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 96)


def test_decoded_blocks_are_hits_of_the_next_turn(engine, fresh_prompt):
    prompt = fresh_prompt(100)
    (first,) = engine.store([prompt], tokens=70)
    turn = prompt + first.tokens + fresh_prompt(20)
    plain = engine.plain([turn])[0]
    (output,) = engine.ask([turn])
    assert output.tokens == plain
    # 169 tokens are computed: the 170th was sampled, not fed.
    assert output.cached == 169 // BLOCK * BLOCK == 160


def test_option_save_prompt_leaves_decoded_blocks_out(engine, fresh_prompt):
    prompt = fresh_prompt(100)
    with engine.options(save="prompt"), engine.counted() as new:
        (first,) = engine.store([prompt], tokens=70)
    assert new["saved_pages"] == 3
    (output,) = engine.ask([prompt + first.tokens + fresh_prompt(20)])
    assert output.cached == 96


def test_a_prefix_in_the_engine_and_its_continuation_in_the_store(engine, fresh_prompt):
    prompt = fresh_prompt(150)
    plain = engine.plain([prompt])[0]
    engine.store([prompt])
    engine.ask([prompt[:70]], orlop="no_load,no_save")  # 2 blocks of its own
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    assert new["loaded_pages"] == 2
    with engine.counted() as new:
        (output,) = engine.ask([prompt])  # all of it is the engine's own now
    assert (output.tokens, output.cached) == (plain, 128) and new["loaded_pages"] == 0
    assert new["lookups:too_short"] == 1
    engine.assert_nothing_held()


@pytest.mark.parametrize("load_mode", ["async", "sync"])
def test_many_at_once_in_a_pool_that_is_too_small(engine, fresh_prompt, load_mode):
    """4 x (150 + 50) tokens are 28 blocks, the pool has 23: requests are preempted and resumed."""
    prompts = [fresh_prompt() for _ in range(4)]
    plain = engine.plain(prompts, 50)
    preempted = engine.preemptions()
    with engine.options(load_mode=load_mode):
        outputs = engine.store(prompts, tokens=50)
        assert [one.tokens for one in outputs] == plain
        again = engine.ask(prompts, tokens=50)
    assert [one.tokens for one in again] == plain
    assert engine.preemptions() >= preempted + 2
    # What is cached is told before a preemption adds to it.
    assert [one.cached for one in again] == [128] * 4
    engine.assert_nothing_held()


def test_sync_loads_run_in_the_step_that_needs_them(engine, fresh_prompt):
    prompt = fresh_prompt()
    plain = engine.plain([prompt])[0]
    engine.store([prompt])
    with engine.options(load_mode="sync"), engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128) and new["loaded_pages"] == 4
    engine.assert_nothing_held()


def test_salts_share_only_with_themselves(engine, fresh_prompt):
    prompt = fresh_prompt()
    engine.store([prompt], salt="pepper")
    for salt, cached in [(None, 0), ("sugar", 0), ("pepper", 128)]:
        (output,) = engine.ask([prompt], salt=salt, orlop="no_save")
        assert (salt, output.cached) == (salt, cached)
        engine.forget()


def test_requests_may_ask_not_to(engine, fresh_prompt):
    prompt = fresh_prompt()
    with engine.counted() as new:
        engine.store([prompt], orlop="no_save")
    assert new["saved_pages"] == 0
    engine.store([prompt])
    with engine.counted() as new:
        (output,) = engine.ask([prompt], orlop="no_load")
    assert output.cached == 0 and new["lookups:asked_not_to"] == 1
    engine.forget()
    with engine.options(min_hit_tokens=129), engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert output.cached == 0 and new["lookups:below_minimum"] == 1


def test_the_timeline_has_no_tokens_and_no_keys(engine, fresh_prompt):
    prompt = fresh_prompt()
    engine.store([prompt])
    engine.ask([prompt])
    with open(engine.trace) as file:
        line = json.loads(file.readlines()[-1])
    assert line["reason"] == "hit" and line["outcome"] == "loaded" and line["pages"] == 4
    assert 0 <= line["looked_up_at"] <= line["load_begun_at"] <= line["load_ended_at"]
    assert all(isinstance(value, (int, float, str)) for value in line.values())
    assert not any(key.hex() in str(line) for key in engine.keys_of(prompt))


def test_counts_reach_the_engines_metrics(engine, fresh_prompt):
    prompt = fresh_prompt()
    engine.store([prompt])
    engine.ask([prompt])
    metrics = {(one.name, one.labels.get("reason")): one.value for one in engine.llm.get_metrics()
               if one.name.startswith("vllm:orlop")}
    assert metrics["vllm:orlop_loaded_pages", ""] >= 4
    assert metrics["vllm:orlop_lookups", "hit"] >= 1
