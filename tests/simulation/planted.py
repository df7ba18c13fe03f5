#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns on every planted bug (src/base/planted.h) and sees that it is found.

  planted.py --bin build/release/bin            all of them, a table
  planted.py --bin ... --json                   {"planted":N,"found":N,"table":[...]}
  planted.py --bin ... --share 3                every third, chosen by the commit id
  planted.py --bin ... --write                  all, and writes the table of planted-bugs.md
  planted.py --check-page                       the page has a row for each bug and no other

The programs run are GoogleTest binaries; each test that finds a bug records its name, what was
tried how often, and which oracle said what. Exit status 0: all that were planted were found.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/protocol/planted-bugs.md"
BEGIN, END = "<!-- table: planted.py --write -->", "<!-- end of table -->"

# Program -> the tests in it that find planted bugs.
INTERLEAVING = ("pin_test", "group_test", "ledger_test", "index_test", "ring_test", "touch_test",
                "stream_order_test")
KEEPER = "attach_sim_test"
SIMULATION = "simulation_planted_test"
WHERE = {SIMULATION: "simulation", KEEPER: "attach"}


def bugs():
    """Name -> what its line breaks, in the order of the enum."""
    header = (ROOT / "src/base/planted.h").read_text()
    enum = header[header.index("enum class PlantedBug {"):header.index("};")]
    found = {}
    for name, says in re.findall(r"^\s*k(\w+),\s*// (.*)$", enum, re.M):
        if name != "None":
            found[re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()] = says
    return found


def commit_number():
    asked = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True)
    return int(asked.stdout[:8], 16) if asked.returncode == 0 else 0


def run(program, test_filter, bin_folder):
    """The tests of one program: rows of what was found, names of tests that failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        ended = subprocess.run(
            [bin_folder / program, f"--gtest_filter={test_filter}", f"--gtest_output=json:{report}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not report.exists():
            return [], [f"{program} {test_filter}"], ended.stdout
        suites = json.loads(report.read_text())["testsuites"]
    rows, failed = [], []
    for test in (one for suite in suites for one in suite["testsuite"]):
        if "failures" in test:
            failed.append(f"{program}: {test['classname']}.{test['name']}")
        elif "planted_bug" in test:
            rows.append({"bug": test["planted_bug"], "where": WHERE.get(program, "interleaving"),
                         "program": program, "oracle": test["oracle"], "tries": int(test["tries"]),
                         "unit": test["unit"], "checks": int(test.get("checks", 0))})
    return rows, failed, ended.stdout if failed or ended.returncode != 0 else ""


def search(asked, bin_folder, jobs):
    of_a_host = subprocess.run([bin_folder / SIMULATION, "--gtest_list_tests"],
                               capture_output=True, text=True, check=True).stdout
    work = [(SIMULATION, f"*/{name}") for name in asked
            if re.search(rf"/{name}\b", of_a_host)]
    work += [(program, "*found*") for program in INTERLEAVING + (KEEPER,)]
    rows, failed, said = [], [], ""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for some, wrong, text in pool.map(lambda item: run(*item, bin_folder), work):
            rows += [row for row in some if row["bug"] in asked]
            failed += wrong
            said += text
    order = list(asked)
    rows.sort(key=lambda row: (order.index(row["bug"]), row["where"] != "simulation"))
    return rows, failed, said


def page_table(rows, meaning):
    lines = ["| planted bug | what its line breaks | where | found by | tries |", "|---|---|---|---|---|"]
    for row in rows:
        oracle = re.sub(r"(?<![A-Z])\d+", "n", row["oracle"].split(";")[0])  # the run's own numbers
        checks = f" ({row['checks']} ended by a `CHECK`)" if row["checks"] else ""
        lines.append(f"| `{row['bug']}` | {meaning[row['bug']]} | {row['where']} | {oracle} | "
                     f"{row['tries']} {row['unit']}{checks} |")
    return "\n".join(lines)


def write_page(rows, meaning):
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:begin] + "\n" + page_table(rows, meaning) + "\n" + page[end:])


def check_page(meaning):
    page = PAGE.read_text()
    table = page[page.index(BEGIN):page.index(END)]
    rows = set(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.M))
    wrong = rows ^ set(meaning.items())
    for name, says in sorted(wrong):
        print(f"{PAGE.name}: {name} ({says}) is not the same in src/base/planted.h")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, help="folder of the test programs")
    parser.add_argument("--share", type=int, default=1, help="only one in so many, by commit id")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--check-page", action="store_true")
    args = parser.parse_args()
    meaning = bugs()
    if args.check_page:
        return check_page(meaning)
    if args.bin is None or (args.write and args.share != 1):
        parser.error("needs --bin; --write needs all bugs")
    turn = commit_number() % args.share
    asked = {name: says for i, (name, says) in enumerate(meaning.items())
             if i % args.share == turn}
    rows, failed, said = search(asked, args.bin.resolve(), args.jobs)
    found = {row["bug"] for row in rows}
    missing = [name for name in asked if name not in found]
    if said:
        print(said, file=sys.stderr)
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    for name in missing:
        print(f"not found: {name}", file=sys.stderr)
    if args.json:
        print(json.dumps({"planted": len(asked), "found": len(found), "table": rows}))
    else:
        for row in rows:
            print(f"{row['bug']:32} {row['where']:13} {row['tries']:6} {row['unit']:10} "
                  f"{row['oracle'][:90]}")
        print(f"{len(found)} of {len(asked)} planted bugs found")
    if args.write and not missing and not failed:
        write_page(rows, meaning)
    return 1 if missing or failed else 0


if __name__ == "__main__":
    sys.exit(main())
