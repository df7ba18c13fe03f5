# SPDX-License-Identifier: Apache-2.0
"""KV events of what is in the store, in vLLM's own classes, for routers that read vLLM's events.

Told with the medium CPU: pages of this engine's requests that were found in the store when, or soon
after, the engine completed them, whoever stored them; and of those, which are gone: evicted, removed
or flushed by anybody (orlop.engine.presence says how late). vLLM publishes events with its steps, so
what is gone while the engine is idle is told with its next step.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from vllm.distributed.kv_events import (
    MEDIUM_CPU,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVCacheEvent,
)
from vllm.v1 import kv_cache_interface
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_utils import generate_block_hash_extra_keys, maybe_convert_block_hash

import orlop
from orlop.engine.counters import Counters
from orlop.engine.presence import Change, Page, Presence

# As long as a save takes, but not as long as one that was dropped is waited for: empty steps cost.
_GO_ON_SECONDS = 1.0
_LOCAL = "LOCAL"  # vllm.v1.kv_offload.base.Locality.LOCAL, where there is one


@dataclasses.dataclass(frozen=True, slots=True)
class _Block:
    group: int
    hash: bytes
    parent: bytes | None
    tokens: list[int]
    extra: tuple[Any, ...] | None
    lora: tuple[int, str] | None
    session: str | None


@dataclasses.dataclass(frozen=True)
class _Group:
    page_tokens: int
    kind: str | None
    window: int | None


def are_wanted(config: Any) -> bool:
    events = config.kv_events_config
    return events is not None and bool(events.enable_kv_cache_events)


class StoreEvents:
    """Thread: the engine's scheduler, but for a thread that looks into the store."""

    def __init__(self, client: orlop.Client, counters: Counters, cache_groups: Iterable[Any],
                 hash_tokens: int) -> None:
        """cache_groups: of the engine's kv_cache_config; hash_tokens: of one of its block hashes."""
        self._counters = counters
        self._groups = [_group_of(one.kv_cache_spec) for one in cache_groups]
        self._hash_tokens = hash_tokens
        self._namespaces: dict[int, tuple[orlop.Namespace, ...]] = {}
        self._cleared = False
        self._presence = Presence(client)

    def note(self, request: Any, group: int, namespaces: Sequence[orlop.Namespace], first: int,
             keys: Sequence[bytes]) -> None:
        """Pages [first, first + len(keys)) of a group are complete: stored, or about to be.

        namespaces: of all ranks; keys: in them. Never raises.
        """
        try:
            there = self._namespaces.get(group)
            if there is None or there[0] is not namespaces[0]:
                there = self._namespaces[group] = tuple(namespaces)
            self._presence.note([Page(there, key, self._block(request, group, first + i))
                                 for i, key in enumerate(keys)])
        except Exception:  # an event is lost, not the pages
            self._counters.add("exceptions", reason="events")

    def clear(self) -> None:
        """Nothing of what was told is used any more."""
        self._presence.clear()
        self._namespaces.clear()
        self._cleared = True

    def take(self) -> list[KVCacheEvent]:
        """New events, in order."""
        events: list[KVCacheEvent] = [AllBlocksCleared()] if self._cleared else []
        self._cleared = False
        for change in self._presence.take():
            events += [self._stored(change)] if change.stored else self._removed(change)
        return events

    def are_pending(self) -> bool:
        """Whether the engine should go on stepping for a moment, so that they are published."""
        return (self._cleared or self._presence.has_changes()
                or self._presence.is_waiting(_GO_ON_SECONDS))

    def close(self) -> None:
        self._presence.close()

    def _block(self, request: Any, group: int, index: int) -> _Block:
        size = self._groups[group].page_tokens
        every = size // self._hash_tokens
        extra, _ = generate_block_hash_extra_keys(request, index * size, (index + 1) * size, 0)
        lora = request.lora_request
        return _Block(
            group, request.block_hashes[(index + 1) * every - 1],
            request.block_hashes[index * every - 1] if index else None,
            list(request.all_token_ids[index * size:(index + 1) * size]), extra,
            (lora.adapter_id, lora.name) if lora is not None else None,
            getattr(request, "session_id", None))

    def _stored(self, change: Change) -> KVCacheEvent:
        """Takes the tokens out of the blocks, which live on until they are gone: 1.3 KB each."""
        blocks: list[_Block] = [page.about for page in change.pages]
        tokens = [token for one in blocks for token in one.tokens]
        for one in blocks:
            one.tokens.clear()
        first = blocks[0]
        group = self._groups[first.group]
        lora_id, lora_name = first.lora or (None, None)
        return _make(
            BlockStored, block_hashes=[maybe_convert_block_hash(one.hash) for one in blocks],
            parent_block_hash=None if first.parent is None else maybe_convert_block_hash(first.parent),
            token_ids=tokens,
            block_size=group.page_tokens, lora_id=lora_id, medium=MEDIUM_CPU, lora_name=lora_name,
            extra_keys=_published([one.extra for one in blocks]), group_idx=first.group,
            kv_cache_spec_kind=group.kind, kv_cache_spec_sliding_window=group.window, locality=_LOCAL,
            session_id=first.session)

    def _removed(self, change: Change) -> list[KVCacheEvent]:
        by_group: dict[int, list[Any]] = {}
        for page in change.pages:
            by_group.setdefault(page.about.group, []).append(maybe_convert_block_hash(page.about.hash))
        return [_make(BlockRemoved, block_hashes=hashes, medium=MEDIUM_CPU, group_idx=group,
                      locality=_LOCAL) for group, hashes in by_group.items()]


def _make(kind: Any, **fields: Any) -> KVCacheEvent:
    """With the fields that this vLLM's events have."""
    return kind(**{name: value for name, value in fields.items() if name in kind.__struct_fields__})


def _group_of(spec: Any) -> _Group:
    # Older releases have no such kinds, and no field for them in their events.
    kind_of = getattr(kv_cache_interface, "get_kv_cache_spec_kind", None)
    return _Group(spec.block_size, kind_of(spec).value if kind_of is not None else None,
                  getattr(spec, "sliding_window", None))


def _published(extra: list[tuple[Any, ...] | None]) -> Any:
    # Older releases have no tags, so nothing to take off.
    untag = getattr(kv_cache_utils, "to_event_extra_keys", None)
    return untag(extra) if untag is not None else extra
