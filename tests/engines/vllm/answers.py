# SPDX-License-Identifier: Apache-2.0
"""What engines of the tests answer, for processes that need no vLLM themselves."""

import dataclasses

BLOCK = 32  # tokens: vLLM's smallest on the CPU


@dataclasses.dataclass
class Output:
    tokens: list[int]
    cached: int  # tokens that were not computed
    finish: str | None
