#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The interleaving tests promise at least 200,000 schedules together.

Each `.at_least = N` in a test is enforced by the test itself (expect_clean); this adds them up, so
that a test that is taken away, or a floor that is lowered, does not go unnoticed. Exit status 0: the
sum is large enough.
"""
import pathlib
import re
import sys

WANTED = 200_000

promised = {}
for path in sorted(pathlib.Path(__file__).parent.glob("*_test.cpp")):
    floors = re.findall(r"\.at_least = ([\d']+)", path.read_text())
    promised[path.name] = sum(int(floor.replace("'", "")) for floor in floors)
total = sum(promised.values())
for name, floor in promised.items():
    print(f"{name:24} {floor:8}")
print(f"{'in all':24} {total:8} of {WANTED}")
sys.exit(0 if total >= WANTED else 1)
