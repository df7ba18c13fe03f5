#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzz targets of a libFuzzer build: ./dev fuzz [--minutes N | --seconds N] [--target T].

Every target searches for the given time, from its committed corpus and from what earlier runs of
this build collected (BUILD/fuzz/TARGET/corpus). Prints one line a target; exit status 1 if one of
them found something. A find is minimised and kept in tests/fuzz/found/TARGET, where every later
ctest run replays it; commit it with the repair.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MINIMISE_SECONDS = 30
# One input: far beyond what any target takes under sanitizers on a busy machine, so that it means a
# hang; memory likewise.
INPUT_TIMEOUT_SECONDS = 20
MEMORY_LIMIT_MB = 2048
MOST_INPUT_BYTES = 16384


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description="searches with libFuzzer")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, metavar="N", help="for each target")
    length.add_argument("--seconds", type=float, metavar="N", help="for each target; default 60")
    parser.add_argument("--target", action="append", metavar="T", help="only this one; may repeat")
    parser.add_argument("--json", action="store_true", help="the table as JSON on stdout")
    parser.add_argument("--build", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    arguments = parser.parse_args()
    seconds = arguments.minutes * 60 if arguments.minutes else arguments.seconds or 60

    known = sorted(p.name.removeprefix("fuzz_") for p in (arguments.build / "bin").glob("fuzz_*"))
    unknown = set(arguments.target or []) - set(known)
    if unknown or not known:
        sys.exit(f"no target {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    targets = arguments.target or known
    print(f"{len(targets)} targets, {seconds:.0f} s each, {arguments.jobs} at a time",
          file=sys.stderr)
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        results = [result for result in pool.map(
            lambda name: search(arguments.build, name, int(max(1, seconds))), targets)]
    if arguments.json:
        print(json.dumps({"targets": results, "findings": sum(r["findings"] for r in results)}))
    sys.exit(1 if any(r["findings"] or r["status"] for r in results) else 0)


def search(build, name, seconds):
    """One target. Returns its row of the table."""
    work = build / "fuzz" / name
    collected, found = work / "corpus", HERE / "found" / name
    collected.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    log_path = work / "log"
    with open(log_path, "wb") as log:
        status = subprocess.run(
            [build / "bin" / f"fuzz_{name}", f"-max_total_time={seconds}",
             f"-timeout={INPUT_TIMEOUT_SECONDS}", f"-rss_limit_mb={MEMORY_LIMIT_MB}",
             f"-max_len={MOST_INPUT_BYTES}", "-print_final_stats=1", f"-artifact_prefix={found}/",
             collected, HERE / "corpus" / name, found],
            stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    text = log_path.read_text(errors="replace")
    new = sorted(set(found.iterdir()) - before)
    for path in new:
        minimise(build, name, path)
    if not any(found.iterdir()):
        found.rmdir()
    row = {"target": name, "status": status, "findings": len(new),
           "runs": last_number(r"^stat::number_of_executed_units:\s*(\d+)", text),
           "runs_per_second": last_number(r"^stat::average_exec_per_sec:\s*(\d+)", text),
           "edges": last_number(r"^#\d+.* cov: (\d+)", text),
           "inputs": last_number(r"^#\d+.* corp: (\d+)", text)}
    print(f"{name:20} {row['runs']:>10} runs {row['runs_per_second']:>7}/s {row['edges']:>6} edges "
          f"{row['inputs']:>5} inputs  " + ("clean" if not new and status == 0 else "FOUND " +
                                           ", ".join(str(p) for p in new)),
          file=sys.stderr, flush=True)
    if status != 0:
        print("\n".join(text.splitlines()[-60:]), file=sys.stderr, flush=True)
    return row


def minimise(build, name, path):
    """Replaces a crashing input by a smaller one that crashes as well, if there is one."""
    if not path.name.startswith("crash-"):
        return
    smaller = path.with_name("smaller-" + path.name)
    subprocess.run([build / "bin" / f"fuzz_{name}", "-minimize_crash=1",
                    f"-max_total_time={MINIMISE_SECONDS}", f"-exact_artifact_path={smaller}", path],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if smaller.exists():
        smaller.replace(path)


def last_number(pattern, text):
    numbers = re.findall(pattern, text, re.MULTILINE)
    return int(numbers[-1]) if numbers else 0


if __name__ == "__main__":
    main()
