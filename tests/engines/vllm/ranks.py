# SPDX-License-Identifier: Apache-2.0
"""A real engine of several ranks, each a process of vLLM's own, with the scheduler in this one."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orlop
from counting import summed
from engine import Engine, page_bytes, spoil
from gates import HeldLoads
from vllm.distributed.kv_transfer import get_kv_transfer_group
from vllm.distributed.parallel_state import get_tensor_model_parallel_rank


class RanksEngine(Engine):
    """What Engine does with the one worker is done with all of them here."""

    def __init__(self, model: Path, options: dict[str, Any], **arguments: Any) -> None:
        super().__init__(model, options, distributed_executor_backend="mp", **arguments)

    def _find_worker(self) -> Any:
        return None

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """function(connector, *arguments) on every rank, in their order."""
        return list(self.llm.collective_rpc(_with_connector, args=(function, *arguments)))

    def settle(self) -> None:
        assert all(self.each(_flush))

    def wait_ready(self) -> None:
        assert all(self.each(_wait_ready))
        self._wait_ready(self.offers)

    def counts(self) -> Counter[str]:
        return summed(self.offers._counters.totals(), *self.each(_counts))

    # ---- the store, seen from the scheduler's process ---------------------------------------------

    def stored(self, prompt: list[int]) -> list[list[bytes]]:
        """The pages of a prompt, rank by rank."""
        keys = self.keys_of(prompt)
        return [self.offers._client.get_bytes(one, keys) for one in self.offers._family.namespaces]

    def remove(self, prompt: list[int], block: int, rank: int) -> None:
        key = self.keys_of(prompt)[block:block + 1]
        assert self.offers._client.remove(self.offers._family.namespaces[rank], key) == 1

    def replace(self, prompt: list[int], block: int, rank: int, page: bytes) -> None:
        """Gives a page other bytes, which the store takes for right ones."""
        self.remove(prompt, block, rank)
        assert self.offers._client.put(
            self.offers._family.namespaces[rank], self.keys_of(prompt)[block:block + 1],
            [page]) == [orlop.Outcome.STORED]

    def spoil(self, prompt: list[int], block: int, rank: int) -> None:
        """Gives a page bytes that do not match their checksum."""
        spoil(self, prompt, block, self.offers._family.namespaces[rank])

    def pages(self) -> list[list[bytes]]:
        """Of every rank the bytes of all blocks but the null block."""
        return self.each(_pages)

    # ---- what ranks do -----------------------------------------------------------------------------

    def hold_loads(self, rank: int) -> None:
        """Loads of this rank wait before their first page until let_go()."""
        self.each(_hold_loads, rank)

    def let_go(self, rank: int) -> None:
        self.each(_let_go, rank)

    def break_once(self, rank: int, method: str) -> None:
        """The next call of this method of the rank's side raises."""
        self.each(_break_once, rank, method)

    def step_until_ended(self, rank: int, name: str) -> None:
        """Until the scheduler knows that this rank is done with a load, and others are not."""
        deadline = time.monotonic() + 60
        while self.offers._scheduler.held()["loads"] != 1 or self.each(_loads)[rank]:
            self.step()
            assert time.monotonic() < deadline, name
        self.step()

    def pinned(self) -> int:
        return int(self.offers._client.stats().pinned_bytes)

    def counts_by_rank(self) -> list[dict[str, float]]:
        return self.each(_counts)

    def assert_nothing_held(self) -> None:
        self.settle()
        self._assert_nothing_offered()
        for held in self.each(_held):
            assert set(held.values()) == {0}, held

    def processes(self) -> list[tuple[int, int]]:
        """(threads, open files) of this process and of every rank."""
        return [_threads_and_files(None), *self.each(_threads_and_files)]


def _with_connector(worker: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(get_kv_transfer_group(), *arguments)


def _flush(connector: Any) -> bool:
    return bool(connector._worker.flush(60))


def _wait_ready(connector: Any) -> bool:
    return bool(connector._client.wait_ready(120))


def _counts(connector: Any) -> dict[str, float]:
    return dict(connector._counters.totals())


def _held(connector: Any) -> dict[str, int]:
    stats = connector._client.stats()
    return {**connector._worker.under_way(), "read plans": stats.open_read_plans,
            "put plans": stats.open_put_plans, "handles": stats.open_handles,
            "pinned": stats.pinned_bytes}


def _threads_and_files(_: Any) -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def _loads(connector: Any) -> int:
    return int(connector._worker.under_way()["loads"])


def _hold_loads(connector: Any, rank: int) -> None:
    if get_tensor_model_parallel_rank() == rank:
        connector.held_loads = HeldLoads(connector)


def _let_go(connector: Any, rank: int) -> None:
    if get_tensor_model_parallel_rank() == rank:
        connector.held_loads.let_go()


def _break_once(connector: Any, rank: int, method: str) -> None:
    if get_tensor_model_parallel_rank() != rank:
        return
    side = connector._worker

    def raising(*_: Any) -> None:
        delattr(side, method)
        raise RuntimeError("injected")

    setattr(side, method, raising)


def _pages(connector: Any) -> list[bytes]:
    layout = connector._worker.store.layouts[0]
    return [page_bytes(layout, block) for block in range(1, layout.parts[0].pages)]
