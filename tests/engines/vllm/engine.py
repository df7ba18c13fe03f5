# SPDX-License-Identifier: Apache-2.0
"""A real vLLM engine in this process, with both sides of the connector within reach."""

import contextlib
import ctypes
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orlop
from answers import BLOCK, Output
from counting import Counting, summed
from vllm import LLM, SamplingParams
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer import get_kv_transfer_group

from orlop.gpu import KvLayout

# Small enough that four long requests do not fit: preemption and eviction happen by themselves.
POOL_BLOCKS = 24


def transfer_config(options: dict[str, Any], policy: str = "recompute") -> KVTransferConfig:
    return KVTransferConfig(kv_connector="OrlopConnector", kv_connector_module_path="orlop.vllm",
                            kv_role="kv_both", kv_load_failure_policy=policy,
                            kv_connector_extra_config=options)


def sampling(tokens: int, orlop: str | None = None) -> SamplingParams:
    extra = {"kv_transfer_params": {"orlop": orlop}} if orlop else None
    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, extra_args=extra)


class Engine(Counting):
    trace: str

    def __init__(self, model: Path, options: dict[str, Any], **arguments: Any) -> None:
        """arguments: of vLLM, instead of those given here."""
        how: dict[str, Any] = {
            "enforce_eager": True, "dtype": "float32", "max_model_len": 512, "max_num_seqs": 4,
            "max_num_batched_tokens": 64, "block_size": BLOCK, "seed": 0,
            "num_gpu_blocks_override": POOL_BLOCKS, "distributed_executor_backend": "uni",
            "disable_log_stats": False, "kv_transfer_config": transfer_config(options)}
        self.llm = LLM(model=str(model), **{**how, **arguments})
        self.core = self.llm.llm_engine.engine_core.engine_core
        self.scheduler = self.core.scheduler
        self.offers = self.scheduler.connector  # the connector of the scheduler's side
        self.worker = self._find_worker()
        self.free_blocks = self._free_blocks()

    def _find_worker(self) -> Any:
        return get_kv_transfer_group()

    def ask(self, prompts: Sequence[list[int]], tokens: int = 8, *, orlop: str | None = None,
            salt: str | None = None) -> list[Output]:
        asked = [{"prompt_token_ids": prompt, **({"cache_salt": salt} if salt else {})}
                 for prompt in prompts]
        outputs = self.llm.generate(asked, sampling(tokens, orlop), use_tqdm=False)
        return [Output(list(one.outputs[0].token_ids), one.num_cached_tokens or 0,
                       one.outputs[0].finish_reason) for one in outputs]

    def plain(self, prompts: Sequence[list[int]], tokens: int = 8) -> list[list[int]]:
        """What the engine answers without the store and without its own cache."""
        self.forget()
        answers = [one.tokens for one in self.ask(prompts, tokens, orlop="no_load,no_save")]
        self.forget()
        return answers

    def store(self, prompts: Sequence[list[int]], tokens: int = 1, **how: Any) -> list[Output]:
        """Asks, and returns when everything is stored; the engine's own cache is then empty."""
        outputs = self.ask(prompts, tokens, **how)
        self.settle()
        self.forget()
        return outputs

    def forget(self) -> None:
        assert self.llm.reset_prefix_cache()

    def settle(self) -> None:
        assert self.worker._worker.flush(60)

    def wait_ready(self) -> None:
        self._wait_ready(self.worker)
        self._wait_ready(self.offers)

    @staticmethod
    def _wait_ready(side: Any) -> None:
        assert side._client.wait_ready(120)
        if side._family is not None:
            side._family.close()  # waits for its thread
            assert side._family.namespaces is not None, side._family.problem

    def counts(self) -> Counter[str]:
        return summed(*(side._counters.totals() for side in (self.offers, self.worker)))

    @contextlib.contextmanager
    def options(self, **changed: Any) -> Iterator[None]:
        """Other options for a while."""
        sides = (self.offers, self.offers._scheduler)
        before = self.offers._options
        for side in sides:
            side._options = dataclasses.replace(before, **changed)
        try:
            yield
        finally:
            for side in sides:
                side._options = before

    def add(self, name: str, prompt: list[int], tokens: int = 4) -> None:
        self.llm.llm_engine.add_request(name, {"prompt_token_ids": prompt}, sampling(tokens))

    def step(self) -> list[Any]:
        return self.llm.llm_engine.step()

    def abort(self, name: str) -> None:
        self.llm.llm_engine.abort_request([name])

    def renew(self) -> bool:
        """After a weight update."""
        return bool(self.llm.reset_prefix_cache(reset_connector=True))

    def preemptions(self) -> float:
        return sum(one.value for one in self.llm.get_metrics() if one.name == "vllm:num_preemptions")

    def run_out(self) -> dict[str, list[int]]:
        """Steps until nothing is left; the finished requests' tokens."""
        done = {}
        while self.llm.llm_engine.has_unfinished_requests() or self.scheduler.requests:
            for output in self.step():
                if output.finished:
                    done[output.request_id] = list(output.outputs[0].token_ids)
        return done

    def assert_nothing_held(self) -> None:
        """Blocks, pins, plans, orders and jobs are back where they were."""
        self.settle()
        self._assert_nothing_offered()
        assert set(self.worker._worker.under_way().values()) == {0}, self.worker._worker.under_way()
        self._assert_nothing_pinned(self.worker)

    def _assert_nothing_offered(self) -> None:
        assert set(self.offers._scheduler.held().values()) == {0}, self.offers._scheduler.held()
        self._assert_nothing_pinned(self.offers)
        assert self._free_blocks() == self.free_blocks

    @staticmethod
    def _assert_nothing_pinned(side: Any) -> None:
        stats = side._client.stats()
        assert (stats.open_read_plans, stats.open_put_plans, stats.open_handles,
                stats.pinned_bytes) == (0, 0, 0, 0)

    def spoil(self, prompt: list[int], block: int) -> None:
        spoil(self, prompt, block)

    def forget_failures(self) -> None:
        """What failed may be offered again at once."""
        for one in self.offers._scheduler._finder._failed:
            one._until.clear()
        self.offers._scheduler._breaker.succeeded()

    def drafts(self) -> tuple[int, int]:
        """(drafted, accepted) tokens of speculative decoding so far."""
        names = ("vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens")
        counts = {one.name: int(one.value) for one in self.llm.get_metrics() if one.name in names}
        return counts.get(names[0], 0), counts.get(names[1], 0)

    def keys_of(self, prompt: list[int]) -> list[bytes]:
        """Of the prompt's full blocks, as the connector computes them."""
        from vllm.v1.request import Request

        from orlop.vllm.keys import RequestKeys

        request = Request("keys", prompt, sampling(1), None, block_hasher=self.core.request_block_hasher)
        keys = RequestKeys(request, BLOCK, engine_hashes=self.offers._scheduler._engine_hashes)
        return keys.of(0, keys.complete())

    @property
    def namespace(self) -> Any:
        return self.offers._family.namespaces[0]

    @property
    def namespace_of_worker(self) -> Any:
        return self.worker._worker.store.namespace(self.offers._family.revision)

    def page(self, block: int) -> bytes:
        """The bytes of a block in the engine's memory."""
        return page_bytes(self.worker._worker.store.layouts[0], block)

    def _free_blocks(self) -> int:
        return int(self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    def close(self) -> None:
        self.llm.llm_engine.engine_core.shutdown()


def page_bytes(layout: KvLayout, page: int) -> bytes:
    """Of opaque pages in this process's memory."""
    return b"".join(ctypes.string_at(part.base + page * part.page_stride, part.row_bytes)
                    for part in layout.parts)


def spoil(engine: Engine, prompt: list[int], block: int, namespace: Any = None) -> None:
    """Gives a page bytes that do not match their checksum."""
    client, key = engine.offers._client, engine.keys_of(prompt)[block:block + 1]
    namespace = engine.namespace if namespace is None else namespace
    page = client.get_bytes(namespace, key)[0]
    assert client.remove(namespace, key) == 1
    with client.put_start(namespace, key) as plan:
        plan.copy_in(0, page[:-1] + bytes([page[-1] ^ 1]))
        plan.set_checksum(0, 1)
        assert plan.commit().result(10) == [orlop.Outcome.STORED]
