# SPDX-License-Identifier: Apache-2.0
"""Runs the soak and draws what it sampled: ./dev soak [--minutes N] [--seed S] [--json] [--write]

Samples and plot go to build/soak; with --write the plot also to docs/benchmarks/soak.png. The plot
is drawn by the matplotlib of bench/peers/plot.lock. Exit status: the soak's.
"""

import argparse
import csv
import datetime
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/soak"


def machine() -> str:
    with open("/proc/cpuinfo") as lines:
        processor = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")),
                         "unknown processor")
    return f"{processor}, {os.cpu_count()} CPUs, Linux {os.uname().release}"


def draw(samples: Path, target: Path, title: str) -> None:
    import matplotlib  # only in the environment of plot.lock
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    with open(samples) as lines:
        rows = list(csv.DictReader(lines))

    def column(name: str) -> tuple[list[float], list[float]]:
        some = [row for row in rows if row[name] != ""]
        return [float(row["seconds"]) for row in some], [float(row[name]) for row in some]

    panels = [
        ("private memory, MiB", [("keeper", "keeper_kib", 1 / 1024), ("server", "server_kib", 1 / 1024),
                                 ("witness", "witness_kib", 1 / 1024)]),
        ("descriptors", [("keeper", "keeper_fds", 1), ("server", "server_fds", 1),
                         ("witness", "witness_fds", 1)]),
        ("pinned groups, clients", [("pinned groups", "pinned_groups", 1), ("clients", "clients", 1)]),
        ("slots", [("free", "free_slots", 1), ("committed", "committed_slots", 1)]),
        ("witness' hits a second", [("hits", "hits_a_second", 1)]),
    ]
    figure, axes = plt.subplots(len(panels), 1, figsize=(11, 2.3 * len(panels)), sharex=True)
    faults = [float(row["seconds"]) for row in rows if "/" in row["event"]]
    for axis, (label, lines) in zip(axes, panels):
        for name, key, scale in lines:
            at, values = column(key)
            axis.plot(at, [value * scale for value in values], linewidth=1, label=name)
        for at in faults:
            axis.axvline(at, color="#dddddd", linewidth=0.6, zorder=0)
        axis.set_ylim(bottom=0)
        axis.set_ylabel(label, fontsize="small")
        axis.legend(loc="upper right", fontsize="x-small", frameon=False)
    axes[-1].set_xlabel("seconds; grey: a fault of the crash matrix")
    figure.suptitle(title, fontsize="small")
    figure.tight_layout()
    figure.savefig(target, dpi=110, metadata={"Software": None})


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="plot into docs/benchmarks/soak.png")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    samples, plot = FOLDER / "soak.csv", FOLDER / "soak.png"
    command = [options.program, "--minutes", str(options.minutes), "--csv", samples]
    command += ["--seed", str(options.seed)] if options.seed is not None else []
    command += ["--json"] if options.json else []
    status = subprocess.run(command).returncode
    if status == 2:
        return status
    title = f"./dev soak --minutes {options.minutes:g}, {datetime.date.today()}; {machine()}"
    environment = subprocess.run([sys.executable, ROOT / "bench/peers/environments.py", "plot"],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    subprocess.run([environment, __file__, "--draw", samples, plot, title], check=True)
    print(f"{samples}, {plot}", file=sys.stderr)
    if options.write:
        shutil.copy(plot, ROOT / "docs/benchmarks/soak.png")
    return status


if __name__ == "__main__":
    if sys.argv[1:2] == ["--draw"]:
        draw(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
        sys.exit(0)
    sys.exit(main())
