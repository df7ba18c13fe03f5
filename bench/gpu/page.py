#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the JSON of `orlop bench gpu` to the page: docs/benchmarks/gpu.md, its plot gpu.svg and the JSON itself.

  python page.py FILE.json     after `orlop bench gpu --json > FILE.json` on a machine with a GPU

The page's table is what stands between its marks; the JSON is kept as gpu-h200.json (named after the device).
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PAGES = _HERE.parents[1] / "docs/benchmarks"
_BEGIN, _END = "<!-- figures: begin -->", "<!-- figures: end -->"
_TITLES = {
    "throughput": "One way and both ways",
    "latency": "Short batches",
    "ranges": "Restore in 8 layer ranges",
    "submit": "CPU time to submit",
    "order": "Head-first against token-first values",
    "registration": "Registration of value memory",
    "host": "The engine for CPU memory",
    "gemm": "Beside a model",
    "baselines": "What users have today",
}


def _bar(row: dict) -> str:
    if row["bar_kind"] == "none":
        return ""
    sign = ">=" if row["bar_kind"] == "at_least" else "<="
    return f"{sign} {row['bar']:.2f}" + ("" if row["ok"] else " **missed**")


def _table(rows: list[dict]) -> list[str]:
    unit = rows[0]["unit"]
    one_unit = all(row["unit"] == unit for row in rows)
    lines = [f"| what | ours{', ' + unit if one_unit else ''} | beside it | judged | bar | |", "|---|---|---|---|---|---|"]
    for row in rows:
        of_unit = "" if one_unit else " " + row["unit"]
        beside = f"{row['baseline']:.2f}{of_unit}" if "baseline" in row else ""
        lines.append(f"| {row['name']} | {row['value']:.2f}{of_unit} | {beside} | {row['judged']:.4f} "
                     f"| {_bar(row)} | {row.get('note', '')} |")
    return lines


def figures(report: dict) -> str:
    """The text between the marks."""
    rows = report["rows"]
    judged = [row for row in rows if row["bar_kind"] != "none"]
    held = sum(row["ok"] for row in judged)
    lines = [f"{report['device']}, CUDA {report['driver']}, link {report['link']}; {report['cpu']}, "
             f"Linux {report['kernel']}; {report['date']}. {held} of {len(judged)} bars hold."]
    for group in dict.fromkeys(row["group"] for row in rows):
        lines += ["", f"### {_TITLES.get(group, group)}", ""]
        lines += _table([row for row in rows if row["group"] == group])
    return "\n".join(lines)


def between_marks(page: str, text: str) -> str:
    head, begin, rest = page.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise SystemExit("page.py: the page has no marks for the figures")
    return f"{head}{_BEGIN}\n{text}\n{_END}{tail}"


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    source = Path(sys.argv[1])
    report = json.loads(source.read_text())
    page = _PAGES / "gpu.md"
    page.write_text(between_marks(page.read_text(), figures(report)))
    kept = _PAGES / f"gpu-{report['device'].split()[-1].lower()}.json"
    if source.resolve() != kept:
        shutil.copyfile(source, kept)
    sys.path.insert(0, str(_HERE.parent / "peers"))
    import environments  # the plot's Python is that of the race
    python = environments.ensure("plot", lambda text: print("==", text, file=sys.stderr))
    subprocess.run([python, _HERE / "plot.py", kept, _PAGES / "gpu.svg"], check=True)


if __name__ == "__main__":
    main()
