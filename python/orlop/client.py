# SPDX-License-Identifier: Apache-2.0
"""An engine worker's door to the node of its host."""

from collections.abc import Mapping
from typing import Any

from orlop import _native
from orlop.descriptor import NamespaceDescriptor, to_json


class Client(_native.Client):
    """A client of the node of this host. A context manager: leaving the block closes it.

    socket: path of the node's socket; None: ``$ORLOP_SOCKET``, else the node's default place.
    name: shown by ``orlop status``; None: the program's name.
    call_budget: seconds that a call which needs the node waits at most.
    handle_ttl: seconds after which a handle that was never transferred is cancelled.
    ledger_cells: pages that can be pinned at once.
    on_ready: called with True when attached and False when the node is lost, from a thread of the
    library, maybe before Client() has returned; may use ``ready`` and ``close()``, nothing else, and
    may drop the last reference. What it raises goes to ``sys.unraisablehook``.

    Thread-safe. May start before its node: it attaches in the background, and again after the node
    was restarted; until then every read is a miss and every put answers NO_NODE. In a forked child
    every call raises ForkedChild: open a new Client there.

    Keys everywhere: one bytes-like object (one key), an iterable of them, ``PackedKeys``, or a
    C-contiguous 2-D buffer of uint8 whose rows are keys; 1 to 4,096 bytes each.
    """

    def open_namespace(self, descriptor: NamespaceDescriptor | Mapping[str, Any] | str | None = None,
                       **fields: Any) -> _native.Namespace:
        """Opens the namespace of a descriptor: a NamespaceDescriptor, a mapping, JSON text, or its
        fields by name.

        Without a node in time the namespace is returned unresolved and resolved after the attach.
        Raises ValueError for a field that is unknown, missing or wrong; NamespaceConflict;
        LimitReached after 1,024 namespaces.
        """
        return self._open_namespace(to_json(descriptor, fields))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
