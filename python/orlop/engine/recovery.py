# SPDX-License-Identifier: Apache-2.0
"""The recovery contract: from which lengths of a prefix an engine can go on.

A model has groups of layers that need different pages of a prefix: full attention all of them, a
sliding window the trailing ones, a recurrent layer the last checkpoint. A length is legal when every
group has what it needs, complete; otherwise it is a miss. Ranks intersect their *sets* of legal
lengths: the minimum of their maxima may be a length at which one rank lacks its checkpoint.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True)
class Prefix:
    """Full attention: needs every page before the boundary."""

    page_tokens: int

    def pages(self, boundary: int) -> range:
        return range(boundary // self.page_tokens)


@dataclasses.dataclass(frozen=True)
class Window:
    """Sliding window: needs the pages that hold the last `tokens` tokens before the boundary.

    tokens: those that the next token looks at besides itself, the window less one.

    pages() of any length starts with the first page that is still looked at.
    """

    page_tokens: int
    tokens: int

    def pages(self, boundary: int) -> range:
        first = max(0, boundary - self.tokens) // self.page_tokens
        return range(first, boundary // self.page_tokens)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Recurrent state: needs the page that ends at the boundary, which holds the state there."""

    page_tokens: int

    def pages(self, boundary: int) -> range:
        last = boundary // self.page_tokens
        return range(max(0, last - 1), last)


Group = Prefix | Window | Checkpoint


def alignment(groups: Sequence[Group]) -> int:
    """Tokens: every boundary is a multiple, so that it ends a page of every group."""
    if not groups:
        raise ValueError("groups: there are none; a model has at least one")
    for group in groups:
        if group.page_tokens <= 0:
            raise ValueError(f"page_tokens is {group.page_tokens}; it must be positive")
    return math.lcm(*(group.page_tokens for group in groups))


def legal_boundaries(groups: Sequence[Group], hits: Sequence[Sequence[bool]],
                     limit: int) -> list[int]:
    """All lengths in tokens, ascending, 0 among them, from which this rank can go on.

    hits: per group, whether page i of the prefix is there; pages after its end are not.
    limit: longest length wanted, for a prompt its length less one.
    """
    if len(groups) != len(hits):
        raise ValueError(f"{len(groups)} groups, but hits of {len(hits)}")
    missing = [_running_misses(one) for one in hits]
    step = alignment(groups)
    longest = min(limit, max(len(h) * g.page_tokens for g, h in zip(groups, hits, strict=True)))
    legal = [0]
    for boundary in range(step, longest + 1, step):
        if all(_complete(group.pages(boundary), before)
               for group, before in zip(groups, missing, strict=True)):
            legal.append(boundary)
    return legal


def longest_boundary(groups: Sequence[Group], ranks: Sequence[Sequence[Sequence[bool] | bytes]],
                     limit: int) -> int:
    """The longest length that is legal on every rank: the last of common_boundaries(), found from
    the top, so that a whole hit is one look at each group.

    ranks: per rank its hits as in legal_boundaries(); bytes of 0 and 1 are taken as they are.
    """
    step = alignment(groups)
    if not ranks or any(len(hits) != len(groups) for hits in ranks):
        raise ValueError(f"{len(groups)} groups on {len(ranks)} ranks; every rank has hits of each")
    present = [(group, one if isinstance(one, bytes) else bytes(one))
               for hits in ranks for group, one in zip(groups, hits, strict=True)]
    boundary = min(limit, *(len(one) * group.page_tokens for group, one in present)) // step * step
    while boundary > 0:
        # Every length above a page's begin, up to this one, needs a page that this one needs.
        lower = boundary
        for group, one in present:
            pages = group.pages(boundary)
            missing = one.rfind(0, pages.start, pages.stop)
            if missing >= 0:
                lower = min(lower, missing * group.page_tokens)
        if lower == boundary:
            return boundary
        boundary = lower // step * step
    return 0


def common_boundaries(ranks: Iterable[Iterable[int]]) -> list[int]:
    """What is legal on every rank, ascending."""
    sets = [set(one) for one in ranks]
    return sorted(set.intersection(*sets)) if sets else []


def _running_misses(hits: Sequence[bool]) -> list[int]:
    # before[i]: missing pages among the first i, so that a range is checked in one subtraction.
    before = [0]
    for hit in hits:
        before.append(before[-1] + (not hit))
    return before


def _complete(pages: range, before: list[int]) -> bool:
    return pages.stop < len(before) and before[pages.stop] == before[pages.start]
