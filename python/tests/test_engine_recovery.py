# SPDX-License-Identifier: Apache-2.0
"""The recovery contract, against a second way of finding the same lengths."""

import random

import pytest
from orlop.engine.recovery import (
    Checkpoint,
    Prefix,
    Window,
    alignment,
    common_boundaries,
    legal_boundaries,
    longest_boundary,
)


def test_prefix_every_length_before_the_first_miss():
    hits = [True, True, False, True]
    assert legal_boundaries([Prefix(32)], [hits], 1000) == [0, 32, 64]
    assert legal_boundaries([Prefix(32)], [hits], 63) == [0, 32]
    assert legal_boundaries([Prefix(32)], [[]], 1000) == [0]


@pytest.mark.parametrize(("tokens", "needs"), [
    (0, []), (1, [3]), (31, [3]), (32, [3]), (33, [2, 3]), (63, [2, 3]), (64, [2, 3]), (65, [1, 2, 3]),
    (1000, [0, 1, 2, 3]),
])
def test_window_needs_the_pages_of_its_last_tokens(tokens, needs):
    group = Window(32, tokens)
    assert list(group.pages(128)) == needs
    for missing in range(4):
        hits = [page != missing for page in range(4)]
        assert (128 in legal_boundaries([group], [hits], 128)) == (missing not in needs)


def test_checkpoint_needs_the_page_that_ends_there():
    hits = [False, True, False, True]
    assert legal_boundaries([Checkpoint(32)], [hits], 128) == [0, 64, 128]


def test_groups_are_complete_or_nothing():
    groups = [Prefix(32), Window(32, 63), Checkpoint(64)]
    hits = [[True] * 6, [False, False, True, True, True, True], [False, True, True]]
    assert legal_boundaries(groups, hits, 1000) == [0, 128, 192]
    hits[2][1] = False
    assert legal_boundaries(groups, hits, 1000) == [0, 192]
    hits[0][5] = False
    assert legal_boundaries(groups, hits, 1000) == [0]


def test_ranks_intersect_sets_because_a_minimum_of_maxima_is_wrong():
    a = legal_boundaries([Checkpoint(32)], [[True, False, True]], 96)
    b = legal_boundaries([Checkpoint(32)], [[True, True, False]], 96)
    assert (a, b) == ([0, 32, 96], [0, 32, 64])
    assert min(max(a), max(b)) == 64 and common_boundaries([a, b]) == [0, 32]
    assert common_boundaries([]) == []


def test_alignment_ends_a_page_of_every_group():
    assert alignment([Prefix(32), Window(48, 1)]) == 96
    for groups in ([], [Prefix(0)]):
        with pytest.raises(ValueError):
            alignment(groups)
    with pytest.raises(ValueError):
        legal_boundaries([Prefix(1)], [], 5)


def needed_tokens(group, boundary):
    if isinstance(group, Prefix):
        return range(boundary)
    if isinstance(group, Window):
        return range(max(0, boundary - group.tokens), boundary)
    return range(max(0, boundary - 1), boundary)


def test_random_groups_agree_with_counting_token_by_token():
    chance = random.Random(7)
    legal_ones = 0
    for _ in range(2000):
        groups, hits = [], []
        for _ in range(chance.randint(1, 3)):
            page = chance.choice([1, 2, 3, 4])
            kind = chance.choice([Prefix, Window, Checkpoint])
            groups.append(Window(page, chance.randint(0, 9)) if kind is Window else kind(page))
            hits.append([chance.random() < 0.8 for _ in range(chance.randint(0, 12))])
        limit = chance.randint(0, 24)
        expected = [0]
        for boundary in range(1, limit + 1):
            if all(boundary % group.page_tokens == 0 and boundary // group.page_tokens <= len(hit) and
                   all(hit[token // group.page_tokens] for token in needed_tokens(group, boundary))
                   for group, hit in zip(groups, hits, strict=True)):
                expected.append(boundary)
        assert legal_boundaries(groups, hits, limit) == expected
        legal_ones += len(expected) - 1
    assert legal_ones > 1000


def test_longest_boundary_is_the_last_of_the_common_ones():
    chance = random.Random(11)
    found = 0
    for _ in range(3000):
        groups = []
        for _ in range(chance.randint(1, 3)):
            page, kind = chance.choice([1, 2, 3, 4]), chance.choice([Prefix, Window, Checkpoint])
            groups.append(Window(page, chance.randint(0, 9)) if kind is Window else kind(page))
        ranks = [[[chance.random() < 0.9 for _ in range(chance.randint(6, 20))] for _ in groups]
                 for _ in range(chance.randint(1, 3))]
        limit = chance.randint(0, 40)
        common = common_boundaries(legal_boundaries(groups, hits, limit) for hits in ranks)
        assert longest_boundary(groups, ranks, limit) == common[-1]
        found += common[-1] > 0
    assert found > 1000


def test_longest_boundary_refuses_ranks_without_all_groups():
    for ranks in ([], [[[True]]], [[[True], [True]], [[True]]]):
        with pytest.raises(ValueError, match="2 groups on"):
            longest_boundary([Prefix(1), Prefix(1)], ranks, 5)
    assert longest_boundary([Prefix(2)], [[b"\1\1\0\1"]], 100) == 4
