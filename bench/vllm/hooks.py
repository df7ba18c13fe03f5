# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's hooks cost: the real SchedulerSide, a real node, requests of vLLM's own class.

There is no model: nothing but our side of the scheduler is measured. Runs in the engine's Python.

  python hooks.py [--rounds N]     prints one JSON line
"""

import argparse
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from place import Node, quantiles
from vllm import SamplingParams
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.request import Request

import orlop
from orlop.engine.reasons import Reason
from orlop.vllm import OrlopConnector
from orlop.vllm.messages import RankTold, StepReport

BLOCK = 32
BLOCKS = 100  # of the look-up that is judged
VALUE_LEN = 4096  # of a page: nothing here moves it
WARM_UP = 20  # rounds
AGAIN = 20  # repeated look-ups of one request, of a pool that is full


class Step:
    """What vLLM's scheduler tells of a step: nothing was scheduled, or all of a new request."""

    def __init__(self, request: Request | None, blocks: list[int]) -> None:
        self.scheduled_new_reqs: list[Any] = []
        self.scheduled_cached_reqs = SimpleNamespace(
            req_ids=[], new_block_ids=[], num_computed_tokens=[], resumed_req_ids=set())
        self.num_scheduled_tokens: dict[str, int] = {}
        if request is not None:
            self.scheduled_new_reqs.append(SimpleNamespace(
                req_id=request.request_id, num_computed_tokens=0, block_ids=(blocks,)))
            self.num_scheduled_tokens[request.request_id] = request.num_prompt_tokens
        self.total_num_scheduled_tokens = sum(self.num_scheduled_tokens.values())


def configuration(socket: str) -> Any:
    """The parts of vLLM's configuration that the scheduler's side reads."""
    transfer = KVTransferConfig(
        kv_connector="OrlopConnector", kv_role="kv_both", kv_load_failure_policy="recompute",
        kv_connector_extra_config={"socket": socket, "weights": "bench"})
    return SimpleNamespace(
        kv_transfer_config=transfer, kv_events_config=None, speculative_config=None,
        model_config=SimpleNamespace(runner_type="generate"),
        cache_config=SimpleNamespace(block_size=BLOCK, prefix_caching_hash_algo="sha256"),
        parallel_config=SimpleNamespace(world_size=1),
        scheduler_config=SimpleNamespace(async_scheduling=False))


def kv_cache() -> Any:
    import torch

    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=32, dtype=torch.float32)
    return SimpleNamespace(num_blocks=4 * BLOCKS, kv_cache_groups=[
        SimpleNamespace(kv_cache_spec=spec, layer_names=["layer"])])


def requests() -> Iterator[Request]:
    """Without end, each with a prompt of its own of BLOCKS blocks and 4 tokens."""
    function = get_hash_fn_by_name("sha256")
    init_none_hash(function)
    hasher = get_request_block_hasher(BLOCK, function)
    number = 0
    while True:
        number += 1
        tokens = [3 + (7 * i + number * 131) % 40_000 for i in range(BLOCKS * BLOCK + 4)]
        yield Request(f"r{number}", tokens, SamplingParams(max_tokens=4), None, block_hasher=hasher)


class Side:
    """A connector of the scheduler's process that has been told of its one rank."""

    def __init__(self, socket: str) -> None:
        self.connector = OrlopConnector(configuration(socket), KVConnectorRole.SCHEDULER, kv_cache())
        descriptor = {"engine": "vllm", "layout": "bench", "model": "bench", "dtype": "u8",
                      "page_tokens": BLOCK, "value_len": VALUE_LEN, "layers": 1, "heads": 1,
                      "tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1}
        self.connector.set_xfer_handshake_metadata_pp_aware({(0, 0): RankTold([descriptor])})
        client, family = self.connector._client, self.connector._family
        assert client is not None and family is not None and client.wait_ready(60)
        family.close()  # waits until the namespace is open
        assert family.namespaces is not None, family.problem
        self._client, self._namespace = client, family.namespaces[0]

    def store(self, request: Request) -> None:
        keys = list(request.block_hashes)
        for first in range(0, len(keys), 32):
            part = keys[first:first + 32]
            outcomes = self._client.put(self._namespace, part, [bytes(VALUE_LEN)] * len(part))
            assert set(outcomes) == {orlop.Outcome.STORED}

    def _hit(self, answer: tuple[int, bool]) -> None:
        assert answer == (BLOCKS * BLOCK, True), (answer, self.connector._counters.totals())

    def hit(self, request: Request, blocks: list[int]) -> dict[str, float]:
        """us of each hook in the life of a request whose blocks are stored, as vLLM calls them."""
        us = Times(self.connector)
        us.call("on_new_request", request)
        self._hit(us.call("get_num_new_matched_tokens", request, 0, what="look-up"))
        again = []
        for _ in range(AGAIN):
            # As vLLM does for a request that does not fit: one look-up a step, then the step's orders.
            self.connector.build_connector_meta(Step(None, []))
            self._hit(us.call("get_num_new_matched_tokens", request, 0, what="again"))
            again.append(us.of.pop("again"))
        table = SimpleNamespace(get_block_ids=lambda: (blocks,))
        us.call("update_state_after_alloc", request, table, BLOCKS * BLOCK)
        orders = us.call("build_connector_meta", Step(None, []))
        assert len(orders.loads) == 1 and len(orders.loads[0].keys) == BLOCKS
        name = request.request_id
        us.call("update_connector_output", SimpleNamespace(
            kv_connector_worker_meta=StepReport({name: (BLOCKS, Reason.HIT)}), finished_recving={name}))
        us.call("request_finished", request, blocks)
        return {**us.of, "sum": sum(us.of.values()), "look-up again": sorted(again)[len(again) // 2]}

    def miss(self, request: Request, blocks: list[int]) -> dict[str, float]:
        """The same of a request of which nothing is stored: it is computed, and its blocks saved."""
        us = Times(self.connector)
        us.call("on_new_request", request)
        answer = us.call("get_num_new_matched_tokens", request, 0, what="look-up")
        assert answer == (0, False), answer
        us.call("update_state_after_alloc", request, SimpleNamespace(get_block_ids=lambda: (blocks,)), 0)
        orders = us.call("build_connector_meta", Step(request, blocks))
        assert [len(order.keys) for order in orders.saves] == [BLOCKS]
        us.call("update_connector_output",
                SimpleNamespace(kv_connector_worker_meta=None, finished_recving=None))
        us.call("request_finished", request, blocks)
        return {**us.of, "sum": sum(us.of.values())}


class Times:
    """us of one call of each hook."""

    def __init__(self, connector: OrlopConnector) -> None:
        self._connector = connector
        self.of: dict[str, float] = {}

    def call(self, hook: str, *arguments: Any, what: str = "") -> Any:
        function = getattr(self._connector, hook)
        begun = time.perf_counter_ns()
        result = function(*arguments)
        self.of[what or hook] = (time.perf_counter_ns() - begun) / 1e3
        return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    hits: list[dict[str, float]] = []
    misses: list[dict[str, float]] = []
    with Node("256MiB") as node:
        side = Side(node.socket)
        blocks = list(range(1, BLOCKS + 2))
        for number, request in enumerate(requests()):
            if number == rounds + WARM_UP:
                break
            missed = side.miss(request, blocks)
            side.store(request)
            hit = side.hit(request, blocks)
            if number >= WARM_UP:
                hits.append(hit)
                misses.append(missed)
        held = side.connector._scheduler.held()
        assert set(held.values()) == {0}, held
        exceptions = [name for name in side.connector._counters.totals() if name.startswith("exceptions")]
        assert not exceptions, exceptions
        side.connector.shutdown()
    print(json.dumps({"blocks": BLOCKS, "rounds": rounds, "hit": medians(hits), "miss": medians(misses)}))


def medians(lives: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    return {name: quantiles([life[name] for life in lives]) for name in lives[0]}


if __name__ == "__main__":
    main()
