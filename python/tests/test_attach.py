# SPDX-License-Identifier: Apache-2.0
"""Attaching and detaching leaves nothing behind in the process."""

import os

import pytest

ROUNDS = int(os.environ.get("ORLOP_ATTACH_ROUNDS", "300"))


def footprint() -> tuple[int, int]:
    with open("/proc/self/maps") as maps:
        return len(os.listdir("/proc/self/fd")), sum(1 for _ in maps)


def resident_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def round_trip(node, open_namespace) -> None:
    with node.client(call_budget=10.0) as client:
        assert client.wait_ready(60)
        ns = open_namespace(client, model="attach")
        client.put(ns, b"k", bytes(4096))
        with client.read(ns, b"k") as plan:
            assert len(plan.view(0)) == 4096


@pytest.mark.timeout(3600)
def test_attach_and_detach_does_not_grow(node, open_namespace):
    for _ in range(20):  # caches of the allocator and of the interpreter fill up
        round_trip(node, open_namespace)
    before, resident = footprint(), resident_kib()
    for _ in range(ROUNDS):
        round_trip(node, open_namespace)
    descriptors, maps = footprint()
    assert descriptors <= before[0] and maps <= before[1] + 2
    assert resident_kib() <= resident + 2048, "2 MiB: malloc's own"
