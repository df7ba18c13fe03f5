# SPDX-License-Identifier: Apache-2.0
"""A model of two cache groups, a sliding window of 64 tokens and full attention, end to end."""

import contextlib
from pathlib import Path

import pytest
from conftest import prompt_of
from releases import needs_failed_requests
from remote import RemoteEngine

pytestmark = needs_failed_requests
BLOCK = 32
WINDOW, FULL = 0, 1  # the engine's order of the groups
# Of one prompt, around block boundaries and the window's edge: one token less, it, and one more.
_LENGTHS = [n + d for n in (32, 64, 96, 128, 160) for d in (-1, 0, 1)]
_LONGEST = prompt_of(7, 161)


@pytest.fixture(scope="module")
def gemma(model):
    from tiny_model import make_gemma

    return make_gemma(Path(model).parent / "tiny-gemma-2")


@pytest.fixture(scope="module")
def right(gemma):
    """What vLLM answers without a connector, in a process of its own."""
    with RemoteEngine("hybrid.PlainEngine", gemma) as engine:
        return dict(zip(_LENGTHS, engine.answers([_LONGEST[:n] for n in _LENGTHS]), strict=True))


@contextlib.contextmanager
def hybrid_on(gemma, place):
    with RemoteEngine("hybrid.HybridEngine", gemma, {"socket": place, "save_deadline": "10"}) as engine:
        engine.wait_ready()
        yield engine


@pytest.fixture(scope="module")
def cold(gemma, place):
    """(answer, counts, saved blocks) of an engine that stored the longest prompt and ended."""
    with hybrid_on(gemma, place) as engine:
        with engine.counted() as new:
            (output,) = engine.store([_LONGEST], 8)
        return output, new, engine.saved_blocks()


@pytest.fixture(scope="module")
def running(gemma, place, cold):
    with hybrid_on(gemma, place) as engine:
        yield engine


@pytest.fixture
def engine(running):
    """With an empty cache of its own."""
    running.settle()
    running.forget()
    running.saved_blocks()
    return running


@pytest.fixture
def stored(engine, fresh_prompt):
    """(prompt of 161 tokens, its right answer), stored."""
    prompt = fresh_prompt(161)
    (plain,) = engine.plain([prompt])
    engine.store([prompt])
    return prompt, plain


def legal(there, length):
    """Tokens that a hit on a prompt of this length has, counted page by page."""
    boundary = 0
    for pages in range(1, (length - 1) // BLOCK + 1):
        first = max(0, pages * BLOCK - 63) // BLOCK
        if all(there[FULL][:pages]) and all(there[WINDOW][first:pages]):
            boundary = pages * BLOCK
    return boundary


def test_a_cold_engine_stores_every_block_of_both_groups(cold, right):
    output, new, blocks = cold
    assert output.tokens == right[161] and output.cached == 0
    assert new["lookups:not_found"] == 1 and new["exceptions"] == 0
    # 5 blocks of either group, though the window has left the first of them by then.
    assert new["saved_pages"] == 10 and new["dropped_pages"] == 0
    assert sorted(group for group, _ in blocks) == [WINDOW] * 5 + [FULL] * 5
    assert 0 not in [block for _, block in blocks]


@pytest.mark.parametrize("length", _LENGTHS)
def test_a_fresh_engine_hits_exactly_what_is_legal(engine, right, length):
    with engine.counted() as new:
        (output,) = engine.ask([_LONGEST[:length]])
    expected = (length - 1) // BLOCK * BLOCK
    assert (output.tokens, output.cached) == (right[length], expected)
    assert new["hit_tokens"] == expected and new["failed_loads"] == 0
    if expected:
        pages = expected // BLOCK
        spans, blocks, same_bytes = engine.last_load()
        assert dict(spans) == {FULL: pages, WINDOW: min(pages, 2)} and same_bytes and 0 not in blocks
        assert new["loaded_pages"] == pages + min(pages, 2)
    engine.assert_nothing_held()


def test_each_group_has_a_namespace_of_its_own(engine):
    components = engine.components()
    assert [one.split(".")[0] for one in components] == ["window64", "full"]
    for i, one in enumerate(engine.descriptors()):
        assert (one["page_tokens"], one["layers"], one["heads"]) == (32, 2, 2)
        assert f".{i}of2-" in one["component"]


@pytest.mark.parametrize(("missing", "expected"), [
    ([(WINDOW, 4)], 128), ([(WINDOW, 3)], 96), ([(WINDOW, 0)], 160),
    ([(WINDOW, 1), (WINDOW, 3)], 32), ([(FULL, 4)], 128), ([(FULL, 1)], 32), ([(FULL, 0)], 0),
    ([(FULL, 3), (WINDOW, 2)], 64), ([(WINDOW, block) for block in range(5)], 0)])
def test_a_missing_page_shortens_the_hit_to_the_next_legal_length(engine, stored, missing, expected):
    prompt, plain = stored
    for group, block in missing:
        engine.remove(prompt, group, block)
    assert legal(engine.stored(prompt), 161) == expected
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, expected)
    assert new["lookups:hit"] == (expected > 0) and new["failed_loads"] == 0
    engine.assert_nothing_held()


@pytest.mark.parametrize(("group", "block"), [(WINDOW, 4), (WINDOW, 3), (FULL, 0), (FULL, 4)])
def test_a_flipped_byte_fails_the_load_once_and_never_the_engine(engine, stored, group, block):
    prompt, plain = stored
    engine.spoil(prompt, group, block)
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert (output.tokens, output.finish) == (plain, "length")
    assert new["failed_loads:mismatch"] == 1 and new["failed_pages"] == 7
    assert new["lookups:hit"] == 1 and new["lookups:failed_before"] == 1
    assert new["lookups"] == 2
    engine.forget()
    there = engine.stored(prompt)
    there[group][block] = False  # it is not offered at once
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, legal(there, 161))
    engine.assert_nothing_held()


def test_policy_fail_ends_the_request_and_not_the_engine(engine, stored):
    prompt, plain = stored
    engine.spoil(prompt, WINDOW, 4)
    assert engine.finish_of(prompt, recompute=False) == ("error", [])
    engine.forget()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    engine.assert_nothing_held()


@pytest.mark.parametrize(("group", "blocks", "seen"), [
    (WINDOW, [4], True), (WINDOW, [3], True), (FULL, [0, 1, 3, 4], True), (WINDOW, [0, 1], False)])
def test_other_bytes_in_the_store_change_the_answer(engine, stored, group, blocks, seen):
    """The control: loaded pages are used, those of either group; what has left the window is not."""
    prompt, plain = stored
    for block in blocks:
        engine.replace(prompt, group, block, other=2)
    (output,) = engine.ask([prompt])
    assert output.cached == 160 and (output.tokens != plain) is seen


def test_a_prefix_in_the_engine_and_its_continuation_in_the_store(engine, stored):
    prompt, plain = stored
    engine.ask([prompt[:70]], 1, orlop="no_load,no_save")  # 2 blocks of its own
    with engine.counted() as new:
        (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 160)
    assert dict(engine.last_load()[0]) == {FULL: 3, WINDOW: 2} and new["hit_tokens"] == 96
    engine.assert_nothing_held()


def test_decoded_blocks_are_hits_of_the_next_turn(engine, fresh_prompt):
    prompt = fresh_prompt(100)
    (first,) = engine.store([prompt], 70)
    turn = prompt + first.tokens + fresh_prompt(20)
    (plain,) = engine.plain([turn])
    (output,) = engine.ask([turn])
    assert (output.tokens, output.cached) == (plain, 160)
    engine.assert_nothing_held()


def test_many_at_once_in_a_pool_that_is_too_small(engine, fresh_prompt):
    prompts = [fresh_prompt() for _ in range(4)]
    plain = engine.plain(prompts, 50)
    preempted = engine.preemptions()
    assert [one.tokens for one in engine.store(prompts, 50)] == plain
    again = engine.ask(prompts, 50)
    assert [one.tokens for one in again] == plain
    assert engine.preemptions() > preempted
    assert [one.cached for one in again] == [128] * 4
    engine.assert_nothing_held()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_namespaces_that_become_known_late_save_only_what_is_still_there(engine, fresh_prompt, steps):
    """64 tokens a step; blocks that have left the window hold other tokens by then."""
    prompt = fresh_prompt(200)
    (plain,) = engine.plain([prompt])
    assert engine.answer_with_a_late_family(prompt, steps) == plain
    engine.settle()
    there = engine.stored(prompt)
    assert there[FULL] == [True] * 6
    # What leaves the window with the step that saves may be needed by the next one before it is copied.
    left, leaves = (steps * 64 - 63) // BLOCK, (steps * 64 + 1) // BLOCK
    assert not any(there[WINDOW][:left]) and all(there[WINDOW][leaves:])
    engine.forget()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 192) and engine.last_load()[2]
    engine.assert_nothing_held()


def test_abort_while_loading_gives_back_blocks_and_pins_of_both_groups(engine, stored):
    prompt, plain = stored
    assert set(engine.abort_while_loading(prompt).values()) == {True}
    engine.assert_nothing_held()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 160)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_abort_after_some_steps(engine, stored, steps):
    engine.abort_after(stored[0], steps)
    engine.assert_nothing_held()


@pytest.mark.parametrize(("side", "method"), [
    ("offers._scheduler", "look_up"), ("offers._scheduler", "allocated"),
    ("offers._scheduler", "_order"), ("offers._scheduler", "orders"),
    ("offers._scheduler", "reported"), ("offers._scheduler._finder", "_hits"),
    ("offers._scheduler._finder", "_pin_rest"), ("worker._worker", "load"),
    ("worker._worker", "take_ends"), ("worker._worker._loader", "_new"),
    ("worker._worker.store", "namespace"), ("worker._worker.store", "cache")])
def test_an_exception_anywhere_is_a_miss(engine, stored, side, method):
    prompt, plain = stored
    with engine.counted() as new:
        assert engine.answer_while(prompt, side, method) == plain
    assert 1 <= new["exceptions"] <= 3
    engine.forget()
    engine.forget_failures()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 160)
    engine.assert_nothing_held()


def test_a_weight_update_forgets_both_groups(engine, stored):
    """Last of all: it leaves the family of the weights' files."""
    prompt, plain = stored
    before = engine.descriptors()
    assert not engine.gone(prompt, before)
    assert engine.renew() and engine.gone(prompt, before)
    (output,) = engine.store([prompt], 8)
    assert (output.tokens, output.cached) == (plain, 0)
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 160)
    engine.assert_nothing_held()
