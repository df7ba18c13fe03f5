# SPDX-License-Identifier: Apache-2.0
"""The names of numba that vLLM's n-gram proposer imports; its functions run as the Python they are.

Put on PYTHONPATH of one engine's process by test_speculation: the locked environment lacks numba.
"""

from collections.abc import Callable
from typing import Any

prange = range


def njit(*functions: Callable[..., Any], **_: Any) -> Any:
    return functions[0] if functions else lambda function: function


jit = njit


def get_num_threads() -> int:
    return 1


def set_num_threads(count: int) -> None:
    del count
