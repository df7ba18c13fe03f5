# SPDX-License-Identifier: Apache-2.0
"""vLLM's own offloading on a CPU: its connector, scheduler and manager, with a plain copy as worker.

vLLM's CPU spec makes its worker on GPUs only. Named by the connector's options spec_name and
spec_module_path; what a fast copy of the same scheduler could reach is what this shows.
"""

from typing import Any

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec


class PlainCopies(OffloadingWorker):  # type: ignore[misc]
    """Copies at once, on the engine's thread, into one tensor a layer."""

    def __init__(self, caches: Any, blocks: int) -> None:
        self._pages = [one.tensor for one in caches.tensors]
        self._kept = [torch.empty((blocks, *one.shape[1:]), dtype=one.dtype) for one in self._pages]
        self._ended: list[Any] = []

    def submit_store(self, job: int, source: Any, target: Any) -> bool:
        return self._copy(job, self._pages, source, self._kept, target)

    def submit_load(self, job: int, source: Any, target: Any) -> bool:
        return self._copy(job, self._kept, source, self._pages, target)

    def _copy(self, job: int, source: list[Any], from_blocks: Any, target: list[Any],
              to_blocks: Any) -> bool:
        first, second = from_blocks.block_ids.tolist(), to_blocks.block_ids.tolist()
        for one, other in zip(source, target, strict=True):
            for a, b in zip(first, second, strict=True):
                other[b].copy_(one[a])
        self._ended.append(TransferResult(job, True, len(first), 0.001))
        return True

    def get_finished(self) -> list[Any]:
        ended, self._ended = self._ended, []
        return ended

    def wait(self, jobs: Any) -> None:
        return  # a copy is over when its call returns


class MemorySpec(CPUOffloadingSpec):  # type: ignore[misc]
    def get_worker(self, kv_caches: Any) -> PlainCopies:
        if not self._worker:
            self._worker = PlainCopies(kv_caches, self.num_chunks)
        return self._worker
