# SPDX-License-Identifier: Apache-2.0
"""What the adapter does not do when there is nothing to do; times are of ./dev bench vllm."""

import threading
import time
from pathlib import Path

from gates import HeldLoads
from pools import threads_and_descriptors

from orlop.gpu import PageCache


def switches_of_our_threads() -> dict[str, int]:
    """How often each of the adapter's threads was woken."""
    found = {}
    for one in threading.enumerate():
        if one.name.startswith("orlop-"):
            status = Path(f"/proc/self/task/{one.native_id}/status").read_text()
            found[one.name] = int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return found


def test_threads_sleep_while_nothing_is_to_be_loaded_or_stored(engine, fresh_prompt):
    engine.ask([fresh_prompt()])
    engine.settle()
    # Meanwhile the thread that told of the last save has time to fall asleep, which counts.
    engine.ask([fresh_prompt(40)], tokens=60, orlop="no_load,no_save")
    before = switches_of_our_threads()
    assert len(before) >= 2, before
    outputs = engine.ask([fresh_prompt(40)], tokens=60, orlop="no_load,no_save")
    assert len(outputs[0].tokens) == 60 and switches_of_our_threads() == before


def test_a_decode_step_without_a_complete_block_gives_the_workers_nothing_to_do(engine, fresh_prompt,
                                                                                monkeypatch):
    told = []
    build = engine.offers.build_connector_meta

    def noted(output):
        told.append(build(output))
        return told[-1]

    monkeypatch.setattr(engine.offers, "build_connector_meta", noted)
    engine.ask([fresh_prompt(33)], tokens=31)
    assert len(told) >= 31 and sum(len(orders.saves) for orders in told) == 1
    assert not any(orders.loads for orders in told)


def test_a_hundred_requests_leave_no_thread_descriptor_or_state(engine, fresh_prompt):
    prompt = fresh_prompt(70)
    engine.store([prompt])
    before = threads_and_descriptors()
    for _ in range(50):
        engine.forget()
        assert engine.ask([prompt], tokens=1)[0].cached == 64
        engine.ask([fresh_prompt(40)], tokens=1)
    engine.assert_nothing_held()
    assert threads_and_descriptors() == before
    state = engine.offers._scheduler
    assert not state._requests and not state._offered and not state._loading


def test_what_it_costs_is_counted_where_the_engine_shows_it(engine, fresh_prompt):
    with engine.counted() as new:
        engine.ask([fresh_prompt()], tokens=20)
    assert new["hook_seconds"] > 0 and new["thread_seconds"] > 0
    shown = {one.name for one in engine.llm.get_metrics()}
    assert {"vllm:orlop_hook_seconds", "vllm:orlop_thread_seconds"} <= shown


def test_an_engine_that_waits_for_nothing_but_a_load_is_not_held_up_by_us(engine, fresh_prompt, monkeypatch):
    prompt = fresh_prompt()
    engine.store([prompt])
    held = HeldLoads(engine.worker)
    monkeypatch.setattr(engine.worker._worker._loader, "wait_for_one", lambda seconds: time.sleep(0.4))
    with engine.counted() as new:
        engine.add("a", prompt)
        for _ in range(5):
            engine.step()
    assert held.begun.is_set() and 0 < new["hook_seconds"] < 1  # of 2 that passed
    held.let_go()
    monkeypatch.undo()
    assert "a" in engine.run_out()
    engine.assert_nothing_held()


def test_blocks_completed_in_one_step_are_copied_together(engine, fresh_prompt, monkeypatch):
    """Requests that began together; a put of its own each, because their parents differ."""
    prompts = [fresh_prompt(20) for _ in range(3)]  # 60 tokens: one step takes them all
    plain = [engine.plain([prompt], 16)[0] for prompt in prompts]
    copies, backup = [], PageCache.backup
    monkeypatch.setattr(PageCache, "backup", lambda cache, items, stream: (
        copies.append([len(pages) for _, pages in items]), backup(cache, items, stream))[1])
    with engine.counted() as new:
        outputs = engine.ask(prompts, tokens=16)
        engine.settle()
    assert [one.tokens for one in outputs] == plain
    assert copies == [[1, 1, 1]] and new["saved_pages"] == 3
    for prompt, tokens in zip(prompts, plain, strict=True):
        engine.forget()
        (output,) = engine.ask([prompt + tokens[:14]], tokens=2)
        assert (output.cached, output.tokens) == (32, tokens[14:])
    engine.assert_nothing_held()


def test_a_block_that_two_requests_complete_in_one_step_is_stored_once(engine, fresh_prompt):
    prompt = fresh_prompt(20)
    plain = engine.plain([prompt], 16)[0]
    with engine.counted() as new:
        outputs = engine.ask([prompt, prompt], tokens=16)
        engine.settle()
    assert [one.tokens for one in outputs] == [plain, plain]
    assert (new["saved_pages"], new["present_pages"], new["dropped_pages"]) == (1, 1, 0)
    engine.forget()
    (output,) = engine.ask([prompt + plain[:14]], tokens=2)
    assert (output.cached, output.tokens) == (32, plain[14:])
    engine.assert_nothing_held()
