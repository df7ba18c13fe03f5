# SPDX-License-Identifier: Apache-2.0
"""From measured values to bars, and to the page docs/benchmarks/vllm.md."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parent / "peers"))
from report import markdown  # of the race: one look for both pages

PAGE = _HERE.parents[1] / "docs/benchmarks/vllm.md"
_BEGIN, _END = "<!-- figures: begin -->", "<!-- figures: end -->"


@dataclass
class Bar:
    name: str
    value: float
    bar: float
    sense: str  # <= or >=
    unit: str
    note: str
    ok: bool = False

    def __post_init__(self) -> None:
        self.ok = self.value <= self.bar if self.sense == "<=" else self.value >= self.bar


def of_hooks(measured: dict[str, Any]) -> list[Bar]:
    hit, miss = ({name: us["p50"] for name, us in measured[kind].items()} for kind in ("hit", "miss"))
    blocks = measured["blocks"]
    return [
        Bar(f"scheduler hooks of a request, hit of {blocks} blocks", hit["sum"], 150, "<=", "us p50",
            f"look-up {hit['look-up']} us"),
        Bar(f"scheduler hooks of a request, miss and {blocks} blocks to save", miss["sum"], 150, "<=", "us p50",
            f"look-up {miss['look-up']} us"),
        Bar("look-up again of an unchanged request", hit["look-up again"], 20, "<=", "us p50", "")]


def of_first_tokens(measured: dict[str, Any]) -> list[Bar]:
    pairs = measured["pairs"]

    def ratios(of: Callable[[dict[str, float]], float]) -> float:
        return median(of(pair) for pair in pairs)

    def seconds(*names: str) -> str:
        return ", ".join(f"{name} {median(pair[name] for pair in pairs):.3f} s" for name in names)

    def beyond(pair: dict[str, float], name: str) -> float:
        # Below the clock's grain of the engine's own steps it is no longer a difference.
        return max(pair[name] - pair["local"], 0.001)

    unwarmed = measured["unwarmed"]["seconds"]
    return [
        Bar("first token on a hit / connector off", ratios(lambda p: p["orlop"] / p["cold"]), 0.06, "<=", "",
            seconds("orlop", "cold") + f"; first hit of a process that was not warmed up {unwarmed:.3f} s"),
        Bar("first token on a hit / on the engine's local hit", ratios(lambda p: p["orlop"] / p["local"]), 1.5,
            "<=", "", seconds("orlop", "local")),
        Bar("ExampleConnector on tmpfs / Orlop, both beyond the local hit",
            ratios(lambda p: beyond(p, "example") / beyond(p, "orlop")), 3, ">=", "times",
            seconds("example", "orlop", "local") + f"; vLLM's own offloading {seconds('offload')}")]


def of_cost(measured: dict[str, Any]) -> list[Bar]:
    ours = measured["runs"]["orlop"]
    share = median((run["prefill_ours"] + run["decode_ours"]) / run["seconds"] for run in ours)
    step = median(run["decode_ours"] / run["decode_steps"] for run in ours) * 1e6
    medians = {name: median(run["seconds"] for run in runs) for name, runs in measured["runs"].items()}
    return [
        Bar("time in hooks and threads / engine time, no hit ever", 100 * share, 2, "<=", "%",
            "every complete block is stored; prefill " +
            f"{100 * median(run['prefill_ours'] / run['prefill_seconds'] for run in ours):.2f} %, decode "
            f"{100 * median(run['decode_ours'] / run['decode_seconds'] for run in ours):.2f} %"),
        Bar("time in hooks and threads, a decode step", step, 300, "<=", "us",
            f"of {median(run['decode_seconds'] / run['decode_steps'] for run in ours) * 1e3:.1f} ms"),
        Bar("with / without the connector, no hit ever", medians["orlop"] / medians["off"], 1.10, "<=", "",
            f"medians of {len(ours)} runs in turn: {medians['orlop']:.2f} s, {medians['off']:.2f} s")]


def of_conversations(measured: dict[str, Any]) -> list[Bar]:
    pairs = measured["pairs"]
    ours = [pair["orlop"] for pair in pairs]
    # Turn by turn: too much in one does not make up for too little in another.
    wrong = sum(abs(turn["allowed"] - turn["hit"]) for one in ours for turn in one["short"])
    explained: Counter[str] = Counter()
    for one in ours:
        explained.update({name: count for name, count in one["explained_by"].items()
                          if not name.startswith("lookups")})
    return [
        Bar("conversations / connector off", median(p["orlop"]["seconds"] / p["off"]["seconds"] for p in pairs),
            0.6, "<=", "", f"medians {median(one['seconds'] for one in ours):.1f} s, "
            f"{median(p['off']['seconds'] for p in pairs):.1f} s; {ours[0]['prompts']} prompts a run"),
        Bar("tokens of hits more or less than the trace allows", wrong, 0, "<=", "tokens",
            f"{ours[0]['cached']} of {ours[0]['allowed']} hit in the first run: {ours[0]['local']:.0f} in the "
            f"engine's pool, {ours[0]['external']:.0f} in the store; off {pairs[0]['off']['cached']}"
            + (f"; {dict(explained)}" if wrong else ""))]


JUDGES: dict[str, Callable[[dict[str, Any]], list[Bar]]] = {
    "hooks": of_hooks, "cost": of_cost, "first_tokens": of_first_tokens, "conversations": of_conversations}


class Result:
    """whole: every group was measured with full effort; only then bars count."""

    def __init__(self, measured: dict[str, dict[str, Any]], machine: dict[str, Any], *, whole: bool) -> None:
        self._measured = measured
        self._machine = machine
        self._whole = whole
        self.bars = [bar for group, values in measured.items() for bar in JUDGES[group](values)]
        self.ok = all(bar.ok for bar in self.bars)

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "whole": self._whole, "bars": [asdict(bar) for bar in self.bars],
                "measured": self._measured, "machine": self._machine}

    def as_text(self) -> str:
        m = self._machine
        lines = [["what", "measured", "bar", ""], ["---"] * 4]
        for bar in self.bars:
            lines.append([bar.name, f"{_number(bar.value)} {bar.unit}".strip(),
                          f"{bar.sense} {bar.bar:g}", "" if bar.ok else "MISSED"])
        held = sum(bar.ok for bar in self.bars)
        text = [
            f"{m['date']}, commit {m['commit']}: {m['processor']}, {m['cpus']} CPUs, {m['memory_gib']} GiB, "
            f"Linux {m['kernel']}, Python {m['python']}; load average at the start {m['load_at_start']}.", "",
            *markdown(lines), "", f"{held} of {len(self.bars)} bars hold"
            + ("." if self._whole else ", of a run that is not whole."), ""]
        return "\n".join(text + [f"* {bar.name}: {bar.note}." for bar in self.bars if bar.note])

    def write(self) -> None:
        """The part between the marks of the page."""
        before, _, rest = PAGE.read_text().partition(_BEGIN)
        _, mark, after = rest.partition(_END)
        if not mark:
            raise RuntimeError(f"{PAGE} has no '{_BEGIN}' ... '{_END}'")
        PAGE.write_text("\n".join([before + _BEGIN, self.as_text(), _END]) + after)


def _number(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"
