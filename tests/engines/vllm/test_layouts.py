# SPDX-License-Identifier: Apache-2.0
"""Where pages lie in the tensors that an engine registers: all layouts of vLLM's GPU backends, of which
nothing here needs a GPU, and those of its CPU backend."""

import types

import pytest
import torch
from engine import page_bytes
from orlop.vllm import layouts
from orlop.vllm.layouts import Refused, pages_of

LAYERS, BLOCKS, HEADS, TOKENS, CHANNELS = 3, 5, 2, 4, 8
# vLLM's names of what lies outermost to innermost.
NAMES = ["LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC"]


def layers_in(order: str, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    """A layer's [blocks, heads, tokens, channels], as attention kernels see it."""
    sizes = {"L": LAYERS, "B": BLOCKS, "H": HEADS, "N": TOKENS, "C": CHANNELS}
    length = LAYERS * BLOCKS * HEADS * TOKENS * CHANNELS
    memory = torch.arange(length, dtype=torch.int32).to(torch.float32).to(dtype)
    every = memory.reshape([sizes[dim] for dim in order]).permute([order.index(dim) for dim in "LBHNC"])
    return list(every)


@pytest.mark.parametrize("order", NAMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8])
def test_parts_name_the_bytes_of_a_block_and_no_others(order, dtype):
    in_value = layouts._dims(layers_in(order, dtype)[0], BLOCKS)
    assert in_value == {"LBNHC": "NHC", "BLNHC": "NHC"}.get(order, "HNC")
    for layer in layers_in(order, dtype):
        one_range = layouts._is_one_range(layer[0])
        part = layouts._part("a", layer, 0, BLOCKS) if one_range else layouts._rows("a", layer, 0)
        assert one_range == (order not in ("BHLNC", "LHBNC"))
        order_of_value = (0, 1, 2) if in_value == "HNC" else (1, 0, 2)
        for block in range(BLOCKS):
            expected = layer[block].permute(order_of_value).contiguous().view(torch.uint8)
            assert rows_of(part, block) == bytes(expected.flatten().tolist())


def rows_of(part, page):
    return b"".join(
        page_bytes(types.SimpleNamespace(parts=[types.SimpleNamespace(
            base=part.base + head * part.head_stride + token * part.token_stride,
            page_stride=part.page_stride, row_bytes=part.row_bytes)]), page)
        for head in range(part.heads) for token in range(part.tokens))


def config_of(groups, blocks=BLOCKS):
    return types.SimpleNamespace(num_blocks=blocks, kv_cache_groups=[
        types.SimpleNamespace(layer_names=names) for names in groups])


def test_layers_that_share_a_tensor_are_one_part():
    first, second, third = layers_in("LBHNC")
    (pages,) = pages_of({"a": first, "b": second, "c": second, "d": third}, config_of([["a"]]))
    assert [part.base for part in pages.layout.parts] == [one.data_ptr() for one in (first, second, third)]
    assert pages.layout.value_len == 3 * HEADS * TOKENS * CHANNELS * 2 and pages.dims == ""


def test_a_block_of_several_of_the_kernels_own_is_one_range():
    (layer,) = torch.zeros(1, 6, HEADS, TOKENS, CHANNELS, dtype=torch.uint8)
    part = layouts._part("a", layer, 0, 3)
    assert (part.pages, part.page_stride, part.row_bytes) == (3, 128, 128)
    assert layouts._dims(layer, 3) == "2xHNC"


def test_groups_have_their_own_layers():
    first, second, third = layers_in("LBHNC")
    of_first, of_rest = pages_of({"a": first, "b": second, "c": third}, config_of([["a"], ["b", "c"]]))
    assert [part.name for part in of_first.layout.parts] == ["a"]
    assert [part.name for part in of_rest.layout.parts] == ["b", "c"]


@pytest.mark.parametrize(("caches", "groups", "why"), [
    ({}, [["a"]], "no KV cache"),
    ({"a": [torch.zeros(5, 2)]}, [["a"]], "a is a list"),
    ({"a": layers_in("BHLNC")[0]}, [["a"]], "not 5 blocks of heads"),
    ({"a": layers_in("LBHNC")[0], "z": layers_in("LBHNC")[1]}, [["a"], ["b"]], "z is in none of the 2"),
    ({"a": torch.zeros(7, 8)}, [["a"]], "not 5 blocks"),
], ids=["none", "list", "pieces on the CPU", "no group", "blocks"])
def test_what_is_not_known_is_refused(caches, groups, why):
    with pytest.raises(Refused, match=why):
        pages_of(caches, config_of(groups))


def test_one_device_of_a_known_kind():
    on_cpu, elsewhere = torch.zeros(1), torch.zeros(1, device="meta")
    assert layouts.device_of({"a": on_cpu, "b": on_cpu}).type == "cpu"
    for caches in ({"a": elsewhere}, {"a": on_cpu, "b": elsewhere}, {}):
        with pytest.raises(Refused, match="one device"):
            layouts.device_of(caches)
