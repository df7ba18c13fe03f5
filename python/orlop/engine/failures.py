# SPDX-License-Identifier: Apache-2.0
"""What failed is not offered again at once: engines ask again without a pause, for ever."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

# Long enough that a page which was replaced or repaired in the usual way is another one by then.
REMEMBER_SECONDS = 30.0
REMEMBER_KEYS = 4096


class FailedKeys:
    """Keys whose load failed, each for 30 seconds; the oldest of too many are forgotten.

    Thread: one at a time.
    """

    def __init__(self, clock: Callable[[], float], *, seconds: float = REMEMBER_SECONDS,
                 limit: int = REMEMBER_KEYS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = limit
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def add(self, key: bytes) -> None:
        self._until.pop(key, None)
        self._until[key] = self._clock() + self._seconds
        if len(self._until) > self._limit:
            self._until.popitem(last=False)

    def usable(self, keys: Sequence[bytes]) -> int:
        """How many of the keys come before the first that failed recently."""
        self._forget_old()
        if not self._until:
            return len(keys)
        return next((i for i, key in enumerate(keys) if key in self._until), len(keys))

    def without(self, keys: Sequence[bytes], present: bytes) -> bytes:
        """present, 1 or 0 per key, with 0 for those that failed recently."""
        self._forget_old()
        if not self._until:
            return present
        return bytes(there and key not in self._until
                     for key, there in zip(keys, present, strict=True))

    def _forget_old(self) -> None:
        if not self._until:
            return
        now = self._clock()
        while self._until:  # ascending, because a key that fails again goes to the end
            key, until = next(iter(self._until.items()))
            if until > now:
                break
            del self._until[key]
