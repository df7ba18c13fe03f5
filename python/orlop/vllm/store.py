# SPDX-License-Identifier: Apache-2.0
"""What both threads of a worker work on: the engine's pages, and this rank's namespaces.

Layers of different cache groups lie in the same memory: a page is named by group and block, and no
block is in use by two groups at a time, because the engine has one pool of them.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import orlop
from orlop.engine.counters import Counters
from orlop.gpu import KvLayout, PageCache
from orlop.vllm.streams import Streams

_LOG = logging.getLogger("vllm.orlop")
# The engine's copy of a step's tokens goes the same way as a save's, and waits for one of these: 0.15 ms (PCIe 5).
_BURST = 8 << 20
_LOOK_SECONDS = 0.25  # as long as the end of the engine may wait for a node that is not there


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
        self.tried = threading.Event()  #: cache() does not wait any more
        self._closing = threading.Event()
        self._refused: str | None = None
        self._told: set[str] = set()
        self._thread = threading.Thread(target=self._open, name="orlop-open", daemon=True)
        self._thread.start()

    def namespace(self, revision: str, group: int = 0) -> orlop.Namespace:
        """Raises orlop.Error."""
        with self._opening:
            namespace = self._namespaces.get((revision, group))
            if namespace is None:
                namespace = self.client.open_namespace(
                    {**self.descriptors[group], "revision": revision})
                self._namespaces[revision, group] = namespace
            return namespace

    def cache(self, group: int, until: float) -> PageCache:
        """A group's pages. Waits, until then by time.monotonic(), for the node and for its memory to be
        known to the GPU. Raises DeadlineExceeded; Refused: it never will be."""
        self.tried.wait(max(until - time.monotonic(), 0.0))
        with self._opening:
            if group in self._caches:
                return self._caches[group]
        if self._refused is not None:
            raise orlop.Refused(self._refused)
        raise orlop.DeadlineExceeded("the node's memory is not made known yet")

    def is_open(self, revision: str) -> bool:
        """Whether neither namespace() nor cache() has to wait for the node."""
        with self._opening:
            return bool(self._caches) and all((revision, group) in self._namespaces
                                              for group in range(len(self.descriptors)))

    def wait_opened(self, seconds: float) -> bool:
        return self.tried.wait(seconds) and self._refused is None

    def _open(self) -> None:
        """A GPU takes seconds for a node of many GiB: neither the engine nor a load waits for that."""
        while not self._closing.is_set():
            try:
                if not self.client.wait_ready(_LOOK_SECONDS):
                    continue
                caches = {group: PageCache(self.client, layout, self.descriptors[group]["value_len"],
                                           backup_burst_bytes=_BURST)
                          for group, layout in enumerate(self.layouts)}
            except orlop.NoNode:  # gone again
                self._closing.wait(_LOOK_SECONDS)
                continue
            except Exception as error:
                self._refused = str(error)
                self.counters.add("refused", reason=type(error).__name__)
                _LOG.error("orlop is off, the engine goes on without it: %s", error)
            else:
                with self._opening:
                    self._caches = caches
            self.tried.set()
            return

    def failed_unexpectedly(self, what: str) -> None:
        """In an except clause."""
        self.counters.add("exceptions", reason=what)
        if what not in self._told:
            self._told.add(what)
            _LOG.warning("orlop: a %s failed; later failures are only counted", what, exc_info=True)

    def forget_memory(self) -> None:
        """Waits for copies under way. Nothing of the engine's memory is referred to afterwards."""
        self._closing.set()
        self._thread.join()
        with self._opening:
            self._caches.clear()
        self.layouts.clear()
