# SPDX-License-Identifier: Apache-2.0
"""Pages of an engine's KV cache to values and back, at the speed of the link.

>>> layout = KvLayout.of_tensors([(k0, v0), (k1, v1)], dims=("page", "token", "head", "channel"))
>>> cache = PageCache(client, layout, ns.value_len)
>>> outcomes = cache.backup([(client.put_start(ns, keys), pages)]).result()
>>> with client.read(ns, keys) as plan:
...     [valid] = cache.restore([(plan, pages)]).result()

Tensors are whatever says where its memory is and how it is strided: `__cuda_array_interface__`,
`__array_interface__` or DLPack (numpy, cupy, torch, jax ...); nothing of them is imported. Or give
addresses and strides as integers. Streams are integers (`torch.cuda.Stream.cuda_stream`). Without
CUDA the same calls copy CPU memory.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from orlop import _native
from orlop._native import Backup, PageCacheStats, Restore
from orlop.tensors import StridedMemory, strided_memory

__all__ = [
    "Backup",
    "KvLayout",
    "KvPart",
    "KvPool",
    "PageCache",
    "PageCacheStats",
    "Restore",
    "part_from",
]

_DIMS = ("page", "token", "head", "channel")


@dataclass(frozen=True)
class KvPool:
    """Pages of one numbering. pages_per_value: engine pages that one value takes from it."""

    name: str = ""
    pages_per_value: int = 1


@dataclass(frozen=True)
class KvPart:
    """One tensor of one layer, by address and strides in bytes (`orlop/kv_layout.h`)."""

    name: str
    layer: int
    base: int
    pages: int
    page_stride: int
    row_bytes: int
    heads: int = 1
    head_stride: int = 0
    tokens: int = 1
    token_stride: int = 0
    pool: int = 0


def part_from(tensor: Any, dims: Sequence[str] = _DIMS, *, name: str = "", layer: int = 0,
              pool: int = 0) -> KvPart:
    """The part that a strided tensor is.

    dims: what each dimension of it is, in its order: "page", "token", "head", "channel". "page" is
    required; what is left out has one element. A dimension of one element may be named "one". The
    channels of a row must lie side by side. Raises ValueError, which names the dimension.
    """
    memory = strided_memory(tensor)
    sizes, strides = _by_name(memory, dims)
    if "page" not in sizes:
        raise ValueError('dims: "page" is missing; name the dimension that counts pages')
    channels = sizes.get("channel", 1)
    if channels > 1 and strides["channel"] != memory.itemsize:
        raise ValueError(
            f"dims: channels lie {strides['channel']} bytes apart, elements have "
            f"{memory.itemsize}; the channels of a row must lie side by side")
    for dim, stride in strides.items():
        if stride < 0:
            raise ValueError(f"dims: {dim!r} runs backwards (stride {stride})")
    return KvPart(name=name, layer=layer, pool=pool, base=memory.address, pages=sizes["page"],
                  page_stride=strides["page"], heads=sizes.get("head", 1),
                  head_stride=strides.get("head", 0), tokens=sizes.get("token", 1),
                  token_stride=strides.get("token", 0), row_bytes=channels * memory.itemsize)


def _by_name(memory: StridedMemory, dims: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    if len(dims) != len(memory.shape):
        raise ValueError(f"dims: names {len(dims)} dimensions, the tensor has {len(memory.shape)}")
    sizes: dict[str, int] = {}
    strides: dict[str, int] = {}
    for dim, size, stride in zip(dims, memory.shape, memory.strides, strict=True):
        if dim == "one":
            if size != 1:
                raise ValueError(f'dims: "one" has {size} elements')
            continue
        if dim not in _DIMS:
            raise ValueError(f"dims: {dim!r} is none of {', '.join(_DIMS)}, one")
        if dim in sizes:
            raise ValueError(f"dims: {dim!r} comes twice")
        sizes[dim], strides[dim] = size, stride
    return sizes, strides


@dataclass(frozen=True)
class KvLayout:
    """All parts of a cache, in the order of the value, and the pools of its pages.

    token_first: rows inside a part of the value are token, head instead of head, token; the bytes of
    values differ, so the namespace's layout must name which.
    """

    parts: Sequence[KvPart]
    pools: Sequence[KvPool] = field(default_factory=lambda: (KvPool(),))
    token_first: bool = False
    # What the parts lie in: kept by the layout, and by a PageCache until its last job is over.
    tensors: Sequence[Any] = field(default=(), repr=False, compare=False)

    @classmethod
    def of_tensors(cls, layers: Iterable[Any], dims: Sequence[str] = _DIMS, *,
                   pages_per_value: int = 1, token_first: bool = False) -> "KvLayout":
        """One pool; per layer one tensor, or a sequence of tensors (K and V), all of these dims.

        The tensors are kept as long as the layout or a PageCache of it lives, and must stay where
        they are. Of parts made one by one the caller keeps the memory.
        """
        parts = []
        kept: list[Any] = []
        for layer, tensors in enumerate(layers):
            group = tensors if isinstance(tensors, (list, tuple)) else (tensors,)
            kept += group
            names = ("k", "v") if len(group) == 2 else tuple(map(str, range(len(group))))
            parts += [part_from(one, dims, name=f"layers.{layer}.{which}", layer=layer)
                      for which, one in zip(names, group, strict=True)]
        return cls(tuple(parts), (KvPool("pages", pages_per_value),), token_first, tuple(kept))

    @property
    def value_len(self) -> int:
        """Bytes of one value: what the namespace must have."""
        return _native._layout_value_len(*self._tuples())

    def _tuples(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        return ([(pool.name, pool.pages_per_value) for pool in self.pools],
                [(part.name, part.layer, part.pool, part.base, part.pages, part.page_stride,
                  part.heads, part.head_stride, part.tokens, part.token_stride, part.row_bytes)
                 for part in self.parts])


# Pages of one pool: a buffer of int64, or an iterable of int; of several pools: a tuple of them.
Pages = Any
BackupItem = tuple[_native.PutPlan, Pages]
RestoreItem = tuple[_native.ReadPlan, Pages] | tuple[_native.ReadPlan, Pages, int]


class PageCache:
    """An engine's paged cache, made known once.

    engine: "auto" (by the machine's measurements), "host", "staged", "direct" or "pieces".
    device: CUDA's number; None: where the layout's memory is. staging_bytes: GPU memory a direction,
    0: as much as `orlop/gpu.h` says. backup_burst_bytes: backups off a GPU go in bursts of at most so
    many bytes, between which an engine's own copies to the host get their turn; 0: no bursts.
    progress: called with (done_bytes, all_bytes) while value memory is registered with CUDA.

    The client must be attached (NoNode). Raises ValueError for a layout that is wrong, in words that
    name the part. Value memory that CUDA does not register: NoMemory (a limit, or a lack), WrongState (it is
    registered already), SystemCallFailed (forbidden, or an error of the device), each with what to do. Deleting it
    waits for its jobs. Thread-safe.
    """

    def __init__(self, client: _native.Client, layout: KvLayout, value_len: int, *,
                 engine: str = "auto", device: int | None = None, staging_bytes: int = 0,
                 backup_burst_bytes: int = 0, progress: Callable[[int, int], None] | None = None) -> None:
        pools, parts = layout._tuples()
        self._pools = len(pools)
        self._cache = _native._open_page_cache(
            client, pools, parts, layout.token_first, value_len, engine,
            -1 if device is None else device, staging_bytes, backup_burst_bytes,
            progress, layout)

    def backup(self, items: Iterable[BackupItem], stream: int = 0) -> Backup:
        """Copies pages into the memory of puts and commits them by itself.

        items: (plan of put_start, pages) each; pages: pages_per_value numbers for every key of the
        plan, prepared or not, or a tuple of such lists, one a pool. stream: begin after what was
        submitted there; 0: at once. Ends the plans; on an error they stay as they were. BufferError
        while arrays over a plan's memory live.
        """
        return self._cache.backup([(plan, self._lists(pages), 0) for plan, pages in items], stream)

    def restore(self, items: Iterable[RestoreItem], stream: int = 0,
                ranges: Iterable[tuple[int, int]] = ()) -> Restore:
        """Copies values into pages and checks them.

        items: (plan of get_transfer or read, pages) each, or (plan, pages, rank) of a cohort's plan.
        No page number may come twice. ranges: layers [first, end), copied in this order, disjoint;
        none: all layers at once. The plans may be released before the end.
        """
        return self._cache.restore(
            [(item[0], self._lists(item[1]), item[2] if len(item) > 2 else 0) for item in items],
            stream, list(ranges))

    def _lists(self, pages: Pages) -> tuple[Any, ...]:
        return pages if self._pools > 1 and isinstance(pages, tuple) else (pages,)

    def engine_for(self, values: int, *, restore: bool) -> str:
        """The engine that a batch of so many values would use."""
        return self._cache.engine_for(values, restore)

    @property
    def stats(self) -> PageCacheStats:
        """Counters since it was opened, and gauges of now."""
        return self._cache.stats

    def __repr__(self) -> str:
        return f"<orlop.gpu.PageCache\n{self._cache.describe()}>"

    def describe(self) -> str:
        """Engine, device and layout, for people."""
        return self._cache.describe()
