# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's and the workers' side tell each other, pickled by vLLM once a step."""

import dataclasses
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorWorkerMetadata,
)

from orlop.engine.reasons import Reason


@dataclasses.dataclass
class LoadOrder:
    """Bring pages keys[i] into blocks[i]. Fewer keys than blocks: the blocks after them are bad."""

    request: str
    keys: list[bytes]
    blocks: list[int]
    asynchronous: bool


@dataclasses.dataclass
class SaveOrder:
    """Store blocks[i], complete after this step, as keys[i]. parent: the key before keys[0]."""

    keys: list[bytes]
    blocks: list[int]
    parent: bytes | None


@dataclasses.dataclass
class StepOrders(KVConnectorMetadata):  # type: ignore[misc]
    loads: list[LoadOrder] = dataclasses.field(default_factory=list)
    saves: list[SaveOrder] = dataclasses.field(default_factory=list)
    #: blocks that this step may write from their beginning; None: it is not known, so any of them
    overwritten: list[int] | None = dataclasses.field(default_factory=list)
    idle: bool = False  #: the step computes nothing, only loads are waited for
    revision: str = ""  #: of the namespaces that loads and saves of this step are in


@dataclasses.dataclass
class LoadEnd:
    """What became of a LoadOrder on one rank."""

    request: str
    asynchronous: bool
    pages: int  #: that are right, from the first
    bad_blocks: list[int]
    reason: Reason
    seconds: float


@dataclasses.dataclass
class StepReport(KVConnectorWorkerMetadata):  # type: ignore[misc]
    #: request -> (pages that are right on all ranks that reported, reason of the one with fewest)
    ends: dict[str, tuple[int, Reason]]

    def aggregate(self, other: KVConnectorWorkerMetadata) -> "StepReport":
        assert isinstance(other, StepReport)
        ends = dict(self.ends)
        for request, end in other.ends.items():
            ends[request] = min(end, ends.get(request, end), key=lambda one: one[0])
        return StepReport(ends)


@dataclasses.dataclass
class RankTold(KVConnectorHandshakeMetadata):  # type: ignore[misc]
    """The descriptor of a rank's namespace but for its revision, which the scheduler finds out."""

    descriptor: dict[str, Any]
