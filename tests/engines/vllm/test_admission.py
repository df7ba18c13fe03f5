# SPDX-License-Identifier: Apache-2.0
"""What the engine admits: parts of a prefix, and requests that need the blocks of one another."""

import pytest
from engine import BLOCK
from gates import Gate
from pools import pool_of

LONGEST = 512  # tokens of a request of this engine: 16 blocks


@pytest.mark.parametrize("cut", [n + d for n in range(BLOCK, 161, BLOCK) for d in (-1, 0, 1)])
def test_a_stored_part_is_a_hit_as_far_as_its_complete_blocks_go(engine, fresh_prompt, cut):
    prompt = fresh_prompt(167)
    plain = engine.plain([prompt])[0]
    engine.store([prompt[:cut]])
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert output.tokens == plain and output.cached == cut // BLOCK * BLOCK
    assert new["loaded_pages"] == cut // BLOCK and new["saved_pages"] == 5 - cut // BLOCK
    engine.assert_nothing_held()


def test_a_cold_request_of_the_whole_pool_and_a_finished_restore_of_one_block_both_finish(
        engine, fresh_prompt, monkeypatch):
    """The cold one loses its blocks and comes to the head of the queue, where it needs all of the pool;
    behind it waits a request whose load is over and holds a block."""
    cold, restored = fresh_prompt(440), fresh_prompt(BLOCK + 8)
    plain = engine.plain([cold], LONGEST - 440)[0], engine.plain([restored], 4)[0]
    engine.store([restored])
    before = engine.preemptions()
    gate = Gate(monkeypatch, "restore")
    with pool_of(engine, LONGEST // BLOCK):
        engine.add("cold", cold, tokens=LONGEST - 440)
        while not engine.scheduler.running or engine.scheduler.running[0].num_output_tokens < 1:
            engine.step()
        engine.add("restored", restored, tokens=4)
        while engine.scheduler.running:  # until "cold" needs block 16, which "restored" holds
            engine.step()
        assert gate.reached.is_set() and engine._free_blocks() == LONGEST // BLOCK - 1
        for _ in range(3):
            engine.step()
        gate.open()
        done = engine.run_out()
    assert (done["cold"], done["restored"]) == plain
    assert engine.preemptions() > before
    engine.assert_nothing_held()


def test_a_request_that_does_not_fit_is_looked_up_without_holding_anything(engine, fresh_prompt):
    """It is looked up at every step; between two steps it pins nothing, and it counts once."""
    stored, big = fresh_prompt(), fresh_prompt(400)
    plain = engine.plain([stored], 4)[0]
    engine.store([stored])
    with pool_of(engine, 16):
        engine.add("big", big, tokens=90)
        for _ in range(10):
            engine.step()
        engine.add("waits", stored)
        for _ in range(20):
            engine.step()
            stats = engine.offers._client.stats()
            assert (stats.open_handles, stats.pinned_bytes) == (0, 0)
        done = engine.run_out()
    assert done["waits"] == plain and len(done["big"]) == 90
    engine.assert_nothing_held()
