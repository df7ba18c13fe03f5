# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's and the workers' side tell each other, pickled by vLLM once a step."""

import dataclasses
import itertools
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
    #: (cache group, number of its pages), one group's behind the other's; []: all of group 0
    spans: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    whole: bool = False  #: all pages or none: a bad block fails the request's load, not its block
    begun: bool = False  #: by the worker's side in the scheduler's process, before the step

    @property
    def pages(self) -> int:
        """That must be right for the load to have succeeded."""
        return max(len(self.blocks), 1)  # without a known block nothing can be right

    def by_group(self) -> list[tuple[int, slice]]:
        """Each group's part of keys and blocks."""
        if not self.spans:
            return [(0, slice(0, len(self.keys)))]
        ends = [0, *itertools.accumulate(pages for _, pages in self.spans)]
        return [(group, slice(begin, end)) for (group, _), begin, end
                in zip(self.spans, ends, ends[1:], strict=False)]


@dataclasses.dataclass
class SaveOrder:
    """Store blocks[i], complete after this step, as keys[i]. parent: the key before keys[0]."""

    keys: list[bytes]
    blocks: list[int]
    parent: bytes | None
    group: int = 0
    leaving: bool = False  #: the next step may write the blocks


@dataclasses.dataclass
class StepOrders(KVConnectorMetadata):  # type: ignore[misc]
    loads: list[LoadOrder] = dataclasses.field(default_factory=list)
    saves: list[SaveOrder] = dataclasses.field(default_factory=list)
    #: blocks that this step may write from their beginning; None: it is not known, so any of them
    overwritten: list[int] | None = dataclasses.field(default_factory=list)
    idle: bool = False  #: neither this step nor one before it computes: only loads are waited for
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
    failed: bool = False  #: all of it, because it was to be whole: no block of it is reported


@dataclasses.dataclass
class StepReport(KVConnectorWorkerMetadata):  # type: ignore[misc]
    #: request -> (pages that are right on all ranks that reported, reason of the one with fewest)
    ends: dict[str, tuple[int, Reason]]
    told: "list[RankTold]" = dataclasses.field(default_factory=list)  #: in a rank's first report
    #: a request that this step names as loaded although it is not yet: see WorkerSide.take_ends()
    announced: str | None = None

    def aggregate(self, other: KVConnectorWorkerMetadata) -> "StepReport":
        assert isinstance(other, StepReport)
        ends = dict(self.ends)
        for request, end in other.ends.items():
            ends[request] = min(end, ends.get(request, end), key=lambda one: one[0])
        return StepReport(ends, self.told + other.told, self.announced or other.announced)


@dataclasses.dataclass
class RankTold(KVConnectorHandshakeMetadata):  # type: ignore[misc]
    """The descriptors of a rank's namespaces, one a cache group, but for their revision, which the
    scheduler finds out."""

    descriptors: list[dict[str, Any]]
