# SPDX-License-Identifier: Apache-2.0
"""What makes pages interchangeable: keys, weights, and the bytes of a page moved whole."""

import hashlib
import os

import numpy as np
import pytest
from orlop import Outcome
from orlop.engine.keys import KEY_LEN, chain_key, first_parent
from orlop.engine.weights import WeightsUnknown, digest_of, weights_identity

# ---- keys ----------------------------------------------------------------------------------------


def test_keys_are_the_same_in_every_process_for_ever():
    one = chain_key(first_parent(), range(32))
    assert one.hex()[:16] == GOLDEN_PLAIN and len(one) == KEY_LEN
    assert chain_key(one, range(32), (("cache_salt", "a"),)).hex()[:16] == GOLDEN_SALTED


# Computed once by hand from the description in keys.py.
GOLDEN_PLAIN = "8bf8a75aee61ad20"
GOLDEN_SALTED = "d141211c3dc0d3f9"


def test_keys_differ_for_every_difference():
    parent = first_parent()
    extras = [None, (), ("a",), ("a", "b"), ("ab",), (("a",), "b"), b"a", "a", ("a", None), (1,), ("1",),
              (True,), (1.0,), ("a", 1), ["lora", "x"], ["lora", "y"], ("\ud800",), ("\udfff",)]
    keys = [chain_key(parent, [1, 2, 3], extra) for extra in extras]
    keys += [chain_key(parent, [1, 2, 4]), chain_key(parent, [1, 2]), chain_key(keys[0], [1, 2, 3])]
    assert len(set(keys)) == len(keys)


def test_keys_refuse_what_they_do_not_understand():
    with pytest.raises(TypeError, match="type object"):
        chain_key(first_parent(), [1], (object(),))
    with pytest.raises((TypeError, OverflowError)):
        chain_key(first_parent(), [-1])


# ---- weights -------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "a.safetensors").write_bytes(b"a" * 3_000_000)
    (folder / "b.safetensors").write_bytes(b"b")
    (folder / "config.json").write_text("{}")
    return folder


def test_weights_are_their_contents_not_their_path(model, tmp_path):
    cache = tmp_path / "cache"
    one = weights_identity(model, cache)
    assert len(one) == 32 and weights_identity(model, cache) == one
    assert len(os.listdir(cache)) == 2
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in ("a.safetensors", "b.safetensors"):
        (copy / file).write_bytes((model / file).read_bytes())
    assert weights_identity(copy, cache) == one
    (copy / "b.safetensors").write_bytes(b"c")
    assert weights_identity(copy, cache) != one
    (model / "b.safetensors").rename(model / "c.safetensors")
    assert weights_identity(model, cache) != one


def test_weights_changed_in_the_middle_with_the_old_times_are_others(model, tmp_path):
    file = model / "a.safetensors"
    before, times = weights_identity(model, tmp_path / "cache"), file.stat()
    with open(file, "r+b") as opened:
        opened.seek(1_500_000)
        opened.write(b"x")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert weights_identity(model, tmp_path / "cache") != before


def test_weights_of_a_hub_cache_are_known_by_name(tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snap").mkdir()
    name = hashlib.sha256(b"content").hexdigest()
    (tmp_path / "blobs" / name).write_bytes(b"content")
    (tmp_path / "snap/a.safetensors").symlink_to(tmp_path / "blobs" / name)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.safetensors").write_bytes(b"content")
    cache = tmp_path / "cache"
    assert weights_identity(tmp_path / "snap", cache) == weights_identity(plain, cache)
    assert len(os.listdir(cache)) == 1  # only the plain file had to be read


def test_weights_that_cannot_be_read_say_what_to_do(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(WeightsUnknown, match="option `weights`"):
            weights_identity(folder)


def test_weights_without_a_place_to_remember_are_found_all_the_same(model):
    assert len(weights_identity(model, model / "config.json")) == 32


def test_digest_of_does_not_know_order_but_everything_else():
    assert digest_of({"a": 1, "b": [1, None]}) == digest_of({"b": [1, None], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})
    with pytest.raises(TypeError):
        digest_of({"a": object()})
