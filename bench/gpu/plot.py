# SPDX-License-Identifier: Apache-2.0
"""python plot.py REPORT.json OUT.svg : ratio to cudaMemcpyAsync of every throughput row and of today's ways."""

import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "orlop"  # the same figures give the same file
matplotlib.rcParams["svg.fonttype"] = "none"

import matplotlib.pyplot as plt  # noqa: E402

_WAYS = {"restore": ("#0072b2", "o"), "backup": ("#009e73", "s"), "both ways": ("#c1272d", "D")}


def _way(name: str) -> str:
    """Ours begin with it ("restore 4.00 KiB adjacent"), the baselines end with it."""
    return next(way for way in _WAYS if name.startswith(way) or name.endswith(way))


def _rest(name: str) -> str:
    return name.replace(_way(name), "").strip(" ,")


def _panel(axis, rows: list[dict], title: str) -> None:
    names = list(dict.fromkeys(_rest(row["name"]) for row in rows))
    for way, (colour, marker) in _WAYS.items():
        own = [row for row in rows if _way(row["name"]) == way]
        axis.plot([row["judged"] for row in own], [names.index(_rest(row["name"])) for row in own], marker,
                  color=colour, markersize=6, label=way)
    axis.set_yticks(range(len(names)), names, fontsize="small")
    axis.invert_yaxis()
    axis.axvline(1.0, color="#000000", linewidth=0.8)
    axis.set_title(title, loc="left")
    axis.grid(axis="x", color="#dddddd")
    axis.set_axisbelow(True)


def main() -> None:
    report = json.load(open(sys.argv[1]))
    ours = [row for row in report["rows"] if row["group"] == "throughput"]
    today = [row for row in report["rows"] if row["group"] == "baselines"]
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(10, 12), height_ratios=(len(ours) + 3, len(today) + 3), sharex=True)
    _panel(above, ours, "Orlop: pieces and placement of values")
    _panel(below, today, "what users have today")
    above.legend(ncols=3, loc="lower left", fontsize="small", frameon=False)
    below.set_xlim(0, 1.06)
    below.set_xlabel("share of cudaMemcpyAsync of the same bytes, in the same run")
    figure.suptitle(f"{report['device']}, {report['link']}; {report['date']}", fontsize="small")
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
