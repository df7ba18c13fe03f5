# SPDX-License-Identifier: Apache-2.0
"""The race's own checks have to be able to fail: each meets here the fault that it is there for."""

import contextlib
import os
import sys
import threading
import unittest
from dataclasses import dataclass
from pathlib import Path

import peer_memcpy
import pins
import race
from cells import CELLS, Cell
from driver import Rounds
from values import Values, address_of, make_buffer

KIB = 1 << 10
KEEPS_THE_FIRST = "keeps the first value of a key"


class Store:
    """A store in this process, with one fault or none."""

    def __init__(self, fault: str = ""):
        self.fault = fault
        self.kept: dict[str, bytes] = {}
        self.calls = 0

    def clear(self):
        if self.fault != KEEPS_THE_FIRST:
            self.kept.clear()

    def store(self, keys, values):
        call = self.put_call(keys, values)
        for i in range(len(keys)):
            call(i)

    def got(self, i):
        return address_of(self.buffer) + i * self.size

    def _get(self, keys, values, count):
        self.size, self.buffer = values.size, make_buffer(count * values.size)

        def call(first):
            self.calls += 1
            if self.fault == "reads once" and self.calls > 1:
                return
            for i in range(count):
                value = self.kept[self._name(keys[first + i])]
                self.buffer[i * self.size : (i + 1) * self.size] = value

        return call

    def get_call(self, keys, values):
        return self._get(keys, values, 1)

    def batch_get_call(self, keys, values):
        call = self._get(keys, values, len(keys))
        return lambda _: call(0)

    def _name(self, key):
        # As LMCache's keys: the same ones every round.
        return key[6:11] if self.fault == KEEPS_THE_FIRST else key

    def put_call(self, keys, values):
        def call(i):
            value = bytes(values.view(i % values.count))
            if self.fault == "mixes bytes up":
                value = value[:-1] + bytes([value[-1] ^ 1])
            self.kept.setdefault(self._name(keys[i]), value)

        return call

    def batch_put_call(self, batches, values):
        return lambda i: self.store(batches[i], values)

    def exists_call(self, keys):
        return lambda _: sum(self._name(key) in self.kept for key in keys)


GET, PUT = Cell("get", 4 * KIB), Cell("put", 4 * KIB)
BATCH_GET = Cell("batch_get", 4 * KIB, 64)


def run(fault: str, *cells: Cell) -> list[int]:
    rounds = Rounds(Store(fault))
    durations = []
    for cell in cells:
        durations = rounds.run(cell, seconds=1.0, most=5)
    return durations


class RoundsTest(unittest.TestCase):
    def test_a_store_without_fault_passes_every_cell(self):
        for cell in CELLS:
            if cell.size <= 64 * KIB:
                self.assertGreater(len(run("", cell, cell)), 0, cell.name)

    def test_the_bare_copy_moves_the_right_bytes_of_every_cell(self):
        rounds = Rounds(peer_memcpy.Peer())
        for cell in CELLS:
            if cell.bytes and cell.size <= 64 * KIB:
                self.assertGreater(len(rounds.run(cell, 0.001, 3)), 0, cell.name)

    def test_a_wrong_byte_is_found(self):
        for cell in (GET, PUT, BATCH_GET):
            with self.assertRaisesRegex(RuntimeError, "wrong bytes"):
                run("mixes bytes up", cell)

    def test_a_call_that_leaves_the_bytes_of_the_last_one_is_found(self):
        for cell in (GET, BATCH_GET):
            with self.assertRaisesRegex(RuntimeError, "wrong bytes"):
                run("reads once", cell)

    def test_a_value_of_the_round_before_is_found(self):
        with self.assertRaisesRegex(RuntimeError, "wrong bytes"):
            run(KEEPS_THE_FIRST, PUT, PUT)


class ValuesTest(unittest.TestCase):
    def test_spoiled_values_do_not_pass_and_lie_in_their_value(self):
        values = Values(100, 3)
        buffer = make_buffer(100)
        for i in range(3):
            buffer[:] = values.view(i)
            values.check(i, address_of(buffer), "fresh")
            values.spoil(i, address_of(buffer))
            with self.assertRaises(RuntimeError):
                values.check(i, address_of(buffer), "spoiled")


@dataclass
class Process:
    """What race.Driver has of its process."""

    pid: int


class PlacementTest(unittest.TestCase):
    """Of this process. A thread that moves itself is what a library with its own pinning does."""

    def setUp(self):
        self.cores = sorted(os.sched_getaffinity(0))
        if len(self.cores) < 2:
            self.skipTest("with one core nothing can be elsewhere")
        self.driver = race.Driver.__new__(race.Driver)
        self.driver._process = Process(os.getpid())
        self.placement = race.Placement("one core", self.cores[0], self.cores[0])
        self.end, self.moved = threading.Event(), threading.Event()
        self.addCleanup(os.sched_setaffinity, 0, self.cores)

    def move_itself(self):
        os.sched_setaffinity(0, {self.cores[1]})
        self.moved.set()
        self.end.wait(60)

    def test_a_thread_that_moves_away_is_found_and_left_there(self):
        self.driver.place(self.placement)
        self.driver.check_placed(self.placement)
        thread = threading.Thread(target=self.move_itself)
        thread.start()
        try:
            self.assertTrue(self.moved.wait(60))
            with self.assertRaisesRegex(RuntimeError, "not on core"):
                self.driver.check_placed(self.placement)
            self.assertEqual(os.sched_getaffinity(thread.native_id), {self.cores[1]})
        finally:
            self.end.set()
            thread.join()
            for task in pins.threads_of(os.getpid()):
                # A thread that was joined is listed until the kernel is done with it.
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(task, self.cores)


class DriverTest(unittest.TestCase):
    def test_a_process_that_ended_is_an_error_of_that_peer(self):
        kind = race.PeerKind("nobody", "redis", judged=False)  # there is no module peer_nobody
        driver = race.Driver(kind, Path(sys.executable), {}, verbose=False)
        driver._process.wait(60)
        with self.assertRaisesRegex(RuntimeError, "(?s)nobody: .*peer_nobody"):
            driver.round(GET, 0.1, 1)  # a pipe that nobody reads; its last words are in the other one
        with self.assertRaisesRegex(RuntimeError, "nobody: its process ended"):
            driver.round(GET, 0.1, 1)
        driver.stop()


if __name__ == "__main__":
    unittest.main()
