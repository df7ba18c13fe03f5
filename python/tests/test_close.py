# SPDX-License-Identifier: Apache-2.0
"""Closing and dropping clients at work: from other threads, signal handlers and callbacks."""

import asyncio
import functools
import gc
import itertools
import signal
import threading
import time
import types
import weakref

import numpy as np
import orlop
import pytest
from orlop import Outcome

COUNT, LENGTH = 16, 4 << 20


def test_a_close_waits_for_the_copy_of_another_thread():
    """What a put still wrote after the close would land in values of others: 64 MiB are being
    copied while the client is closed, and a second client uses the memory at once."""
    fields = dict(engine="d", layout="l", revision="r", dtype="u8", page_tokens=1, value_len=LENGTH)
    keys = [b"%d" % i for i in range(COUNT)]
    theirs = np.arange(COUNT * LENGTH // 8, dtype=np.uint64)
    cut_off = 0
    with orlop.serve("96MiB") as node, node.client(call_budget=30.0) as second:
        assert second.wait_ready(30)
        for turn in range(8):
            writer = node.client(call_budget=30.0)
            assert writer.wait_ready(30)
            ns = writer.open_namespace(model=f"m{turn}", **fields)
            ended = []

            def put(writer=writer, ns=ns, ended=ended):
                try:
                    ended.append(writer.put(ns, keys, theirs))
                except orlop.Closed as error:
                    ended.append(error)

            thread = threading.Thread(target=put)
            thread.start()
            while not writer.stats().open_put_plans and not ended:
                pass
            time.sleep(turn * 0.002)  # another place in the copy at each turn
            writer.close()
            mine = second.open_namespace(model=f"other{turn}", **fields)
            assert Outcome.STORED in second.put(mine, keys, b"\xee" * (COUNT * LENGTH))
            thread.join(60)
            cut_off += isinstance(ended[0], orlop.Closed)
            seen = second.get_bytes(mine, keys)
            assert seen and all(one == b"\xee" * LENGTH for one in seen)
            same = second.open_namespace(model=f"m{turn}", **fields)
            for i, value in enumerate(second.get_bytes(same, keys)):
                assert value == theirs[i * LENGTH // 8:(i + 1) * LENGTH // 8].tobytes()
            second.flush(mine)
            second.flush(same)
        assert second.stats().mismatches == 0
    assert cut_off > 0


def commit(client, ns, key: bytes) -> orlop.Future:
    with client.put_start(ns, key) as plan:
        plan.copy_in(0, bytes(4096))
        return plan.commit()


def test_a_signal_handler_may_close_the_client_that_waits_under_it(stopped_node):
    """The wait that the handler interrupted ends; nobody waits for the thread that the handler runs
    in. A wait of another thread ends too, by the close or by its deadline."""
    outer, _, cont = stopped_node
    cont()
    client = orlop.Client(socket=outer.test_socket, call_budget=2.0)
    assert client.wait_ready(30)
    ns = client.open_namespace(engine="d", layout="l", model="m", revision="r", dtype="u8",
                               page_tokens=1, value_len=4096)
    cont(stop=True)
    others = []

    def put_too():
        try:
            others.append(client.put(ns, b"theirs", bytes(4096)))
        except orlop.Closed:
            others.append([Outcome.NO_NODE])

    thread = threading.Thread(target=put_too)
    closed = []

    def close(number, frame):
        client.close()
        closed.append(number)

    before = signal.signal(signal.SIGALRM, close)
    try:
        thread.start()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(orlop.Closed):
            client.put(ns, b"ours", bytes(4096))
    finally:
        signal.signal(signal.SIGALRM, before)
    thread.join(60)
    assert closed == [signal.SIGALRM] and not thread.is_alive()
    assert others == [[Outcome.NO_NODE]]
    client.close()


def test_a_signal_handler_may_close_the_client_that_copies_under_it(node, open_namespace):
    client = node.client(call_budget=20.0)
    assert client.wait_ready(30)
    ns = open_namespace(client, value_len=4 << 20)
    before = signal.signal(signal.SIGALRM, lambda number, frame: client.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(orlop.Closed):
            for i in itertools.count():
                client.put(ns, b"%d" % i, bytes(4 << 20))
    finally:
        signal.signal(signal.SIGALRM, before)


CALLABLES = {
    "function": lambda body: lambda ready: body(),
    "partial": lambda body: functools.partial(lambda body, ready: body(), body),
    "bound method": lambda body: types.MethodType(lambda self, ready: body(), object()),
}


@pytest.mark.parametrize("kind", CALLABLES.values(), ids=CALLABLES.keys())
def test_on_ready_may_drop_the_last_reference_to_its_client(node, kind):
    for _ in range(5):
        holder: list[orlop.Client] = []
        full, emptied = threading.Event(), threading.Event()

        def drop(holder=holder, full=full, emptied=emptied):
            full.wait()
            holder.clear()
            gc.collect()
            emptied.set()

        holder.append(node.client(on_ready=kind(drop)))
        gone = weakref.ref(holder[0])
        full.set()
        assert emptied.wait(30) and gone() is None


def test_on_ready_may_close_its_client(node):
    holder: list[orlop.Client] = []
    full, closed = threading.Event(), threading.Event()

    def close(ready):
        full.wait()
        holder[0].close()
        closed.set()

    holder.append(node.client(on_ready=close))
    full.set()
    assert closed.wait(30)
    with pytest.raises(orlop.Closed):
        holder[0].ping()


def test_on_ready_wakes_an_event_loop_that_drops_the_client(node):
    async def main():
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        client = node.client(
            on_ready=lambda _: loop.call_soon_threadsafe(ready.set), call_budget=10.0)
        gone = weakref.ref(client)
        await asyncio.wait_for(ready.wait(), 30)
        del client
        gc.collect()
        return gone()

    assert asyncio.run(main()) is None


def test_on_ready_drops_the_client_of_a_loop_that_awaits_its_commit(node, open_namespace):
    """The future keeps what it needs: the commit is answered, by the node or by the close."""
    holder: list[orlop.Client] = []
    full, emptied = threading.Event(), threading.Event()

    def drop(ready):
        full.wait()
        holder.clear()
        emptied.set()

    async def main():
        holder.append(node.client(on_ready=drop, call_budget=10.0))
        assert holder[0].wait_ready(30)
        future = commit(holder[0], open_namespace(holder[0]), b"a")
        full.set()
        return await asyncio.wait_for(asyncio.ensure_future(as_coroutine(future)), 30)

    async def as_coroutine(future):
        return await future

    assert asyncio.run(main()) in ([Outcome.STORED], [Outcome.NO_NODE]) and emptied.wait(30)
