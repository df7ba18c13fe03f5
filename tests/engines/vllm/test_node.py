# SPDX-License-Identifier: Apache-2.0
"""A node that stops answering while pages are under way."""

import time

import pytest
from gates import Gate

PAUSE = 5.0  # seconds: longer than every deadline of the adapter


def go_on_until(engine, done, deadline):
    while time.monotonic() < deadline:
        for one in engine.step():
            if one.finished:
                done[one.request_id] = list(one.outputs[0].token_ids)
        if not engine.llm.llm_engine.has_unfinished_requests():
            time.sleep(0.05)  # the pause itself, not a wait for something


@pytest.mark.parametrize("method", ["restore", "backup"], ids=["load", "save"])
def test_a_node_paused_for_5_s_in_the_middle_of_a_copy(engine, node, fresh_prompt, monkeypatch, method):
    stored, cold = fresh_prompt(), fresh_prompt()
    plain = dict(zip("hc", engine.plain([stored, cold], 4), strict=True))
    engine.store([stored])
    gate = Gate(monkeypatch, method)
    done = {}
    engine.add("h", stored)
    engine.add("c", cold)
    with engine.counted() as new:
        while not gate.reached.is_set():
            done.update({one.request_id: list(one.outputs[0].token_ids)
                         for one in engine.step() if one.finished})
        node.pause()
        try:
            deadline = time.monotonic() + PAUSE
            gate.open()
            go_on_until(engine, done, deadline)
        finally:
            node.go_on()
        done.update(engine.run_out())
    assert done == plain
    # The pages of the hit were pinned and are read without the node.
    assert new["loaded_pages"] == 4 and new["exceptions"] == 0
    engine.wait_ready()
    engine.assert_nothing_held()
    engine.forget()
    engine.worker._worker._saver._breaker.succeeded()
    engine.store([cold])
    (output,) = engine.ask([cold], tokens=4)
    assert (output.tokens, output.cached) == (plain["c"], 128)
    engine.assert_nothing_held()
