# SPDX-License-Identifier: Apache-2.0
"""Keys of pages where the engine has none that other processes would compute too.

Engines hash their pages themselves; when those hashes are the same in every process they are the
keys. Else this chain over token ids and per-request parts is.
"""

import array
import hashlib
from collections.abc import Sequence
from typing import Any

# Part of every namespace whose keys are of this chain: change it when the chain changes.
CHAIN = "orlop-chain-1"
KEY_LEN = 32


def first_parent() -> bytes:
    """The parent of a prompt's first page."""
    return hashlib.sha256(CHAIN.encode()).digest()


def chain_key(parent: bytes, tokens: Sequence[int], extra: Any = None) -> bytes:
    """The key of the page that follows the page of `parent`.

    tokens: those of the page, 0 to 2^32 - 1. extra: what else makes the page's bytes (salt, LoRA,
    images): None, or nested tuples and lists of str, bytes, int, float and bool. Raises TypeError
    for other types: a part that is not understood must not be left out.
    """
    digest = hashlib.sha256(parent)
    digest.update(_token_bytes(tokens))
    digest.update(_encoded(extra))
    return digest.digest()


def _token_bytes(tokens: Sequence[int]) -> bytes:
    packed = array.array("I", tokens)
    return len(packed).to_bytes(4, "little") + packed.tobytes()


def _encoded(part: Any) -> bytes:
    # Type, length, content: no two different values have the same text.
    if part is None:
        return b"n"
    if isinstance(part, (tuple, list)):
        return b"t%d:" % len(part) + b"".join(_encoded(one) for one in part)
    if isinstance(part, str):
        text = part.encode(errors="surrogatepass")
        return b"s%d:" % len(text) + text
    if isinstance(part, (bytes, bytearray)):
        return b"b%d:" % len(part) + bytes(part)
    if isinstance(part, (bool, int, float)):
        text = repr(part).encode()
        return type(part).__name__[0].upper().encode() + b"%d:" % len(text) + text
    raise TypeError(f"a page's extra part is of type {type(part).__name__}, which has no known bytes")
