# SPDX-License-Identifier: Apache-2.0
"""Looking up: the longest length from which every cache group of every rank can go on, pinned.

Groups are complete or nothing: orlop.engine.recovery decides which lengths are legal. Groups that
need every page are pinned first, because they bound the length; the pages that the others need at
the length that was chosen are pinned after it. Thread: the engine's scheduler.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import orlop
from orlop.engine import reasons
from orlop.engine.failures import FailedKeys
from orlop.engine.reasons import Reason
from orlop.engine.recovery import Group, Prefix, alignment, longest_boundary
from orlop.vllm.keys import RequestKeys

MOST_KEYS = 65_535  # of one call
_Keys = tuple[orlop.PackedKeys, list[bytes]]


@dataclasses.dataclass
class Pin:
    """Pages [first, first + len(keys)) of a group; the handle may hold more after them."""

    group: int
    first: int
    keys: list[bytes]
    handle: orlop.GetHandle
    limited: bool = False  # more may be there; the node has no room for its pins


@dataclasses.dataclass
class Offer:
    local: int  #: tokens of the engine's own
    tokens: int  #: after them
    pins: list[Pin]
    limited: bool = False  #: cut short by the node's limits of pins

    @property
    def pages(self) -> int:
        return sum(len(pin.keys) for pin in self.pins)


class RequestPages:
    """A request's keys by cache group. A waiting request is looked up again at every step: its keys
    are packed once."""

    def __init__(self, keys: RequestKeys, groups: Sequence[Group], hash_tokens: int) -> None:
        self._keys = keys
        self._every = [group.page_tokens // hash_tokens for group in groups]
        self._packed: dict[int, tuple[int, int, _Keys]] = {}

    def complete(self, group: int) -> int:
        """The group's pages all of whose tokens are accepted ones."""
        return self._keys.complete(self._every[group])

    def of(self, group: int, first: int, end: int) -> list[bytes]:
        return self._keys.of(first, end, self._every[group])

    def packed(self, group: int, first: int, end: int) -> _Keys:
        known = self._packed.get(group)
        if known is None or known[:2] != (first, end):
            keys = self.of(group, first, end)
            known = self._packed[group] = (first, end, (_pack(keys), keys))
        return known[2]


class Finder:
    """groups: of the model, in the engine's order."""

    def __init__(self, client: orlop.Client, groups: Sequence[Group]) -> None:
        self._client = client
        self._groups = list(groups)
        self._failed = [FailedKeys(time.monotonic) for _ in groups]
        self._whole = are_whole(groups)
        self.alignment = alignment(groups)  #: tokens; of every offer and of what the engine has

    def remember_failed(self, group: int, key: bytes) -> None:
        self._failed[group].add(key)

    def find(self, pages: RequestPages, namespaces: Sequence[Sequence[orlop.Namespace]], local: int,
             longest: int) -> tuple[Offer | None, Reason]:
        """What can be loaded after `local` tokens, up to `longest` tokens in all, pinned.

        namespaces: per group the ranks'. None: nothing, and why; nothing is pinned then.
        """
        pins: list[Pin] = []
        try:
            reason = self._pin_prefixes(pages, namespaces, local, longest, pins)
            for pin in pins:
                longest = self._shortened(longest, pin)
            boundary = 0
            if reason is Reason.HIT and not self._whole:
                boundary = longest  # every length of pages that are pinned is legal
            elif reason is Reason.HIT:
                boundary = longest_boundary(
                    self._groups, self._hits(pages, namespaces, local, longest), longest)
            if boundary <= local:
                self.cancel(pins)
                return None, Reason.NOT_FOUND if reason is Reason.HIT else reason
            if not self._whole:
                return self._offer(local, boundary, pins), Reason.HIT
            for pin in pins:
                pin.keys = pin.keys[:boundary // self._groups[pin.group].page_tokens - pin.first]
            reason = self._pin_rest(pages, namespaces, local, boundary, pins)
        except BaseException:
            self.cancel(pins)
            raise
        if reason is not Reason.HIT:
            self.cancel(pins)
            return None, reason
        return self._offer(local, boundary, pins), Reason.HIT

    @staticmethod
    def _offer(local: int, boundary: int, pins: list[Pin]) -> Offer:
        return Offer(local, boundary - local, pins, any(pin.limited for pin in pins))

    def cancel(self, pins: Sequence[Pin]) -> None:
        for pin in pins:
            self._client.cancel_get(pin.handle)

    def _pin_prefixes(self, pages: RequestPages, namespaces: Sequence[Sequence[orlop.Namespace]],
                      local: int, longest: int, pins: list[Pin]) -> Reason:
        for i, group in enumerate(self._groups):
            if not isinstance(group, Prefix):
                continue
            first = local // group.page_tokens
            packed, keys = pages.packed(i, first, longest // group.page_tokens)
            usable = self._failed[i].usable(keys)
            if usable == 0:
                return Reason.FAILED_RECENTLY
            if usable < len(keys):
                packed, keys = _pack(keys[:usable]), keys[:usable]
            pin = Pin(i, first, keys, self._pin(namespaces[i], packed))
            pins.append(pin)
            there = pin.handle.result.transferable_len
            if there < len(keys):
                pin.keys = keys[:there]
                pin.limited = reasons.of_miss(pin.handle.result.reason) is Reason.PIN_LIMIT
            longest = self._shortened(longest, pin)
            if longest <= local:
                return reasons.of_miss(pin.handle.result.reason)
        return Reason.HIT

    def _hits(self, pages: RequestPages, namespaces: Sequence[Sequence[orlop.Namespace]], local: int,
              longest: int) -> list[list[bytes]]:
        """Of each rank, per group. What the engine has itself counts as there: it would not have it
        if a group lacked what it needs to go on."""
        groups: list[list[bytes]] = []
        for i, group in enumerate(self._groups):
            first, end = local // group.page_tokens, longest // group.page_tokens
            if isinstance(group, Prefix):
                groups.append([b"\1" * end])  # they are pinned
                continue
            packed, keys = pages.packed(i, first, end)
            groups.append([b"\1" * first + self._failed[i].without(
                keys, self._client.exists(namespace, packed).mask) for namespace in namespaces[i]])
        # Ranks that hold the same share a namespace, which may be in one group only.
        return [[ranks[min(rank, len(ranks) - 1)] for ranks in groups]
                for rank in range(max(map(len, groups)))]

    def _pin_rest(self, pages: RequestPages, namespaces: Sequence[Sequence[orlop.Namespace]],
                  local: int, boundary: int, pins: list[Pin]) -> Reason:
        for i, group in enumerate(self._groups):
            needed = group.pages(boundary)
            first = max(needed.start, local // group.page_tokens)
            if isinstance(group, Prefix) or first >= needed.stop:
                continue
            keys = pages.of(i, first, needed.stop)
            pin = Pin(i, first, keys, self._pin(namespaces[i], _pack(keys)))
            pins.append(pin)
            if pin.handle.result.transferable_len < len(keys):  # gone since the look
                return reasons.of_miss(pin.handle.result.reason)
        return Reason.HIT

    def _pin(self, namespaces: Sequence[orlop.Namespace], keys: orlop.PackedKeys) -> Any:
        if len(namespaces) == 1:
            return self._client.get_start(namespaces[0], keys)
        return self._client.get_start_cohort(namespaces, keys)

    def _shortened(self, longest: int, pin: Pin) -> int:
        end = (pin.first + len(pin.keys)) * self._groups[pin.group].page_tokens
        return min(longest, end // self.alignment * self.alignment)


def are_whole(groups: Sequence[Group]) -> bool:
    """Whether loads of these groups are all or nothing: what precedes a bad page is then no legal
    length, and the engine takes failed requests instead of failed blocks."""
    return len(groups) != 1 or not isinstance(groups[0], Prefix)


def _pack(keys: Sequence[bytes]) -> orlop.PackedKeys:
    return orlop.PackedKeys(b"".join(keys), len(keys[0]))
