# SPDX-License-Identifier: Apache-2.0
"""Requests that end between any two calls, blocks that are needed while they are saved, updates."""

import threading

import pytest
from engine import BLOCK, POOL_BLOCKS
from gates import HeldLoads


@pytest.fixture
def held(engine):
    loads = HeldLoads(engine.worker)
    yield loads
    loads.let_go()


def test_abort_before_the_first_step(engine, fresh_prompt):
    engine.add("a", fresh_prompt())
    engine.abort("a")
    assert engine.run_out() == {}
    engine.assert_nothing_held()


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5])
def test_abort_after_some_steps(engine, fresh_prompt, steps):
    prompt = fresh_prompt()
    engine.store([prompt])
    engine.add("a", prompt, tokens=20)
    for _ in range(steps):
        engine.step()
    engine.abort("a")
    assert engine.run_out() == {}
    engine.assert_nothing_held()


def test_abort_while_its_load_runs_keeps_its_blocks_until_the_load_is_over(engine, fresh_prompt, held):
    prompt = fresh_prompt()
    engine.store([prompt])
    engine.add("a", prompt)
    while not held.begun.is_set():
        engine.step()
    free = engine._free_blocks()
    engine.abort("a")
    for _ in range(3):
        engine.step()
    assert engine._free_blocks() == free < engine.free_blocks
    assert engine.offers._client.stats().pinned_bytes > 0
    held.let_go()
    assert engine.run_out() == {}
    engine.assert_nothing_held()


def test_others_go_on_while_a_load_runs(engine, fresh_prompt, held):
    prompt, other = fresh_prompt(), fresh_prompt(40)
    plain = engine.plain([prompt], 4)[0]
    engine.store([prompt])
    engine.add("a", prompt)
    engine.add("b", other, tokens=6)
    done = {}
    while "b" not in done:
        done.update({one.request_id: one for one in engine.step() if one.finished})
    assert held.begun.is_set() and "a" not in done
    held.let_go()
    assert engine.run_out()["a"] == plain
    engine.assert_nothing_held()


def test_an_offer_that_is_not_taken_is_unpinned_in_the_same_step(engine, fresh_prompt):
    """The pool is taken, so that a request with a hit is looked up again and again."""
    prompt = fresh_prompt()
    plain = engine.plain([prompt], 4)[0]
    engine.store([prompt])
    engine.add("big", fresh_prompt(400), tokens=100)
    engine.add("bigger", fresh_prompt(250), tokens=4)
    for _ in range(12):
        engine.step()
    engine.add("a", prompt)
    for _ in range(5):
        engine.step()
        assert engine.offers._client.stats().open_handles == 0
    assert engine.run_out()["a"] == plain
    engine.assert_nothing_held()


def test_admission_both_finish_when_the_pool_holds_one(engine, fresh_prompt):
    stored, cold = fresh_prompt(BLOCK + 8), fresh_prompt((POOL_BLOCKS - 2) * BLOCK - 300)
    engine.store([stored])
    engine.add("restored", stored, tokens=4)
    engine.add("cold", fresh_prompt(400), tokens=100)
    engine.add("other", cold, tokens=4)
    assert sorted(engine.run_out()) == ["cold", "other", "restored"]
    engine.assert_nothing_held()


def test_a_block_that_the_engine_needs_is_not_saved_with_its_new_bytes(engine, fresh_prompt,
                                                                       monkeypatch):
    """Saves wait behind a gate while the pool is used several times over."""
    saver, gate = engine.worker._worker._saver, threading.Event()
    put = saver._put

    def waiting(*arguments):
        assert gate.wait(60)
        put(*arguments)

    monkeypatch.setattr(saver, "_put", waiting)
    prompts = [fresh_prompt() for _ in range(8)]
    with engine.counted() as new:
        for prompt in prompts:
            engine.ask([prompt], tokens=1)
        gate.set()
    assert new["dropped_pages:overwritten"] > 0
    monkeypatch.undo()
    engine.forget()
    plain = [engine.plain([prompt])[0] for prompt in prompts]
    for prompt, tokens in zip(prompts, plain, strict=True):
        assert engine.ask([prompt])[0].tokens == tokens
    engine.assert_nothing_held()


def test_a_load_that_fails_after_a_weight_update_lets_nothing_old_be_stored(engine, fresh_prompt, held):
    """Its request is computed on from blocks of before the update. Leaves the family of the files."""
    prompt = fresh_prompt()
    engine.store([prompt])
    engine.ask([prompt[:70]], orlop="no_load,no_save")  # 2 blocks of its own
    engine.add("a", prompt)
    while not held.begun.is_set():
        engine.step()
    engine.llm.reset_prefix_cache(reset_connector=True)
    with engine.counted() as new:
        held.let_go()
        assert "a" in engine.run_out()
    assert new["failed_pages"] == 2 and new["saved_pages"] == 0
    engine.forget()
    engine.assert_nothing_held()


def test_weight_update_restores_nothing_old(engine, fresh_prompt):
    """Last of all: it leaves the family of the weights' files."""
    prompt = fresh_prompt()
    engine.store([prompt])
    weights = dict(engine.llm.llm_engine.model_executor.driver_worker.worker.model_runner
                   .model.named_parameters())
    name = next(name for name in weights if "qkv_proj" in name or "k_proj" in name)
    weights[name].data.neg_()
    try:
        assert engine.llm.reset_prefix_cache(reset_connector=True)
        plain = engine.plain([prompt])[0]
        (output,) = engine.store([prompt], tokens=8)
        assert (output.tokens, output.cached) == (plain, 0)
        (output,) = engine.ask([prompt])
        assert (output.tokens, output.cached) == (plain, 128)
    finally:
        weights[name].data.neg_()
    engine.assert_nothing_held()
