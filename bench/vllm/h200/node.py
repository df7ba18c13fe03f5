# SPDX-License-Identifier: Apache-2.0
"""A node at a socket that is known before it serves, so that engines can start meanwhile."""

import subprocess
import time
from pathlib import Path

import orlop
from orlop.programs import find


class Node:
    """Raises RuntimeError, with the node's own words, when it does not serve in time."""

    def __init__(self, socket: str, capacity: str, log: Path, limit_s: float) -> None:
        with open(log, "w") as words:
            self._process = subprocess.Popen(
                [find("orlop"), "serve", "--socket", socket, "--capacity", capacity, "--admin", "off"],
                stdout=words, stderr=words)
        until = time.monotonic() + limit_s
        with orlop.Client(socket=socket, name="h200 bench") as client:
            while not client.wait_ready(0.2):
                if self._process.poll() is not None or time.monotonic() > until:
                    self.close()
                    raise RuntimeError(f"no node of {capacity}: {log.read_text(errors='replace')[-2000:]}")

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
