# SPDX-License-Identifier: Apache-2.0
"""Futures: waited for, awaited, from several threads and loops, interrupted."""

import asyncio
import json
import os
import signal
import threading
import time

import orlop
import pytest
from orlop import Outcome


def commit(client, ns, key: bytes) -> orlop.Future:
    with client.put_start(ns, key) as plan:
        plan.copy_in(0, bytes(4096))
        return plan.commit()


def test_result_gives_outcomes_any_number_of_times(client, ns):
    future = commit(client, ns, b"a")
    assert future.result() == future.result(0) == [Outcome.STORED]
    assert future.ready()
    with pytest.raises(ValueError, match="timeout: is negative"):
        future.result(-1)


def test_await_gives_outcomes(client, ns):
    async def main():
        first = await commit(client, ns, b"a")
        rest = await asyncio.gather(*(together(b"b%d" % i) for i in range(50)))
        return first, rest

    async def together(key):
        return await commit(client, ns, key)

    first, rest = asyncio.run(main())
    assert first == [Outcome.STORED] and rest == [[Outcome.STORED]] * 50


@pytest.fixture
def stopped_node():
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
            client.test_socket = node.socket
            yield client, plans, cont
        finally:
            cont()
            client.close()


def server_of(node) -> int:
    with open(node.socket + ".json") as file:
        return json.load(file)["server_pid"]


def test_an_unanswered_future_times_out_and_the_loop_goes_on(stopped_node):
    client, plans, cont = stopped_node
    futures = [plan.commit() for plan in plans]
    assert not futures[0].ready()
    with pytest.raises(TimeoutError):
        futures[0].result(0.05)

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.ensure_future(as_coroutine(futures[0])), 0.05)
        waits = [asyncio.ensure_future(as_coroutine(one)) for one in futures for _ in range(2)]
        ticks = 0
        cont()
        while not all(one.done() for one in waits):
            ticks += 1
            await asyncio.sleep(0.001)
        return [one.result() for one in waits], ticks

    async def as_coroutine(future):
        return await future

    results, ticks = asyncio.run(main())
    assert results == [[Outcome.STORED]] * 8 and ticks > 0


def test_several_loops_and_threads_wait_for_one_future(stopped_node):
    client, plans, cont = stopped_node
    future = plans[0].commit()
    results = []

    async def main():
        results.append(await future)

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
    threads += [threading.Thread(target=lambda: results.append(future.result())) for _ in range(2)]
    for one in threads:
        one.start()
    cont()
    for one in threads:
        one.join()
    assert results == [[Outcome.STORED]] * 4


def test_closing_the_client_resolves_its_futures(stopped_node):
    client, plans, _ = stopped_node
    future = plans[0].commit()
    client.close()
    assert future.result(30) == [Outcome.NO_NODE]


def interrupt_soon() -> threading.Thread:
    """Sends this process SIGINT once the main thread waits without the GIL."""
    def run():
        time.sleep(0.1)  # not for luck: an earlier signal would only raise earlier
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_ctrl_c_ends_a_wait(stopped_node):
    client, plans, _ = stopped_node
    future = plans[0].commit()
    thread = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        future.result(60)
    thread.join()


def test_ctrl_c_ends_wait_ready(tmp_path):
    with orlop.Client(socket=str(tmp_path / "none.sock")) as client:
        thread = interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            client.wait_ready()
        thread.join()


def test_other_threads_run_during_a_wait(stopped_node):
    client, plans, cont = stopped_node
    future = plans[0].commit()
    counted = 0
    done = threading.Event()

    def wait():
        future.result()
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    for _ in range(100_000):
        counted += 1
    assert not done.is_set()
    cont()
    thread.join()
    assert counted == 100_000


def test_on_ready_is_called_and_may_raise(node, monkeypatch):
    unraisable = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: unraisable.append(args.exc_value))
    called = threading.Event()
    states = []

    def on_ready(ready):
        states.append(ready)
        called.set()
        raise KeyError("mine")

    with node.client(on_ready=on_ready):
        assert called.wait(30)
    assert states[0] is True and str(unraisable[0]) == "'mine'"


@pytest.mark.parametrize("call", [
    lambda client, ns: client.put_start(ns, b"new", deadline=60),
    lambda client, ns: client.ping(),
    lambda client, ns: client.flush(ns),
    lambda client, ns: client.remove(ns, b"k0"),
    lambda client, ns: client.put(ns, b"other", bytes(4096)),
    lambda client, ns: client.open_namespace(engine="d", layout="l", model="x", revision="r",
                                             dtype="u8", page_tokens=1, value_len=4096),
], ids=["put_start", "ping", "flush", "remove", "put", "open_namespace"])
def test_ctrl_c_ends_a_wait_for_the_node(stopped_node, call):
    client, _, cont = stopped_node
    with orlop.Client(socket=client.test_socket, call_budget=60.0) as patient:
        cont()
        assert patient.wait_ready(30)
        ns = patient.open_namespace(engine="d", layout="l", model="m", revision="r", dtype="u8",
                                    page_tokens=1, value_len=4096)
        cont(stop=True)
        thread = interrupt_soon()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            call(patient, ns)
        assert time.monotonic() - start < 30  # its budget is 60
        thread.join()
        cont()
        patient.ping()
