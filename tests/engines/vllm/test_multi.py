# SPDX-License-Identifier: Apache-2.0
"""As two of four children of vLLM's MultiConnector: one saves, one loads, others do as they like."""

from types import SimpleNamespace

import pytest
from releases import OFFLINE_COUNTS_ARE_WHOLE
from remote import RemoteEngine


@pytest.fixture(scope="module")
def running(model, place, tmp_path_factory):
    with RemoteEngine("multi.MultiEngine", model, place, str(tmp_path_factory.mktemp("files"))) as engine:
        engine.wait_ready()
        yield engine


@pytest.fixture
def multi(running):
    running.settle()
    running.forget()
    return running


def test_roles_narrow_what_each_child_does(multi):
    assert multi.modes() == ["save_only", "load_only"] * 2


def test_one_child_saves_and_the_other_loads_it(multi, fresh_prompt):
    prompt = fresh_prompt()
    (plain,) = multi.plain([prompt])
    with multi.counted() as new:
        (output,) = multi.store([prompt], tokens=8)
    assert output.tokens == plain and new["saved_pages"] == 4
    with multi.counted() as new:
        (output,) = multi.ask([prompt])
    assert (output.tokens, output.cached) == (plain, 128)
    assert new["loaded_pages"] == 4 and new["saved_pages"] == 0
    assert new["exceptions"] == 0
    multi.assert_nothing_held()


def test_a_damaged_page_is_computed_again(multi, fresh_prompt):
    prompt = fresh_prompt()
    (cold,) = multi.store([prompt], tokens=8)
    assert cold.cached == 0
    multi.spoil(prompt, 2)
    with multi.counted() as new:
        (output,) = multi.ask([prompt])
    assert output.tokens == cold.tokens and new["failed_loads:mismatch"] == 1
    multi.assert_nothing_held()


def test_what_another_child_loads_inside_a_step_is_stored_after_it(multi, fresh_prompt):
    """Its load may fail unknown to us until the step is over."""
    prompt = fresh_prompt()
    (cold,) = multi.store([prompt], tokens=8)  # ExampleConnector has it in its files from here on
    assert cold.cached == 0
    pages = multi.stored(prompt)
    assert multi.remove(prompt) == 4
    with multi.counted() as new:
        (output,) = multi.store([prompt], tokens=1, orlop="no_load")
    assert output.cached == 128 and new["saved_pages"] == 0  # over with its one step
    with multi.counted() as new:
        (output,) = multi.store([prompt], tokens=8, orlop="no_load")
    assert (output.tokens, output.cached) == (cold.tokens, 128) and new["saved_pages"] == 4
    assert multi.stored(prompt) == pages
    multi.assert_nothing_held()


def test_counts_of_all_children_reach_the_engines_metrics(multi, fresh_prompt):
    prompt = fresh_prompt()
    multi.store([prompt])
    multi.ask([prompt])
    metrics = multi.metrics()
    assert any(value > 0 for (name, _), value in metrics.items() if name.startswith("vllm:orlop_"))
    if OFFLINE_COUNTS_ARE_WHOLE:
        assert metrics["vllm:orlop_loaded_pages", ""] >= 4
        assert metrics["vllm:orlop_lookups", "hit"] >= 1


@pytest.mark.parametrize("remote", [False, True])
def test_counts_of_a_child_are_taken_by_the_front_end(remote):
    """Of an engine in the same process, and of one in another, as `vllm serve` has it."""
    import msgspec
    from vllm.distributed.kv_transfer.kv_connector.v1 import multi_connector

    import orlop.vllm.connector  # noqa: F401  vLLM imports it by its path
    from orlop.vllm.metrics import OrlopStats

    stats = multi_connector.MultiKVConnectorStats({"OrlopConnector": OrlopStats({"saved_pages": 3.0})})
    sent = stats.to_dict() if hasattr(stats, "to_dict") else stats.data  # before 0.32 as they are
    if remote:
        sent = msgspec.msgpack.decode(msgspec.msgpack.encode(sent))
    built = multi_connector.MultiConnector.build_kv_connector_stats(sent)
    assert built.reduce() == {"OrlopConnector": {"orlop saved_pages": 3.0}}
    observed = []
    page = object.__new__(multi_connector.MultiKVConnectorPromMetrics)
    page._prom_metrics = {"OrlopConnector": SimpleNamespace(
        observe=lambda counts, engine: observed.append(counts))}
    page.observe(sent, 0)
    assert observed == [{"saved_pages": 3.0}]
