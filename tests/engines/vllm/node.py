# SPDX-License-Identifier: Apache-2.0
"""A node as a process of its own at a given socket, whose server can be paused and killed."""

import json
import os
import signal
import subprocess
import time

from children import ends_with_us

from orlop.programs import find


class NodeProcess:
    def __init__(self, socket: str, capacity: str = "64MiB") -> None:
        self.socket = socket
        self._capacity = capacity
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            ends_with_us([find("orlop"), "serve", "--socket", self.socket, "--capacity", self._capacity],
                         "TERM"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def server(self) -> int:
        with open(self.socket + ".json") as file:
            return int(json.load(file)["server_pid"])

    def pause(self) -> None:
        os.kill(self.server(), signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.server(), signal.SIGCONT)

    def kill_server(self) -> None:
        """The keeper starts another one, which finds the values again."""
        before = self.server()
        os.kill(before, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while self.server() == before:
            assert time.monotonic() < deadline, "no new server"
            time.sleep(0.01)

    def start_again(self) -> None:
        """Keeper and all: nothing that was stored is there afterwards."""
        self.close()
        self._start()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()  # nothing, if it has ended
            self._process.wait()
