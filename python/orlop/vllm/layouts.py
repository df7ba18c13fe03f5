# SPDX-License-Identifier: Apache-2.0
"""Where an engine keeps the pages of each cache group, from the tensors that it registers.

A page that is one range of bytes a layer is opaque: on the CPU the attention kernel may have transposed
or packed what is in it, on a GPU the order of its dimensions is in the namespace (GroupPages.dims). Elsewhere
its rows are gathered from blocks, heads, tokens and channels.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from orlop.gpu import KvLayout, KvPart, KvPool, part_from

_DEVICES = ("cpu", "cuda")


class Refused(Exception):
    """This configuration is not understood: the adapter stays off, for this reason."""


@dataclasses.dataclass(frozen=True)
class GroupPages:
    layout: KvLayout
    dims: str  #: of a page's bytes on a GPU, "NHC": tokens outermost, channels innermost; "": opaque


def pages_of(kv_caches: Mapping[str, Any], kv_cache_config: Any) -> list[GroupPages]:
    """Each cache group's. Raises Refused for tensors whose pages are not known."""
    groups, blocks = kv_cache_config.kv_cache_groups, kv_cache_config.num_blocks
    if len(groups) == 1:
        return [_pages(kv_caches, blocks)]
    unknown = kv_caches.keys() - {name for group in groups for name in group.layer_names}
    if unknown:
        raise Refused(f"{min(unknown)} is in none of the {len(groups)} KV cache groups")
    return [_pages({name: kv_caches[name] for name in group.layer_names if name in kv_caches}, blocks)
            for group in groups]


def device_of(kv_caches: Mapping[str, Any]) -> Any:
    """Where all of them are. Raises Refused."""
    devices = {cache.device for cache in kv_caches.values() if isinstance(cache, torch.Tensor)}
    if len(devices) != 1 or next(iter(devices)).type not in _DEVICES or torch.version.hip is not None:
        raise Refused(f"the KV cache is on {sorted(map(str, devices))}; one device, the CPU or one with CUDA, "
                      "is supported")
    return devices.pop()


def _pages(kv_caches: Mapping[str, Any], blocks: int) -> GroupPages:
    layers: dict[int, tuple[str, Any]] = {}  # by address: layers that share one are one
    for name, cache in kv_caches.items():
        if not isinstance(cache, torch.Tensor):
            raise Refused(f"{name} is a {type(cache).__name__}, not one tensor")
        layers.setdefault(cache.data_ptr(), (name, cache))
    if not layers:
        raise Refused("the engine registered no KV cache")
    parts = tuple(_part(name, cache, layer, blocks)
                  for layer, (name, cache) in enumerate(layers.values()))
    dims = {"" if cache.device.type == "cpu" else _dims(cache, blocks) for _, cache in layers.values()}
    if len(dims) != 1:
        raise Refused(f"layers of one KV cache group lie differently: {', '.join(sorted(dims))}")
    return GroupPages(KvLayout(parts, (KvPool("blocks"),),
                               tensors=tuple(cache for _, cache in layers.values())), dims.pop())


def _part(name: str, cache: Any, layer: int, blocks: int) -> KvPart:
    """Raises Refused."""
    item, own = cache.element_size(), cache.shape[0] // blocks
    if cache.shape[0] % blocks == 0 and _is_one_range(cache[0]) and (
            own == 1 or cache.stride(0) == cache[0].numel()):
        # A block may be several of the backend's own smaller ones in a row.
        return KvPart(name, layer, cache.data_ptr(), blocks, page_stride=cache.stride(0) * item * own,
                      row_bytes=cache[0].numel() * item * own)
    is_known = cache.device.type != "cpu" and cache.ndim == 4 and cache.stride(3) == 1
    if not is_known or cache.shape[0] != blocks:
        raise Refused(f"{name}: shape {tuple(cache.shape)}, strides {cache.stride()} are not {blocks} blocks "
                      "of heads, tokens and channels")
    return _rows(name, cache, layer)


def _rows(name: str, cache: Any, layer: int) -> KvPart:
    return part_from(cache.view(torch.uint8), ("page", "head", "token", "channel"), name=name, layer=layer)


def _is_one_range(page: Any) -> bool:
    """Its bytes lie side by side, whatever the order of its dimensions."""
    length = 1
    for size, stride in sorted(zip(page.shape, page.stride(), strict=True), key=lambda one: one[1]):
        if size > 1 and stride != length:
            return False
        length *= size
    return True


def _dims(cache: Any, blocks: int) -> str:
    if cache.ndim != 4 or not _is_one_range(cache[0]):
        return "HNC"  # as part_from() gathers them
    order = sorted(zip(cache.stride()[1:], range(3), strict=True), reverse=True)
    own = cache.shape[0] // blocks
    return (f"{own}x" if own > 1 else "") + "".join("HNC"[dim] for _, dim in order)
