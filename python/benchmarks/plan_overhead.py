# SPDX-License-Identifier: Apache-2.0
"""What Python adds: plan and release of 2,000 pages against the same in C++, and one-value calls.

The C++ program and this process take turns on the same node, pages and CPU; a row is the median of
the ratios of the rounds. Exit status 1 when a bar does not hold.

  plan_overhead.py [--rounds N] [--attach-rounds N] [--json]
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orlop
from orlop import programs

PAGES = 2000
PLANS_A_ROUND = 30
PACKED_BAR, LIST_BAR = 1.2, 3.0
ONE_VALUE_BAR_US = 3.0  # get of 4 KiB into the caller's buffer


class CppSide:
    def __init__(self, node: orlop.Node, descriptor: orlop.NamespaceDescriptor) -> None:
        program = Path(programs.find("orlop")).with_name("plan_overhead")
        text = json.dumps(dataclasses.asdict(descriptor))
        self._process = subprocess.Popen([program, node.socket, text, str(PAGES)], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def measure(self) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{PLANS_A_ROUND}\n")
        self._process.stdin.flush()
        return statistics.median(float(one) for one in self._process.stdout.readline().split())

    def close(self) -> None:
        self._process.communicate()


def median_us(call: Callable[[], object]) -> float:
    times = []
    for _ in range(PLANS_A_ROUND):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def plans(node: orlop.Node, client: orlop.Client, rounds: int) -> dict[str, float]:
    ns = client.open_namespace(engine="bench", layout="bytes/1", model="plans", revision="1",
                               dtype="u8", page_tokens=16, value_len=4096)
    keys = [i.to_bytes(8, "little") + bytes(24) for i in range(PAGES)]
    for i in range(0, PAGES, 100):
        client.put(ns, keys[i:i + 100], [bytes(4096)] * 100)
    packed = orlop.PackedKeys(b"".join(keys), 32)

    def plan(form: object) -> Callable[[], object]:
        def call() -> None:
            with client.read(ns, form) as one:  # type: ignore[arg-type]
                assert len(one) == PAGES
        return call

    cpp_side = CppSide(node, ns.descriptor)
    ratios: dict[str, list[float]] = {"packed": [], "list": []}
    best = {"cpp": 1e9, "packed": 1e9, "list": 1e9}
    for round_number in range(rounds + 1):
        cpp = cpp_side.measure()
        us = {"packed": median_us(plan(packed)), "list": median_us(plan(keys))}
        if round_number == 0:
            continue  # warms caches up
        best["cpp"] = min(best["cpp"], cpp)
        for form, value in us.items():
            ratios[form].append(value / cpp)
            best[form] = min(best[form], value)
    cpp_side.close()
    return {
        "plan_2000_cpp_us": best["cpp"],
        "plan_2000_packed_us": best["packed"],
        "plan_2000_list_us": best["list"],
        "packed_over_cpp": statistics.median(ratios["packed"]),
        "list_over_cpp": statistics.median(ratios["list"]),
    }


def one_value(client: orlop.Client, rounds: int) -> dict[str, float]:
    ns = client.open_namespace(engine="bench", layout="bytes/1", model="one", revision="1",
                               dtype="u8", page_tokens=16, value_len=4096)
    client.put(ns, b"key", bytes(4096))
    target = bytearray(4096)
    get = min(median_us(lambda: client.get(ns, b"key", target)) for _ in range(10 * rounds))
    names = iter(range(10**9))
    put = min(median_us(lambda: client.put(ns, b"%d" % next(names), target)) for _ in range(rounds))
    return {"get_4k_us": get, "put_4k_us": put}


def footprint() -> tuple[int, int, int]:
    with open("/proc/self/maps") as maps, open("/proc/self/status") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        return len(os.listdir("/proc/self/fd")), sum(1 for _ in maps), resident


def attaches(node: orlop.Node, rounds: int) -> dict[str, float]:
    def attach() -> None:
        with node.client(call_budget=10.0) as client:
            assert client.wait_ready(60)

    for _ in range(50):
        attach()
    before = footprint()
    for _ in range(rounds):
        attach()
    after = footprint()
    return {"attach_rounds": rounds, "fds_grown": after[0] - before[0],
            "maps_grown": after[1] - before[1], "rss_grown_kib": after[2] - before[2]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--attach-rounds", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with orlop.serve(capacity="128MiB") as node:
        with node.client(call_budget=10.0) as client:
            assert client.wait_ready(30)
            row = plans(node, client, options.rounds) | one_value(client, options.rounds)
        row |= attaches(node, options.attach_rounds)
    bars = {
        "packed_over_cpp": row["packed_over_cpp"] <= PACKED_BAR,
        "list_over_cpp": row["list_over_cpp"] <= LIST_BAR,
        "get_4k_us": row["get_4k_us"] <= ONE_VALUE_BAR_US,
        "attach": row["fds_grown"] <= 0 and row["maps_grown"] <= 2 and row["rss_grown_kib"] <= 4096,
    }
    if options.json:
        print(json.dumps({"values": row, "bars": bars}, indent=2))
    else:
        for name, value in row.items():
            print(f"{name:24} {value:10.2f}")
        for name, holds in bars.items():
            print(f"bar {name:20} {'holds' if holds else 'DOES NOT HOLD'}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
