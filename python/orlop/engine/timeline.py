# SPDX-License-Identifier: Apache-2.0
"""One JSON line a request: what the adapter did for it and why. No tokens, no keys.

A file that cannot be written ends the timeline, never the request.
"""

import json
import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_LOG = logging.getLogger(__name__)
_OPEN_REQUESTS = 16_384  # an engine that never ends its requests loses the oldest lines
_MAX_BYTES = 1 << 30


class Timeline:
    """Times are seconds of the clock since the request was first seen. Thread: one at a time."""

    def __init__(self, path: str | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._left = _MAX_BYTES
        self._file = -1
        if path is not None:
            try:
                # O_NONBLOCK: a pipe that nobody reads must not stop the engine.
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                                     | os.O_NONBLOCK, 0o600)
            except (OSError, ValueError) as error:
                _LOG.warning("trace_requests: %s; requests are not traced", error)

    @property
    def on(self) -> bool:
        return self._file >= 0

    def note(self, request: str, **what: Any) -> None:
        """Adds fields to the request's line; those that end in _at get the time."""
        if not self.on:
            return
        line = self._open.get(request)
        if line is None:
            line = self._open[request] = {"request": request, "begun": self._clock()}
            if len(self._open) > _OPEN_REQUESTS:
                self._open.popitem(last=False)
        now = round(self._clock() - line["begun"], 6)
        for name, value in what.items():
            line[name] = now if name.endswith("_at") else value

    def end(self, request: str, **what: Any) -> None:
        """Writes the line of a request that was noted before."""
        if not self.on or request not in self._open:
            return
        self.note(request, ended_at=None, **what)
        line = self._open.pop(request)
        del line["begun"]
        text = (json.dumps(line, separators=(",", ":")) + "\n").encode()
        self._left -= len(text)
        try:
            if self._left < 0:
                raise OSError(f"{_MAX_BYTES} bytes are written")
            os.write(self._file, text)
        except OSError as error:
            _LOG.warning("trace_requests: %s; tracing ends", error)
            self.close()

    def close(self) -> None:
        if self.on:
            os.close(self._file)
        self._file = -1
        self._open.clear()
