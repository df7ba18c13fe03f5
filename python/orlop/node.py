# SPDX-License-Identifier: Apache-2.0
"""A private node for a notebook or a test."""

import atexit
import http.client
import json
import os
import shutil
import signal
import socket as sockets
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import Any

from orlop import _native, errors, programs
from orlop.client import Client

_START_LIMIT_S = 30.0  # a large memory is made resident at start
_STOP_LIMIT_S = 8.0  # longer than the node's own grace for its server
_POLL_S = 0.01
_ADMIN_TIMEOUT_S = 5.0
_SHOWN_LOG_CHARACTERS = 2000
_USAGE_STATUS = 2  # every mistake in the options: src/cli/exit_code.h

_open_nodes: "weakref.WeakSet[Node]" = weakref.WeakSet()


def serve(capacity: str = "256MiB", *, start_limit: float = _START_LIMIT_S,
          **options: Any) -> "Node":
    """Starts a private node and returns when it serves.

    capacity: bytes of its memory, "256MiB". options: those of ``orlop serve`` with underscores,
    ``max_value_len="16MiB"``; True and False are on and off. start_limit: seconds.

    The node is a child of this process with its own socket in a fresh temporary folder. It ends
    with ``close()``, the ``with`` block, the garbage collector, or this process, even if that is
    killed. Raises, with the node's own words, InvalidArgument for a wrong option and Refused when it
    does not start for another reason.
    """
    return Node({"capacity": capacity, **options}, start_limit)


class Node:
    """A private node: see :func:`serve`. A context manager: leaving the block stops it."""

    def __init__(self, options: dict[str, Any], start_limit: float = _START_LIMIT_S) -> None:
        self._owner = os.getpid()
        self._child: _native._Child | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="orlop-"))
        try:
            self._child = _start_child(self._command(options), str(self._folder / "node.log"))
            self._wait_until_served(time.monotonic() + start_limit)
        except BaseException:
            self.close()
            raise
        _open_nodes.add(self)

    def _command(self, options: dict[str, Any]) -> list[str]:
        command = [programs.find("orlop"), "serve", "--socket", self.socket, "--admin",
                   f"unix:{self._folder / 'admin.sock'}"]
        for name, value in options.items():
            if isinstance(value, bool):
                value = "on" if value else "off"
            command += ["--" + name.replace("_", "-"), str(value)]
        return command

    def _wait_until_served(self, deadline: float) -> None:
        assert self._child is not None
        while not self._child.has_exited:
            try:
                if self.status().get("state") == "ready":
                    return
            except errors.NoNode:
                pass
            if time.monotonic() >= deadline:
                raise errors.DeadlineExceeded("the node did not serve in time:\n" + self._log())
            time.sleep(_POLL_S)
        self._child.reap(_STOP_LIMIT_S)
        text = "the node did not start:\n" + self._log()
        if self._child.returncode == _USAGE_STATUS:
            raise errors.InvalidArgument(text)
        raise errors.Refused(text)

    def _log(self) -> str:
        try:
            text = (self._folder / "node.log").read_text(errors="replace")
        except OSError:
            return "(no log)"
        return text[-_SHOWN_LOG_CHARACTERS:]

    @property
    def socket(self) -> str:
        """Path of its socket: for Client(socket=...) of this and other processes."""
        return str(self._folder / "node.sock")

    @property
    def pid(self) -> int:
        """Process id of its keeper; 0 after its end."""
        return self._child.pid if self._child is not None else 0

    def client(self, **options: Any) -> Client:
        """A Client of this node. options: those of Client, without socket."""
        return Client(socket=self.socket, **options)

    def status(self) -> dict[str, Any]:
        """What ``orlop status --json`` shows. Raises NoNode when the node does not answer."""
        connection = _UnixConnection(str(self._folder / "admin.sock"))
        try:
            connection.request("GET", "/status.json")
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise errors.NoNode(f"the node does not answer: {error}") from error
        finally:
            connection.close()

    def close(self) -> None:
        """Stops the node and removes its folder. May be called again."""
        if os.getpid() != self._owner:
            return  # a forked child: the node is its parent's
        child, self._child = self._child, None
        if child is not None:
            child.send_signal(signal.SIGTERM)
            if not child.reap(_STOP_LIMIT_S):
                child.send_signal(signal.SIGKILL)  # its server follows it
                child.reap(_STOP_LIMIT_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_ADMIN_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _start_child(command: list[str], log: str) -> _native._Child:
    """The kernel ends the child with the *thread* that started it, so that has to be one that lives
    as long as the process: the main thread, or one made for it."""
    if threading.current_thread() is threading.main_thread():
        return _native._Child.start(command, log)
    result: list[Any] = []
    started = threading.Event()

    def start_and_stay() -> None:
        try:
            result.append(_native._Child.start(command, log))
        except BaseException as error:
            result.append(error)
        started.set()
        if not isinstance(result[0], BaseException):
            threading.Event().wait()

    threading.Thread(target=start_and_stay, name="orlop-node", daemon=True).start()
    started.wait()
    if isinstance(result[0], BaseException):
        raise result[0]
    child: _native._Child = result[0]
    return child


@atexit.register
def _close_nodes() -> None:
    for node in list(_open_nodes):
        node.close()
