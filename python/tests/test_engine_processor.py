# SPDX-License-Identifier: Apache-2.0
"""What Orlop's threads use inside an engine's process."""

import threading
import time

import orlop
from orlop.engine.counters import Counters
from orlop.engine.processor import ThreadTime, _ours


def use(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_only_threads_of_ours_count_and_each_second_once() -> None:
    ours, others = threading.Event(), threading.Event()

    def work(done: threading.Event) -> None:
        use(0.2)
        done.set()
        stop.wait(60)

    stop, time_of = threading.Event(), ThreadTime()
    time_of.take(at_once=True)  # of threads of other tests
    threads = [threading.Thread(target=work, args=(done,), name=name)
               for done, name in ((ours, "orlop-test"), (others, "engine"))]
    for one in threads:
        one.start()
    assert ours.wait(60) and others.wait(60)
    used = time_of.take(at_once=True)
    assert 0.2 <= used < 0.35
    assert time_of.take(at_once=True) < 0.05
    assert time_of.take() == 0.0  # it looks twice a second
    stop.set()
    for one in threads:
        one.join()


def test_native_threads_count(node: orlop.Node) -> None:
    before = _ours()
    with node.client() as other:
        assert other.wait_ready(60)
        assert len(_ours() - before) == 1
    deadline = time.monotonic() + 60
    while _ours() != before:  # the kernel lists a thread for a moment after it was joined
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_counters_tell_them() -> None:
    counters = Counters()
    thread = threading.Thread(target=lambda: (use(0.1), told.wait(60)), name="orlop-test")
    told = threading.Event()
    thread.start()
    deadline = time.monotonic() + 60
    while counters.totals().get("thread_seconds", 0.0) < 0.1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    told.set()
    thread.join()
