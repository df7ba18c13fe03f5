# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters on the real engine: each shares pages with itself, in other processes too, and with
nobody else."""

import pytest
from remote import RemoteEngine


@pytest.fixture(scope="module")
def loras(tmp_path_factory):
    """Folders by name."""
    from loras import make_lora

    folder = tmp_path_factory.mktemp("loras")
    return {name: make_lora(folder / name, seed) for seed, name in enumerate(("a", "b"))}


def engine_of(model, place, loras):
    return RemoteEngine("loras.LoraEngine", model, {"socket": place, "save_deadline": "2"}, loras)


@pytest.fixture(scope="module")
def first(model, place, loras):
    with engine_of(model, place, loras) as engine:
        engine.wait_ready()
        yield engine


@pytest.fixture
def engine(first):
    first.settle()
    first.forget()
    return first


def test_each_lora_has_pages_of_its_own(engine, fresh_prompt):
    prompt = fresh_prompt()
    plain = {name: engine.plain_with(prompt, name) for name in ("a", "b")}
    (plain[""],) = engine.plain([prompt])
    assert len({tuple(tokens) for tokens in plain.values()}) == 3  # else nothing below shows anything
    for ask in (lambda: engine.ask_with(prompt, "a"), lambda: engine.ask_with(prompt, "b"),
                lambda: engine.ask([prompt])[0]):
        output = ask()
        assert output.cached == 0
        engine.settle()
        engine.forget()
    for name in ("b", "a"):
        output = engine.ask_with(prompt, name)
        assert (output.tokens, output.cached) == (plain[name], 128)
        engine.forget()
    (output,) = engine.ask([prompt])
    assert (output.tokens, output.cached) == (plain[""], 128)
    engine.assert_nothing_held()


def test_the_same_name_of_another_folder_shares_nothing(engine, fresh_prompt):
    prompt = fresh_prompt()
    engine.ask_with(prompt, "b")
    engine.settle()
    engine.forget()
    with engine.counted() as new:
        output = engine.ask_with(prompt, "b:a")
    assert output.cached == 0 and new["lookups:not_found"] == 1
    engine.assert_nothing_held()


def test_another_process_hits_with_the_same_lora_alone(engine, model, place, loras, fresh_prompt):
    prompt = fresh_prompt()
    plain = {name: engine.plain_with(prompt, name) for name in ("a", "b")}
    assert engine.ask_with(prompt, "a").cached == 0
    engine.settle()
    with engine_of(model, place, loras) as other:
        other.wait_ready()
        assert (other.ask_with(prompt, "b").tokens, other.ask([prompt])[0].cached) == (plain["b"], 0)
        output = other.ask_with(prompt, "a")
        assert (output.tokens, output.cached) == (plain["a"], 128)
        other.assert_nothing_held()
