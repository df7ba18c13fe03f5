# SPDX-License-Identifier: Apache-2.0
"""The adapter's counts in vLLM's own statistics and Prometheus page."""

import dataclasses
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

from orlop.engine.counters import NAMES, merge, split


@dataclasses.dataclass
class OrlopStats(KVConnectorStats):  # type: ignore[misc]
    """data: counts of engine.counters since the last time, of one or several processes."""

    def reset(self) -> None:
        self.data: dict[str, float] = {}

    def aggregate(self, other: KVConnectorStats) -> "OrlopStats":
        merge(self.data, other.data)
        return self

    def reduce(self) -> dict[str, int | float]:
        return {f"orlop {key}": round(value, 6) for key, value in sorted(self.data.items())}

    def is_empty(self) -> bool:
        return not self.data

    def __getitem__(self, name: str) -> dict[str, float]:
        """vLLM 0.26's MultiConnector reads ["data"], as of statistics that came from another process."""
        return {"data": self.data}[name]


class OrlopPromMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """vllm:orlop_NAME{reason=...}: one counter for each name of engine.counters."""

    def __init__(self, vllm_config: Any, metric_types: Any, labelnames: list[str],
                 per_engine_labelvalues: dict[int, list[object]]) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counts = {
            name: self._counter_cls(name=f"vllm:orlop_{name}", documentation=f"Orlop: {text}.",
                                    labelnames=[*labelnames, "reason"])
            for name, text in NAMES.items()}

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for key, value in transfer_stats_data.items():
            name, reason = split(key)
            labels = [*self.per_engine_labelvalues[engine_idx], reason]
            if value > 0:  # prometheus_client raises at others, which would end the server
                self._counts[name].labels(*labels).inc(value)
