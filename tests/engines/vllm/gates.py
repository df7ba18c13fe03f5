# SPDX-License-Identifier: Apache-2.0
"""Loads, and copies of pages, that stop where a test wants them to, so that something can happen
meanwhile."""

import threading
from typing import Any

import pytest

from orlop.gpu import PageCache


class Gate:
    """Holds the copies of one direction ("backup", "restore"), planned and pinned, just before their
    first page, until it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch, method: str) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        copy = getattr(PageCache, method)

        def held(cache: PageCache, *arguments: Any) -> Any:
            if not self._open.is_set():
                self.reached.set()
                assert self._open.wait(120), "nobody opened the gate"
            return copy(cache, *arguments)

        patch.setattr(PageCache, method, held)

    def open(self) -> None:
        self._open.set()


class HeldLoads:
    """Loads of this connector of a worker wait before their first page until they are let go."""

    def __init__(self, connector: Any) -> None:
        self.begun = threading.Event()
        self._gate = threading.Event()
        self._loader = connector._worker._loader
        load = self._loader._load

        def waiting(*arguments: Any) -> Any:
            self.begun.set()
            assert self._gate.wait(60)
            return load(*arguments)

        self._loader._load = waiting

    def let_go(self) -> None:
        self._gate.set()
        vars(self._loader).pop("_load", None)  # the class's own again
