# SPDX-License-Identifier: Apache-2.0
"""What both threads of a worker work on: the engine's pages, and this rank's namespaces."""

import threading
from typing import Any

import orlop
from orlop.engine.counters import Counters
from orlop.engine.pages import PageRanges


class RankStore:
    """Thread-safe. client: stays the caller's, who closes it."""

    def __init__(self, client: orlop.Client, pages: PageRanges, descriptor: dict[str, Any],
                 counters: Counters) -> None:
        self.client = client
        self.pages = pages
        self.descriptor = descriptor  #: of this rank's namespaces, but for their revision
        self.counters = counters
        self._namespaces: dict[str, orlop.Namespace] = {}
        self._opening = threading.Lock()

    def namespace(self, revision: str) -> orlop.Namespace:
        """Raises orlop.Error."""
        with self._opening:
            namespace = self._namespaces.get(revision)
            if namespace is None:
                namespace = self.client.open_namespace({**self.descriptor, "revision": revision})
                self._namespaces[revision] = namespace
            return namespace
