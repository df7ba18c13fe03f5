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
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MINIMISE_SECONDS = 30
# One input, by the clock. On a busy machine that happens without any fault, so what was slow runs
# again by itself and counts if it takes this much of the processor: far beyond any target, a hang.
INPUT_TIMEOUT_SECONDS = 60
INPUT_CPU_SECONDS = 10
MEMORY_LIMIT_MB = 2048
MOST_INPUT_BYTES = 16384
# Stacks of allocations are for whoever replays a find; taking them whole is a third of the time.
SEARCH_ENVIRONMENT = os.environ | {"ASAN_OPTIONS": "malloc_context_size=2:quarantine_size_mb=32"}


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description="searches with libFuzzer")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, metavar="N", help="for each target")
    length.add_argument("--seconds", type=float, metavar="N", help="for each target; default 60")
    parser.add_argument("--processor", action="store_true",
                        help="the time is the processor's, not the clock's: for a busy machine")
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
    print(f"{len(targets)} targets, {seconds:.0f} s {'of processor ' * arguments.processor}each, "
          f"{arguments.jobs} at a time", file=sys.stderr)
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        results = list(pool.map(
            lambda name: search(arguments.build, name, max(1, seconds), arguments.processor), targets))
    findings = sum(row["findings"] for row in results)
    if arguments.json:
        print(json.dumps({"targets": results, "findings": findings}))
    print(f"{sum(row['runs'] for row in results):,} runs of {len(results)} targets, "
          f"{findings} findings", file=sys.stderr)
    sys.exit(1 if findings or any(row["status"] for row in results) else 0)


def search(build, name, seconds, of_processor):
    """One target. Returns its row of the table."""
    work, found = build / "fuzz" / name, HERE / "found" / name
    collected = work / "corpus"
    collected.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    row = {"target": name, "status": 0, "findings": 0, "runs": 0, "edges": 0, "inputs": 0,
           "seconds": 0.0, "cpu_seconds": 0.0}
    log = ""
    files = set()
    # More than once only after an input that was slow for no fault of its own.
    while row["status"] == 0 and not files:
        left = seconds - row["cpu_seconds" if of_processor else "seconds"]
        if left < 1:
            break
        before = set(found.iterdir())
        log = search_once(build, name, left, of_processor, row)
        files = set(found.iterdir()) - before
        starved = {path for path in files if is_starved(build, name, path)}
        for path in starved:
            path.unlink()
        files -= starved
        if starved and not files:
            row["status"] = 0
    row["findings"] = len(files)
    for path in files:
        minimise(build, name, path)
    if not any(found.iterdir()):
        found.rmdir()
    report(row, sorted(files), log)
    return row


def search_once(build, name, seconds, of_processor, row):
    """Runs libFuzzer and adds to the row. Returns what it said."""
    work = build / "fuzz" / name
    found = HERE / "found" / name
    began = time.monotonic()
    with open(work / "log", "wb") as log:
        process = subprocess.Popen(
            [build / "bin" / f"fuzz_{name}", f"-max_total_time={0 if of_processor else max(1, int(seconds))}",
             f"-timeout={INPUT_TIMEOUT_SECONDS}", f"-report_slow_units={INPUT_TIMEOUT_SECONDS}",
             f"-rss_limit_mb={MEMORY_LIMIT_MB}", f"-max_len={MOST_INPUT_BYTES}",
             "-print_final_stats=1", f"-artifact_prefix={found}/",
             work / "corpus", HERE / "corpus" / name, found],
            stdout=log, stderr=subprocess.STDOUT, env=SEARCH_ENVIRONMENT)
        if of_processor:
            end_after(process, seconds)
        row["status"], used = wait(process)
    row["seconds"] = round(row["seconds"] + time.monotonic() - began, 1)
    row["cpu_seconds"] = round(row["cpu_seconds"] + used, 1)
    text = (work / "log").read_text(errors="replace")
    row["runs"] += last_number(r"^stat::number_of_executed_units:\s*(\d+)", text)
    row["edges"] = last_number(r"^#\d+.* cov: (\d+)", text)
    row["inputs"] = last_number(r"^#\d+.* corp: (\d+)", text)
    return text


def end_after(process, processor_seconds):
    """Asks libFuzzer to end when it had so much of the processor, unless it ends by itself."""
    ticks = os.sysconf("SC_CLK_TCK")
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        # Of /proc/PID/stat what comes after the name: user and system time are 12th and 13th.
        stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        if (int(stat[11]) + int(stat[12])) / ticks >= processor_seconds:
            process.send_signal(signal.SIGUSR1)
            return
        time.sleep(0.5)


def wait(process):
    """Returns its exit status (-N: killed by signal N) and the processor seconds it took."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def is_starved(build, name, path):
    """An input that was slow by the clock and is not by the processor's time."""
    if not path.name.startswith(("slow-unit-", "timeout-")):
        return False
    process = subprocess.Popen(
        ["prlimit", f"--cpu={2 * INPUT_CPU_SECONDS}", build / "bin" / f"fuzz_{name}", "-timeout=0",
         path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status, used = wait(process)
    return status == 0 and used < INPUT_CPU_SECONDS


def report(row, files, log):
    per_second = row["runs"] / max(row["cpu_seconds"], 0.1)
    verdict = "clean"
    if files:
        verdict = "FOUND " + " ".join(str(path.relative_to(HERE.parent.parent)) for path in files)
    elif row["status"] != 0:
        verdict = f"FAILED with status {row['status']}"
    print(f"{row['target']:16} {row['runs']:>9,} runs in {row['seconds']:>4.0f} s "
          f"({row['cpu_seconds']:>4.0f} s of processor, {per_second:>6,.0f}/s) "
          f"{row['edges']:>6,} edges {row['inputs']:>5,} inputs  {verdict}",
          file=sys.stderr, flush=True)
    if verdict != "clean":
        said = [line for line in log.splitlines() if not line.startswith("#")]
        print("\n".join(said[-60:]), file=sys.stderr, flush=True)


def minimise(build, name, path):
    """Replaces a crashing input by a smaller one that crashes as well, if there is one."""
    if not path.name.startswith("crash-"):
        return
    smaller = path.with_name("smaller-" + path.name)
    # It starts again from each smaller input and knows no limit of the whole; and it is a parent of
    # the runs, so the group is ended.
    process = subprocess.Popen(
        [build / "bin" / f"fuzz_{name}", "-minimize_crash=1", f"-max_total_time={MINIMISE_SECONDS}",
         f"-exact_artifact_path={smaller}", path],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(MINIMISE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if smaller.exists():
        smaller.replace(path)


def last_number(pattern, text):
    numbers = re.findall(pattern, text, re.MULTILINE)
    return int(numbers[-1]) if numbers else 0


if __name__ == "__main__":
    main()
