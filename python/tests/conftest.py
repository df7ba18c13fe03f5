# SPDX-License-Identifier: Apache-2.0
"""One private node for the whole run; every test has namespaces of its own."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import orlop
import pytest

_models = itertools.count()

DESCRIPTOR: dict[str, Any] = {
    "engine": "demo",
    "layout": "bytes/1",
    "revision": "1",
    "dtype": "u8",
    "page_tokens": 16,
}


@pytest.fixture(scope="session")
def node() -> Iterator[orlop.Node]:
    with orlop.serve(capacity="64MiB") as one:
        yield one


@pytest.fixture
def client(node: orlop.Node) -> Iterator[orlop.Client]:
    with node.client(name="pytest", call_budget=10.0) as one:
        assert one.wait_ready(30)
        yield one


@pytest.fixture
def open_namespace() -> Callable[..., orlop.Namespace]:
    def make(client: orlop.Client, value_len: int = 4096, **fields: Any) -> orlop.Namespace:
        fields = {**DESCRIPTOR, "model": f"model-{next(_models)}", **fields}
        return client.open_namespace(value_len=value_len, **fields)

    return make


@pytest.fixture
def ns(client: orlop.Client, open_namespace: Callable[..., orlop.Namespace]) -> orlop.Namespace:
    return open_namespace(client)


@pytest.fixture
def run_script(node: orlop.Node) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs Python code in a fresh process that has `client`, `ns` and `orlop`; 60 s at most."""
    start = (
        "import orlop, os, sys, threading, time\n"
        f"client = orlop.Client(socket={node.socket!r}, call_budget=10.0)\n"
        "assert client.wait_ready(30)\n"
        f"ns = client.open_namespace(value_len=4096, model='script-{next(_models)}',"
        f" **{DESCRIPTOR!r})\n"
    )

    def run(code: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", start + code],
                              capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def stopped_node() -> Iterator[Any]:
    """A node of its own whose server is stopped by a signal: commits stay unanswered."""
    with orlop.serve(capacity="16MiB") as node:
        client = node.client(call_budget=0.3)
        assert client.wait_ready(30)
        ns = client.open_namespace(engine="d", layout="l", model="m", revision="r", dtype="u8",
                                   page_tokens=1, value_len=4096)
        plans = [client.put_start(ns, b"k%d" % i) for i in range(4)]
        for plan in plans:
            plan.copy_in(0, bytes(4096))
        server = server_of(node)

        def cont(*, stop: bool = False) -> None:
            os.kill(server, signal.SIGSTOP if stop else signal.SIGCONT)

        cont(stop=True)
        try:
            client.test_socket = node.socket  # type: ignore[attr-defined]
            yield client, plans, cont
        finally:
            cont()
            client.close()


def server_of(node: orlop.Node) -> int:
    with open(node.socket + ".json") as file:
        return int(json.load(file)["server_pid"])
