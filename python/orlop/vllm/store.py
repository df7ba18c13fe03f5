# SPDX-License-Identifier: Apache-2.0
"""What both threads of a worker work on: the engine's pages, and this rank's namespaces.

Layers of different cache groups lie in the same memory: a page is named by group and block, and no
block is in use by two groups at a time, because the engine has one pool of them.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any

import orlop
from orlop.engine.counters import Counters
from orlop.gpu import KvLayout, PageCache
from orlop.vllm.streams import Streams

_LOG = logging.getLogger("vllm.orlop")


class RankStore:
    """Thread-safe. client: stays the caller's, who closes it."""

    def __init__(self, client: orlop.Client, layouts: Sequence[KvLayout], streams: Streams,
                 descriptors: Sequence[dict[str, Any]], counters: Counters) -> None:
        self.client = client
        self.layouts = list(layouts)  #: of the pages, per cache group
        self.streams = streams
        self.descriptors = list(descriptors)  #: of each group's namespaces, but for their revision
        self.counters = counters
        self._namespaces: dict[tuple[str, int], orlop.Namespace] = {}
        self._caches: dict[int, PageCache] = {}
        self._opening = threading.Lock()
        self._told: set[str] = set()

    def namespace(self, revision: str, group: int = 0) -> orlop.Namespace:
        """Raises orlop.Error."""
        with self._opening:
            namespace = self._namespaces.get((revision, group))
            if namespace is None:
                namespace = self.client.open_namespace(
                    {**self.descriptors[group], "revision": revision})
                self._namespaces[revision, group] = namespace
            return namespace

    def cache(self, group: int) -> PageCache:
        """A group's pages. The first call needs a node, and with a GPU registers the node's memory, which
        takes seconds for many GiB. Raises orlop.Error."""
        with self._opening:
            cache = self._caches.get(group)
            if cache is None:
                cache = PageCache(self.client, self.layouts[group],
                                  self.descriptors[group]["value_len"])
                self._caches[group] = cache
            return cache

    def failed_unexpectedly(self, what: str) -> None:
        """In an except clause."""
        self.counters.add("exceptions", reason=what)
        if what not in self._told:
            self._told.add(what)
            _LOG.warning("orlop: a %s failed; later failures are only counted", what, exc_info=True)

    def forget_memory(self) -> None:
        """Waits for copies under way. Nothing of the engine's memory is referred to afterwards."""
        with self._opening:
            self._caches.clear()
            self.layouts.clear()
