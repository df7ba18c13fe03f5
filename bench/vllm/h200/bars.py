# SPDX-License-Identifier: Apache-2.0
"""From measured values to the bars of the issue."""

from statistics import median
from typing import Any

from model import Size

OF_NATIVE = 0.95
OF_FLOOR = 1.08  # of the engine's own local hit, and the bytes at the speed of one plain copy


def judge(size: Size, result: dict[str, Any]) -> list[dict[str, Any]]:
    """Bars of what was measured; what is missing is a bar that does not hold.

    A ratio is the median of the rounds' ratios: what is compared was measured within the same seconds, and a hit with the
    local hit of the same process, because processes are slow and fast by turns, up to twice, whatever they run."""
    bars = []
    for length in size.lengths:
        times = result.get("first_tokens", {}).get(length, {})
        rate = result.get("copy_rate", {}).get("load")
        copy = length * size.token_bytes / rate * 1e3 if rate else None
        native = times.get("native", {}).get("hit", [])
        for name in ("orlop", "again"):
            ours, local = (times.get(name, {}).get(kind, []) for kind in ("hit", "local"))
            floor = [one + copy for one in local] if copy else []
            where = f"{length + 4} tokens" + (", second process" if name == "again" else "")
            bars.append(of_rounds(f"hit / vLLM's native offload, {where}", ours, native, OF_NATIVE))
            bars.append(of_rounds(f"hit / (local hit + plain copy), {where}", ours, floor, OF_FLOOR))
    rates = {name: median(one["tokens_per_s"] for one in rounds) for name, rounds in result.get("decode", {}).items()}
    bars.append(bar("decoded tokens a second beside loads and saves / native's", rates.get("orlop"),
                    rates.get("native"), 1.0, ">="))
    return bars


def of_rounds(name: str, values: list[float], against: list[float], limit: float) -> dict[str, Any]:
    """Round by round; a round in which one is missing is in no list's right place: then there is no bar."""
    if not values or len(values) != len(against):
        return bar(name, None, None, limit, "<=")
    ratio = median(one / other for one, other in zip(values, against, strict=True))
    return {**bar(name, median(values), median(against), limit, "<="), "ratio": ratio, "ok": ratio <= limit}


def bar(name: str, value: float | None, against: float | None, limit: float, sense: str) -> dict[str, Any]:
    ratio = value / against if value and against else None
    holds = ratio is not None and (ratio <= limit if sense == "<=" else ratio >= limit)
    return {"name": name, "value": value, "against": against, "ratio": ratio, "sense": sense, "bar": limit, "ok": holds}


def table(result: dict[str, Any]) -> str:
    """For people: medians and minima in ms, then the bars."""
    lines = []
    for length, times in result.get("first_tokens", {}).items():
        for name, kinds in times.items():
            lines.append(f"{length + 4:6} {name:7} " + "  ".join(
                f"{kind} {median(values):7.2f} (min {min(values):.2f})" for kind, values in kinds.items() if values))
    for name, rounds in result.get("decode", {}).items():
        loads = [one["seconds"] * 1e3 for turn in rounds
                 for one, kind in zip(turn["others"], turn["kinds"], strict=True) if kind == "load"]
        lines.append(f"decode {name:7} {median(one['tokens_per_s'] for one in rounds):8.1f} tokens/s; a load beside it "
                     f"{median(loads):.1f} ms")
        lines += [f"  {phase:11} " + "  ".join(f"{what} {median(one['phases'][phase][what] for one in rounds):8.2f}"
                                                for what in ("steps", "median", "sum"))
                  for phase in rounds[0]["phases"] if all(phase in one["phases"] for one in rounds)]
    for one in result.get("bars", []):
        ratio = "not measured" if one["ratio"] is None else f"{one['ratio']:.3f}"
        lines.append(f"{'holds ' if one['ok'] else 'MISSED'} {one['name']}: {ratio} {one['sense']} {one['bar']}")
    return "\n".join(lines)
