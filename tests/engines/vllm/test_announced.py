# SPDX-License-Identifier: Apache-2.0
"""Loads that a step reports before they are over: the engine believes it only if they are by then, and right."""

import threading

import pytest
from engine import spoil
from gates import UnfinishedLoads, loads_are_by, put_steps_in_flight
from orlop.vllm.worker import WorkerSide


@pytest.fixture
def stored(engine, fresh_prompt):
    """(prompt, its right answer), stored."""
    prompt = fresh_prompt()
    plain = engine.plain([prompt], 4)[0]
    engine.store([prompt])
    return prompt, plain


@pytest.fixture(params=[1, 2])
def in_flight(engine, request, monkeypatch):
    put_steps_in_flight(engine, request.param, monkeypatch)
    return request.param


@pytest.fixture
def judged(engine, monkeypatch):
    """Per announcement whether it was left in the step's report."""
    judged, judge = [], engine.offers._judge

    def noting(output, report, announced):
        assert output.finished_recving == {announced}
        judge(output, report, announced)
        judged.append(bool(output.finished_recving))

    monkeypatch.setattr(engine.offers, "_judge", noting)
    return judged


@pytest.fixture
def idle(engine, monkeypatch):
    """Of each step whether it computes nothing."""
    steps, orders = [], engine.offers._scheduler.orders

    def noting(output):
        made = orders(output)
        steps.append(made.idle)
        return made

    monkeypatch.setattr(engine.offers._scheduler, "orders", noting)
    return steps


def test_the_engine_computes_as_soon_as_a_load_is_over(engine, stored, in_flight, judged, idle, monkeypatch):
    prompt, plain = stored
    loads_are_by("engine", monkeypatch)
    engine.add("a", prompt)
    assert engine.run_out()["a"] == plain
    # It is waited for when the first report is looked at, behind the second step, whose report comes too late.
    assert judged == [True, False][:in_flight]
    assert idle[:in_flight + 1] == [True] * in_flight + [False]
    engine.assert_nothing_held()


@pytest.mark.parametrize("first_report", [False, True])
def test_a_load_that_is_not_over_is_not_believed(engine, stored, in_flight, judged, idle, first_report, monkeypatch):
    prompt, plain = stored
    if first_report:  # which tells the rank's descriptors too
        monkeypatch.setattr(engine.worker, "_told_with_step", False)
    loads = UnfinishedLoads(monkeypatch)
    engine.add("a", prompt)
    for _ in range(6):
        engine.step()
    assert judged == [False] * (7 - in_flight) and all(idle)
    assert engine.offers._client.stats().pinned_bytes > 0
    loads.let_go()
    assert engine.run_out()["a"] == plain and judged.count(True) == 1
    engine.assert_nothing_held()


@pytest.mark.parametrize("block", [0, 2])
def test_a_load_that_fails_is_not_believed(engine, stored, in_flight, judged, block, monkeypatch):
    prompt, plain = stored
    engine.forget_failures()  # of the cases before
    spoil(engine, prompt, block)
    loads_are_by("engine", monkeypatch)
    with engine.counted() as new:
        engine.add("a", prompt)
        assert engine.run_out()["a"] == plain
    assert judged and not any(judged)
    assert new["loaded_pages"] == block and new["failed_loads:mismatch"] == 1
    engine.forget_failures()
    engine.assert_nothing_held()


def test_an_aborted_load_keeps_its_blocks_until_it_is_over(engine, stored, in_flight, judged, monkeypatch):
    prompt, _ = stored
    loads = UnfinishedLoads(monkeypatch)
    engine.add("a", prompt)
    for _ in range(3):
        engine.step()
    free = engine._free_blocks()
    engine.abort("a")
    for _ in range(3):
        engine.step()
    assert engine._free_blocks() == free < engine.free_blocks and not any(judged)
    loads.let_go()
    assert engine.run_out() == {}
    engine.assert_nothing_held()


def test_a_load_is_judged_while_the_nodes_server_dies(engine, node, stored, in_flight, judged, monkeypatch):
    """Its pages are pinned and its copy has begun: it needs nobody any more."""
    prompt, plain = stored
    loads_are_by("engine", monkeypatch)
    judge = engine.offers._judge
    killed = []

    def dying(*arguments):
        if not killed:
            killed.append(node.server())
            node.kill_server()
        judge(*arguments)

    monkeypatch.setattr(engine.offers, "_judge", dying)
    with engine.counted() as new:
        engine.add("a", prompt)
        assert engine.run_out()["a"] == plain
    assert killed and judged[0] and new["loaded_pages"] == 4 and new["exceptions"] == 0
    engine.wait_ready()
    engine.assert_nothing_held()


def test_an_announced_load_whose_memory_goes_is_not_believed(engine, stored, in_flight, judged, monkeypatch):
    """The cache's memory goes behind a step that announced a load, before the engine comes to its report."""
    prompt, plain = stored
    engine.forget_failures()
    loads = UnfinishedLoads(monkeypatch)
    engine.add("a", prompt)
    for _ in range(3):
        engine.step()
    assert judged == [False] * (4 - in_flight)
    going = threading.Thread(target=engine.worker.unregister_kv_caches)
    going.start()
    loads.let_go()
    going.join(60)
    assert not going.is_alive()
    engine.worker.restore_kv_caches()
    assert engine.run_out()["a"] == plain and not any(judged)
    engine.forget_failures()
    engine.assert_nothing_held()


def test_a_request_that_arrives_meanwhile_does_not_wait(engine, stored, fresh_prompt, in_flight, judged, monkeypatch):
    prompt, plain = stored
    other = fresh_prompt(40)
    loads = UnfinishedLoads(monkeypatch)
    engine.add("a", prompt)
    for _ in range(3):
        engine.step()
    engine.add("b", other, tokens=6)
    done = {}
    while "b" not in done:
        done.update({one.request_id: one for one in engine.step() if one.finished})
    assert "a" not in done and not any(judged)
    loads.let_go()
    assert engine.run_out()["a"] == plain
    engine.assert_nothing_held()


def test_nothing_is_announced_any_more_when_nobody_can_tell(engine, stored, in_flight, monkeypatch):
    """An exception where the engine comes to the report."""
    prompt, plain = stored
    monkeypatch.setattr(engine.worker._worker, "announces", True)  # and afterwards again
    monkeypatch.setattr(WorkerSide, "success", None)
    loads_are_by("engine", monkeypatch)
    with engine.counted() as new:
        engine.add("a", prompt)
        assert engine.run_out()["a"] == plain
    assert 0 < new["exceptions:announced"] <= in_flight and new["loaded_pages"] == 4
    assert not engine.worker._worker.announces
    engine.assert_nothing_held()
