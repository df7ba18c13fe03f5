# SPDX-License-Identifier: Apache-2.0
"""Two ranks of tensor parallelism, each in a process of vLLM's own: a block is there when all its
parts are."""

import pytest
from answers import BLOCK
from releases import OFFLINE_COUNTS_ARE_WHOLE
from remote import RemoteEngine, answer_of

_CORES = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}
_RANKS = [0, 1]


@pytest.fixture(scope="module")
def running(model, place):
    with RemoteEngine("ranks.RanksEngine", model, {"socket": place, "save_deadline": "2"},
                      tensor_parallel_size=2, environment=_CORES) as engine:
        engine.wait_ready()
        yield engine


@pytest.fixture
def ranks(running):
    """With an empty cache of its own."""
    running.settle()
    running.forget()
    return running


@pytest.fixture
def stored(ranks, fresh_prompt):
    """(prompt, its right answer), stored by both ranks."""
    prompt = fresh_prompt()
    (plain,) = ranks.plain([prompt])
    ranks.store([prompt])
    return prompt, plain


def test_each_rank_stores_its_own_part(ranks, fresh_prompt):
    prompt = fresh_prompt()
    (plain,) = ranks.plain([prompt])
    with ranks.counted() as new:
        (output,) = ranks.store([prompt], tokens=8)
    assert (output.tokens, output.cached) == (plain, 0)
    assert new["saved_pages"] == 8 and new["lookups:not_found"] == 1
    parts = ranks.stored(prompt)
    assert [len(one) for one in parts] == [4, 4] and len({*parts[0], *parts[1]}) == 8
    ranks.assert_nothing_held()


def test_swapped_parts_change_the_answer(ranks, stored):
    """The control: keys that ignored the rank would restore exactly this."""
    prompt, plain = stored
    first, second = ranks.stored(prompt)
    for block in range(4):
        ranks.replace(prompt, block, 0, second[block])
        ranks.replace(prompt, block, 1, first[block])
    (output,) = ranks.ask([prompt])
    assert output.cached == 128 and output.tokens != plain


@pytest.mark.parametrize("rank", _RANKS)
@pytest.mark.parametrize("block", [0, 2])
def test_a_block_that_one_rank_lacks_is_not_offered(ranks, stored, rank, block):
    prompt, plain = stored
    ranks.remove(prompt, block, rank)
    with ranks.counted() as new:
        (output,) = ranks.store([prompt], tokens=8)
    assert (output.tokens, output.cached) == (plain, block * BLOCK)
    assert new["saved_pages"] == 1 and new["failed_loads"] == 0
    (output,) = ranks.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    ranks.assert_nothing_held()


@pytest.mark.parametrize("rank", _RANKS)
def test_a_part_that_is_damaged_costs_its_block_and_those_after_it(ranks, stored, rank):
    prompt, plain = stored
    ranks.spoil(prompt, 2, rank)
    with ranks.counted() as new:
        (output,) = ranks.ask([prompt])
    assert output.tokens == plain and output.finish == "length"
    assert new["loaded_pages"] == 4 + 2 and new["failed_pages"] == 2
    assert new["failed_loads:mismatch"] == 1
    ranks.forget()
    (output,) = ranks.ask([prompt])  # the page that failed is not offered at once
    assert (output.tokens, output.cached) == (plain, 64)
    ranks.assert_nothing_held()


@pytest.mark.parametrize("slow", _RANKS)
@pytest.mark.parametrize("damaged", [None, 0, 1])
def test_pins_are_held_until_the_last_rank_is_done(ranks, stored, slow, damaged):
    prompt, plain = stored
    if damaged is not None:
        ranks.spoil(prompt, 1, damaged)
    ranks.hold_loads(slow)
    try:
        ranks.add("a", prompt, tokens=8)
        ranks.step_until_ended(1 - slow, "a")
        assert ranks.pinned() > 0
    finally:
        ranks.let_go(slow)
    assert ranks.run_out() == {"a": plain}
    ranks.assert_nothing_held()


@pytest.mark.parametrize("slow", _RANKS)
def test_abort_while_one_rank_still_loads(ranks, stored, slow):
    prompt, _ = stored
    ranks.hold_loads(slow)
    try:
        ranks.add("a", prompt)
        ranks.step_until_ended(1 - slow, "a")
        ranks.abort("a")
        ranks.step()
        assert ranks.pinned() > 0
    finally:
        ranks.let_go(slow)
    assert ranks.run_out() == {}
    ranks.assert_nothing_held()


@pytest.mark.parametrize("rank", _RANKS)
@pytest.mark.parametrize("method", ["before_step", "load", "save", "take_ends"])
def test_an_exception_on_one_rank_is_a_miss_of_all(ranks, stored, rank, method):
    prompt, plain = stored
    ranks.break_once(rank, method)
    with ranks.counted() as new:
        (output,) = ranks.ask([prompt], tokens=16)  # the 10th completes a block, to be saved
    assert output.tokens[:8] == plain and output.finish == "length"
    assert new["exceptions"] == 1
    ranks.assert_nothing_held()


def test_many_at_once_in_a_pool_that_is_too_small(ranks, fresh_prompt):
    prompts = [fresh_prompt() for _ in range(4)]
    plain = ranks.plain(prompts, 50)
    outputs = ranks.store(prompts, tokens=50)
    assert [one.tokens for one in outputs] == plain
    again = ranks.ask(prompts, tokens=50)
    assert [one.tokens for one in again] == plain and [one.cached for one in again] == [128] * 4
    ranks.assert_nothing_held()


def test_threads_and_files_stay_as_many(ranks, fresh_prompt):
    prompt = fresh_prompt()
    ranks.store([prompt])
    ranks.ask([prompt])
    before = ranks.processes()
    for _ in range(5):
        prompt = fresh_prompt()
        ranks.store([prompt])
        ranks.spoil(prompt, 1, 1)
        ranks.ask([prompt])
        ranks.forget()
    ranks.settle()
    assert ranks.processes() == before


def test_another_engine_hits_on_both_ranks_what_this_one_stored(ranks, model, place, stored):
    """As users start it, while this one lives."""
    prompt, plain = stored
    other = answer_of(model, place, prompt, _CORES, tensor_parallel_size=2)
    assert (other["tokens"], other["cached"]) == (plain, 128)
    if OFFLINE_COUNTS_ARE_WHOLE:
        assert other["counts"]["loaded_pages:"] == 8 and other["counts"]["lookups:hit"] == 1
    assert not [name for name in other["counts"] if name.startswith(("exceptions", "refused"))]


def test_weight_update_leaves_the_pages_of_all_ranks(ranks, stored):
    """Last of all: it leaves the family of the weights' files."""
    prompt, plain = stored
    assert ranks.renew() and ranks.stored(prompt) == [[], []]
    (output,) = ranks.store([prompt], tokens=8)
    assert (output.tokens, output.cached) == (plain, 0)
    (output,) = ranks.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    ranks.assert_nothing_held()
