# SPDX-License-Identifier: Apache-2.0
"""The two sizes of the benchmark: the H200's, and one that shows on a CPU that everything runs (--check)."""

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines import Setup

_HERE = Path(__file__).resolve().parent
KIB, GIB = 1 << 10, 1 << 30


@dataclass(frozen=True)
class Size:
    lengths: tuple[int, ...]  # tokens of a prompt that can be a hit; 4 more have to be computed
    block: int
    token_bytes: int  # of the KV cache
    rounds: int
    words: int  # token ids are below
    decodes: int  # requests at once
    decode_tokens: int  # of each
    decode_rounds: int
    other_length: int
    loads: int  # prompts that come while the requests decode and are in the store
    saves: int  # ... and are new
    capacities: dict[str, int]  # of the node, and in bytes; the first that it can have
    copied: int  # bytes of the plain copy
    start_limit: float
    on_gpu: bool
    llm: dict[str, Any] = field(default_factory=dict)
    often: dict[int, int] = field(default_factory=dict)  # how often a length is asked for in a round, if not once


# 36 layers x K and V x 8 heads x 128 channels x 2 bytes = 144 KiB a token, 2.25 MiB a block.
H200 = Size(
    lengths=(1 * KIB, 4 * KIB, 8 * KIB, 16 * KIB), block=16, token_bytes=144 * KIB, rounds=7, words=150_000,
    decodes=16, decode_tokens=512, decode_rounds=3, other_length=8 * KIB, loads=8, saves=4,
    # A client may pin a quarter: 16 Ki tokens are 2.25 GiB.
    capacities={f"{gib}GiB": gib * GIB for gib in (40, 24, 12)}, copied=GIB, start_limit=330.0,
    on_gpu=True, often={1 * KIB: 3, 4 * KIB: 2},
    llm={"dtype": "bfloat16", "load_format": "dummy", "max_model_len": 20 * KIB, "max_num_batched_tokens": 20 * KIB,
         "max_num_seqs": 64, "block_size": 16, "enforce_eager": False,
         # Fixed, because several engines start at once and would measure each other's memory.
         "kv_cache_memory_bytes": 10 * GIB, "gpu_memory_utilization": 0.2,
         # The sizes that occur here; vLLM's own list takes 20 s longer to start.
         "compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 24, 32, 64]}})

CHECK = Size(
    lengths=(64, 256, 512), block=32, token_bytes=2 * 512, rounds=2, words=1000, decodes=4, decode_tokens=48,
    decode_rounds=1, other_length=256, loads=3, saves=2, capacities={"256MiB": 256 << 20}, copied=16 << 20, start_limit=900.0,
    on_gpu=False,
    llm={"dtype": "float32", "max_model_len": 1024, "max_num_batched_tokens": 1024, "block_size": 32,
         "enforce_eager": True, "num_gpu_blocks_override": 256, "distributed_executor_backend": "uni",
         "max_num_seqs": 16})


def qwen3_8b(folder: Path) -> Path:
    """Its geometry without its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "vocab_size": 151_936,
        "hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1_000_000,
        "attention_bias": False, "tie_word_embeddings": False, "max_position_embeddings": 40_960, "bos_token_id": 1,
        "eos_token_id": 2}))
    return folder


def tiny(folder: Path) -> Path:
    sys.path.append(str(_HERE.parents[2] / "tests/engines/vllm"))
    from tiny_model import make_llama

    return Path(make_llama(folder))


def setups(size: Size, model: Path, socket: str, trace: Path | None, native_gib: int,
           compared: str | None = None) -> dict[str, Setup]:
    """The engines by name. again: a second process with Orlop, which stores nothing that the first has stored; other:
    instead of it one with the package orlop of the folder `compared`."""
    on_gpu = size.on_gpu
    llm = {**size.llm, "model": str(model), "seed": 0, "enable_prefix_caching": True, "disable_log_stats": True,
           "skip_tokenizer_init": True}
    options = {"socket": socket, "weights": "h200-bench-1"}

    def orlop(name: str, path: str | None = None) -> Setup:
        traced = {"trace_requests": str(trace / f"{name}.jsonl")} if trace else {}
        return Setup("orlop", llm, {
            "kv_connector": "OrlopConnector", "kv_connector_module_path": "orlop.vllm", "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute", "kv_connector_extra_config": {**options, **traced}}, on_gpu, path)

    native = Setup("native", {**llm, "kv_offloading_size": native_gib, "kv_offloading_backend": "native"}, None, on_gpu) \
        if on_gpu else Setup("native", llm, _offloading_on_a_cpu())
    second = {"other": orlop("other", compared)} if compared else {"again": orlop("again")}
    return {"off": Setup("off", llm, None, on_gpu), "native": native, "orlop": orlop("orlop"), **second}


def _offloading_on_a_cpu() -> dict[str, Any]:
    """vLLM makes the worker of its own offloading on GPUs only: ../offload_spec.py."""
    return {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": {
        "spec_name": "MemorySpec", "spec_module_path": "offload_spec", "cpu_bytes_to_use": 64 << 20}}


class Prompts:
    """Prompts that nobody has seen, the same in every run."""

    def __init__(self, words: int) -> None:
        self._random = random.Random(1)
        self._words = words

    def __call__(self, length: int) -> list[int]:
        return [self._random.randrange(10, self._words) for _ in range(length)]
