# SPDX-License-Identifier: Apache-2.0
"""What users may set. Every value may come as a string, because engines' command lines pass strings.

A wrong value never reaches the engine as an exception: the adapter says what is wrong and stays off.
"""

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any


class OptionError(ValueError):
    """All that is wrong with the options, in words for the log."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Every option has a default; the names are those of the engine's configuration."""

    socket: str | None = None  #: of the node; None: $ORLOP_SOCKET, else the node's default place
    mode: str = "read_write"  #: or save_only, load_only
    save: str = "all"  #: or prompt: pages of generated tokens are not stored
    load_mode: str = "async"  #: or sync: inside the step that needs it
    min_hit_tokens: int = 0  #: a shorter hit is not worth a load
    load_deadline: float = 5.0  #: seconds that a load may wait for its turn before it is a miss
    save_deadline: float = 0.05  #: seconds for the node to answer before a save is dropped
    weights: str | None = None  #: identity of the weights where their files cannot be read
    trace_requests: str | None = None  #: file for one JSON line a request

    @property
    def loads(self) -> bool:
        return self.mode != "save_only"

    @property
    def saves(self) -> bool:
        return self.mode != "load_only"


_MAX_TEXT = 4096  # of a path: PATH_MAX


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"is of type {type(value).__name__}; give text")
    if not 0 < len(value) <= _MAX_TEXT:
        raise ValueError(f"has {len(value)} characters; give 1 to {_MAX_TEXT}")
    if not value.isprintable():
        raise ValueError("has characters that cannot be printed")
    return value


def _one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"is {_shown(value)}; give one of {', '.join(choices)}")
        return value

    return parse


def _number(low: float, high: float) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        wrong = ValueError(f"is {_shown(value)}; give a number from {low:g} to {high:g}")
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise wrong
        try:
            number = float(value[:40] if isinstance(value, str) else value)
        except (ValueError, OverflowError):
            raise wrong from None
        if math.isnan(number) or not low <= number <= high:
            raise wrong
        return number

    return parse


def _whole(low: int, high: int) -> Callable[[Any], int]:
    number = _number(low, high)

    def parse(value: Any) -> int:
        result = number(value)
        if result != int(result):
            raise ValueError(f"is {_shown(value)}; give a whole number")
        return int(result)

    return parse


# A load that waits longer than a minute has lost against computing; the shortest deadlines are of
# tests that want to see one pass.
_PARSERS: dict[str, Callable[[Any], Any]] = {
    "socket": _text,
    "mode": _one_of("read_write", "save_only", "load_only"),
    "save": _one_of("all", "prompt"),
    "load_mode": _one_of("async", "sync"),
    "min_hit_tokens": _whole(0, 1 << 30),
    "load_deadline": _number(0.001, 60),
    "save_deadline": _number(0.001, 10),
    "weights": _text,
    "trace_requests": _text,
}


def parse_options(given: Mapping[str, Any] | None) -> Options:
    """Raises OptionError, which names every wrong option and never shows more than a line of it."""
    if given is None:
        return Options()
    if not isinstance(given, Mapping):
        raise OptionError(f"options are of type {type(given).__name__}; give a mapping of names")
    wrong, values = [], {}
    for name, value in given.items():
        if not isinstance(name, str) or name not in _PARSERS:
            wrong.append(f"there is no option {_shown(name)}{_suggestion(name)}")
            continue
        if value is None:
            continue
        try:
            values[name] = _PARSERS[name](value)
        except ValueError as error:
            wrong.append(f"{name} {error}")
    if wrong:
        raise OptionError("; ".join(wrong[:8]))
    return Options(**values)


def _suggestion(name: Any) -> str:
    near = difflib.get_close_matches(str(name)[:64], _PARSERS, n=1)
    return f" (did you mean {near[0]}?)" if near else f"; there are: {', '.join(_PARSERS)}"


def _shown(value: Any) -> str:
    try:
        text = repr(value[:40] if isinstance(value, (str, bytes)) else value)
    except Exception:  # an object's own repr, or an integer too long to print
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 60 else text[:57] + "..."
