# SPDX-License-Identifier: Apache-2.0
"""Keys of a request's pages: vLLM's own block hashes, or our chain where those are not shared."""

from typing import Any

from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_utils import generate_block_hash_extra_keys

from orlop.engine import keys as chain

# Before 0.32 the engine's extra keys know a LoRA by its name alone, and a salt may be the same text.
_LORAS_ARE_TOLD_APART = hasattr(kv_cache_utils, "to_event_extra_keys")


class RequestKeys:
    """One request's keys, of its complete blocks. Grows as the request does.

    block_size: tokens of one key, the engine's hash_block_size. A cache group whose blocks are
    `every` times as long has every so-maniest of them: a key covers all tokens before its end.
    """

    def __init__(self, request: Any, block_size: int, *, engine_hashes: bool) -> None:
        self._request = request
        self._block_size = block_size
        self._engine_hashes = engine_hashes
        self._own: list[bytes] = []
        self._next_image = 0

    def complete(self, every: int = 1) -> int:
        """Blocks all of whose tokens are accepted ones."""
        if self._engine_hashes:
            return len(self._request.block_hashes) // every
        return int(self._request.num_tokens) // self._block_size // every

    def of(self, first: int, end: int, every: int = 1) -> list[bytes]:
        """Of blocks [first, end), end <= complete(every)."""
        keys: Any = self._request.block_hashes
        if not self._engine_hashes:
            self._extend(end * every)
            keys = self._own
        return list(keys[first * every + every - 1:end * every:every])

    def _extend(self, end: int) -> None:
        size, tokens = self._block_size, self._request.all_token_ids
        while len(self._own) < end:
            begin = len(self._own) * size
            parent = self._own[-1] if self._own else chain.first_parent()
            self._own.append(chain.chain_key(parent, tokens[begin:begin + size],
                                             self._extra(begin, begin + size)))

    def _extra(self, begin: int, end: int) -> Any:
        extra, self._next_image = generate_block_hash_extra_keys(
            self._request, begin, end, self._next_image)
        lora = self._request.lora_request
        if lora is None or _LORAS_ARE_TOLD_APART:
            return extra
        return ("lora", lora.lora_name, lora.lora_path), extra
