# SPDX-License-Identifier: Apache-2.0
"""vLLM with Orlop against vLLM without it, and against vLLM's own connectors; see docs/benchmarks/vllm.md.

Exit status 0 only if every bar holds. Runs in the engine's Python (./dev bench vllm).
"""

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import figures
import rows
from report import machine, uncommitted

_HERE = Path(__file__).resolve().parent
sys.path.append(str(_HERE.parents[1] / "tests/engines/vllm"))
from smollm2 import make_smollm2


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def hooks(effort: rows.Effort) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(_HERE / "hooks.py"), "--rounds",
                           "200" if effort is rows.FULL else "20"], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(groups: list[str], model: str, effort: rows.Effort) -> dict[str, dict[str, Any]]:
    engines = {"cost": rows.cost, "first_tokens": rows.first_tokens, "conversations": rows.conversations}
    measured = {}
    for group in groups:
        say(f"-- {group}")
        measured[group] = hooks(effort) if group == "hooks" else engines[group](model, effort, say)
    return measured


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev bench vllm", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, no table")
    parser.add_argument("--only", metavar="GROUP,...", help=f"of {', '.join(figures.JUDGES)}")
    parser.add_argument("--quick", action="store_true", help="shows that it runs: one pair of everything")
    parser.add_argument("--write", action="store_true", help="puts the figures into docs/benchmarks/vllm.md")
    parser.add_argument("--model", help="folder of another model than SmolLM2-135M-Instruct, with its tokenizer")
    options = parser.parse_args()
    options.groups = options.only.split(",") if options.only else list(figures.JUDGES)
    if unknown := set(options.groups) - set(figures.JUDGES):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are: {', '.join(figures.JUDGES)}")
    options.whole = not (options.only or options.quick)
    if options.write and not options.whole:
        parser.error("--write is for whole runs")
    # Figures stand for a commit; before the run, not after its minutes.
    if options.write and (changed := uncommitted()):
        parser.error(f"--write with {len(changed)} files that differ from the commit, first {changed[0]}")
    return options


def main() -> int:
    # So that the node and the engines end with us.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = arguments()
    here = machine()
    try:
        model = options.model or str(make_smollm2())
        measured = measure(options.groups, model, rows.QUICK if options.quick else rows.FULL)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        say(str(error))
        return 2
    result = figures.Result(measured, here, whole=options.whole)
    print(json.dumps(result.as_json(), indent=1) if options.json else result.as_text())
    if options.write:
        result.write()
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
