# SPDX-License-Identifier: Apache-2.0
"""How fast running requests decode while other prompts come, are loaded or computed, and stored."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

_AFTER = 8  # steps, 40 ms; the copies of a save of 8 Ki tokens take the first 22 (PCIe 5)


def run(engine: Any, sampling: Callable[[int], Any], decodes: list[list[int]], tokens: int,
        others: list[tuple[int, list[int]]]) -> dict[str, Any]:
    """decodes: prompts that get so many tokens each, all at once. others: (at, prompt), which gets one token and
    is added when every decode has `at` tokens; ascending.

    The clock runs from the moment at which every decode has its first token to the end of the last one.
    """
    for number, prompt in enumerate(decodes):
        engine.add_request(f"decode-{number}", {"prompt_token_ids": prompt}, sampling(tokens))
    counts = {f"decode-{number}": 0 for number in range(len(decodes))}
    waiting = list(others)
    added: dict[str, float] = {}
    arrived: dict[str, dict[str, Any]] = {}
    begun = ended = 0.0
    first = 0
    steps: list[tuple[float, int]] = []
    while engine.has_unfinished_requests() or (waiting and not ended):
        under_way = len(arrived) if len(arrived) < len(added) else -1
        started = time.perf_counter()
        for output in engine.step():
            if output.request_id in counts:
                counts[output.request_id] = len(output.outputs[0].token_ids)
            elif output.finished:
                arrived[output.request_id] = {
                    "seconds": time.perf_counter() - added[output.request_id], "cached": output.num_cached_tokens or 0,
                    "decoded": sum(counts.values())}
        slowest = min(counts.values())
        if not begun:
            if slowest:
                begun, first = time.perf_counter(), sum(counts.values())
            continue
        if not ended:
            steps.append((round((time.perf_counter() - started) * 1e3, 3), under_way))
            if slowest == tokens:
                ended = time.perf_counter()
        while waiting and waiting[0][0] <= slowest:
            name = f"other-{len(added)}"
            added[name] = time.perf_counter()
            engine.add_request(name, {"prompt_token_ids": waiting.pop(0)[1]}, sampling(1))
    decoded = sum(counts.values()) - first
    return {"decoded": decoded, "seconds": ended - begun, "tokens_per_s": decoded / (ended - begun),
            # One a step: (ms, number of the other that was under way, -1 for none).
            "steps": steps, "seconds_all": time.perf_counter() - begun,
            # Of those that were over before the last decode was: then all engines did the same work meanwhile.
            "within": sum(one["decoded"] < sum(counts.values()) for one in arrived.values()),
            "others": [arrived[f"other-{number}"] for number in range(len(added))]}


def by_phase(steps: Sequence[tuple[float, int]], kinds: Sequence[str]) -> dict[str, dict[str, float]]:
    """Number, median and sum (ms) of the steps of run(): `alone`, with an other of a kind under way (the kind's name),
    and in the first ones after it (`after` and the kind)."""
    phases: dict[str, list[float]] = {}
    last, since = "", _AFTER
    for ms, other in steps:
        if other >= 0:
            last, since = kinds[other], 0
            phase = last
        else:
            phase = f"after {last}" if since < _AFTER else "alone"
            since += 1
        phases.setdefault(phase, []).append(ms)
    return {phase: {"steps": len(times), "median": median(times), "sum": sum(times)} for phase, times in phases.items()}
