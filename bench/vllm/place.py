# SPDX-License-Identifier: Apache-2.0
"""A node of the benchmark's own, and small arithmetic. Imports nothing of the engine."""

import sys
import tempfile
from pathlib import Path
from types import TracebackType

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests/engines/vllm"))
from node import NodeProcess


class Node:
    """A node in a folder of its own, stopped and gone at the end."""

    def __init__(self, capacity: str) -> None:
        self._capacity = capacity

    def __enter__(self) -> "Node":
        self._folder = tempfile.TemporaryDirectory(prefix="orlop-bench-")
        self.socket = str(Path(self._folder.name) / "orlop.sock")
        self._node = NodeProcess(self.socket, self._capacity)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        with self._folder:
            self._node.close()


def quantiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{q}": round(ordered[min(len(ordered) - 1, len(ordered) * q // 100)], 1) for q in (50, 99)}
