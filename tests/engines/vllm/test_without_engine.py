# SPDX-License-Identifier: Apache-2.0
"""What needs vLLM's classes but no running engine: options, refusals, keys."""

import dataclasses
from types import SimpleNamespace

import pytest
from conftest import prompt_of
from engine import sampling
from releases import FAILED_REQUESTS_ARE_TOLD, HASHES_ARE_SEEDED, received
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.v1.core.kv_cache_utils import (
    get_request_block_hasher,
    init_none_hash,
    resolve_block_hashes,
)
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from vllm.v1.request import Request

from orlop.engine.options import Options
from orlop.engine.reasons import Reason
from orlop.engine.recovery import Prefix, Window
from orlop.vllm import OrlopConnector, identity
from orlop.vllm.keys import RequestKeys
from orlop.vllm.loads import failed
from orlop.vllm.messages import LoadOrder, StepOrders, StepReport
from orlop.vllm.offers import are_whole
from orlop.vllm.worker import StepEnds


def configuration(**changed):
    """The parts of vLLM's configuration that decide whether the adapter takes part."""
    parts = {"speculative_config": None, "lora_config": None,
             "model_config": SimpleNamespace(runner_type="generate", is_multimodal_model=False),
             "cache_config": SimpleNamespace(block_size=32, prefix_caching_hash_algo="sha256"),
             "parallel_config": SimpleNamespace(world_size=1)}
    return SimpleNamespace(**{**parts, **changed})


def groups(*specs):
    return SimpleNamespace(num_blocks=4, kv_cache_groups=[
        SimpleNamespace(kv_cache_spec=one, layer_names=["l"]) for one in specs])


@pytest.fixture
def full():
    import torch

    return FullAttentionSpec(block_size=32, num_kv_heads=1, head_size=32, dtype=torch.float32)


def connector(options, kv_cache, role, kv_role="kv_both", **changed):
    transfer = KVTransferConfig(kv_connector="OrlopConnector", kv_role=kv_role,
                                kv_load_failure_policy="recompute",
                                kv_connector_extra_config=options)
    return OrlopConnector(configuration(kv_transfer_config=transfer, **changed), role, kv_cache)


@pytest.mark.parametrize("options", [
    {"mode": "everything"}, {"sockets": "/x"}, {"min_hit_tokens": "many"}, {"socket": ["/x"]},
    {"load_deadline": -1}, {"save": {}}])
def test_hostile_options_turn_the_adapter_off_and_nothing_else(options, full, caplog):
    for role in KVConnectorRole:
        assert_off(connector(options, groups(full), role))
    assert "orlop is off, the engine goes on without it" in caplog.text
    assert next(iter(options)) in caplog.text


def assert_off(one):
    request = Request("r", prompt_of(1), sampling(1), None)
    one.on_new_request(request)
    assert one.get_num_new_matched_tokens(request, 0) == (0, False)
    one.update_state_after_alloc(request, SimpleNamespace(get_block_ids=lambda: ([1],)), 0)
    orders = one.build_connector_meta(SimpleNamespace())
    assert orders == StepOrders()
    one.register_kv_caches({})
    assert one.get_handshake_metadata() is None
    one.set_xfer_handshake_metadata_pp_aware({})
    one.handle_preemptions(orders)
    one.bind_connector_metadata(orders)
    one.start_load_kv(None)
    one.wait_for_save()
    assert received(one) == set()
    assert one.get_block_ids_with_load_errors() == set()
    assert one.build_connector_worker_meta() is None
    assert one.request_finished_all_groups(request, ([1],)) == (False, None)
    assert not one.requires_kv_delivery and one.reset_cache() is True
    one.shutdown()
    assert any(name.startswith("refused") for name in one._counters.totals())


@pytest.mark.parametrize(("role", "mode", "used"), [
    ("kv_both", "read_write", "read_write"), ("kv_both", "load_only", "load_only"),
    ("kv_producer", "read_write", "save_only"), ("kv_producer", "save_only", "save_only"),
    ("kv_consumer", "read_write", "load_only"), ("kv_consumer", "load_only", "load_only"),
    ("kv_producer", "load_only", None), ("kv_consumer", "save_only", None)])
def test_role_narrows_the_mode_and_never_widens_it(full, caplog, role, mode, used):
    one = connector({"mode": mode}, groups(full), KVConnectorRole.WORKER, kv_role=role)
    if used is None:
        assert_off(one)
        assert f"mode {mode} and kv_role {role} leave nothing to do" in caplog.text
    else:
        assert one._options.mode == used


@pytest.mark.parametrize(("ranks", "overlap", "used"), [
    (1, False, "sync"), (1, True, "async"), (2, False, "async")])
def test_sync_loads_only_where_a_failure_is_known_before_anything_is_saved(
        full, tmp_path, ranks, overlap, used):
    one = connector({"load_mode": "sync", "socket": str(tmp_path / "none")}, groups(full),
                    KVConnectorRole.SCHEDULER, parallel_config=SimpleNamespace(world_size=ranks),
                    scheduler_config=SimpleNamespace(async_scheduling=overlap))
    try:
        assert one._options.load_mode == one._scheduler._options.load_mode == used
    finally:
        one.shutdown()


class OtherSpec:
    block_size = 32


@pytest.mark.parametrize("change", ["other kind", "other kind of two", "eagle", "pooling",
                                    "context parallel", "scales"])
def test_configurations_that_are_not_understood_are_refused(full, change):
    kv_cache, changed = groups(full), {}
    if change == "other kind":
        kv_cache = groups(OtherSpec())
    elif change == "other kind of two":
        kv_cache = groups(full, OtherSpec())
    elif change == "eagle":
        changed = {"speculative_config": SimpleNamespace(method="eagle")}
    elif change == "pooling":
        changed = {"model_config": SimpleNamespace(runner_type="pooling")}
    elif change == "context parallel":
        changed = {"parallel_config": SimpleNamespace(decode_context_parallel_size=2)}
    else:
        changed = {"cache_config": SimpleNamespace(calculate_kv_scales=True)}
    identity.check_configuration(configuration(), groups(full))
    with pytest.raises(identity.Refused):
        identity.check_configuration(configuration(**changed), kv_cache)
    assert_off(connector({}, kv_cache, KVConnectorRole.SCHEDULER, **changed))


@pytest.mark.parametrize(("part", "value", "why"), [
    ("is_eagle_group", True, "draft model's layers"), ("host_resident", True, "blocks of its own"),
    ("enable_kv_transfer", False, "blocks of its own"),
    ("role", SimpleNamespace(value="resident"), "blocks of its own")])
def test_groups_outside_the_engines_pool_are_refused_by_name(full, window, part, value, why):
    kv_cache = groups(window, full)
    setattr(kv_cache.kv_cache_groups[1], part, value)
    with pytest.raises(identity.Refused, match=f"KV cache group 1 of 2 .*{why}"):
        identity.check_configuration(configuration(), kv_cache)


def test_kinds_that_are_not_understood_are_named(full):
    with pytest.raises(identity.Refused, match="group 1 of 2 is a OtherSpec; FullAttentionSpec and "
                                               "SlidingWindowSpec are supported"):
        identity.check_configuration(configuration(), groups(full, OtherSpec()))
    with pytest.raises(identity.Refused, match="non-causal FullAttentionSpec"):
        identity.check_configuration(configuration(),
                                     groups(dataclasses.replace(full, non_causal=True)))


@pytest.fixture
def window(full):
    return SlidingWindowSpec(block_size=32, num_kv_heads=1, head_size=32, dtype=full.dtype,
                             sliding_window=64)


def test_groups_need_what_the_engine_keeps_of_them(full, window):
    assert identity.contracts_of(groups(full, window)) == [Prefix(32), Window(32, 63)]
    if hasattr(window, "extra_retained_tokens"):
        kept = dataclasses.replace(window, extra_retained_tokens=3)
        assert identity.contracts_of(groups(kept)) == [Window(32, 66)]
    for specs, whole in [([full], False), ([window], True), ([full, full], True), ([full, window], True)]:
        assert are_whole(identity.contracts_of(groups(*specs))) is whole
    kv_cache = groups(full, dataclasses.replace(window, block_size=64))
    assert identity.hash_tokens(kv_cache) == 32
    kv_cache.hash_block_size = 16  # what the engine says wins
    assert identity.hash_tokens(kv_cache) == 16
    kv_cache.hash_block_size = 64
    with pytest.raises(identity.Refused, match="not whole hashes of 64"):
        identity.check_configuration(configuration(), kv_cache)


def test_models_with_windows_are_refused_where_a_failed_load_cannot_be_told(full, window, monkeypatch):
    if FAILED_REQUESTS_ARE_TOLD:
        identity.check_configuration(configuration(), groups(full, window))
        monkeypatch.delattr("vllm.distributed.kv_transfer.kv_connector.v1.base.KVConnectorTransferResults")
    identity.check_configuration(configuration(), groups(full))
    for specs in ([window], [full, window]):
        with pytest.raises(identity.Refused, match="cannot be told that a load"):
            identity.check_configuration(configuration(), groups(*specs))


def test_each_group_has_a_namespace_that_says_how_the_cache_is_cut(full, window):
    def components(*specs, layers=("a", "b"), pp_size=1):
        kv_cache = groups(*specs)
        for group, name in zip(kv_cache.kv_cache_groups, layers, strict=False):
            group.layer_names = [name]
        return identity._components(kv_cache, {"pp_size": pp_size})

    assert components(full) == ["kv"] and components(window) == ["window64"]
    cuts = [components(window, full), components(full, window), components(window, full, window),
            components(dataclasses.replace(window, block_size=64), full),
            components(dataclasses.replace(window, sliding_window=65), full),
            components(window, full, layers=("b", "a"))]
    assert cuts[0][0].startswith("window64.0of2-") and cuts[0][1].startswith("full.1of2-")
    assert len({name for cut in cuts for name in cut}) == sum(map(len, cuts))
    # Stages have other layers, and one family.
    assert components(window, full, pp_size=2) == components(window, full, layers=("b", "a"), pp_size=2)


def test_keys_of_longer_blocks_are_those_of_their_ends():
    request = request_of(prompt_of(1, 200), algorithm="sha256")
    for engine_hashes in (True, False):
        keys = RequestKeys(request, 32, engine_hashes=engine_hashes)
        short = keys.of(0, 6)
        assert (keys.complete(), keys.complete(2), keys.complete(3)) == (6, 3, 2)
        assert keys.of(0, 3, 2) == short[1::2] and keys.of(1, 2, 3) == [short[5]]
    engine = resolve_block_hashes(request.block_hashes, 32, 64, supports_fine_grained_hash_lookup=False,
                                  alignment_tokens=64)
    keys = RequestKeys(request, 32, engine_hashes=True)
    assert keys.of(0, 3, 2) == [engine[i] for i in range(3)]


def request_of(tokens, salt=None, algorithm=None, lora=None):
    hasher = None
    if algorithm is not None:
        from vllm.utils.hashing import get_hash_fn_by_name

        function = get_hash_fn_by_name(algorithm)
        init_none_hash(function)
        hasher = get_request_block_hasher(32, function)
    return Request("r", tokens, sampling(4), None, cache_salt=salt, block_hasher=hasher,
                   lora_request=lora)


def test_own_chain_tells_salts_and_adapters_apart_and_grows_with_the_request():
    def keys(**parts):
        request = request_of(prompt_of(1, 100), **parts)
        chain = RequestKeys(request, 32, engine_hashes=False)
        assert chain.complete() == 3
        return request, chain

    request, chain = keys()
    plain = chain.of(0, 3)
    lora = [SimpleNamespace(lora_name=name, lora_path=path, lora_int_id=1)
            for name, path in (("a", "/p"), ("b", "/p"), ("a", "/q"))]
    others = [keys(salt="x")[1].of(0, 3), keys(salt="a")[1].of(0, 3),
              *(keys(lora=one)[1].of(0, 3) for one in lora)]
    assert len({key for some in [plain, *others] for key in some}) == 18
    request.append_output_token_ids([5] * 28)
    assert chain.complete() == 4 and chain.of(0, 3) == plain and chain.of(3, 4) not in plain


@pytest.mark.parametrize("seed", [None, "0"])
def test_engine_hashes_are_used_where_every_process_computes_the_same(monkeypatch, seed):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    if seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    request = request_of(list(range(100)), algorithm="sha256_cbor")
    keys = RequestKeys(request, 32, engine_hashes=True).of(0, 3)
    seeded = seed is not None or HASHES_ARE_SEEDED
    expected = "30653d0f357fa985" if seed is None else "180320f9c38a50f6"
    assert keys[0].hex().startswith(expected) == seeded and len(keys) == 3
    for algorithm, shared in [("sha256", seeded), ("sha256_cbor", seeded), ("xxhash", False)]:
        config = configuration(cache_config=SimpleNamespace(prefix_caching_hash_algo=algorithm))
        assert identity.engine_hashes_are_keys(config) == shared
        assert identity.key_spec(config, "chain").startswith(algorithm if shared else "chain")


def test_engine_hashes_that_do_not_tell_salts_from_adapters_are_not_used_with_adapters(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    salt, name = (request_of(prompt_of(1), algorithm="sha256", **one).block_hashes[0] for one in (
        {"salt": "x"}, {"lora": SimpleNamespace(lora_name="x", lora_path="/p", lora_int_id=1)}))
    assert identity.engine_hashes_are_keys(configuration(lora_config=object())) == (salt != name)
    assert identity.engine_hashes_are_keys(configuration())


def test_weights_are_read_only_where_the_engine_reads_them_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "model.safetensors").write_bytes(b"weights")

    def identity_of(load_format, **options):
        config = SimpleNamespace(
            model_config=SimpleNamespace(model=str(tmp_path), seed=3, revision=None),
            load_config=SimpleNamespace(load_format=load_format))
        return identity.weights_of(config, Options(**options))

    assert len(identity_of("auto")) == 32 and identity_of("safetensors") == identity_of("auto")
    assert identity_of("dummy") == "dummy:3"
    for elsewhere in ("tensorizer", "runai_streamer", "one of a plugin"):
        with pytest.raises(identity.Refused, match="set the option `weights`"):
            identity_of(elsewhere)
        assert identity_of(elsewhere, weights="m@7") == "named:m@7"


def test_another_hash_seed_is_another_namespace(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    plain = identity.key_spec(configuration(), "chain")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert identity.key_spec(configuration(), "chain") != plain


def test_reports_of_ranks_add_up_to_the_worst():
    a = StepReport({"r": (3, Reason.MISMATCH), "only a": (4, Reason.HIT)})
    b = StepReport({"r": (1, Reason.NOT_FOUND)})
    assert a.aggregate(b).ends == b.aggregate(a).ends == {
        "r": (1, Reason.NOT_FOUND), "only a": (4, Reason.HIT)}


def test_an_order_without_blocks_cannot_have_succeeded():
    order = LoadOrder("r", [], [], True, whole=True)
    assert failed(order).failed and not failed(order).bad_blocks
    assert StepEnds([failed(order)]).failed == StepEnds([failed(order)]).received == {"r"}


def test_an_order_of_several_groups_is_cut_at_their_ends():
    order = LoadOrder("r", list("abcde"), [1, 2, 3, 4, 5], True, [(1, 2), (0, 3)], whole=True)
    assert [(group, order.keys[part]) for group, part in order.by_group()] == [
        (1, ["a", "b"]), (0, ["c", "d", "e"])]
    assert LoadOrder("r", [b"a"], [1, 2], True).by_group() == [(0, slice(0, 1))]


def test_orders_survive_the_way_to_the_workers():
    import pickle

    orders = StepOrders([LoadOrder("r", [b"k"], [1], True)], [], [1, 2], True, "rev")
    assert pickle.loads(pickle.dumps(orders)) == orders
