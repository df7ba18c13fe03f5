# SPDX-License-Identifier: Apache-2.0
"""Starting and ending a peer's server processes."""

import ctypes
import os
import signal
import socket
import subprocess
import tempfile
import time

START_LIMIT = 120  # seconds; importing torch on a busy machine takes half a minute
STOP_LIMIT = 10
_PR_SET_PDEATHSIG = 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _die_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Servers:
    """The processes of one peer, in a folder of their own that goes with them."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="orlop-race-")
        self.folder = self._folder.name
        self._processes: list[subprocess.Popen] = []

    def start(self, command: list[str], name: str, env: dict[str, str] | None = None) -> subprocess.Popen:
        with open(os.path.join(self.folder, name + ".log"), "wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, **(env or {})}, preexec_fn=_die_with_parent)
        self._processes.append(process)
        return process

    def wait_until(self, ready, process: subprocess.Popen, name: str):
        """ready() -> something true, or OSError / nothing while the server is not up."""
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{self.log(name)}")
            try:
                if answer := ready():
                    return answer
            except OSError:
                pass
            time.sleep(0.05)
        raise TimeoutError(f"{name} did not answer in {START_LIMIT} s:\n{self.log(name)}")

    def wait_port(self, port: int, process: subprocess.Popen, name: str) -> None:
        def connects():
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return True

        self.wait_until(connects, process, name)

    def log(self, name: str) -> str:
        with open(os.path.join(self.folder, name + ".log"), errors="replace") as file:
            return file.read()[-2000:]

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        self._folder.cleanup()
