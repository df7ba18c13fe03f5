# SPDX-License-Identifier: Apache-2.0
"""The namespaces of all ranks and cache groups, known to the scheduler's side once every rank has
told its part and the weights have been read."""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import orlop

_LOG = logging.getLogger("vllm.orlop")
# A weight update leaves the namespaces for others of this process's own, which are used in turn and
# flushed before: saves that were under way then are over by the time theirs comes again.
_UPDATED_NAMES = 64
_JOIN_SECONDS = 10.0


class Family:
    """Thread: the scheduler's, and one of its own that reads weights and waits for the node."""

    def __init__(self, client: orlop.Client, weights: Callable[[], str]) -> None:
        self._client = client
        self._weights = weights
        self._groups: list[list[Mapping[str, Any]]] = []  # per group the ranks' descriptors
        self._thread: threading.Thread | None = None
        self._instance = uuid.uuid4().hex[:12]
        self._updates = 0
        self._lock = threading.Lock()  # weights may have been read only after an update of them
        self._known: tuple[str, list[list[orlop.Namespace]]] | None = None
        self._outdated: list[orlop.Namespace] = []  # of before an update, not yet flushed
        self.problem: str | None = None  #: why it is not known and will not be by itself

    @property
    def told(self) -> bool:
        """Whether all ranks have told what they hold, and it fits."""
        return bool(self._groups)

    def tell(self, descriptors: list[Mapping[str, Any]], size: int) -> None:
        """The descriptors of all ranks in order, of each rank one a cache group; size: how many
        ranks there must be."""
        self.problem = None
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for one in descriptors:
            groups.setdefault(one.get("component", "kv"), []).append(one)
        told = min((len(ranks) for ranks in groups.values()), default=0)
        if told != size:
            self.problem = f"{told} of {size} ranks take part; see their logs"
        elif any(_family(one) != _family(ranks[0]) for ranks in groups.values() for one in ranks):
            self.problem = "the ranks' pages are not of one family"
        if self.problem is not None:
            _LOG.warning("orlop is off: %s", self.problem)
            return
        self._groups = [_distinct(ranks) for ranks in groups.values()]
        self._thread = threading.Thread(target=self._find_out, name="orlop-weights", daemon=True)
        self._thread.start()

    @property
    def groups(self) -> list[list[orlop.Namespace]] | None:
        """Per cache group, in the order of the ranks; None: not known yet, or never."""
        known = self._known
        return None if known is None else known[1]

    @property
    def namespaces(self) -> list[orlop.Namespace] | None:
        """Of the first cache group."""
        groups = self.groups
        return None if groups is None else groups[0]

    @property
    def revision(self) -> str:
        known = self._known
        return "" if known is None else known[0]

    def renew(self) -> bool:
        """After a weight update: forgets every page of the family and leaves its namespaces, because
        what their name says is no longer so, and what is still to be read of the weights' files even
        less. False: no node confirmed; nothing is offered or stored until a later call is."""
        self.leave()
        if not self._groups:
            return False
        revision = f"updated:{self._instance}:{self._updates % _UPDATED_NAMES}"
        try:
            for outdated in self._outdated:  # a group's ranks are a family
                self._client.flush(outdated, family=True)
            fresh = self._open(revision)
            for ranks in fresh:
                self._client.flush(ranks[0], family=True)
        except orlop.NoNode:
            self.problem = "a weight update could not be told to the node"
            return False
        self._outdated, self.problem = [], None
        self._known = (revision, fresh)
        return True

    def leave(self) -> None:
        """Nothing is offered or stored until renew() has flushed what is left here."""
        with self._lock:
            known, self._known = self._known, None
            self._updates += 1
        if known is not None:
            self._outdated = [ranks[0] for ranks in known[1]]

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _find_out(self) -> None:
        try:
            revision = self._weights()
            namespaces = self._open(revision)
            with self._lock:
                if self._updates == 0:
                    self._known = (revision, namespaces)
        except Exception as error:
            self.problem = str(error)
            _LOG.warning("orlop is off: %s", error)

    def _open(self, revision: str) -> list[list[orlop.Namespace]]:
        return [[self._client.open_namespace({**rank, "revision": revision}) for rank in ranks]
                for ranks in self._groups]


def _distinct(ranks: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Ranks with the same heads have one namespace."""
    return [one for i, one in enumerate(ranks) if one not in ranks[:i]]


def _family(rank: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rank.items() if not name.endswith("_rank")}
