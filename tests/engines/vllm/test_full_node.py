# SPDX-License-Identifier: Apache-2.0
"""A node whose memory is all taken by others: nothing can be stored, and the engine does not notice."""

import contextlib

import orlop
import pytest


@pytest.fixture
def fill(socket):
    """Call it with a descriptor: everything that is stored is evicted for puts that do not end. They do with the
    test."""
    with contextlib.ExitStack() as open_things:
        yield lambda descriptor: _fill(socket, descriptor, open_things)


def _fill(socket, descriptor, open_things):
    """One client may prepare a part of the node only, so there are several."""
    for number in range(16):
        client = open_things.enter_context(orlop.Client(socket=socket, name=f"filler {number}"))
        assert client.wait_ready(60)
        space = client.open_namespace({**descriptor, "revision": f"filler {number}"})
        if _prepare_all_it_may(client, space, open_things) is orlop.Outcome.NO_SPACE:
            return
    raise AssertionError("16 clients did not fill the node")


def _prepare_all_it_may(client, space, open_things):
    """Why no more."""
    for number in range(1 << 16):
        plan = open_things.enter_context(client.put_start(space, [b"%016d" % number]))
        (outcome,) = plan.outcomes
        if outcome is not orlop.Outcome.PREPARED:
            assert outcome in (orlop.Outcome.NO_SPACE, orlop.Outcome.OVER_QUOTA)
            return outcome
    raise AssertionError("no limit of prepared pages")


def test_a_node_with_no_room_costs_hits_and_nothing_else(engine, fresh_prompt, fill):
    before, after = fresh_prompt(), fresh_prompt()
    plain_before, plain_after = engine.plain([before, after])
    engine.store([before])
    fill(engine.worker._worker.store.descriptors[0])
    with engine.counted() as new:
        (output,) = engine.ask([before])  # evicted by now
        assert (output.tokens, output.cached) == (plain_before, 0)
        (output,) = engine.ask([after])
        assert (output.tokens, output.cached) == (plain_after, 0)
        engine.settle()
    assert new["lookups:not_found"] == 2 and new["saved_pages"] == 0
    assert new["dropped_pages:not_stored"] == 8 and new["exceptions"] == 0
    engine.assert_nothing_held()


def test_room_is_used_as_soon_as_it_is_there(engine, fresh_prompt):
    prompt = fresh_prompt()
    (plain,) = engine.plain([prompt])
    engine.store([prompt])
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    engine.assert_nothing_held()
