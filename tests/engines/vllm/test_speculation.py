# SPDX-License-Identifier: Apache-2.0
"""n-gram speculation on the real engine: only accepted tokens are stored. And what is not shared: pages
of another data type; what is: those of other settings that do not make the bytes."""

import os
from pathlib import Path

import pytest
from answers import BLOCK
from conftest import prompt_of
from remote import RemoteEngine

_DRAFTS = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3,
           "prompt_lookup_min": 1}
_UNCOMPILED = str(Path(__file__).parent / "uncompiled")
_PROMPT, _TOKENS = prompt_of(3, 100), 90
_REPEATS = [9] * 100  # the model repeats itself, so that drafts are right


@pytest.fixture(scope="module")
def drafting(model, place):
    path = f"{_UNCOMPILED}:{os.environ.get('PYTHONPATH', '')}"
    with RemoteEngine("engine.Engine", model,
                      {"socket": place, "save_deadline": "2", "load_mode": "sync"},
                      speculative_config=_DRAFTS, environment={"PYTHONPATH": path}) as engine:
        engine.wait_ready()
        yield engine


@pytest.fixture
def speculating(drafting):
    drafting.settle()
    drafting.forget()
    return drafting


def test_only_accepted_tokens_are_stored(speculating):
    before = speculating.drafts()
    for prompt in (_PROMPT, _REPEATS):
        (plain,) = speculating.plain([prompt], _TOKENS)
        with speculating.counted() as new:
            (output,) = speculating.store([prompt], tokens=_TOKENS)
        computed = (len(prompt) + _TOKENS - 1) // BLOCK
        assert output.tokens == plain and new["saved_pages"] == computed
        turn = prompt + plain + prompt_of(4, 20)
        (right,) = speculating.plain([turn])
        (output,) = speculating.ask([turn])
        assert (output.tokens, output.cached) == (right, computed * BLOCK)
    drafted, accepted = (after - one for one, after in zip(before, speculating.drafts(), strict=True))
    assert 0 < accepted < drafted  # steps that keep some of what they computed, and some that keep none
    speculating.assert_nothing_held()


def test_what_was_computed_on_a_failed_load_is_not_stored(speculating, fresh_prompt):
    """With speculation vLLM asks what failed before it lets the step be stored."""
    prompt = fresh_prompt(200)
    (plain,) = speculating.plain([prompt])
    speculating.store([prompt[:130]])
    speculating.spoil(prompt, 1)
    with speculating.counted() as new:
        (output,) = speculating.store([prompt], tokens=8)
    assert output.tokens == plain and new["failed_loads:mismatch"] == 1
    assert new["dropped_pages:tainted"] > 0
    speculating.forget_failures()
    (output,) = speculating.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 192)
    speculating.assert_nothing_held()


def test_other_data_types_share_nothing_and_no_prefix_cache_is_needed(speculating, model, place):
    """Last of all: the engine of the other tests has stored the prompt in float32."""
    (output,) = speculating.ask([_PROMPT])
    assert output.cached == 96
    with RemoteEngine("engine.Engine", model, {"socket": place, "save_deadline": "2"},
                      dtype="bfloat16", enable_prefix_caching=False) as other:
        other.wait_ready()
        (cold,) = other.ask([_PROMPT])
        other.settle()
        assert cold.cached == 0
        with other.counted() as new:
            first, second = other.ask([_PROMPT]) + other.ask([_PROMPT])
        # Equality with the cold answer cannot be asked of bfloat16.
        assert first == second and first.cached == 96 and new["loaded_pages"] == 6
        other.assert_nothing_held()
