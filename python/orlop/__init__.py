# SPDX-License-Identifier: Apache-2.0
"""Orlop: one KV cache for every inference engine on a host.

>>> import orlop
>>> with orlop.serve(capacity="64MiB") as node, node.client() as client:
...     ns = client.open_namespace(engine="demo", layout="bytes/1", model="m", revision="1",
...                                dtype="u8", page_tokens=16, value_len=4)
...     client.put(ns, [b"key"], [b"page"])
...     client.get_bytes(ns, [b"key"])
[<Outcome.STORED: 1>]
[b'page']
"""

import atexit as _atexit
import os as _os

from orlop import _native

if not _native._in_main_interpreter():
    raise ImportError("orlop does not work in a sub-interpreter; use processes or threads")

from orlop._native import (
    ExistsResult,
    Future,
    GetHandle,
    GetResult,
    Namespace,
    PackedKeys,
    PutPlan,
    ReadPlan,
    Stats,
)
from orlop.client import Client
from orlop.descriptor import NamespaceDescriptor
from orlop.errors import (
    AbiMismatch,
    AddressInUse,
    Closed,
    Corrupt,
    DeadlineExceeded,
    Error,
    ForkedChild,
    InvalidArgument,
    LimitReached,
    NamespaceConflict,
    NoMemory,
    NoNode,
    Refused,
    SystemCallFailed,
    WrongState,
)
from orlop.node import Node, serve
from orlop.outcomes import MissReason, Outcome

__all__ = [
    "AbiMismatch",
    "AddressInUse",
    "Client",
    "Closed",
    "Corrupt",
    "DeadlineExceeded",
    "Error",
    "ExistsResult",
    "ForkedChild",
    "Future",
    "GetHandle",
    "GetResult",
    "InvalidArgument",
    "LimitReached",
    "MissReason",
    "Namespace",
    "NamespaceConflict",
    "NamespaceDescriptor",
    "NoMemory",
    "NoNode",
    "Node",
    "Outcome",
    "PackedKeys",
    "PutPlan",
    "ReadPlan",
    "Refused",
    "Stats",
    "SystemCallFailed",
    "WrongState",
    "serve",
]

_atexit.register(_native._close_all)
_os.register_at_fork(after_in_child=_native._after_fork_in_child)
