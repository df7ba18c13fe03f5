# SPDX-License-Identifier: Apache-2.0
"""python plot.py OUT.svg < result.json : p50 of every cell and peer, one panel a placement."""

import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "orlop"  # the same figures give the same file
matplotlib.rcParams["svg.fonttype"] = "none"

import matplotlib.pyplot as plt  # noqa: E402

_STYLE = {
    "orlop": ("#c1272d", "o"), "mooncake": ("#0072b2", "s"), "lmcache": ("#009e73", "^"),
    "redis": ("#e69f00", "D"), "redis_raw": ("#999999", "x"), "lmcache_plain": ("#7fc8a9", "v"),
    "echo": ("#000000", "_"),
}


def main() -> None:
    result = json.load(sys.stdin)
    placements = list(dict.fromkeys(row["placement"] for row in result["rows"]))
    cells = list(dict.fromkeys(row["cell"] for row in result["rows"]))
    figure, axes = plt.subplots(
        len(placements), 1, figsize=(11, 4.2 * len(placements)), sharex=True, squeeze=False)
    for axis, placement in zip(axes[:, 0], placements):
        for peer, (colour, marker) in _STYLE.items():
            rows = [r for r in result["rows"] if r["peer"] == peer and r["placement"] == placement]
            if rows:
                axis.plot([cells.index(r["cell"]) for r in rows], [r["p50"] for r in rows], marker,
                          color=colour, markersize=8, label=peer)
        axis.set_yscale("log")
        axis.set_ylabel("p50 of a call, us")
        axis.set_title(f"client and server on {placement}", loc="left")
        axis.grid(axis="y", which="major", color="#dddddd")
        axis.set_axisbelow(True)
    axes[0, 0].legend(ncols=7, loc="lower right", bbox_to_anchor=(1, 1), fontsize="small", frameon=False)
    axes[-1, 0].set_xticks(range(len(cells)), cells, rotation=35, ha="right")
    machine = result["machine"]
    figure.suptitle(f"{machine['processor']}, {machine['cpus']} CPUs; {machine['date']}; lower is better",
                    fontsize="small")
    figure.tight_layout()
    figure.savefig(sys.argv[1], metadata={"Date": None})


if __name__ == "__main__":
    main()
