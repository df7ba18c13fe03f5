# SPDX-License-Identifier: Apache-2.0
"""From durations to bars, table, plot and the page docs/benchmarks/peers.md."""

import datetime
import json
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cells import BARS, CELLS, MIB, Bar

_BEGIN, _END = "<!-- figures: begin -->", "<!-- figures: end -->"


def machine() -> dict:
    """Taken before anything is started: the load is that of others."""
    text = Path("/proc/cpuinfo").read_text()
    names = [line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / (1 << 20)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True,
                            cwd=Path(__file__).parent)
    return {
        "processor": names[0] if names else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "commit": commit.stdout.strip() or "unknown",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def uncommitted() -> list[str]:
    """Tracked files that differ from the commit."""
    status = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no"], capture_output=True,
                            text=True, cwd=Path(__file__).parent, check=True)
    return [line[3:] for line in status.stdout.splitlines()]


def quantile(ordered: list[int], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


@dataclass
class Row:
    """One cell of one peer in one placement; times in us."""

    placement: str
    cell: str
    peer: str
    calls: int
    p50: float
    p99: float
    mean: float
    mib_s: float | None  # at the median; None where no value moves

    @staticmethod
    def of(key: tuple[str, str, str], ns: list[int]) -> "Row":
        placement, cell, peer = key
        ordered = sorted(ns)
        p50 = quantile(ordered, 0.5) / 1e3
        moved = {c.name: c.bytes for c in CELLS}[cell]
        mib_s = moved / MIB / (p50 / 1e6) if moved and peer != "echo" else None
        return Row(placement, cell, peer, len(ordered), p50, quantile(ordered, 0.99) / 1e3,
                   sum(ordered) / len(ordered) / 1e3, mib_s)


class Result:
    """judged: peers that Orlop is compared with; empty: no bar is judged."""

    def __init__(self, ns: dict[tuple[str, str, str], list[int]], abouts: dict[str, dict],
                 judged: list[str], machine: dict):
        self.rows = [Row.of(key, durations) for key, durations in ns.items()]
        self.abouts = abouts
        self.judged = judged
        self.machine = machine
        self._by_key = {(r.placement, r.cell, r.peer): r for r in self.rows}
        self.placements = list(dict.fromkeys(r.placement for r in self.rows))
        self.bars = [self._judge(bar, p) for bar in BARS for p in bar.placements] if judged else []

    @property
    def ok(self) -> bool:
        return bool(self.bars) and all(bar["ok"] for bar in self.bars)

    def row(self, placement: str, cell: str, peer: str) -> Row | None:
        return self._by_key.get((placement, cell, peer))

    def best(self, placement: str, cell: str) -> Row | None:
        rows = [self.row(placement, cell, peer) for peer in self.judged]
        return min((row for row in rows if row), key=lambda row: row.p50, default=None)

    def _judge(self, bar: Bar, placement: str) -> dict:
        cell = bar.cell.name
        best, ours = self.best(placement, cell), self.row(placement, cell, "orlop")
        value = best.p50 / ours.p50 if best and ours else None
        note = f"{best.p50:.1f} us ({best.peer}) against {ours.p50:.1f} us" if value else "not measured"
        return {"name": f"{cell}, {placement}", "value": value, "bar": bar.factor, "sense": ">=",
                "unit": "times the best peer", "ok": value is not None and value >= bar.factor,
                "note": note}

    # ---- machines

    def as_json(self) -> dict:
        return {"ok": self.ok, "bars": self.bars, "rows": [vars(row) for row in self.rows],
                "peers": self.abouts, "machine": self.machine}

    # ---- people

    def _cells(self) -> list[str]:
        measured = {row.cell for row in self.rows}
        return [cell.name for cell in CELLS if cell.name in measured]

    def _table(self, placement: str) -> list[str]:
        peers = list(self.abouts)
        head = ["p50 us", *peers, *(["best peer / orlop", "bar"] if self.bars else []), "echo"]
        lines = [head, ["---"] * len(head)]
        for cell in self._cells():
            rows = [self.row(placement, cell, peer) for peer in peers]
            line = [cell, *(number(row.p50) if row else "" for row in rows)]
            if self.bars:
                best, ours = self.best(placement, cell), self.row(placement, cell, "orlop")
                ratio = best.p50 / ours.p50 if best and ours else float("nan")
                judged = next((b for b in self.bars if b["name"] == f"{cell}, {placement}"), None)
                bar = next((b for b in BARS if b.cell.name == cell), None)
                missed = " MISSED" if judged and not judged["ok"] else ""
                text = f">= {bar.factor:g}" if bar else ""
                line += [f"{ratio:.1f}" + missed, text if judged or not bar else f"({text})"]
            echo = self.row(placement, cell, "echo")
            lines.append([*line, number(echo.p50) if echo else ""])
        return markdown(lines)

    def _details(self) -> list[str]:
        lines = [["cell", "placement", "peer", "calls", "p50 us", "p99 us", "mean us", "MiB/s at p50"],
                 ["---"] * 8]
        for cell in self._cells():
            for row in (r for r in self.rows if r.cell == cell):
                lines.append([cell, row.placement, row.peer, str(row.calls), number(row.p50),
                              number(row.p99), number(row.mean),
                              f"{row.mib_s:,.0f}" if row.mib_s else ""])
        return markdown(lines)

    def _about(self) -> list[str]:
        m = self.machine
        return [
            f"{m['date']}, commit {m['commit']}: {m['processor']}, {m['cpus']} CPUs, "
            f"{m['memory_gib']} GiB, Linux {m['kernel']}, Python {m['python']}; load average at the "
            f"start {m['load_at_start']}.", "",
            *(f"* `{name}`: " + "; ".join(f"{k} {v}" for k, v in about.items())
              for name, about in self.abouts.items())]

    def as_text(self) -> str:
        lines = self._about()
        for placement in self.placements:
            lines += ["", f"**{placement}**", "", *self._table(placement)]
        missed = [bar for bar in self.bars if not bar["ok"]]
        if self.bars:
            lines += ["", f"{len(self.bars) - len(missed)} of {len(self.bars)} bars hold."]
            lines += [f"* missed: {b['name']}: {b['note']}" for b in missed]
        return "\n".join(lines)

    def write(self, folder: Path, plot_python: Path) -> None:
        """The part between the marks of peers.md, and peers.svg."""
        page = folder / "peers.md"
        before, _, rest = page.read_text().partition(_BEGIN)
        _, mark, after = rest.partition(_END)
        if not mark:
            raise RuntimeError(f"{page} has no '{_BEGIN}' ... '{_END}'")
        details = ["", "<details><summary>Every cell: p50, p99, mean, bandwidth</summary>", "",
                   *self._details(), "", "</details>"]
        page.write_text("\n".join([before + _BEGIN, self.as_text(), *details, _END]) + after)
        subprocess.run([plot_python, Path(__file__).parent / "plot.py", folder / "peers.svg"],
                       input=json.dumps(self.as_json()), text=True, check=True)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def markdown(lines: list[list[str]]) -> list[str]:
    """Aligned, so that it reads well in a terminal too."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    pad = lambda text, i: "-" * widths[i] if text == "---" else text.ljust(widths[i]) if i == 0 else text.rjust(widths[i])
    return ["| " + " | ".join(pad(text, i) for i, text in enumerate(line)) + " |" for line in lines]
