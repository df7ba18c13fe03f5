# SPDX-License-Identifier: Apache-2.0
"""What makes bytes interchangeable: the descriptor of a namespace."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamespaceDescriptor:
    """Two clients share values exactly when all fields agree.

    All fields but the rank coordinates make the *family*, inside which one page has one key on
    every rank. Per-request parts (salt, LoRA, multimodal) belong into keys. Lengths: 32-bit.
    """

    engine: str  #: "vllm", "sglang", "demo"
    layout: str  #: the engine's layout and its version, "vllm-0.32/NHD"
    model: str  #: model id
    revision: str  #: weights digest or revision
    dtype: str  #: of the KV cache, scales identity included
    page_tokens: int  #: tokens of one page
    value_len: int  #: bytes of one value
    component: str = "kv"  #: kv, swa, mamba, indexer, draft ...
    codec: str = "none"
    tp_rank: int = 0
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    cp_rank: int = 0
    cp_size: int = 1
    first_layer: int = 0
    layers: int = 0
    first_head: int = 0
    heads: int = 0


def to_json(descriptor: NamespaceDescriptor | Mapping[str, Any] | str | None,
            fields: Mapping[str, Any]) -> str:
    """JSON text of what was given to open_namespace; its fields are checked by the library."""
    if descriptor is None:
        return _dump(fields)
    if fields:
        raise TypeError("descriptor: give a descriptor or fields by name, not both")
    if isinstance(descriptor, str):
        return descriptor
    if isinstance(descriptor, NamespaceDescriptor):
        return _dump(dataclasses.asdict(descriptor))
    if isinstance(descriptor, Mapping):
        return _dump(descriptor)
    raise TypeError(f"descriptor: is of type {type(descriptor).__name__}; give a "
                    "NamespaceDescriptor, a mapping, JSON text or fields by name")


def _dump(fields: Mapping[str, Any]) -> str:
    # numpy's integers and other exact integers are numbers too.
    return json.dumps(dict(fields), default=_integer)


def _integer(value: Any) -> int:
    if hasattr(value, "__index__"):
        return int(value.__index__())
    raise TypeError(f"descriptor: has a value of type {type(value).__name__}; "
                    "give text and integers")


def from_json(text: str) -> NamespaceDescriptor:
    """The descriptor of canonical JSON text; called by the native module."""
    return NamespaceDescriptor(**json.loads(text))
