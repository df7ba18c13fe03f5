# SPDX-License-Identifier: Apache-2.0
"""Futures: waited for, awaited, from several threads and loops, interrupted."""

import asyncio
import gc
import signal
import threading
import time
import weakref

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


@pytest.fixture
def interrupt_soon():
    """Called inside pytest.raises, as its timer may be quicker than what is to be interrupted."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.1)
    signal.signal(signal.SIGALRM, before)


def test_ctrl_c_ends_a_wait(stopped_node, interrupt_soon):
    client, plans, _ = stopped_node
    future = plans[0].commit()
    with pytest.raises(KeyboardInterrupt):
        interrupt_soon()
        future.result(60)


def test_ctrl_c_ends_wait_ready(tmp_path, interrupt_soon):
    with orlop.Client(socket=str(tmp_path / "none.sock")) as client:
        with pytest.raises(KeyboardInterrupt):
            interrupt_soon()
            client.wait_ready()


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
def test_ctrl_c_ends_a_wait_for_the_node(stopped_node, interrupt_soon, call):
    client, _, cont = stopped_node
    with orlop.Client(socket=client.test_socket, call_budget=60.0) as patient:
        cont()
        assert patient.wait_ready(30)
        ns = patient.open_namespace(engine="d", layout="l", model="m", revision="r", dtype="u8",
                                    page_tokens=1, value_len=4096)
        cont(stop=True)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            interrupt_soon()
            call(patient, ns)
        assert time.monotonic() - start < 30  # its budget is 60
        cont()
        patient.ping()


class Callback:
    """An on_ready that can be seen to be gone: the client behind it lets go of it last."""

    def __call__(self, ready):
        pass


def test_a_client_of_a_loop_that_was_dropped_while_it_awaited_is_collected(stopped_node):
    outer, _, cont = stopped_node
    cont()
    callback = Callback()
    client = orlop.Client(socket=outer.test_socket, call_budget=0.3, on_ready=callback)
    assert client.wait_ready(30)
    ns = client.open_namespace(engine="d", layout="l", model="m", revision="r", dtype="u8",
                               page_tokens=1, value_len=4096)
    with client.put_start(ns, b"never answered") as plan:
        plan.copy_in(0, bytes(4096))
        cont(stop=True)
        future = plan.commit()

    async def wait():
        return await future

    loop = asyncio.new_event_loop()
    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0.05))
    assert not task.done()
    task._log_destroy_pending = False  # dropped on purpose
    gone = [weakref.ref(loop), weakref.ref(callback)]
    loop.close()
    del client, callback, ns, plan, future, wait, loop, task
    gc.collect()
    assert [one() for one in gone] == [None, None]
