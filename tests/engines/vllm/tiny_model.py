# SPDX-License-Identifier: Apache-2.0
"""Models of a few layers with random weights, made here: nothing is fetched.

Token ids are the numbers in the words (w3 ... w1023), so that prompts are lists of numbers.

  python tiny_model.py FOLDER [SEED]
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

WORDS = 1024
_SHAPE: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "head_dim": 32,
    "max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32",
    "tie_word_embeddings": False,
    # Wide, so that the next token depends sharply on the prompt: one wrong byte shows.
    "initializer_range": 0.3}


def make_llama(folder: Path, seed: int = 0, kv_heads: int = 2) -> Path:
    """2 layers, 4 heads on 2 KV heads of 32 channels (or so many as kv_heads): 512 bytes of float32 KV a
    token and layer."""
    return _make(folder, seed, lambda: LlamaForCausalLM(LlamaConfig(
        **_SHAPE, num_hidden_layers=2, num_key_value_heads=kv_heads)))


def make_gemma(folder: Path, seed: int = 0) -> Path:
    """4 layers in turn with a sliding window of 64 tokens and with full attention: two cache groups."""

    def model() -> Any:
        gemma = Gemma3ForCausalLM(Gemma3TextConfig(
            **_SHAPE, num_hidden_layers=4, num_key_value_heads=2, sliding_window=64,
            layer_types=["sliding_attention", "full_attention"] * 2, query_pre_attn_scalar=32))
        # Else the last token alone decides, and wrong pages do not show.
        gemma.model.embed_tokens.weight.data.mul_(0.02)
        return gemma

    return _make(folder, seed, model)


def _make(folder: Path, seed: int, model: Callable[[], Any]) -> Path:
    """Unless a run before this one has made it."""
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    _tokenizer().save_pretrained(folder)
    torch.manual_seed(seed)
    model().float().save_pretrained(folder, safe_serialization=True)
    (folder / "complete").touch()
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    words = ["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(3, WORDS))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)},
                                           unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>",
                                   eos_token="</s>")


if __name__ == "__main__":
    print(make_llama(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
