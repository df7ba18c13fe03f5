# SPDX-License-Identifier: Apache-2.0
"""What is asked of the engines. Values that are not what they should be are in Run.wrong, never in the figures."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import decoding
from engines import Broken, EngineProcess
from model import Prompts, Size

LEFT = 4  # tokens of a prompt that no hit can have: with the last whole block they are computed always
COMPARED = 8  # tokens of an answer
Say = Callable[[str], None]


@dataclass
class Run:
    size: Size
    engines: dict[str, EngineProcess]
    say: Say
    until: float  # by time.monotonic
    keep: Callable[[str, Any], None]  # a stage's name and its result so far
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prompts = Prompts(self.size.words)

    def left(self) -> float:
        return self.until - time.monotonic()

    def tell_wrong(self, text: str) -> None:
        self.wrong.append(text)
        self.say(f"WRONG: {text}")

    def with_each(self, part: Callable[[EngineProcess], None], turn: int = 0, *names: str) -> None:
        """part of every engine, or of those named, beginning with another one each turn. One that breaks is left
        out from then on."""
        present = [name for name in names or tuple(self.engines) if name in self.engines]
        for number in range(len(present)):
            engine = self.engines[present[(turn + number) % len(present)]]
            try:
                part(engine)
            except Broken as error:
                self.tell_wrong(str(error))
                del self.engines[engine.name]

    def asked(self, engine: EngineProcess, what: str, prompt: list[int], cached: int, tokens: int = 1) -> dict[str, Any]:
        """Empty when other tokens than `cached` of the prompt were a hit."""
        answer = engine.ask(prompt, tokens)
        if answer["cached"] == cached:
            return answer
        self.tell_wrong(f"{engine.name}, {what} of {len(prompt)} tokens: {answer['cached']} were a hit, not {cached}")
        return {}


# ---- equal answers ----------------------------------------------------------------------------------


def equal(run: Run, reserve: float) -> None:
    """Per length the tokens after each kind of hit. Every engine has seen every length afterwards."""
    rows: list[dict[str, Any]] = []
    for length in run.size.lengths:
        if run.left() < reserve:
            run.tell_wrong(f"{length} tokens and more were not compared: time is over")
            break
        prompt = run.prompts(length + LEFT)
        row: dict[str, Any] = {"tokens": length + LEFT}
        run.with_each(lambda engine: _equal(run, engine, prompt, length, row), 0, "off", "native", "orlop", "again")
        rows.append(row)
        local = row.get("orlop", {}).get("local")
        for name, kind in (("orlop", "hit"), ("again", "hit")):
            if name in run.engines and (local is None or row.get(name, {}).get(kind) != local):
                run.tell_wrong(f"{length} tokens: {name}'s answer after a hit is {row.get(name, {}).get(kind)}, after "
                               f"the engine's own local hit {local}")
        run.keep("equal", rows)
        run.say(f"{length} tokens: {_in_words(row)}")


def _equal(run: Run, engine: EngineProcess, prompt: list[int], length: int, row: dict[str, Any]) -> None:
    answers: dict[str, Any] = row.setdefault(engine.name, {})

    def ask(what: str, cached: int) -> None:
        answers[what] = run.asked(engine, what, prompt, cached, COMPARED).get("tokens")

    if engine.name == "again":
        ask("hit", length)
    else:
        ask("cold", 0)
        engine.settle(run.prompts(40))
        ask("local", length)
    if engine.name in ("native", "orlop"):
        engine.forget()
        ask("hit", length)
    if engine.name == "orlop":
        engine.damage()
        ask("damaged", length)
        if answers["damaged"] == answers["local"]:
            run.tell_wrong(f"{length} tokens: the answer is the same with a cache full of zeros: this comparison shows "
                           "nothing")
    engine.forget()


def _in_words(row: dict[str, Any]) -> str:
    return "; ".join(f"{name} " + ", ".join(f"{what} {tokens}" for what, tokens in answers.items())
                     for name, answers in row.items() if isinstance(answers, dict))


# ---- time to first token ----------------------------------------------------------------------------


def first_tokens(run: Run, reserve: float) -> None:
    """Milliseconds per length, engine and kind: cold, local (the engine's own prefix), hit. Rounds end early when
    no more than reserve seconds are left."""
    times: dict[int, dict[str, dict[str, list[float]]]] = {length: {} for length in run.size.lengths}
    for number in range(run.size.rounds):
        if run.left() < reserve:
            run.tell_wrong(f"only {number} of {run.size.rounds} rounds: time is over")
            break
        for turn, length in ((number + again, one) for one in run.size.lengths for again in range(run.size.often.get(one, 1))):
            prompt = run.prompts(length + LEFT)

            def ask(engine: EngineProcess, turn: int = turn, length: int = length, prompt: list[int] = prompt) -> None:
                _first_tokens(run, engine, prompt, length, times[length], turn % 2 == 1)

            # `again` reads what `orlop` stores: it comes after it.
            run.with_each(ask, number, "off", "native", "orlop")
            run.with_each(ask, 0, "again")
        run.keep("first_tokens", times)
        run.say(f"round {number + 1}: " + "; ".join(
            f"{length}: " + ", ".join(f"{name} {kind} {values[-1]:.1f}" for name, kinds in times[length].items()
                                      for kind, values in kinds.items() if kind != "cold" and values)
            for length in run.size.lengths))


def _first_tokens(run: Run, engine: EngineProcess, prompt: list[int], length: int,
                  times: dict[str, dict[str, list[float]]], hit_first: bool) -> None:
    """What comes later is a little quicker: hit and local hit take turns, every second round (hit_first)."""
    kinds = times.setdefault(engine.name, {})

    def ask(what: str, cached: int) -> None:
        # An engine that has just waited is not asked first for what is measured.
        for _ in range(3):
            engine.ask(run.prompts(40))
        if answer := run.asked(engine, what, prompt, cached):
            kinds.setdefault(what, []).append(answer["seconds"] * 1e3)

    if engine.name != "again":
        ask("cold", 0)
        engine.settle(run.prompts(40))
    elif not hit_first:
        engine.ask(prompt)  # for the local hit
    for kind in ("hit", "local") if hit_first else ("local", "hit"):
        if kind == "local":
            ask(kind, length)
        elif engine.name != "off":
            engine.forget()
            ask(kind, length)
    engine.forget()


# ---- decoding beside loads and saves ----------------------------------------------------------------


def decode(run: Run, reserve: float) -> None:
    """Per engine and round what decoding.run gives. Prompts of loads are in the stores, except in that of `off`, which
    has none and computes them."""
    results: dict[str, list[dict[str, Any]]] = {}
    size = run.size
    for number in range(size.decode_rounds):
        if run.left() < reserve:
            run.tell_wrong(f"only {number} of {size.decode_rounds} rounds of decoding: time is over")
            break
        prompts = _decode_prompts(run)
        # What one has stored the other on the same node would not store again.
        others = _decode_prompts(run) if "other" in run.engines else prompts
        run.with_each(lambda engine: _decode(run, engine, *(others if engine.name == "other" else prompts), results),
                      number, "off", "native", "orlop", "other")
        run.keep("decode", results)
        run.say(f"decoding, round {number + 1}: " + ", ".join(
            f"{name} {rounds[-1]['tokens_per_s']:.0f} tokens/s" for name, rounds in results.items()))


def _decode_prompts(run: Run) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Of requests that decode, of loads and of saves."""
    size = run.size
    return ([run.prompts(40) for _ in range(size.decodes)],
            [run.prompts(size.other_length + LEFT) for _ in range(size.loads)],
            [run.prompts(size.other_length + LEFT) for _ in range(size.saves)])


def _decode(run: Run, engine: EngineProcess, decodes: list[list[int]], loads: list[list[int]],
            saves: list[list[int]], results: dict[str, list[dict[str, Any]]]) -> None:
    size = run.size
    if engine.name != "off":
        for prompt in loads:
            engine.ask(prompt)
            engine.settle(run.prompts(40))
        engine.forget()
    others, kinds = _in_turn(loads, saves)
    # Over the first two thirds, so that all of them end before the decodes do.
    spaced = [(1 + number * size.decode_tokens * 2 // (3 * len(others)), prompt) for number, prompt in enumerate(others)]
    result = engine.decode(decodes, size.decode_tokens, spaced)
    engine.settle(run.prompts(40))
    engine.forget()
    wanted = [size.other_length if kind == "load" and engine.name != "off" else 0 for kind in kinds]
    got = [one["cached"] for one in result["others"]]
    if got != wanted or result["within"] != len(others):
        run.tell_wrong(f"{engine.name}, decoding: {got} tokens were hits, not {wanted}; {result['within']} of "
                       f"{len(others)} other requests were over in time")
        return
    result["kinds"] = kinds
    result["phases"] = decoding.by_phase(result.pop("steps"), kinds)
    results.setdefault(engine.name, []).append(result)


def _in_turn(loads: list[list[int]], saves: list[list[int]]) -> tuple[list[list[int]], list[str]]:
    """Saves spread evenly among loads."""
    placed = [((number + 0.5) / len(loads), "load", prompt) for number, prompt in enumerate(loads)]
    placed += [((number + 0.5) / len(saves), "save", prompt) for number, prompt in enumerate(saves)]
    placed.sort(key=lambda one: one[0])
    return [prompt for _, _, prompt in placed], [kind for _, kind, _ in placed]
