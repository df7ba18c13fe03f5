# SPDX-License-Identifier: Apache-2.0
"""Requests that are preempted or aborted at every point of their life with the store."""

from collections.abc import Callable, Iterator

import pytest
from engine import BLOCK, Engine
from gates import Gate
from pools import pool_of, preempt_all, threads_and_descriptors


@pytest.mark.parametrize("load_mode", ["async", "sync"])
def test_preempted_requests_with_hits_answer_as_without_the_store(engine, fresh_prompt, load_mode):
    """4 requests grow to 9 blocks each, the pool has 16."""
    prompts = [fresh_prompt() for _ in range(4)]
    plain = engine.plain(prompts, 120)
    engine.store(prompts)
    before = engine.preemptions()
    with pool_of(engine, 16), engine.options(load_mode=load_mode), engine.counted() as new:
        outputs = engine.ask(prompts, tokens=120)
    assert [one.tokens for one in outputs] == plain
    assert engine.preemptions() >= before + 3 and new["loaded_pages"] >= 8 and not failures(new)
    engine.assert_nothing_held()


def failures(new):
    return {name: count for name, count in new.items() if name.startswith(("failed", "exceptions"))}


class Life:
    """Request "a" on its way; each method without an underscore brings it to a point."""

    def __init__(self, engine: Engine, patch: pytest.MonkeyPatch, prompt: list[int],
                 plain: list[int]) -> None:
        self.engine = engine
        self._patch = patch
        self.prompt = prompt
        self.plain = plain  # its right answer
        self.gate: Gate | None = None

    def _add(self) -> None:
        self.engine.add("a", self.prompt, tokens=24)

    def _step_until(self, reached: Callable[[], bool]) -> None:
        for _ in range(200):
            if reached():
                return
            self.engine.step()
        raise AssertionError("the point is not reached")

    def _loads(self) -> int:
        return self.engine.offers._scheduler.held()["loads"]

    def _computed(self) -> int:
        return next((one.num_tokens for one in self.engine.scheduler.running
                     if one.request_id.startswith("a")), 0)

    def added(self) -> None:
        self._add()

    def load_begun(self) -> None:
        self.gate = Gate(self._patch, "restore")
        self._add()
        self._step_until(self.gate.reached.is_set)

    def load_over_and_not_reported(self) -> None:
        self.load_begun()
        self.gate.open()
        worker = self.engine.worker._worker
        while worker._loader.under_way():
            worker._loader.wait_for_one(60)
        assert self._loads() == 1

    def load_reported(self) -> None:
        before = self.engine.counts()["loaded_pages"]
        self._add()
        self._step_until(lambda: self.engine.counts()["loaded_pages"] > before)
        self._step_until(lambda: self._loads() == 0)

    def first_token(self) -> None:
        self._add()
        self._step_until(lambda: self._computed() > len(self.prompt))

    def a_block_decoded_and_not_read(self) -> None:
        """The save of the block that decoding completes waits before its copy."""
        self.gate = Gate(self._patch, "backup")
        self._add()
        self._step_until(self.gate.reached.is_set)

    def finished(self) -> None:
        self._add()
        requests = self.engine.scheduler.requests
        self._step_until(lambda: not any(name.startswith("a") for name in requests))


POINTS = [name for name in vars(Life) if not name.startswith("_") and callable(getattr(Life, name))]


@pytest.fixture
def life(engine, fresh_prompt, monkeypatch) -> Iterator[Life]:
    prompt = fresh_prompt()
    plain = engine.plain([prompt], 24)[0]
    engine.store([prompt])
    one = Life(engine, monkeypatch, prompt, plain)
    yield one
    if one.gate is not None:
        one.gate.open()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("what", ["abort", "preempt"])
def test_everything_is_given_back_whenever_a_request_is_interrupted(engine, life, fresh_prompt,
                                                                    point, what):
    before = threads_and_descriptors()
    other = fresh_prompt(40)
    getattr(life, point)()
    # Beside it, unless it would need blocks whose copy waits behind the gate.
    if life.gate is None or point.startswith("load"):
        engine.add("b", other, tokens=12)
    if what == "abort":
        engine.abort("a")
    else:
        preempt_all(engine)
    if life.gate is not None:
        life.gate.open()
    done = engine.run_out()
    if what == "preempt" and point != "finished":
        assert done["a"] == life.plain
    engine.assert_nothing_held()
    assert threads_and_descriptors() == before
    engine.forget()
    (output,) = engine.ask([life.prompt], tokens=24)
    assert output.tokens == life.plain and output.cached >= len(life.prompt) // BLOCK * BLOCK
