# SPDX-License-Identifier: Apache-2.0
"""Errors of orlop calls: misuse and operating errors. A cache miss is never an error.

Every error is an :class:`Error` with a stable ``code`` (the name of the same error in C and C++)
and a message that says what is wrong and what to do. Wrong arguments are ``ValueError`` as well;
arguments of a wrong type raise plain ``TypeError``.
"""


class Error(Exception):
    """Base of all errors of orlop. ``code``: stable lower-case name, "no_node"."""

    code: str = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidArgument(Error, ValueError):
    """An argument is wrong; the message names it. Nothing was reserved or changed."""

    code = "invalid_argument"


class WrongState(Error):
    """A plan or handle was used twice, with another client, or after its end."""

    code = "wrong_state"


class ForkedChild(Error):
    """The object was made by the parent of this process; open a new Client here."""

    code = "forked_child"


class NoNode(Error):
    """No node answers at the socket."""

    code = "no_node"


class Refused(Error):
    """The node refused this process: other user, limits; or a private node did not start."""

    code = "refused"


class AbiMismatch(Error):
    """Client and node are of different versions; both are named."""

    code = "abi_mismatch"


class DeadlineExceeded(Error):
    """The deadline passed."""

    code = "deadline"


class NoMemory(Error):
    """Does not fit: budget, cgroup, memlock, huge pages; the numbers are in the message."""

    code = "no_memory"


class NamespaceConflict(Error, ValueError):
    """The descriptor has unknown fields, or the node has another one with the same digest."""

    code = "namespace_conflict"


class LimitReached(Error):
    """A fixed limit is exhausted: namespaces, clients, plans."""

    code = "limit"


class AddressInUse(Error):
    """Another node owns the socket."""

    code = "address_in_use"


class SystemCallFailed(Error):
    """An operating system call failed; call and errno are in the message."""

    code = "system"


class Corrupt(Error):
    """Bytes do not match their layout."""

    code = "corrupt"


class Closed(Error):
    """The client was closed."""

    code = "closed"


# By number in include/orlop/error.h.
BY_NUMBER: dict[int, type[Error]] = {
    1: InvalidArgument,
    2: WrongState,
    3: ForkedChild,
    4: NoNode,
    5: Refused,
    6: AbiMismatch,
    7: DeadlineExceeded,
    8: NoMemory,
    9: NamespaceConflict,
    10: LimitReached,
    11: AddressInUse,
    12: SystemCallFailed,
    13: Corrupt,
    14: Closed,
}


def make(number: int, message: str) -> Error:
    """The error of this number; called by the native module."""
    return BY_NUMBER.get(number, Error)(message)
