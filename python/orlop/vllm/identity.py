# SPDX-License-Identifier: Apache-2.0
"""The namespace of a vLLM worker's pages, from the engine's own values.

A part of the configuration that may change the bytes and is not understood is refused.
"""

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch
import vllm

from orlop.engine.options import Options
from orlop.engine.pages import PageRanges
from orlop.engine.weights import WeightsUnknown, digest_of, weights_identity

# vLLM's name of the hash -> whether every process computes the same ones, and what else is in it.
_HASHES = {"sha256_cbor": "", "sha256": f"-py{platform.python_version()}"}
_NONE_SEED = "vllm-none-hash"  # vLLM's own, when PYTHONHASHSEED is not set
_CPU_ISAS = {"amx", "vec", "vec16", "neon", "rvv", "vxe", "vsx"}
# Rotary scalings whose tables do not depend on how long the engine lets a sequence become.
_FIXED_ROPES = {"default", "linear", "llama3", "yarn", "mrope", "proportional"}

# vLLM's load formats that read all weights from the files of the model's folder.
_FROM_FOLDER = {"auto", "hf", "safetensors", "fastsafetensors", "instanttensor", "mistral", "npcache", "pt",
                "sharded_state"}
_NAME_THEM = "set the option `weights` to a name that changes with the weights"


class Refused(Exception):
    """This configuration is not understood: the adapter stays off, for this reason."""


def check_configuration(config: Any, kv_cache_config: Any) -> None:
    """Raises Refused. Both sides call it, so that they agree without asking."""
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        raise Refused(f"the model has {len(groups)} KV cache groups; one is supported")
    spec = groups[0].kv_cache_spec
    if type(spec).__name__ != "FullAttentionSpec":
        raise Refused(f"the model's KV cache is a {type(spec).__name__}; FullAttentionSpec is "
                      "supported")
    if getattr(groups[0], "is_eagle_group", False):
        raise Refused("the KV cache holds a draft model's layers")
    speculative = config.speculative_config
    if speculative is not None and speculative.method != "ngram":
        raise Refused(f"speculative decoding by {speculative.method}; ngram is supported")
    if config.model_config.runner_type != "generate":
        raise Refused(f"runner {config.model_config.runner_type}; generate is supported")
    if getattr(config.cache_config, "calculate_kv_scales", False):
        raise Refused("calculate_kv_scales: scales that each process computes for itself")
    parallel = config.parallel_config
    for name in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) != 1:
            raise Refused(f"{name} is not 1")


def engine_hashes_are_keys(config: Any) -> bool:
    return config.cache_config.prefix_caching_hash_algo in _HASHES


def key_spec(config: Any, chain: str) -> str:
    """Names how keys are made; chain: the name of our own."""
    algorithm = config.cache_config.prefix_caching_hash_algo
    if not engine_hashes_are_keys(config):
        return chain
    seed = os.environ.get("PYTHONHASHSEED", _NONE_SEED)
    other = "" if seed == _NONE_SEED else f"-seed{digest_of(seed)}"
    return f"{algorithm}{_HASHES[algorithm]}{other}"


def pages_of(kv_caches: dict[str, Any], blocks: int) -> PageRanges:
    """The cache's memory. Raises Refused for layouts that are not whole pages on the host."""
    layers: dict[int, Any] = {}
    for name, cache in kv_caches.items():
        if not isinstance(cache, torch.Tensor):
            raise Refused(f"{name} is a {type(cache).__name__}, not one tensor")
        if cache.device.type != "cpu":
            raise Refused(f"{name} is on {cache.device}; only the CPU is supported yet")
        layers.setdefault(cache.data_ptr(), _rows(name, cache, blocks))
    if not layers:
        raise Refused("the engine registered no KV cache")
    return PageRanges(list(layers.values()))


def _rows(name: str, cache: Any, blocks: int) -> Any:
    """[blocks, bytes]. A block may be several of the backend's own smaller ones in a row."""
    if not cache[0].is_contiguous() or cache.shape[0] % blocks or (
            cache.shape[0] != blocks and not cache.is_contiguous()):
        raise Refused(f"{name}: shape {tuple(cache.shape)}, strides {cache.stride()} are not whole "
                      f"ranges of {blocks} blocks")
    length = cache.numel() // blocks * cache.element_size()
    stride = cache.stride(0) * cache.element_size() * (cache.shape[0] // blocks)
    rows: Any = torch.as_strided(cache.view(torch.uint8), (blocks, length), (stride, 1)).numpy()
    assert rows.dtype == np.uint8
    return rows


def describe_rank(config: Any, kv_cache_config: Any, pages: PageRanges, rank: dict[str, int],
                  chain: str) -> dict[str, Any]:
    """The descriptor's fields without revision. rank: tp_rank, tp_size, pp_rank, pp_size."""
    group = kv_cache_config.kv_cache_groups[0]
    spec, cache = group.kv_cache_spec, config.cache_config
    layout = "/".join((
        f"vllm-{'.'.join(vllm.__version__.split('.')[:2])}",
        str(getattr(cache, "kv_cache_layout", None) or "default"),
        _backend(config, group, spec),
        key_spec(config, chain)))
    return {
        "engine": "vllm", "layout": layout, "model": _model(config),
        "dtype": f"{cache.cache_dtype}:{spec.dtype}".replace("torch.", ""),
        "page_tokens": spec.block_size, "value_len": pages.value_len,
        "layers": pages.value_len // pages.page_len, "heads": spec.num_kv_heads, **rank}


def _backend(config: Any, group: Any, spec: Any) -> str:
    # The attention kernel chooses how a CPU page looks inside (K transposed or packed).
    layers = config.compilation_config.static_forward_context
    kinds = {getattr(layers.get(name), "isa", None) for name in group.layer_names}
    isa = kinds.pop() if len(kinds) == 1 else None
    if isa is None:
        from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

        isa = _get_attn_isa(config.model_config.dtype, spec.block_size, spec.head_size,
                            config.cache_config.cache_dtype)
    if isa not in _CPU_ISAS:
        raise Refused(f"the CPU's attention kernel is {isa!r}, whose pages are not known")
    return f"cpu-{isa}-{torch.backends.cpu.get_cpu_capability()}"


def _model(config: Any) -> str:
    model = config.model_config
    hf = model.hf_config
    parts: dict[str, Any] = {"config": _without_names(hf.to_dict()),
                             "quantization": str(model.quantization), "dtype": str(model.dtype)}
    rope = getattr(model.hf_text_config, "rope_parameters", None) or getattr(
        model.hf_text_config, "rope_scaling", None) or {}
    kinds = {one.get("rope_type", "default") for one in [rope, *rope.values()] if isinstance(one, dict)}
    if not kinds <= _FIXED_ROPES:
        parts["max_model_len"] = model.max_model_len
    try:
        return f"{hf.model_type}-{digest_of(parts)}"
    except TypeError as error:
        raise Refused(f"the model's configuration: {error}") from error


def _without_names(part: Any) -> Any:
    if isinstance(part, dict):
        return {str(name): _without_names(value) for name, value in part.items()
                if not str(name).startswith("_") and name not in ("transformers_version", "name_or_path")}
    if isinstance(part, (list, tuple)):
        return [_without_names(one) for one in part]
    return str(part) if isinstance(part, torch.dtype) else part


def weights_of(config: Any, options: Options) -> str:
    """The revision: which weights these are. May read all of them. Raises Refused."""
    model = config.model_config
    if options.weights is not None:
        return f"named:{options.weights}"
    if config.load_config.load_format == "dummy":
        return f"dummy:{model.seed}"
    if config.load_config.load_format not in _FROM_FOLDER:
        raise Refused(f"load_format {config.load_config.load_format} takes weights from elsewhere than the "
                      f"model's folder; {_NAME_THEM}")
    folder = Path(str(model.model))
    if not folder.exists():
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(str(model.model), "config.json", revision=model.revision)
        if not isinstance(found, str):
            raise Refused(f"no files of {model.model} are on this machine; {_NAME_THEM}")
        folder = Path(found).parent
    try:
        return weights_identity(folder)
    except WeightsUnknown as error:
        raise Refused(str(error)) from error
