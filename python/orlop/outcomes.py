# SPDX-License-Identifier: Apache-2.0
"""What happened to one key. Values and names are those of include/orlop/outcome.h."""

import enum


class _Named(enum.IntEnum):
    def __str__(self) -> str:
        return self.name.lower()


class Outcome(_Named):
    """What happened to one key of a put. ``str()`` is its stable lower-case name."""

    PREPARED = 0  #: put_start: memory reserved, write it and commit
    STORED = 1  #: commit: readable now
    EXISTS = 2  #: a readable value was there, or came first; no memory given
    IN_FLIGHT = 3  #: somebody else is writing it
    GROUP_SPLIT = 4  #: another member of its group exists or is in flight
    NOT_ADMITTED = 5  #: the admission policy refused
    NO_SPACE = 6  #: nothing could be freed in time
    OVER_QUOTA = 7  #: this client's cap of prepared bytes is reached
    FLUSHED = 8  #: the namespace was flushed since put_start
    EVICTED = 9  #: commit: the group is no longer this plan's
    NO_NODE = 10  #: no node answered in time: not stored
    ABORTED = 11  #: the plan was aborted


class MissReason(_Named):
    """Why a read is shorter than asked for: the reason of its first miss."""

    NONE = 0  #: all keys hit
    NOT_FOUND = 1  #: no readable value has this key in this namespace
    RACED = 2  #: it was there and left while being pinned
    LEDGER_FULL = 3  #: no free ledger cells
    PIN_BUDGET = 4  #: the client's pin budget is used up
    NOT_ATTACHED = 5  #: no node yet, or the node's memory has gone
    GROUP_INCOMPLETE = 6  #: the reader's group has a missing member
    MISMATCH = 7  #: the bytes did not match their checksum
    DEADLINE = 8  #: the deadline passed
