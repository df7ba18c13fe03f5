# SPDX-License-Identifier: Apache-2.0
"""An engine whose connector is vLLM's MultiConnector of four: one that tells something of its own
first, ours as a producer, ours as a consumer, and vLLM's ExampleConnector."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

from counting import summed
from engine import Engine
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer import get_kv_transfer_group
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
)


@dataclasses.dataclass
class Greeting(KVConnectorHandshakeMetadata):  # type: ignore[misc]
    text: str = "of TalksFirst"


class TalksFirst(KVConnectorBase_V1):  # type: ignore[misc]
    """Has no pages, only something to tell at the start, as connectors between hosts have."""

    def get_handshake_metadata(self) -> Greeting:
        return Greeting()

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        pass

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        return KVConnectorMetadata()

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        pass

    def wait_for_layer_load(self, layer_name: str) -> None:
        pass

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        pass

    def wait_for_save(self) -> None:
        pass


def children(socket: str, files: str) -> KVTransferConfig:
    ours = {"kv_connector": "OrlopConnector", "kv_connector_module_path": "orlop.vllm",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"socket": socket, "save_deadline": "2"}}
    return KVTransferConfig(
        kv_connector="MultiConnector", kv_role="kv_both", kv_load_failure_policy="recompute",
        kv_connector_extra_config={"connectors": [
            {"kv_connector": "TalksFirst", "kv_connector_module_path": "multi", "kv_role": "kv_both"},
            {**ours, "kv_role": "kv_producer"}, {**ours, "kv_role": "kv_consumer"},
            {"kv_connector": "ExampleConnector", "kv_role": "kv_both",
             "kv_connector_extra_config": {"shared_storage_path": files}}]})


class MultiEngine(Engine):
    def __init__(self, model: Path, socket: str, files: str) -> None:
        # ExampleConnector takes a prompt's first chunk for all of it.
        super().__init__(model, {}, kv_transfer_config=children(socket, files),
                         max_num_batched_tokens=512)
        _, self.producer, self.offers, _ = self.scheduler.connector._connectors
        _, self.saver, self.worker, _ = get_kv_transfer_group()._connectors

    def wait_ready(self) -> None:
        for side in (self.producer, self.offers, self.saver, self.worker):
            assert side._client.wait_ready(120)
        # Ranks tell their part with their first step here.
        self.ask([[5] * 40], orlop="no_load,no_save")
        for side in (self.producer, self.offers):
            self._wait_ready(side)
        self.forget()

    def modes(self) -> list[str]:
        return [one._options.mode for one in (self.producer, self.offers, self.saver, self.worker)]

    def counts(self) -> Counter[str]:
        return summed(*(side._counters.totals()
                        for side in (self.producer, self.offers, self.saver, self.worker)))

    def settle(self) -> None:
        assert self.saver._worker.flush(60)

    def assert_nothing_held(self) -> None:
        super().assert_nothing_held()
        for side in (self.producer, self.saver):
            self._assert_nothing_pinned(side)
        assert set(self.producer._scheduler.held().values()) == {0}

    def stored(self, prompt: list[int]) -> list[bytes]:
        return list(self.offers._client.get_bytes(self.namespace, self.keys_of(prompt)))

    def remove(self, prompt: list[int]) -> int:
        return int(self.offers._client.remove(self.namespace, self.keys_of(prompt)))

    def metrics(self) -> dict[tuple[str, str | None], float]:
        return {(one.name, one.labels.get("reason")): one.value for one in self.llm.get_metrics()
                if one.name.startswith("vllm:orlop")}
