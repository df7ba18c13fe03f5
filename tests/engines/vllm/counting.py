# SPDX-License-Identifier: Apache-2.0
"""What an engine of the tests counted between two points."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any


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
