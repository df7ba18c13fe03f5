# SPDX-License-Identifier: Apache-2.0
"""A real engine of a model with two cache groups, a sliding window and full attention."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orlop
from engine import BLOCK, Engine, page_bytes, spoil
from gates import HeldLoads
from vllm import LLM


class PlainEngine(Engine):
    """Without a connector, and without the engine's own cache."""

    def __init__(self, model: Path) -> None:
        self.llm = LLM(model=str(model), enforce_eager=True, dtype="float32", max_model_len=512,
                       max_num_seqs=4, max_num_batched_tokens=64, block_size=BLOCK, seed=0,
                       num_gpu_blocks_override=64, enable_prefix_caching=False,
                       distributed_executor_backend="uni")

    def answers(self, prompts: Sequence[list[int]], tokens: int = 8) -> list[list[int]]:
        return [one.tokens for one in self.ask(prompts, tokens)]


class HybridEngine(Engine):
    """Notes what was ordered, so that memory and store can be compared page by page."""

    def __init__(self, model: Path, options: dict[str, Any], **arguments: Any) -> None:
        super().__init__(model, options, **arguments)
        side = self.worker._worker
        self.loads: list[Any] = []
        self.saves: list[Any] = []
        new_load, submit_saves = side._loader._new, side._saver.submit

        def note_load(order: Any, revision: str) -> Any:
            self.loads.append(order)
            return new_load(order, revision)

        def note_saves(orders: Any, revision: str) -> None:
            self.saves += orders
            submit_saves(orders, revision)

        side._loader._new, side._saver.submit = note_load, note_saves

    # ---- the store --------------------------------------------------------------------------------

    def spaces(self) -> list[Any]:
        return [ranks[0] for ranks in self.offers._family.groups]

    def components(self) -> list[str]:
        return [space.descriptor.component for space in self.spaces()]

    def stored(self, prompt: list[int]) -> list[list[bool]]:
        """Per group which of the prompt's pages are there."""
        keys = self.keys_of(prompt)
        return [self.offers._client.exists(space, keys).present for space in self.spaces()]

    def remove(self, prompt: list[int], group: int, block: int) -> None:
        key = self.keys_of(prompt)[block:block + 1]
        assert self.offers._client.remove(self.spaces()[group], key) == 1

    def spoil(self, prompt: list[int], group: int, block: int) -> None:
        spoil(self, prompt, block, self.spaces()[group])

    def replace(self, prompt: list[int], group: int, block: int, other: int) -> None:
        """Another block's bytes, which the store takes for right ones. Not any bytes: numbers that
        are none would stay in the engine's memory and spoil what later uses it."""
        client, space, keys = self.offers._client, self.spaces()[group], self.keys_of(prompt)
        (page,) = client.get_bytes(space, keys[other:other + 1])
        self.remove(prompt, group, block)
        assert client.put(space, keys[block:block + 1], [page]) == [orlop.Outcome.STORED]

    # ---- memory -----------------------------------------------------------------------------------

    def last_load(self) -> tuple[list[tuple[int, int]], list[int], bool]:
        """Of the last load: pages per group, its blocks, and whether all its pages are the stored
        ones byte by byte."""
        order = self.loads[-1]
        right = []
        for group, part in order.by_group():
            stored = self.offers._client.get_bytes(self.spaces()[group], order.keys[part])
            right.append(stored == [self.page_of(group, block) for block in order.blocks[part]])
        return order.spans, order.blocks, all(right)

    def saved_blocks(self) -> list[tuple[int, int]]:
        """(group, block) of all saves since the last call."""
        saves, self.saves = self.saves, []
        return [(order.group, block) for order in saves for block in order.blocks]

    def page_of(self, group: int, block: int) -> bytes:
        return page_bytes(self.worker._worker.store.layouts[group], block)

    # ---- life cycles ------------------------------------------------------------------------------

    def abort_while_loading(self, prompt: list[int]) -> dict[str, bool]:
        held = HeldLoads(self.worker)
        try:
            self.add("aborted", prompt)
            while not held.begun.is_set():
                self.step()
            free, plans = self._free_blocks(), self.offers._client.stats().open_read_plans
            self.abort("aborted")
            for _ in range(3):
                self.step()
            kept = self._free_blocks() == free < self.free_blocks
            pinned = self.offers._client.stats().open_read_plans == plans
        finally:
            held.let_go()
        return {"kept": kept, "pinned in both groups": pinned and plans == 2,
                "nothing came": self.run_out() == {}}

    def abort_after(self, prompt: list[int], steps: int) -> None:
        self.add("aborted", prompt, tokens=20)
        for _ in range(steps):
            self.step()
        self.abort("aborted")
        assert self.run_out() == {}

    def answer_with_a_late_family(self, prompt: list[int], steps: int) -> list[int]:
        """The namespaces become known while the request is computed."""
        family = self.offers._family
        known, family._known = family._known, None
        try:
            self.add("late", prompt, tokens=8)
            for _ in range(steps):
                self.step()
        finally:
            family._known = known
        return self.run_out()["late"]

    def answer_while(self, prompt: list[int], side: str, method: str, times: int = 3) -> list[int]:
        """With a method of a side ("offers._scheduler") that raises at its first calls."""
        owner: Any = self
        for name in side.split("."):
            owner = getattr(owner, name)
        original: Callable[..., Any] = getattr(owner, method)
        calls = iter(range(times))

        def raising(*arguments: Any, **named: Any) -> Any:
            if next(calls, None) is not None:
                raise RuntimeError("injected")
            return original(*arguments, **named)

        setattr(owner, method, raising)
        try:
            (output,) = self.ask([prompt])
        finally:
            setattr(owner, method, original)
        return output.tokens

    def finish_of(self, prompt: list[int], recompute: bool) -> tuple[str | None, list[int]]:
        """With the other load failure policy."""
        before = self.scheduler.recompute_kv_load_failures
        self.scheduler.recompute_kv_load_failures = recompute
        try:
            (output,) = self.ask([prompt])
        finally:
            self.scheduler.recompute_kv_load_failures = before
        return output.finish, output.tokens

    def gone(self, prompt: list[int], before: Sequence[dict[str, Any]]) -> bool:
        """Nothing of the prompt is in the namespaces of these descriptors."""
        keys, client = self.keys_of(prompt), self.offers._client
        return all(client.get_bytes(client.open_namespace(one), keys) == [] for one in before)

    def descriptors(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(space.descriptor) for space in self.spaces()]
