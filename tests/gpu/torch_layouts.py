# SPDX-License-Identifier: Apache-2.0
"""torch tensors in every layout that vLLM gives its GPU caches, to a node's values and back; no engine.

  python torch_layouts.py [--device cuda|cpu] [--out FILE] [--only NAME,...] [--no-speed]

Per layout: pages are backed up, the whole memory is wiped, the values are restored into other pages, and
every byte of the memory is compared, those that no page of ours holds too. Then, in the geometry of
Qwen3-8B, how fast pages go both ways beside a plain copy of as many bytes. One JSON object on stdout (and in
FILE), lines for people on stderr; exit status 0 only if all is equal and every bar holds (the bars are those of
docs/benchmarks/gpu.md for scattered pages; on a CPU there are none).
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import orlop
import torch
from orlop.gpu import KvLayout, KvPart, KvPool, PageCache, part_from

WIPED = 0x5A
BAR = 0.97  # of the plain copy, one way, scattered pages: docs/benchmarks/gpu.md
PAIRS = 9
MIB = 1 << 20


@dataclass(frozen=True)
class Shape:
    layers: int
    pages: int
    tokens: int
    heads: int
    dim: int


SMALL = Shape(layers=3, pages=24, tokens=16, heads=4, dim=64)
QWEN3_8B = Shape(layers=36, pages=1000, tokens=16, heads=8, dim=128)


@dataclass(frozen=True)
class Named:
    """A layout by the name that vLLM's sources give its parts.

    memory: sizes in the order of the memory. parts: from the tensor of all memory, one view a part and layer
    as (layer, view, dims).
    """

    name: str
    memory: Callable[[Shape], tuple[int, ...]]
    parts: Callable[[Any, Shape], list[tuple[int, Any, tuple[str, ...]]]]
    dtype: Any = torch.bfloat16


_TOKEN_FIRST = ("page", "token", "head", "channel")
_HEAD_FIRST = ("page", "head", "token", "channel")
_LATENT = ("page", "token", "channel")


def _each(dims: tuple[str, ...], *views: Callable[[Any, int], Any]) -> Callable[..., Any]:
    """Per layer one part for each of views(all, layer)."""
    return lambda memory, shape: [(layer, view(memory, layer), dims)
                                  for layer in range(shape.layers) for view in views]


# In the names: L layers, B blocks, N tokens, H heads, D channels, 2 key and value, in the order of the memory.
# A tensor a layer is a slice of one memory here, as vLLM's allocator may have it too.
LAYOUTS = (
    Named("flash_attn NHD, key and value apart: L 2 B N H D",
          lambda s: (s.layers, 2, s.pages, s.tokens, s.heads, s.dim),
          _each(_TOKEN_FIRST, lambda m, i: m[i, 0], lambda m, i: m[i, 1])),
    Named("flash_attn HND, key and value apart: L 2 B H N D, seen as NHD",
          lambda s: (s.layers, 2, s.pages, s.heads, s.tokens, s.dim),
          _each(_TOKEN_FIRST, lambda m, i: m[i, 0].transpose(1, 2), lambda m, i: m[i, 1].transpose(1, 2))),
    Named("flashinfer and triton NHD: L B 2 N H D",
          lambda s: (s.layers, s.pages, 2, s.tokens, s.heads, s.dim),
          _each(_TOKEN_FIRST, lambda m, i: m[i, :, 0], lambda m, i: m[i, :, 1])),
    Named("flashinfer and triton HND: L B 2 H N D",
          lambda s: (s.layers, s.pages, 2, s.heads, s.tokens, s.dim),
          _each(_HEAD_FIRST, lambda m, i: m[i, :, 0], lambda m, i: m[i, :, 1])),
    Named("cross-layer, blocks first, NHD: B L 2 N H D",
          lambda s: (s.pages, s.layers, 2, s.tokens, s.heads, s.dim),
          _each(_TOKEN_FIRST, lambda m, i: m[:, i, 0], lambda m, i: m[:, i, 1])),
    Named("cross-layer, blocks first, HND: B L 2 H N D",
          lambda s: (s.pages, s.layers, 2, s.heads, s.tokens, s.dim),
          _each(_HEAD_FIRST, lambda m, i: m[:, i, 0], lambda m, i: m[:, i, 1])),
    Named("packed K|V, NHD (vLLM 0.26): L B N H 2D",
          lambda s: (s.layers, s.pages, s.tokens, s.heads, 2 * s.dim),
          _each(_TOKEN_FIRST, lambda m, i: m[i])),
    Named("packed K|V, HND (vLLM 0.26, LBHNC of 0.32): L B H N 2D",
          lambda s: (s.layers, s.pages, s.heads, s.tokens, 2 * s.dim),
          _each(_HEAD_FIRST, lambda m, i: m[i])),
    Named("packed K|V, cross-layer NHD: B L N H 2D",
          lambda s: (s.pages, s.layers, s.tokens, s.heads, 2 * s.dim),
          _each(_TOKEN_FIRST, lambda m, i: m[:, i])),
    Named("packed K|V, cross-layer (BLHNC of 0.32): B L H N 2D",
          lambda s: (s.pages, s.layers, s.heads, s.tokens, 2 * s.dim),
          _each(_HEAD_FIRST, lambda m, i: m[:, i])),
    Named("packed K|V, cross-layer, heads outside of layers: B H L N 2D",
          lambda s: (s.pages, s.heads, s.layers, s.tokens, 2 * s.dim),
          _each(_HEAD_FIRST, lambda m, i: m[:, :, i])),
    Named("fp8 as bytes, packed K|V, NHD: L B N H 2D",
          lambda s: (s.layers, s.pages, s.tokens, s.heads, 2 * s.dim),
          _each(_TOKEN_FIRST, lambda m, i: m[i]), torch.uint8),
    Named("fp8 as bytes, key and value apart, HND: L 2 B H N D",
          lambda s: (s.layers, 2, s.pages, s.heads, s.tokens, s.dim),
          _each(_HEAD_FIRST, lambda m, i: m[i, 0], lambda m, i: m[i, 1]), torch.uint8),
    Named("float32, packed K|V, HND: L B H N 2D",
          lambda s: (s.layers, s.pages, s.heads, s.tokens, 2 * s.dim),
          _each(_HEAD_FIRST, lambda m, i: m[i]), torch.float32),
    Named("latent (MLA): L B N 576",
          lambda s: (s.layers, s.pages, s.tokens, 576), _each(_LATENT, lambda m, i: m[i])),
    Named("latent (MLA), cross-layer: B L N 576",
          lambda s: (s.pages, s.layers, s.tokens, 576), _each(_LATENT, lambda m, i: m[:, i])),
    Named("latent (MLA) in fp8 with its scales: L B N 656 bytes",
          lambda s: (s.layers, s.pages, s.tokens, 656), _each(_LATENT, lambda m, i: m[i]), torch.uint8),
)


class Cache:
    """An engine's paged cache of one layout, all its bytes at hand."""

    def __init__(self, named: Named, shape: Shape, device: str) -> None:
        self.named, self.shape = named, shape
        sizes = named.memory(shape)
        count = 1
        for size in sizes:
            count *= size
        self.bytes = torch.empty(count * named.dtype.itemsize, dtype=torch.uint8, device=device)
        self._memory = self.bytes.view(named.dtype).view(sizes)
        self.layout = KvLayout(tuple(self._part(*one) for one in named.parts(self._memory, shape)),
                               (KvPool("pages"),), tensors=(self.bytes,))

    def _part(self, layer: int, view: Any, dims: tuple[str, ...]) -> KvPart:
        return part_from(view, dims, layer=layer, name=f"layers.{layer}.{view.storage_offset()}")

    def views(self, storage: Any) -> list[Any]:
        """The parts of a memory of the same size, as bytes, pages first."""
        memory = storage.view(self.named.dtype).view(self.named.memory(self.shape))
        return [one.view(torch.uint8) for _, one, _ in self.named.parts(memory, self.shape)]

    def expected(self, before: Any, sources: list[int], targets: list[int]) -> Any:
        """What the memory is when it was wiped and targets got the bytes that sources had in before."""
        wanted = torch.full_like(before, WIPED)
        for to, of in zip(self.views(wanted), self.views(before), strict=True):
            to[targets] = of[sources]
        return wanted


class Store:
    """A namespace per use in the client's node."""

    def __init__(self, client: orlop.Client) -> None:
        self.client = client
        self._uses = 0

    def namespace(self, value_len: int) -> orlop.Namespace:
        self._uses += 1
        return self.client.open_namespace(
            engine="torch_layouts", layout="bytes/1", revision="1", dtype="u8", page_tokens=16,
            model=f"use-{self._uses}", value_len=value_len)

    @staticmethod
    def keys(count: int) -> list[bytes]:
        return [number.to_bytes(16, "little") for number in range(count)]

    def backup(self, cache: PageCache, ns: orlop.Namespace, pages: list[int]) -> float:
        """Seconds of the copies; the node's answers are not among them."""
        plan = self.client.put_start(ns, self.keys(len(pages)), deadline=30)
        if plan.prepared != len(pages):
            raise RuntimeError(f"the node gave memory for {plan.prepared} of {len(pages)} pages: {plan.explanation}")
        begun = time.perf_counter()
        backup = cache.backup([(plan, pages)])
        if torch.cuda.is_available():
            backup.stream_wait(torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        else:
            backup.stream_wait(0)
        seconds = time.perf_counter() - begun
        [outcomes] = backup.result(120)
        if any(one is not orlop.Outcome.STORED for one in outcomes):
            raise RuntimeError(f"not stored: {set(outcomes)}")
        return seconds

    def restore(self, cache: PageCache, ns: orlop.Namespace, pages: list[int]) -> float:
        with self.client.read(ns, self.keys(len(pages))) as plan:
            if len(plan) != len(pages):
                raise RuntimeError(f"{len(plan)} of {len(pages)} pages can be read: {plan.result.reason}")
            begun = time.perf_counter()
            [valid] = cache.restore([(plan, pages)]).result(120)
            seconds = time.perf_counter() - begun
        if valid != len(pages):
            raise RuntimeError(f"page {valid} of {len(pages)} does not match its checksum")
        return seconds


def bit_exact(named: Named, store: Store, device: str) -> dict[str, Any]:
    """Odd pages to values, everything wiped, values into pages from the end."""
    cache = Cache(named, SMALL, device)
    cache.bytes.random_(0, 256)
    before = cache.bytes.clone()
    synchronize(device)  # PageCache works on streams of its own
    sources = list(range(1, SMALL.pages, 2))
    targets = [SMALL.pages - 1 - 2 * i for i in range(len(sources))]
    pages = PageCache(store.client, cache.layout, cache.layout.value_len)
    ns = store.namespace(cache.layout.value_len)
    store.backup(pages, ns, sources)
    cache.bytes.fill_(WIPED)
    synchronize(device)
    store.restore(pages, ns, targets)
    wanted = cache.expected(before, sources, targets)
    same = torch.equal(cache.bytes, wanted)
    # The comparison can fail: one other bit of the last restored page is seen.
    page = cache.views(cache.bytes)[-1][targets[-1]]
    page[(-1,) * page.ndim] ^= 1
    sees = not torch.equal(cache.bytes, wanted)
    return {"equal": same and sees, "value_len": cache.layout.value_len, "engine": pages.engine_for(12, restore=True)}


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


class PlainCopy:
    """As many bytes in one copy between page-locked memory and the device: the link itself."""

    def __init__(self, count: int, device: str) -> None:
        self._device = device
        self._host = torch.empty(count, dtype=torch.uint8, pin_memory=device == "cuda")
        self._there = torch.empty(count, dtype=torch.uint8, device=device)
        self._host.fill_(1)

    def restore(self) -> float:
        return self._timed(self._there, self._host)

    def backup(self) -> float:
        return self._timed(self._host, self._there)

    def _timed(self, to: Any, of: Any) -> float:
        begun = time.perf_counter()
        to.copy_(of, non_blocking=True)
        synchronize(self._device)
        return time.perf_counter() - begun


def speed(named: Named, store: Store, device: str, shape: Shape, goal: int) -> list[dict[str, Any]]:
    """goal: bytes of a batch, at most. Both ways, in turn with a plain copy."""
    value_len = Cache(named, replace(shape, pages=1), device).layout.value_len
    count = goal // value_len
    shape = replace(shape, pages=2 * count)
    cache = Cache(named, shape, device)
    cache.bytes.random_(0, 256)
    synchronize(device)
    pages = PageCache(store.client, cache.layout, value_len)
    ns = store.namespace(value_len)
    plain = PlainCopy(count * value_len, device)
    generator = torch.Generator().manual_seed(1)
    ours: dict[str, list[float]] = {"backup": [], "restore": []}
    theirs: dict[str, list[float]] = {"backup": [], "restore": []}
    for pair in range(PAIRS + 1):
        scattered = torch.randperm(shape.pages, generator=generator)[:count].tolist()
        store.client.flush(ns)  # the same memory again
        seconds = {"backup": store.backup(pages, ns, scattered), "restore": store.restore(pages, ns, scattered)}
        if not pair:
            plain.backup(), plain.restore()
            continue  # the first warms up
        for way in ours:
            ours[way].append(seconds[way])
            theirs[way].append(getattr(plain, way)())
    store.client.flush(ns)
    return [_row(named.name, way, count * value_len, median(ours[way]), median(theirs[way]), device,
                 pages.engine_for(count, restore=way == "restore")) for way in ours]


def _row(name: str, way: str, count: int, ours: float, theirs: float, device: str, engine: str) -> dict[str, Any]:
    ratio = theirs / ours
    return {"layout": name, "way": way, "bytes": count, "gb_per_s": count / ours / 1e9,
            "plain_gb_per_s": count / theirs / 1e9, "ratio": ratio, "bar": BAR if device == "cuda" else None,
            "ok": device != "cuda" or ratio >= BAR, "engine": engine}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine(device: str) -> dict[str, Any]:
    return {"device": torch.cuda.get_device_name(0) if device == "cuda" else platform.processor() or "CPU",
            "torch": torch.__version__, "python": platform.python_version(), "kernel": platform.release(),
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def attempt(named: Named, part: Callable[..., Any], *arguments: Any) -> Any:
    """One layout that fails does not keep the others from being tried."""
    try:
        return part(named, *arguments)
    except (RuntimeError, ValueError, TypeError, TimeoutError, orlop.Error) as error:
        say(f"{named.name}: {error}")
        return {"layout": named.name, "error": f"{type(error).__name__}: {error}", "ok": False, "equal": False}


def measure(client: orlop.Client, options: argparse.Namespace) -> dict[str, Any]:
    store, exact, rates = Store(client), [], []
    chosen = [one for one in LAYOUTS if not options.only or any(part in one.name for part in options.only.split(","))]
    for one in chosen:
        row = {"layout": one.name, **attempt(one, bit_exact, store, options.device)}
        say(f"{'equal    ' if row['equal'] else 'DIFFERENT'} {one.name}")
        exact.append(row)
    shape, goal = (QWEN3_8B, 1024 * MIB) if options.device == "cuda" else (SMALL, 32 * MIB)
    for one in [] if options.no_speed else chosen:
        rows = attempt(one, speed, store, options.device, shape, goal)
        for row in rows if isinstance(rows, list) else [rows]:
            if "error" not in row:
                say(f"{row['way']:8} {row['gb_per_s']:7.2f} of {row['plain_gb_per_s']:7.2f} GB/s "
                    f"({row['ratio']:.4f}{'' if row['ok'] else ' MISSED'}) {one.name}")
            rates.append(row)
        if options.device == "cuda":
            torch.cuda.empty_cache()
    return {"machine": machine(options.device), "exact": exact, "speed": rates,
            "ok": all(row["equal"] for row in exact) and all(row["ok"] for row in rates)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--out", type=Path, help="the JSON goes into this file too")
    parser.add_argument("--only", metavar="PART,...", help="layouts whose names have one of these in them")
    parser.add_argument("--no-speed", action="store_true")
    options = parser.parse_args()
    # One client may pin a quarter: 1 GiB of values at a time.
    capacity = "6GiB" if options.device == "cuda" else "512MiB"
    with orlop.serve(capacity=capacity, start_limit=120.0, max_value_len="16MiB") as node, \
            node.client(name="torch_layouts", call_budget=10.0) as client:
        if not client.wait_ready(60):
            raise RuntimeError(f"no node: {client.last_attach_error}")
        result = measure(client, options)
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
