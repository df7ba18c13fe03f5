# SPDX-License-Identifier: Apache-2.0
"""Two engines, one after the other, each in vLLM's default three processes, on one node."""

from conftest import prompt_of
from releases import OFFLINE_COUNTS_ARE_WHOLE
from remote import answer_of


def test_second_engine_hits_what_the_first_one_stored(model, place):
    first = answer_of(model, place, prompt_of(7))
    assert first["cached"] == 0 and first["counts"].get("lookups:hit", 0) == 0
    second = answer_of(model, place, prompt_of(7))
    assert second["tokens"] == first["tokens"] and second["cached"] == 128
    if OFFLINE_COUNTS_ARE_WHOLE:
        assert second["counts"]["lookups:hit"] == 1 and second["counts"]["loaded_pages:"] == 4
    for one in (first, second):
        assert not [name for name in one["counts"] if name.startswith(("exceptions", "refused"))]
