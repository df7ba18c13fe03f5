# SPDX-License-Identifier: Apache-2.0
"""Whole values in and out: every form of keys and buffers, right and wrong."""

import array

import numpy as np
import orlop
import pytest
from orlop import MissReason, Outcome

KEYS = [b"key-%02d" % i for i in range(8)]


def page(i: int, length: int = 4096) -> bytes:
    return bytes([i + 1]) * length


@pytest.fixture
def stored(client, ns):
    assert client.put(ns, KEYS, [page(i) for i in range(8)]) == [Outcome.STORED] * 8
    return ns


def test_put_then_get_gives_the_same_bytes(client, stored):
    targets = [bytearray(4096) for _ in KEYS]
    assert client.get(stored, KEYS, targets) == 8
    assert [bytes(t) for t in targets] == [page(i) for i in range(8)]
    assert client.get_bytes(stored, KEYS) == [page(i) for i in range(8)]


def test_put_twice_says_exists(client, stored):
    assert client.put(stored, KEYS[:2], [page(7)] * 2) == [Outcome.EXISTS] * 2
    assert client.get_bytes(stored, KEYS[:1]) == [page(0)]


def test_get_stops_at_the_first_missing_key(client, stored):
    assert len(client.get_bytes(stored, [KEYS[0], KEYS[1], b"none", KEYS[2]])) == 2
    untouched = bytearray(4096)
    assert client.get(stored, b"none", untouched) == 0


@pytest.mark.parametrize(
    "keys",
    [
        list(KEYS),
        tuple(KEYS),
        iter(list(KEYS)),
        (key for key in KEYS),
        [bytearray(key) for key in KEYS],
        [memoryview(key) for key in KEYS],
        orlop.PackedKeys(b"".join(KEYS), 6),
        orlop.PackedKeys(np.frombuffer(b"".join(KEYS), np.uint8), 6),
        np.frombuffer(b"".join(KEYS), np.uint8).reshape(8, 6),
        memoryview(b"".join(KEYS)).cast("B", (8, 6)),
        dict.fromkeys(KEYS),
    ],
    ids=["list", "tuple", "iterator", "generator", "bytearrays", "memoryviews", "packed",
         "packed-array", "2d-array", "2d-memoryview", "dict"],
)
def test_keys_of_every_form_are_the_same_keys(client, stored, keys):
    assert client.exists(stored, keys).prefix_len == 8


@pytest.mark.parametrize("key", [KEYS[3], bytearray(KEYS[3]), memoryview(KEYS[3]),
                                 np.frombuffer(KEYS[3], np.uint8)])
def test_one_bytes_like_object_is_one_key(client, stored, key):
    target = bytearray(4096)
    assert client.get(stored, key, target) == 1
    assert target == page(3)


@pytest.mark.parametrize(
    "buffers",
    [
        lambda: [bytearray(4096) for _ in KEYS],
        lambda: tuple(np.zeros(1024, np.float32) for _ in KEYS),
        lambda: iter([memoryview(bytearray(4096)) for _ in KEYS]),
        lambda: [array.array("d", bytes(4096)) for _ in KEYS],
        lambda: np.zeros((8, 4096), np.uint8),
        lambda: np.zeros((8, 16, 64), np.float32),
        lambda: bytearray(8 * 4096),
    ],
)
def test_buffers_of_every_form_get_the_values(client, stored, buffers):
    made = buffers()
    kept = list(made) if not hasattr(made, "__len__") else made
    assert client.get(stored, KEYS, kept) == 8
    whole = kept if isinstance(kept, (np.ndarray, bytearray)) else b"".join(
        bytes(memoryview(one).cast("B")) for one in kept)
    assert bytes(whole) == b"".join(page(i) for i in range(8))


def test_exists_names_what_is_there(client, stored):
    found = client.exists(stored, [KEYS[0], b"none", KEYS[1]])
    assert (found.prefix_len, found.present, found.mask) == (1, [True, False, True], b"\1\0\1")
    assert len(found) == 3 and found[-1] is True
    with pytest.raises(IndexError):
        found[3]


def test_remove_and_flush_take_values_away(client, stored):
    assert client.remove(stored, KEYS[:2]) == 2
    assert client.exists(stored, KEYS).present == [False] * 2 + [True] * 6
    assert client.flush(stored) == 1  # namespaces
    assert client.exists(stored, KEYS).prefix_len == 0


def test_flush_of_a_family_reaches_every_rank(client, open_namespace):
    ranks = [open_namespace(client, model="family", tp_rank=r, tp_size=2) for r in range(2)]
    for rank in ranks:
        client.put(rank, b"k", page(1))
    handle = client.get_start_cohort(ranks, [b"k"])
    with client.get_transfer(handle) as plan:
        assert (len(plan), plan.ranks) == (1, 2)
        assert bytes(plan.view(0, rank=1)) == page(1)
    assert client.flush(ranks[0], family=True) == 2


def test_groups_are_rounded_down_to_whole_ones(client, ns):
    client.put(ns, KEYS[:3], [page(i) for i in range(3)], group_lens=[1, 2])
    handle = client.get_start(ns, KEYS[:4], group_lens=[2, 2])
    result = handle.result
    assert (result.raw_prefix_hit_len, result.transferable_len, result.first_miss_index) == (3, 2, 3)
    assert result.reason == MissReason.GROUP_INCOMPLETE and not result.all_hit
    with pytest.raises(ValueError, match="consume_prefix_len: 1 is inside a group"):
        client.get_transfer(handle, 1)
    with client.get_transfer(handle, 2) as plan:
        assert len(plan) == 2


def test_stats_count_by_reason(client, stored):
    client.get_bytes(stored, [b"none"])
    stats = client.stats()
    assert stats.keys_stored == 8
    assert stats.misses[MissReason.NOT_FOUND] == 1
    assert stats.outcomes[Outcome.STORED] == 8
    assert (stats.open_read_plans, stats.open_put_plans, stats.pinned_bytes) == (0, 0, 0)


BAD_KEYS = [
    ([], ValueError, "keys: is empty; give at least one key"),
    ([b"k", b""], ValueError, r"keys\[1\]: has 0 bytes, allowed are 1 to 4096; hash longer"),
    (b"", ValueError, r"keys\[0\]: has 0 bytes"),
    ([b"k" * 4097], ValueError, r"keys\[0\]: has 4097 bytes"),
    ([b"k%d" % i for i in range(65_536)], ValueError,
     "keys: has 65536 keys, at most 65535 go into one call; split it"),
    ((b"%d" % i for i in iter(int, 1)), ValueError, "keys: has 65536 keys"),
    ("key", TypeError, "keys: is of type str"),
    (["key"], TypeError, r"keys\[0\]: is of type str"),
    ([b"k", 7], TypeError, r"keys\[1\]: is of type int"),
    (7, TypeError, "keys: is of type int"),
    (None, TypeError, "incompatible function arguments"),
    (np.zeros((2, 8), np.uint32), TypeError, "2 dimensions with items of 4 bytes"),
    (np.zeros((2, 2, 2), np.uint8), TypeError, "3 dimensions"),
    (np.zeros((), np.uint8), TypeError, "0 dimensions"),
    (np.zeros((4, 16), np.uint8)[:, ::2], ValueError, "not one C-contiguous piece"),
    (np.zeros((4, 16), np.uint8).T, ValueError, "not one C-contiguous piece"),
    (np.zeros((0, 16), np.uint8), ValueError, "keys: is empty"),
]


@pytest.mark.parametrize(("keys", "error", "words"), BAD_KEYS)
def test_bad_keys_are_named(client, ns, keys, error, words):
    with pytest.raises(error, match=words):
        client.exists(ns, keys)


def test_a_key_twice_is_named_in_a_put(client, ns):
    with pytest.raises(ValueError, match=r"keys\[1\]: is the same key as keys\[0\]"):
        client.put(ns, [b"k", b"k"], [page(0)] * 2)


def test_an_iterable_that_raises_raises_that(client, ns):
    def keys():
        yield b"k"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.exists(ns, keys())


BAD_TARGETS = [
    (lambda: [bytearray(4095)], ValueError,
     r"buffers\[0\]: has 4095 bytes, the namespace's value_len is 4096"),
    (lambda: bytearray(4097), ValueError, r"buffers\[0\]: has 4097 bytes"),
    (lambda: [], ValueError, "buffers: has 0 entries for 1 keys; give one per key"),
    (lambda: [bytearray(4096)] * 2, ValueError, "buffers: has 2 entries for 1 keys"),
    (lambda: [bytes(4096)], ValueError, r"buffers\[0\]: is read-only; give a writable buffer"),
    (lambda: memoryview(bytearray(4096)).toreadonly(), ValueError, "buffers: is read-only"),
    (lambda: [np.zeros(8192, np.uint8)[::2]], ValueError, r"buffers\[0\]: is not one C-contiguous"),
    (lambda: np.zeros((64, 64), np.uint8).T, ValueError, "buffers: is not one C-contiguous"),
    (lambda: np.zeros((), np.float64), ValueError, "has 8 bytes"),
    (lambda: ["text"], TypeError, r"buffers\[0\]: is of type str, which has no buffer"),
    (lambda: 7, TypeError, "buffers: is of type int"),
    (lambda: None, TypeError, "incompatible function arguments"),
]


@pytest.mark.parametrize(("target", "error", "words"), BAD_TARGETS)
def test_bad_targets_are_named(client, ns, target, error, words):
    for key in (b"k", [b"k"]):
        with pytest.raises(error, match=words):
            client.get(ns, key, target())


def test_one_buffer_for_many_keys_must_have_their_size(client, ns):
    with pytest.raises(ValueError, match="one buffer of 8192 bytes for 8 keys.*give 32768"):
        client.get(ns, KEYS, bytearray(8192))


def test_packed_keys_hold_their_buffer_and_check_it():
    buffer = bytearray(b"aabbcc")
    packed = orlop.PackedKeys(buffer, 2)
    assert (len(packed), packed[0], packed[-1], packed.key_len) == (3, b"aa", b"cc", 2)
    assert list(packed) == [b"aa", b"bb", b"cc"]
    with pytest.raises(BufferError):
        buffer.append(1)
    del packed
    buffer.append(1)
    with pytest.raises(ValueError, match="buffer: has 7 bytes, which is not a multiple"):
        orlop.PackedKeys(buffer, 2)
    for length in (0, -1, 4097):
        with pytest.raises(ValueError, match="key_len"):
            orlop.PackedKeys(b"aa", length)
    with pytest.raises(TypeError, match="buffer: is of type str"):
        orlop.PackedKeys("aa", 1)


@pytest.mark.parametrize(
    ("lens", "error", "words"),
    [
        ([0, 2], ValueError, r"atomic_group_lens\[0\]: is 0"),
        ([1], ValueError, "atomic_group_lens: add up to 1, the call has 2 keys"),
        ([3], ValueError, r"atomic_group_lens\[0\]: the groups up to here have 3 keys"),
        ([-1], ValueError, r"atomic_group_lens\[0\]: is out of range"),
        ([2**40], ValueError, r"atomic_group_lens\[0\]: is out of range"),
        (["1"], TypeError, r"atomic_group_lens\[0\]: is of type str"),
        ([1.5], TypeError, r"atomic_group_lens\[0\]: is of type float"),
    ],
)
def test_bad_group_lengths_are_named(client, ns, lens, error, words):
    with pytest.raises(error, match=words):
        client.get_start(ns, KEYS[:2], group_lens=lens)
    with pytest.raises(error, match=words):
        client.put_start(ns, KEYS[:2], group_lens=lens)


def test_bad_put_options_are_named(client, ns):
    with pytest.raises(ValueError, match="deadline: is negative"):
        client.put_start(ns, KEYS, deadline=-1)
    with pytest.raises(ValueError, match="deadline: is negative"):
        client.put_start(ns, KEYS, deadline=float("nan"))
    with pytest.raises(TypeError, match="deadline: is of type str"):
        client.put_start(ns, KEYS, deadline="1")
    with pytest.raises(ValueError, match="parent: has 0 bytes"):
        client.put_start(ns, KEYS, parent=b"")


def test_namespaces_open_from_every_form(client):
    fields = {"engine": "demo", "layout": "b/1", "model": "forms", "revision": "1", "dtype": "u8",
              "page_tokens": 16, "value_len": np.int64(512)}
    by_name = client.open_namespace(**fields)
    descriptor = by_name.descriptor
    assert descriptor == orlop.NamespaceDescriptor(**{**fields, "value_len": 512})
    client.put(by_name, b"k", page(1, 512))
    import dataclasses
    import json

    text = json.dumps(dataclasses.asdict(descriptor))
    for form in (fields, descriptor, text):
        assert client.get_bytes(client.open_namespace(form), b"k") == [page(1, 512)]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"modle": "m"}, ValueError, "modle"),
        ({"model": None}, ValueError, "model"),
        ({"value_len": 0}, ValueError, "value_len"),
        ({"value_len": -1}, ValueError, "value_len"),
        ({"value_len": 1.5}, ValueError, "value_len"),
        ({"page_tokens": object()}, TypeError, "type object"),
    ],
)
def test_bad_descriptors_are_named(client, change, error, words):
    fields = {"engine": "demo", "layout": "b/1", "model": "bad", "revision": "1", "dtype": "u8",
              "page_tokens": 16, "value_len": 512, **change}
    with pytest.raises(error, match=words):
        client.open_namespace(fields)


def test_a_descriptor_and_fields_are_not_both_taken(client):
    with pytest.raises(TypeError, match="not both"):
        client.open_namespace("{}", engine="demo")
    with pytest.raises(TypeError, match="is of type int"):
        client.open_namespace(7)
    with pytest.raises(ValueError):
        client.open_namespace("{")


def test_a_namespace_belongs_to_its_client(node, client, ns):
    with node.client() as other:
        assert other.wait_ready(30)
        with pytest.raises(ValueError, match="ns: was not opened by this client"):
            other.exists(ns, KEYS)


def test_without_a_node_everything_is_a_miss(tmp_path):
    with orlop.Client(socket=str(tmp_path / "none.sock"), call_budget=0.05) as lonely:
        assert not lonely.ready and not lonely.wait_ready(0.05) and lonely.segment_id == 0
        ns = lonely.open_namespace(engine="d", layout="l", model="m", revision="r", dtype="u8",
                                   page_tokens=1, value_len=8)
        assert not ns.resolved
        assert lonely.put(ns, b"k", b"8 bytes!") == [Outcome.NO_NODE]
        with lonely.read(ns, [b"k"]) as plan:
            assert len(plan) == 0 and plan.result.reason == MissReason.NOT_ATTACHED
        with lonely.put_start(ns, [b"k"]) as put:
            assert put.prepared == 0 and put.outcomes == [Outcome.NO_NODE]
            assert "is orlopd running?" in put.explanation
        for call in (lonely.ping, lambda: lonely.flush(ns), lambda: lonely.remove(ns, b"k")):
            with pytest.raises(orlop.NoNode, match="is orlopd running?") as caught:
                call()
            assert caught.value.code == "no_node"


def test_a_closed_client_says_so(client, ns):
    client.close()
    client.close()
    for call in (lambda: client.put(ns, b"k", page(0)), lambda: client.exists(ns, b"k"),
                 lambda: client.get(ns, b"k", bytearray(4096)), client.ping):
        with pytest.raises(orlop.Closed, match="client: was closed"):
            call()


@pytest.mark.parametrize(
    ("options", "error"),
    [({"call_budget": -1}, ValueError), ({"handle_ttl": float("nan")}, ValueError),
     ({"on_ready": 7}, TypeError), ({"socket": 7}, TypeError), ({"socket": "a\0b"}, ValueError),
     ({"ledger_cells": -1}, TypeError), ({"nonsense": 1}, TypeError)],
)
def test_bad_client_options_are_refused(options, error):
    with pytest.raises(error):
        orlop.Client(**options)
