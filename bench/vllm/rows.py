# SPDX-License-Identifier: Apache-2.0
"""What is measured with real engines. Each function returns plain values; figures.py judges them."""

import contextlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import replay
from engines import POOL_BLOCKS, EngineProcess, Setup, example_in, offload_of, orlop_at
from place import Node

TEXTS = ("GPL-3", "GPL-2", "LGPL-2.1", "Apache-2.0")
LONG = 3460  # tokens: 108 blocks and 4, which have to be computed after a hit
WARM = 100  # tokens of the pair that warms an engine up
REPEATS = 3  # of a hit, in a pair
GIB = 1 << 30
Say = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    pairs: int  # of cold and hit
    cost_pairs: int  # of with and without the connector
    replay_pairs: int
    users: int
    turns: int


FULL = Effort(pairs=3, cost_pairs=8, replay_pairs=3, users=20, turns=6)
QUICK = Effort(pairs=1, cost_pairs=1, replay_pairs=1, users=12, turns=3)  # more than the pool holds


# ---- time to first token --------------------------------------------------------------------------


def first_tokens(model: str, effort: Effort, say: Say) -> dict[str, Any]:
    """Per pair: the first token without a connector, cold and on a local hit; with ours and with vLLM's
    ExampleConnector on tmpfs, both stored by another process; with vLLM's own offloading."""
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node("2GiB"))
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        off = stack.enter_context(EngineProcess(Setup(model, None)))
        words = off.words(*TEXTS)
        prompts = [words[i * 4000:i * 4000 + LONG] for i in range(effort.pairs)]
        warm = words[-WARM:]
        shared = {"orlop": orlop_at(node.socket), "example": example_in(folder)}
        for name, transfer in shared.items():
            with EngineProcess(Setup(model, transfer)) as writer:
                for prompt in (warm, *prompts):
                    writer.ask(prompt)
                writer.settle()
            say(f"{name}: stored by another process")
        with EngineProcess(Setup(model, shared["orlop"])) as fresh:
            unwarmed = fresh.ask(prompts[0])
        others = {name: stack.enter_context(EngineProcess(Setup(model, transfer)))
                  for name, transfer in {**shared, "offload": offload_of(2 * GIB)}.items()}
        for one in (off, *others.values()):
            _touch_all_blocks(one, words)
            _warm_up(one, warm)
        pairs = [_pair(number, prompt, off, others, say) for number, prompt in enumerate(prompts)]
    return {"unwarmed": {"seconds": unwarmed["seconds"], "cached": unwarmed["cached"][0]}, "pairs": pairs}


def _touch_all_blocks(engine: EngineProcess, words: list[int]) -> None:
    """As an engine that has been at work for a while: the kernel gives memory at the first write, and no
    hit shall pay for that alone."""
    for number in range(POOL_BLOCKS // (LONG // 32) + 1):
        # A first token of its own makes it a prompt that nobody has stored.
        engine.ask([10_000 + number, *words[:LONG - 1]])
    engine.settle()
    engine.forget()


def _warm_up(engine: EngineProcess, prompt: list[int]) -> None:
    """A cold request and a hit."""
    for _ in range(2):
        engine.ask(prompt)
        engine.settle()
        engine.forget()


def _pair(number: int, prompt: list[int], off: EngineProcess, others: dict[str, EngineProcess],
          say: Say) -> dict[str, Any]:
    pair: dict[str, Any] = {}

    def without() -> None:
        off.forget()
        pair["cold"] = off.ask(prompt)["seconds"]
        pair["local"] = median(_hit(off, prompt, "off") for _ in range(REPEATS))

    def hits_of(name: str) -> None:
        engine = others[name]
        if name == "offload":  # what it stores is its own process's
            engine.forget()
            engine.ask(prompt)
            engine.ask(prompt[:40])  # a step more: what the step before stored is there then
        seconds = []
        for _ in range(REPEATS):
            engine.forget()
            seconds.append(_hit(engine, prompt, name))
        pair[name] = median(seconds)

    order = [without, *(lambda name=name: hits_of(name) for name in others)]
    for part in reversed(order) if number % 2 else order:
        part()
    say(f"pair {number + 1}: " + ", ".join(f"{name} {value:.3f} s" for name, value in pair.items()))
    return pair


def _hit(engine: EngineProcess, prompt: list[int], name: str) -> float:
    answer = engine.ask(prompt)
    if answer["cached"] != [LONG // 32 * 32]:
        raise RuntimeError(f"{name}: {answer['cached']} tokens of {LONG} were a hit: nothing to compare")
    return float(answer["seconds"])


# ---- what it costs --------------------------------------------------------------------------------


def cost(model: str, effort: Effort, say: Say) -> dict[str, Any]:
    """Requests that never hit, with and without the connector in turn. Every block is stored."""
    runs: dict[str, list[dict[str, float]]] = {"off": [], "orlop": []}
    with Node("4GiB") as node, EngineProcess(Setup(model, None)) as off, \
            EngineProcess(Setup(model, orlop_at(node.socket))) as ours:
        engines = {"off": off, "orlop": ours}
        words = off.words(*TEXTS)
        for number in range(effort.cost_pairs + 1):
            order = ["off", "orlop"] if number % 2 else ["orlop", "off"]
            for name in order:
                run = _costs(engines[name], words, number)
                if number:  # the first warms up
                    runs[name].append(run)
            if number:
                say(f"cost pair {number}: off {runs['off'][-1]['seconds']:.2f} s, with the connector "
                    f"{runs['orlop'][-1]['seconds']:.2f} s")
        counts = ours.counts()
    if lost := {name: count for name, count in counts.items() if name.startswith(("dropped", "exceptions"))}:
        raise RuntimeError(f"not every block was stored, so that this is not what it costs: {lost}")
    return {"runs": runs,
            "lookups": {name: count for name, count in counts.items() if name.startswith("lookups")}}


def _costs(engine: EngineProcess, words: list[int], number: int) -> dict[str, float]:
    # A first token of its own makes every block of a prompt another one.
    prompts = [[1000 + 4 * number + i, *words[i * 2000:i * 2000 + 499]] for i in range(4)]
    result: dict[str, float] = {"seconds": 0.0}
    for what, asked, tokens in (("prefill", prompts, 1), ("decode", [one[:8] for one in prompts], 48)):
        engine.forget()
        before = engine.counts()
        answer = engine.ask(*asked, tokens=tokens)
        engine.settle()
        after = engine.counts()
        if any(answer["cached"]):
            raise RuntimeError(f"{what}: a hit where there must be none: {answer['cached']}")
        ours = sum(after.get(name, 0) - before.get(name, 0) for name in ("hook_seconds", "thread_seconds"))
        result |= {f"{what}_seconds": answer["seconds"], f"{what}_ours": ours, f"{what}_steps": answer["steps"]}
        result["seconds"] += answer["seconds"]
    return result


# ---- conversations --------------------------------------------------------------------------------


def conversations(model: str, effort: Effort, say: Say) -> dict[str, Any]:
    pairs = []
    with Node("4GiB") as node, \
            EngineProcess(Setup(model, None, replay.POOL_BLOCKS, replay.LONGEST)) as off, \
            EngineProcess(Setup(model, orlop_at(node.socket), replay.POOL_BLOCKS,
                                replay.LONGEST)) as ours:
        words = off.words(*TEXTS)
        for engine in (off, ours):
            _warm_up(engine, words[-WARM:])
        for number in range(effort.replay_pairs):
            order = [("orlop", ours), ("off", off)] if number % 2 else [("off", off), ("orlop", ours)]
            pair = {}
            for name, engine in order:
                pair[name] = replay.run(engine, words, 2000 + 100 * number, effort.users, effort.turns)
            pairs.append(pair)
            say(f"replay pair {number + 1}: " + ", ".join(
                f"{name} {one['seconds']:.1f} s, {one['cached']} of {one['allowed']} tokens hit"
                for name, one in pair.items()))
    return {"pairs": pairs}
