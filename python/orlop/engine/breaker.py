# SPDX-License-Identifier: Apache-2.0
"""Stops asking a store that keeps failing, and finds out by itself when it is well again."""

from collections.abc import Callable

FAILURES = 5  # in a row
FIRST_REST = 1.0  # seconds; doubled while the trial after a rest fails
LONGEST_REST = 60.0


class CircuitBreaker:
    """closed -> (5 failures in a row) -> resting -> one trial -> closed, or resting twice as long.

    Thread: one at a time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._rest = FIRST_REST
        self._rests_until: float | None = None  # None: closed
        self._trial = False
        self.opened = 0  #: times, for metrics

    def allows(self) -> bool:
        """False while resting; after a rest True once. A trial whose outcome is never told is
        followed by another one after the same time."""
        if self._rests_until is None:
            return True
        now = self._clock()
        if now < self._rests_until:
            return False
        self._rests_until = now + self._rest
        self._trial = True
        return True

    def succeeded(self) -> None:
        self._failures = 0
        if self._trial or self._rests_until is None:
            self._rests_until = None
            self._trial = False
            self._rest = FIRST_REST

    def failed(self) -> None:
        self._failures += 1
        if self._trial:
            self._rest = min(2 * self._rest, LONGEST_REST)
        elif self._rests_until is not None or self._failures < FAILURES:
            return
        self._trial = False
        self._failures = 0
        self._rests_until = self._clock() + self._rest
        self.opened += 1
