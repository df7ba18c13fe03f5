# SPDX-License-Identifier: Apache-2.0
"""Which pages the store has, told as changes: for engines whose routers want to know.

The node tells nobody of evictions and removals, so a thread asks for what was noted: often until a
new page is there, then a bounded number a second. A page that is gone is therefore told late, by a
full round at most, and not before one that was noted again has had the time of a save: it may be
stored again, and nobody would tell so. One that left and came back between two looks is not told.
"""

import dataclasses
import itertools
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import orlop

MOST_PAGES = 131_072  # known at a time; of the oldest it is told that they are gone
MOST_WAITING = 16_384  # noted and not yet there; further ones are never told
MOST_CHANGES = 65_536  # pages in changes that nobody has taken; further ones are never told as there
WAIT_SECONDS = 5.0  # for a noted page to be stored; as long as a save may take
_NEW_PAUSE = 0.01  # between two looks for new pages
_REST = 9  # times as long as a look took: pages that nobody stores cost a tenth of a processor at most
_ROUND_PAUSE = 0.5
_ROUND_PAGES = 2_048  # so 4,096 a second, some 10 ms of processor time


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    namespaces: tuple[orlop.Namespace, ...]  #: of all ranks: it is there when it is in each
    key: bytes
    about: Any  #: the caller's

    @property
    def name(self) -> tuple[int, bytes]:
        return id(self.namespaces[0]), self.key


_Placed = tuple[int, Page]  # with its place in its note()


@dataclasses.dataclass(frozen=True)
class Change:
    pages: list[Page]  #: of one note(), in its order without gaps, or all that are gone
    stored: bool


class Presence:
    """Thread-safe; a thread of its own looks, no call waits for the node."""

    def __init__(self, client: orlop.Client) -> None:
        self._client = client
        self.processor_seconds = 0.0  #: of looking
        self._change = threading.Condition()
        self._waiting: list[tuple[float, list[_Placed]]] = []  # (given up at, pages)
        # With the time before which it is not told as gone.
        self._known: OrderedDict[tuple[int, bytes], tuple[Page, float]] = OrderedDict()
        self._changes: list[Change] = []
        self._untaken = 0
        self._epoch = 0  # of clear(): what was looked up before it says nothing after it
        self._stopping = False
        self._thread = threading.Thread(target=self._watch, name="orlop-presence", daemon=True)
        self._thread.start()

    def note(self, pages: Sequence[Page]) -> None:
        """Neighbours, parents first, that are stored already or are about to be."""
        given_up_at, new = time.monotonic() + WAIT_SECONDS, []
        with self._change:
            for place, page in enumerate(pages):
                known = self._known.get(page.name)
                if known is None:
                    new.append((place, page))
                else:
                    self._known[page.name] = known[0], given_up_at
            room = MOST_WAITING - sum(len(one) for _, one in self._waiting)
            if new[:room]:
                self._waiting.append((given_up_at, new[:room]))
                self._change.notify_all()

    def clear(self) -> None:
        """Everything noted so far is of no interest any more; it is not told as gone."""
        with self._change:
            self._epoch += 1
            self._waiting.clear()
            self._known.clear()
            self._changes.clear()
            self._untaken = 0

    def take(self) -> list[Change]:
        """What changed since the last take, in order."""
        with self._change:
            changes, self._changes, self._untaken = self._changes, [], 0
            return changes

    def has_changes(self) -> bool:
        with self._change:
            return bool(self._changes)

    def is_waiting(self, seconds: float = math.inf) -> bool:
        """Whether pages noted in the last `seconds` are still to be found stored or given up."""
        noted_after = time.monotonic() - seconds
        with self._change:
            return any(given_up_at - WAIT_SECONDS > noted_after for given_up_at, _ in self._waiting)

    def close(self) -> None:
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self._thread.join()

    # ---- the thread -------------------------------------------------------------------------------

    def _watch(self) -> None:
        next_round, spent = time.monotonic() + _ROUND_PAUSE, 0.0
        while True:
            with self._change:
                waited = bool(self._waiting)
                pause = max(_NEW_PAUSE if waited else next_round - time.monotonic(), spent * _REST)
                self._change.wait_for(
                    lambda: self._stopping or (self._waiting and not waited), pause)
                if self._stopping:
                    return
                if self._waiting and not waited:
                    spent = 0.0
                    continue  # what was noted just now is not stored yet
            processor = time.thread_time()
            try:
                self._look_for_new()
                if time.monotonic() >= next_round:
                    self._look_for_gone()
                    next_round = time.monotonic() + _ROUND_PAUSE
            except orlop.Error:
                pass  # closed, or no node: nothing is known now
            spent = time.thread_time() - processor
            self.processor_seconds += spent

    def _look_for_new(self) -> None:
        with self._change:
            waiting, epoch = list(self._waiting), self._epoch
        for entry in waiting:
            given_up_at, pages = entry
            there = self._present([page for _, page in pages])
            expired = time.monotonic() >= given_up_at
            if there is None and not expired:
                continue
            there = there or [False] * len(pages)
            found = [one for one, is_there in zip(pages, there, strict=True) if is_there]
            left = [one for one, is_there in zip(pages, there, strict=True) if not is_there]
            with self._change:
                if self._epoch != epoch:
                    return
                for run in _runs([one for one in found if one[1].name not in self._known]):
                    self._learn(run)
                index = next(i for i, one in enumerate(self._waiting) if one is entry)
                if left and not expired:
                    self._waiting[index] = (given_up_at, left)
                else:
                    del self._waiting[index]

    def _learn(self, new: list[Page]) -> None:
        if self._untaken + len(new) > MOST_CHANGES:
            return
        for page in new:
            self._known[page.name] = page, 0.0
        self._add(Change(new, stored=True))
        oldest = [self._known.popitem(last=False)[1][0] for _ in range(len(self._known) - MOST_PAGES)]
        if oldest:
            self._add(Change(oldest, stored=False))

    def _look_for_gone(self) -> None:
        with self._change:
            epoch = self._epoch
            looked_at = [page for page, _ in itertools.islice(self._known.values(), _ROUND_PAGES)]
        begun = time.monotonic()
        by_namespaces: dict[int, list[Page]] = {}
        for page in looked_at:
            by_namespaces.setdefault(id(page.namespaces), []).append(page)
        gone: list[Page] = []
        for pages in by_namespaces.values():
            there = self._present(pages)
            if there is None:
                return
            gone += [page for page, is_there in zip(pages, there, strict=True) if not is_there]
        with self._change:
            if self._epoch != epoch:
                return
            for page in looked_at:
                self._known.move_to_end(page.name)
            gone = [page for page in gone if self._known[page.name][1] <= begun]
            for page in gone:
                del self._known[page.name]
            if gone:
                self._add(Change(gone, stored=False))

    def _add(self, change: Change) -> None:
        self._untaken += len(change.pages)
        self._changes.append(change)

    def _present(self, pages: list[Page]) -> list[bool] | None:
        """pages: of the same namespaces. None: not known, because the node was not there all the time
        (its pages come back with a server that is restarted, and do not with a new node)."""
        before = self._client.ready, self._client.incarnation
        keys = [page.key for page in pages]
        masks = [self._client.exists(one, keys).mask for one in pages[0].namespaces]
        if not before[0] or before != (self._client.ready, self._client.incarnation):
            return None
        return [all(mask[i] for mask in masks) for i in range(len(pages))]


def _runs(pages: list[_Placed]) -> list[list[Page]]:
    """Neighbours together: what lies between others is not there yet, or was told before."""
    runs: list[list[Page]] = []
    following = -1
    for place, page in pages:
        if place != following:
            runs.append([])
        runs[-1].append(page)
        following = place + 1
    return runs
