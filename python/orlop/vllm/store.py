# SPDX-License-Identifier: Apache-2.0
"""What both threads of a worker work on: the engine's pages, and this rank's namespaces.

Layers of different cache groups lie in the same memory: a page is named by group and block, and no
block is in use by two groups at a time, because the engine has one pool of them.
"""

import threading
from collections.abc import Sequence
from typing import Any

import orlop
from orlop.engine.counters import Counters
from orlop.engine.pages import PageRanges


class RankStore:
    """Thread-safe. client: stays the caller's, who closes it."""

    def __init__(self, client: orlop.Client, pages: Sequence[PageRanges],
                 descriptors: Sequence[dict[str, Any]], counters: Counters) -> None:
        self.client = client
        self.pages = list(pages)  #: per cache group
        self.descriptors = list(descriptors)  #: of each group's namespaces, but for their revision
        self.counters = counters
        self._namespaces: dict[tuple[str, int], orlop.Namespace] = {}
        self._opening = threading.Lock()

    def namespace(self, revision: str, group: int = 0) -> orlop.Namespace:
        """Raises orlop.Error."""
        with self._opening:
            namespace = self._namespaces.get((revision, group))
            if namespace is None:
                namespace = self.client.open_namespace(
                    {**self.descriptors[group], "revision": revision})
                self._namespaces[revision, group] = namespace
            return namespace
