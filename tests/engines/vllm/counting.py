# SPDX-License-Identifier: Apache-2.0
"""What an engine of the tests counted between two points."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from orlop.engine.counters import split


def summed(*totals: Mapping[str, float]) -> Counter[str]:
    """Totals of several sides. What is counted by reason is there under its bare name, too: else
    ["exceptions"] would be 0 whatever was raised."""
    result: Counter[str] = Counter()
    for one in totals:
        result.update(one)
        for key, value in one.items():
            name, reason = split(key)
            if reason:
                result[name] += value
    return result


class Counting:
    """Base of what has counts() and settle()."""

    counts: Any
    settle: Any

    @contextlib.contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """What was counted inside, filled in at its end."""
        before, new = self.counts(), Counter()
        yield new
        self.settle()
        after = self.counts()
        after.subtract(before)
        new.update({key: value for key, value in after.items() if value})
