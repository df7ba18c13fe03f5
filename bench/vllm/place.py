# SPDX-License-Identifier: Apache-2.0
"""A node of the benchmark's own, and small arithmetic. Imports nothing of the engine."""

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from orlop.programs import find


class Node:
    """A node in a folder of its own, stopped and gone at the end."""

    def __init__(self, capacity: str) -> None:
        self._capacity = capacity

    def __enter__(self) -> "Node":
        self._folder = Path(tempfile.mkdtemp(prefix="orlop-bench-"))
        self.socket = str(self._folder / "orlop.sock")
        self._process = subprocess.Popen(
            [find("orlop"), "serve", "--socket", self.socket, "--capacity", self._capacity],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def quantiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{q}": round(ordered[min(len(ordered) - 1, len(ordered) * q // 100)], 1) for q in (50, 99)}
