# SPDX-License-Identifier: Apache-2.0
"""The engine takes its cache's memory away for a while (vLLM 0.33): the hooks, on the engine of 0.32."""

import threading
import time

import orlop
import pytest
from gates import Gate, HeldLoads
from orlop.vllm import store


def threads() -> list[str]:
    return sorted(one.name for one in threading.enumerate() if one.name in ("orlop-load", "orlop-save"))


@pytest.fixture
def stored(engine, fresh_prompt):
    prompt = fresh_prompt()
    (plain,) = engine.plain([prompt])
    engine.store([prompt])
    return prompt, plain


def test_asleep_nothing_touches_the_pages_and_every_load_is_a_miss(engine, stored):
    prompt, plain = stored
    before = threads()
    engine.worker.unregister_kv_caches()
    try:
        assert threads() == [] and engine.worker._worker.store.layouts == []
        with engine.counted() as new:
            (output,) = engine.ask([prompt])
        assert output.tokens == plain and output.finish == "length"
        assert new["failed_loads:asleep"] == 1 and new["loaded_pages"] == 0
    finally:
        engine.worker.restore_kv_caches()
    assert threads() == before
    engine.forget()
    engine.forget_failures()
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128) and new["loaded_pages"] == 4
    engine.assert_nothing_held()


def test_a_load_under_way_when_the_memory_goes_is_answered(engine, stored):
    prompt, plain = stored
    held = HeldLoads(engine.worker)
    try:
        engine.add("a", prompt, tokens=8)
        while not held.begun.is_set():
            engine.step()
        going = threading.Thread(target=engine.worker.unregister_kv_caches)
        going.start()
    finally:
        held.let_go()
    going.join(60)
    assert not going.is_alive() and threads() == []
    engine.worker.restore_kv_caches()
    assert engine.run_out() == {"a": plain}
    engine.assert_nothing_held()


def test_a_load_whose_copy_begins_when_the_memory_goes_is_over_before_it_goes(engine, stored, monkeypatch):
    prompt, plain = stored
    gate = Gate(monkeypatch, "restore")
    engine.add("a", prompt, tokens=8)
    while not gate.reached.is_set():
        engine.step()
    going = threading.Thread(target=engine.worker.unregister_kv_caches)
    loader = engine.worker._worker._loader
    with engine.counted() as new:
        going.start()
        while not loader._stopping:
            time.sleep(0.001)
        gate.open()
        going.join(60)
        assert not going.is_alive()
    assert new["loaded_pages"] == 4 - 4 * new["failed_loads:aborted"]  # given up, or done by then
    engine.worker.restore_kv_caches()
    assert engine.run_out() == {"a": plain}
    engine.assert_nothing_held()


def test_restore_without_a_sleep_changes_nothing(engine, stored):
    prompt, plain = stored
    before = threads()
    engine.worker.restore_kv_caches()
    assert threads() == before
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    engine.assert_nothing_held()


def test_the_other_sides_hooks_do_nothing(engine):
    engine.offers.unregister_kv_caches()
    engine.offers.restore_kv_caches()
    assert type(engine.offers).supports_sleep_mode(None) is True


def opened_again_by(engine, monkeypatch, page_cache):
    """The engine's cache goes and comes back, and is made known by this instead."""
    engine.worker.unregister_kv_caches()
    monkeypatch.setattr(store, "PageCache", page_cache)
    engine.worker.restore_kv_caches()
    return engine.worker._worker.store


def test_memory_that_cannot_be_made_known_is_told_and_the_engine_goes_on(engine, stored, fresh_prompt,
                                                                         monkeypatch):
    prompt, plain = stored

    def refuse(*_, **__):
        raise orlop.NoMemory("cudaHostRegister: no")

    with engine.counted() as new:
        assert not opened_again_by(engine, monkeypatch, refuse).wait_opened(60)
        (output,) = engine.ask([prompt])
        engine.ask([fresh_prompt()])
        engine.settle()
    assert output.tokens == plain and new["refused:NoMemory"] == 1 and new["exceptions"] == 0
    assert new["failed_loads:off"] == 1 and new["dropped_pages:off"] == 4 and new["loaded_pages"] == 0
    engine.assert_nothing_held()
    monkeypatch.undo()
    engine.worker.restore_kv_caches()
    engine.forget()
    engine.forget_failures()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    engine.assert_nothing_held()


def test_a_load_waits_until_memory_is_made_known_and_others_go_on(engine, stored, fresh_prompt, monkeypatch):
    prompt, plain = stored
    known, page_cache = threading.Event(), store.PageCache

    def slow(*arguments, **named):
        assert known.wait(120)
        return page_cache(*arguments, **named)

    with engine.counted() as new:
        opened_again_by(engine, monkeypatch, slow)
        monkeypatch.setattr(engine.worker._worker._loader, "_deadline", 120.0)
        engine.forget()
        engine.add("a", prompt, tokens=8)
        engine.add("b", fresh_prompt(40), tokens=4)
        done = {}
        while "b" not in done:
            done.update({one.request_id: one for one in engine.step() if one.finished})
        assert "a" not in done
        known.set()
        assert engine.run_out() == {"a": plain}
    assert new["loaded_pages"] == 4 and new["failed_pages"] == 0, "it was loaded, not computed"
    engine.assert_nothing_held()
