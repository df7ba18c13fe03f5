# SPDX-License-Identifier: Apache-2.0
"""Loads, and copies of pages, that stop where a test wants them to, so that something can happen
meanwhile."""

import math
import threading
from collections import deque
from typing import Any

import pytest

from orlop.gpu import PageCache
from orlop.vllm import worker
from orlop.vllm.loads import Load, Loader


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
        patch.setattr(Loader, "begin", lambda *_: False)  # the engine goes on

    def open(self) -> None:
        self._open.set()


class HeldLoads:
    """Loads of this connector of a worker wait before their first page until they are let go."""

    def __init__(self, connector: Any) -> None:
        self.begun = threading.Event()
        self._gate = threading.Event()
        self._loader = connector._worker._loader
        go_on = self._loader._go_on

        def waiting(*arguments: Any) -> Any:
            self.begun.set()
            assert self._gate.wait(60)
            return go_on(*arguments)

        self._loader._go_on = waiting
        self._loader.begin = lambda *_: False  # the engine goes on

    def let_go(self) -> None:
        self._gate.set()
        for name in ("_go_on", "begin"):
            vars(self._loader).pop(name, None)  # the class's own again


def loads_are_by(whom: str, patch: pytest.MonkeyPatch) -> None:
    """Of an engine that has nothing else to do: its thread alone ("engine", as it is), the loader's
    ("thread"), or begun by the one and ended by the other ("both")."""
    if whom == "thread":
        patch.setattr(Loader, "begin", lambda *_: False)
    elif whom == "both":
        patch.setattr(Loader, "wait_for_one", lambda loader, seconds: None)
        patch.setattr(Loader, "own", lambda loader: None)
    elif whom == "engine":
        patch.setattr(worker, "_IDLE_WAIT", 60.0)  # however slow the machine is


class UnfinishedLoads:
    """Loads that are under way and do not end until they are let go, on whatever thread."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._gate = threading.Event()
        go_on = Load.go_on

        def held(load: Load, until: float) -> Any:
            if until == math.inf:
                assert self._gate.wait(60)
            return go_on(load, until) if self._gate.is_set() else None

        patch.setattr(Load, "go_on", held)
        patch.setattr(worker, "_IDLE_WAIT", 60.0)  # however slow the machine is, once they are let go

    def let_go(self) -> None:
        self._gate.set()


def put_steps_in_flight(engine: Any, steps: int, patch: pytest.MonkeyPatch) -> None:
    """2: the engine looks at what a step reports when it has begun the next one, as with async scheduling,
    which vLLM has not on CPUs."""
    if steps == 1:
        return
    patch.setattr(engine.core, "batch_queue_size", steps)
    patch.setattr(engine.core, "batch_queue", deque(maxlen=steps))
    patch.setattr(engine.core, "step_fn", engine.core.step_with_batch_queue)
