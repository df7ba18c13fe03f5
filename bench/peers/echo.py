# SPDX-License-Identifier: Apache-2.0
"""The reference of the put rows: one byte over a Unix socket to `orlop bench-echo` and back, from Python."""

import os
import signal
import socket
import time

_LINK = 3  # the descriptor bench-echo serves; kWorkerLinkNumber in src/cli/worker_link.h


class Echo:
    def __init__(self, orlop_program: str):
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.pid = os.posix_spawn(
                orlop_program, [orlop_program, "bench-echo"], os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), _LINK)])

    def round(self, seconds: float) -> list[int]:
        """Durations of round trips in ns."""
        descriptor = self._socket.fileno()
        clock, write, read = time.perf_counter_ns, os.write, os.read
        durations, end = [], clock() + int(seconds * 1e9)
        while clock() < end:
            begin = clock()
            write(descriptor, b"x")
            if read(descriptor, 1) != b"x":
                raise RuntimeError("the echo process has gone")
            durations.append(clock() - begin)
        return durations

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._socket.close()
