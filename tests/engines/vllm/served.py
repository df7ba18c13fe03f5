# SPDX-License-Identifier: Apache-2.0
"""A `vllm serve` of a tiny model as routers see it: HTTP, its metrics page, its stream of KV events."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import zmq
from node import NodeProcess
from serving import BLOCK, TRANSFER, VllmServer
from vllm.distributed.kv_events import BlockStored, KVEventBatch

MIN_HIT = 64
_SECONDS = 300.0
_STEP = iter(range(5, 900))

# What every option looks like when each comes as text.
OPTIONS = {"min_hit_tokens": f"{MIN_HIT}", "save_deadline": "10", "load_deadline": "20.0",
           "load_mode": "async", "mode": "read_write", "save": "all"}


def blocks_of(told: list[Any], medium: str) -> dict[bytes, Any]:
    """hash -> (parent, tokens, extra key, what all blocks of an event share), of what was stored."""
    blocks = {}
    for one in told:
        if not isinstance(one, BlockStored) or one.medium != medium:
            continue
        parent = one.parent_block_hash
        for i, block in enumerate(one.block_hashes):
            tokens = tuple(one.token_ids[i * one.block_size:(i + 1) * one.block_size])
            extra = None if one.extra_keys is None else one.extra_keys[i]
            blocks[block] = (parent, tokens, extra, one.block_size, one.lora_id, one.lora_name,
                             one.group_idx, one.kv_cache_spec_kind)
            parent = block
    return blocks


def of_prompt(told: list[Any], prompt: list[int], medium: str) -> dict[bytes, Any]:
    """The prompt's whole blocks; empty while one is missing."""
    wanted = {tuple(prompt[i * BLOCK:(i + 1) * BLOCK]) for i in range(len(prompt) // BLOCK)}
    found = {block: what for block, what in blocks_of(told, medium).items() if what[1] in wanted}
    return found if len(found) == len(wanted) else {}


class Served:
    def __init__(self, model: Path, folder: str) -> None:
        self.socket = os.path.join(folder, "orlop.sock")
        self.trace = os.path.join(folder, "requests.jsonl")
        endpoint = f"ipc://{folder}/events"
        command_line = []
        for name, value in {**TRANSFER, **{f"kv_connector_extra_config.{name}": f'"{value}"'
                                           for name, value in self._options().items()}}.items():
            command_line += [f"--kv-transfer-config.{name}", value]
        self.told: list[Any] = []  # every event so far
        with contextlib.ExitStack() as started:  # ended in the opposite order, whatever fails
            context = started.enter_context(zmq.Context())
            self._events = started.enter_context(context.socket(zmq.SUB))
            self._events.subscribe(b"")
            self._events.connect(endpoint)  # before there is anything to miss
            self.node = NodeProcess(self.socket)
            started.callback(self.node.close)
            self.vllm = VllmServer(
                model, None, "--dtype", "float32", "--max-model-len", "512", "--num-gpu-blocks-override", "64",
                "--kv-events-config.enable_kv_cache_events", "true", "--kv-events-config.publisher", "zmq",
                "--kv-events-config.endpoint", endpoint, command_line=command_line,
                environment={"VLLM_SERVER_DEV_MODE": "1", "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": "0"})
            started.callback(self.vllm.close)
            self._started = started.pop_all()

    def __enter__(self) -> "Served":
        try:
            self.vllm.__enter__()
            self.vllm.until_attached()
        except BaseException:
            self._started.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._started.close()

    def until_told(self, condition: Callable[[list[Any]], Any]) -> Any:
        """What condition says of the events so far, once it is true."""

        def is_so() -> bool:
            while self._events.poll(20):
                _, _, payload = self._events.recv_multipart()
                self.told += msgspec.msgpack.decode(payload, type=KVEventBatch).events
            return bool(condition(self.told))

        self.vllm.until(is_so, _SECONDS, f"no such event among {len(self.told)}")
        return condition(self.told)

    def until_stored(self, prompt: list[int], medium: str = "CPU") -> dict[bytes, Any]:
        """Of the prompt's whole blocks, once all were told as stored: what blocks_of() says."""
        found: dict[bytes, Any] = self.until_told(lambda told: of_prompt(told, prompt, medium))
        return found

    def step(self) -> None:
        """Counts and events of a step arrive with the one after it."""
        self.vllm.ask([next(_STEP)] * 8, 1)

    def _options(self) -> dict[str, str]:
        return {**OPTIONS, "socket": self.socket, "trace_requests": self.trace}
