# SPDX-License-Identifier: Apache-2.0
"""One peer's process: starts the peer's server as its child, is its client, and times calls.

  python driver.py PEER FD

race.py writes one JSON object a line to our stdin and reads one a line from descriptor FD (stdout
belongs to the libraries):
  {"do": "start"}                          -> {"servers": [pid, ...], "about": {...}}
  {"do": "round", "cell": NAME, "seconds": s, "most": n}  -> {"ns": [one duration a call]}
  {"do": "stop"}                           -> {}
An error is {"error": text}, and the end. The timed loop is here, the same for all peers; what a peer
does in a call is in peer_PEER.py:

  class Peer:
      about: dict                          versions and settings, for the page
      start() -> list[int]                 ids of the server's processes, once they answer
      stop()
      store(keys, values)                  not timed; key i gets value i % values.count
      clear()                              not timed; forgets everything
      get_call(keys, values) -> call       call(i) gets key i into the caller's buffer
      put_call(keys, values) -> call       call(i) stores value i % values.count under key i and
                                           returns when it is readable
      batch_get_call(keys, values) -> call call(_) gets all keys, value i into the i-th buffer
      batch_put_call(batches, values)      call(i) stores the keys batches[i], value j under key j
      exists_call(keys) -> call            call(_) is the number of keys, if all are there
      got(i) -> address                    where the last get (i = 0) or batch get put value i
"""

import gc
import importlib
import json
import sys
import time
import traceback

from cells import Cell, cell_by_name
from values import Values, keys


class Rounds:
    """Runs rounds of cells. What a cell reads stays stored as long as rounds of that cell follow."""

    def __init__(self, peer):
        self.peer = peer
        self.values = Values(1, 1)
        self.generation = 0
        self.prepared: tuple | None = None  # (cell, ...): of a cell that only reads

    def run(self, cell: Cell, seconds: float, most: int) -> list[int]:
        if self.prepared is None or self.prepared[0] != cell:
            self.prepared = None
            self.generation += 1
            self.peer.clear()
            count = 1 if cell.kind == "exists" else cell.working_set
            if (self.values.size, self.values.count) != (cell.size, count):
                self.values = Values(cell.size, count)
            self.values.turn = self.generation
        gc.collect()
        gc.disable()
        try:
            measure = getattr(self, "_" + cell.kind)
            return measure(cell, int(seconds * 1e9), min(most, cell.most_operations))
        finally:
            gc.enable()

    def _keys(self, letter: str, count: int) -> list[str]:
        # No key is used twice in a run: a store may keep the first value of a key.
        return keys(f"{letter}{self.generation}", count)

    def _stored(self, cell: Cell, count: int, make_call):
        if self.prepared is None:
            names = self._keys(cell.kind[0], count)
            self.peer.store(names, self.values)
            self.prepared = (cell, make_call(names))
        return self.prepared[1]

    def _get(self, cell, limit, most):
        call = self._stored(cell, cell.working_set, lambda names: self.peer.get_call(names, self.values))

        def check(i, _):
            self.values.check(i, self.peer.got(0), cell.name)
            self.values.spoil(i, self.peer.got(0))

        return timed(call, limit, most, cycle=cell.working_set, after=check)

    def _batch_get(self, cell, limit, most):
        call = self._stored(
            cell, cell.values, lambda names: self.peer.batch_get_call(names, self.values))

        def check(*_):
            for i in range(cell.values):
                self.values.check(i, self.peer.got(i), cell.name)
                self.values.spoil(i, self.peer.got(i))  # or the next call could do nothing

        return timed(call, limit, most, after=check)

    def _exists(self, cell, limit, most):
        call = self._stored(cell, cell.values, self.peer.exists_call)

        def check(_, found):
            if found != cell.values:
                raise RuntimeError(f"{cell.name}: the peer found {found} keys")

        durations = timed(call, limit, most, after=check)
        absent = self.peer.exists_call(self._keys("a", 10))(0)
        if absent != 0:
            raise RuntimeError(f"{cell.name}: the peer found {absent} of 10 keys that are not there")
        return durations

    def _put(self, cell, limit, most):
        names = self._keys("p", most)
        durations = timed(self.peer.put_call(names, self.values), limit, most)
        self._read_back(names[: len(durations)])
        return durations

    def _batch_put(self, cell, limit, most):
        names = self._keys("P", most * cell.values)
        batches = [names[i : i + cell.values] for i in range(0, len(names), cell.values)]
        durations = timed(self.peer.batch_put_call(batches, self.values), limit, most)
        self._read_back(names[: len(durations) * cell.values])
        return durations

    def _read_back(self, names):
        """Of what was put, the last 64 keys."""
        first = max(0, len(names) - 64)
        call = self.peer.get_call(names[first:], self.values)
        for i in range(len(names) - first):
            call(i)
            self.values.check((first + i) % self.values.count, self.peer.got(0), "read back")


def timed(call, limit_ns: int, most: int, cycle: int = 1 << 62, after=None) -> list[int]:
    """Durations of call(i % cycle), i = 0, 1 ... until `limit_ns` are measured.

    after(i % cycle, result of the call) is not timed.
    """
    clock = time.perf_counter_ns
    durations: list[int] = []
    total = 0
    for i in range(most):
        i %= cycle
        begin = clock()
        result = call(i)
        end = clock()
        durations.append(end - begin)
        total += end - begin
        if after is not None:
            after(i, result)
        if total >= limit_ns:
            break
    return durations


def main() -> int:
    answers = open(int(sys.argv[2]), "w", buffering=1)
    peer = None
    try:
        peer = importlib.import_module(f"peer_{sys.argv[1]}").Peer()
        rounds = Rounds(peer)
        for line in sys.stdin:
            order = json.loads(line)
            if order["do"] == "start":
                answer = {"servers": peer.start(), "about": peer.about}
            elif order["do"] == "round":
                answer = {"ns": rounds.run(cell_by_name(order["cell"]), order["seconds"], order["most"])}
            else:
                answers.write("{}\n")
                break
            answers.write(json.dumps(answer) + "\n")
    except Exception:
        answers.write(json.dumps({"error": traceback.format_exc(limit=4)}) + "\n")
        return 1
    finally:
        if peer is not None:
            peer.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
