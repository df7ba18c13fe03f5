# SPDX-License-Identifier: Apache-2.0
"""Why an adapter offered, loaded or stored less than it might have: one word each, in metrics,
timelines and logs."""

import enum

from orlop.outcomes import MissReason, Outcome


class Reason(enum.StrEnum):
    """Stable names: dashboards and ``orlop doctor`` read them."""

    HIT = "hit"
    # The store's own answers.
    NOT_FOUND = "not_found"
    RACED = "raced"
    PIN_LIMIT = "pin_limit"
    NO_NODE = "no_node"
    MISMATCH = "mismatch"
    DEADLINE = "deadline"
    NOT_STORED = "not_stored"
    # Decisions of the adapter.
    TOO_SHORT = "too_short"  # no whole page of the prompt is left to load
    BELOW_MINIMUM = "below_minimum"  # fewer tokens than min_hit_tokens
    ASKED_NOT_TO = "asked_not_to"  # by this request, or by mode
    FAILED_BEFORE = "failed_before"  # a load of this request failed once
    FAILED_RECENTLY = "failed_recently"  # this page failed, and nothing says that it is another now
    RESTING = "resting"  # the circuit breaker is open
    FAMILY_UNKNOWN = "family_unknown"  # weights not read yet, or a rank has not told its part
    UNSUPPORTED_REQUEST = "unsupported_request"
    OFF = "off"  # options or configuration were refused at start
    NOT_TAKEN = "not_taken"  # offered, and the engine did not load it
    OVERWRITTEN = "overwritten"  # the engine needed the page before its save had begun
    TAINTED = "tainted"  # computed in a step whose own load failed
    ASLEEP = "asleep"  # the engine has taken its cache's memory away for a while
    BACKLOG = "backlog"  # more saves waiting than their limit
    ABORTED = "aborted"
    EXCEPTION = "exception"  # an error of the adapter itself: report it


_OF_MISS = {
    MissReason.NONE: Reason.HIT,
    MissReason.NOT_FOUND: Reason.NOT_FOUND,
    MissReason.RACED: Reason.RACED,
    MissReason.LEDGER_FULL: Reason.PIN_LIMIT,
    MissReason.PIN_BUDGET: Reason.PIN_LIMIT,
    MissReason.NOT_ATTACHED: Reason.NO_NODE,
    MissReason.GROUP_INCOMPLETE: Reason.NOT_FOUND,
    MissReason.MISMATCH: Reason.MISMATCH,
    MissReason.DEADLINE: Reason.DEADLINE,
}


def of_miss(reason: MissReason) -> Reason:
    return _OF_MISS[reason]


def of_outcome(outcome: Outcome) -> Reason:
    """Of a page that a put did not store."""
    return Reason.NO_NODE if outcome is Outcome.NO_NODE else Reason.NOT_STORED
