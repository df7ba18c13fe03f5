# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong, the engine lives, its answers are right, and nothing stays held."""

import threading
import time

import pytest
from engine import BLOCK, spoil
from gates import loads_are_by
from orlop.vllm.loads import Load


@pytest.fixture
def stored(engine, fresh_prompt):
    """(prompt, its right answer), stored."""
    prompt = fresh_prompt()
    plain = engine.plain([prompt])[0]
    engine.store([prompt])
    return prompt, plain


@pytest.mark.parametrize("by", ["engine", "thread", "both", "sync"])
@pytest.mark.parametrize("block", [0, 2, 3])
def test_a_flipped_byte_costs_its_page_and_those_after_it(engine, stored, by, block, monkeypatch):
    prompt, plain = stored
    engine.forget_failures()  # of the cases before
    spoil(engine, prompt, block)
    loads_are_by(by, monkeypatch)
    load_mode = "sync" if by == "sync" else "async"
    with engine.options(load_mode=load_mode), engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert output.tokens == plain and output.finish == "length"
    assert new["loaded_pages"] == block and new["failed_pages"] == 4 - block
    assert new["failed_loads:mismatch"] == 1
    assert new["lookups:hit"] == 1 and new["lookups"] <= 2
    engine.forget()
    (output,) = engine.ask([prompt])  # the page that failed is not offered at once
    assert output.tokens == plain and output.cached == block * BLOCK
    engine.forget_failures()
    engine.assert_nothing_held()


@pytest.mark.parametrize("load_mode", ["async", "sync"])
def test_what_was_computed_on_a_failed_load_is_not_stored(engine, fresh_prompt, load_mode):
    """The step that loads 4 blocks computes 2 more on them: with bad blocks they are bad too."""
    prompt = fresh_prompt(200)
    plain = engine.plain([prompt])[0]
    engine.store([prompt[:130]])
    spoil(engine, prompt, 1)
    with engine.options(load_mode=load_mode), engine.counted() as new:
        (output,) = engine.store([prompt], tokens=8)
    assert output.tokens == plain and new["failed_loads:mismatch"] == 1
    assert (new["dropped_pages:tainted"] > 0) == (load_mode == "sync")
    engine.forget_failures()
    with engine.counted() as again:
        (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 192), (new, again)
    engine.assert_nothing_held()


def test_policy_fail_ends_the_request_and_not_the_engine(engine, stored, monkeypatch):
    prompt, plain = stored
    spoil(engine, prompt, 1)
    monkeypatch.setattr(engine.scheduler, "recompute_kv_load_failures", False)
    (output,) = engine.ask([prompt])
    assert (output.finish, output.tokens) == ("error", [])
    monkeypatch.undo()
    engine.forget()
    (output,) = engine.ask([prompt])
    assert output.tokens == plain and output.cached == BLOCK
    engine.assert_nothing_held()


def test_pages_that_go_between_look_up_and_load_are_computed(engine, stored, monkeypatch):
    prompt, plain = stored
    loader, keys = engine.worker._worker._loader, engine.keys_of(prompt)
    go_on, removed = loader._go_on, []

    def too_late(*arguments):
        if not removed:
            removed.append(engine.worker._client.remove(engine.namespace_of_worker, keys[2:]))
        return go_on(*arguments)

    monkeypatch.setattr(loader, "_go_on", too_late)
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert removed == [2] and output.tokens == plain
    assert new["loaded_pages"] == 2 and new["failed_pages"] == 2 and new["failed_loads:not_found"] == 1
    monkeypatch.undo()
    engine.assert_nothing_held()


def test_a_loader_that_fails_in_an_unknown_way_is_a_miss(engine, stored, monkeypatch):
    prompt, plain = stored
    monkeypatch.setattr(Load, "go_on", None)
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert output.tokens == plain and new["exceptions:load"] == 1
    monkeypatch.undo()
    engine.assert_nothing_held()


def test_a_load_that_waits_too_long_is_a_miss(engine, stored, monkeypatch):
    prompt, plain = stored
    monkeypatch.setattr(engine.worker._worker._loader, "_deadline", -1.0)
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert output.tokens == plain and new["failed_loads:deadline"] == 1
    engine.assert_nothing_held()


# Side, method of it that raises.
HOOKS = [("_scheduler", "begin"), ("_scheduler", "look_up"), ("_scheduler", "allocated"),
         ("_scheduler", "orders"), ("_scheduler", "reported"), ("_scheduler", "finish"),
         ("_worker", "before_step"), ("_worker", "begin"), ("_worker", "load"), ("_worker", "save"),
         ("_worker", "take_ends")]


@pytest.mark.parametrize(("side", "method"), HOOKS, ids=[method for _, method in HOOKS])
@pytest.mark.parametrize("load_mode", ["async", "sync"])
def test_an_exception_in_a_hook_is_caught_and_its_promise_kept(engine, stored, monkeypatch, side,
                                                               method, load_mode):
    prompt, plain = stored
    owner = getattr(engine.offers if side == "_scheduler" else engine.worker, side)
    calls = 0

    def raising(*arguments):
        nonlocal calls
        calls += 1
        if calls <= 3:
            raise RuntimeError("injected")
        return original(*arguments)

    original = getattr(owner, method)
    monkeypatch.setattr(owner, method, raising)
    with engine.options(load_mode=load_mode), engine.counted() as new:
        (output,) = engine.ask([prompt], tokens=16)  # the 10th completes a block, to be saved
        assert output.tokens[:8] == plain and output.finish == "length"
    assert 1 <= new["exceptions"] <= 3
    monkeypatch.undo()
    engine.forget()
    (output,) = engine.ask([prompt])
    assert output.tokens == plain
    for name in list(engine.offers._scheduler._requests):  # of a finish that did not happen
        assert method == "finish"
        del engine.offers._scheduler._requests[name]
    engine.assert_nothing_held()


def test_a_miss_does_not_use_up_the_trial_after_a_rest(engine, stored, fresh_prompt):
    prompt, plain = stored
    breaker = engine.offers._scheduler._breaker
    while breaker.allows():
        breaker.failed()
    with engine.counted() as new:
        (output,) = engine.ask([prompt], orlop="no_save")
    assert (output.tokens, output.cached) == (plain, 0) and new["lookups:resting"] == 1
    breaker._rests_until = 0.0  # it is over
    with engine.counted() as new:
        engine.ask([fresh_prompt()], orlop="no_save")
    assert new["lookups:not_found"] == 1
    engine.forget()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128) and breaker.allows()
    engine.assert_nothing_held()


def test_a_paused_node_delays_nothing(engine, node, stored, fresh_prompt):
    prompt, plain = stored
    other = fresh_prompt()
    other_plain = engine.plain([other])[0]
    node.pause()
    try:
        with engine.counted() as new:
            (output,) = engine.ask([prompt])  # reads need no node that answers
            assert output.tokens == plain
            (output,) = engine.ask([other])
            assert output.tokens == other_plain
    finally:
        node.go_on()
    assert new["dropped_pages:no_node"] + new["dropped_pages:not_stored"] + new["saved_pages"] >= 1
    engine.wait_ready()
    engine.assert_nothing_held()


def test_a_killed_server_costs_nothing_that_was_stored(engine, node, stored, fresh_prompt):
    prompt, plain = stored
    killing = threading.Thread(target=node.kill_server)
    killing.start()
    outputs = engine.ask([prompt, fresh_prompt(), fresh_prompt()], tokens=40)
    assert outputs[0].tokens[:8] == plain
    killing.join()
    engine.wait_ready()
    engine.settle()
    engine.forget()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    engine.assert_nothing_held()


def test_a_node_that_ended_and_started_again_is_used_again(engine, node, stored):
    prompt, plain = stored
    node.start_again()
    deadline = time.monotonic() + 120
    while True:  # until both sides have seen it
        (output,) = engine.store([prompt], tokens=8)
        assert output.tokens == plain
        if output.cached == 128:
            break
        assert time.monotonic() < deadline, engine.counts()
    engine.wait_ready()
    engine.assert_nothing_held()
