# SPDX-License-Identifier: Apache-2.0
"""The namespace of a vLLM worker's pages, from the engine's own values.

A part of the configuration that may change the bytes and is not understood is refused.
"""

import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import vllm
from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.v1.core import kv_cache_utils

from orlop.engine import recovery
from orlop.engine.options import Options
from orlop.engine.weights import WeightsUnknown, digest_of, weights_identity
from orlop.vllm.layouts import GroupPages, Refused
from orlop.vllm.offers import are_whole

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


def check_configuration(config: Any, kv_cache_config: Any) -> None:
    """Raises Refused. Both sides call it, so that they agree without asking."""
    contracts = contracts_of(kv_cache_config)
    hash_tokens(kv_cache_config)
    if are_whole(contracts) and not hasattr(base, "KVConnectorTransferResults"):
        raise Refused(f"the model's KV cache is more than full attention; vLLM {vllm.__version__} "
                      "cannot be told that a load of such a cache failed")
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


def contracts_of(kv_cache_config: Any) -> list[recovery.Group]:
    """What each cache group needs of a prefix, in the engine's order. Raises Refused."""
    groups = kv_cache_config.kv_cache_groups
    if not groups:
        raise Refused("the model has no KV cache")
    return [_contract(group, f"KV cache group {i} of {len(groups)}")
            for i, group in enumerate(groups)]


def _contract(group: Any, name: str) -> recovery.Group:
    spec = group.kv_cache_spec
    kind = type(spec).__name__
    if getattr(group, "is_eagle_group", False):
        raise Refused(f"{name} holds a draft model's layers")
    if (getattr(group, "host_resident", False) or not getattr(group, "enable_kv_transfer", True)
            or getattr(getattr(group, "role", None), "value", "default") != "default"):
        raise Refused(f"{name} has blocks of its own, outside the engine's one pool")
    if kind == "FullAttentionSpec" and not getattr(spec, "non_causal", False):
        return recovery.Prefix(spec.block_size)
    if kind == "SlidingWindowSpec":
        # The engine may keep more than the next token looks at, and then counts on finding it.
        return recovery.Window(spec.block_size, spec.sliding_window - 1
                               + getattr(spec, "extra_retained_tokens", 0))
    raise Refused(f"{name} is a {'non-causal ' if kind == 'FullAttentionSpec' else ''}{kind}; "
                  "FullAttentionSpec and SlidingWindowSpec are supported")


def hash_tokens(kv_cache_config: Any) -> int:
    """Tokens of one of the engine's block hashes, and of one of our keys. Raises Refused."""
    sizes = [group.kv_cache_spec.block_size for group in kv_cache_config.kv_cache_groups]
    tokens = getattr(kv_cache_config, "hash_block_size", None) or math.gcd(*sizes)
    if any(size % tokens for size in sizes):
        raise Refused(f"blocks of {sizes} tokens are not whole hashes of {tokens}")
    return int(tokens)


def ranks_of_a_head(config: Any, kv_cache_config: Any) -> int:
    """How many tensor-parallel ranks in a row hold the same KV heads, computed by each for itself."""
    ranks = config.parallel_config.tensor_parallel_size
    if ranks == 1:
        return 1
    heads = getattr(config.model_config.hf_text_config, "num_key_value_heads", None)
    if (not isinstance(heads, int) or not 0 < heads < ranks or ranks % heads
            or heads != config.model_config.get_total_num_kv_heads()  # others differ by layer
            or any(group.kv_cache_spec.num_kv_heads != 1
                   for group in kv_cache_config.kv_cache_groups)):
        return 1
    return int(ranks // heads)


def engine_hashes_are_keys(config: Any) -> bool:
    """Whether equal ones mean equal tokens and extra keys, in every process."""
    if config.cache_config.prefix_caching_hash_algo not in _HASHES:
        return False
    # Before 0.32 hashes begin with random bytes of the process's own, unless the user seeds them, and do
    # not tell one kind of extra key from another.
    is_seeded = hasattr(kv_cache_utils, "DEFAULT_NONE_HASH_SEED") or "PYTHONHASHSEED" in os.environ
    is_tagged = hasattr(kv_cache_utils, "to_event_extra_keys")
    return is_seeded and (is_tagged or (config.lora_config is None
                                        and not config.model_config.is_multimodal_model))


def key_spec(config: Any, chain: str) -> str:
    """Names how keys are made; chain: the name of our own."""
    algorithm = config.cache_config.prefix_caching_hash_algo
    if not engine_hashes_are_keys(config):
        return chain
    seed = os.environ.get("PYTHONHASHSEED", _NONE_SEED)
    other = "" if seed == _NONE_SEED else f"-seed{digest_of(seed)}"
    return f"{algorithm}{_HASHES[algorithm]}{other}"


def describe_rank(config: Any, kv_cache_config: Any, pages: Sequence[GroupPages],
                  rank: dict[str, int], chain: str) -> list[dict[str, Any]]:
    """The descriptors' fields without revision, one a cache group. rank: tp_rank, tp_size, pp_rank,
    pp_size."""
    cache, model = config.cache_config, _model(config)
    components = _components(kv_cache_config, rank)
    descriptors = []
    for group, own, component in zip(kv_cache_config.kv_cache_groups, pages, components, strict=True):
        spec = group.kv_cache_spec
        layout = "/".join((
            f"vllm-{'.'.join(vllm.__version__.split('.')[:2])}",
            str(getattr(cache, "kv_cache_layout", None) or "default"),
            _backend(config, group, spec, own.dims),
            key_spec(config, chain)))
        descriptors.append({
            "engine": "vllm", "layout": layout, "model": model, "component": component,
            "dtype": f"{cache.cache_dtype}:{spec.dtype}".replace("torch.", ""),
            "page_tokens": spec.block_size, "value_len": own.layout.value_len,
            "layers": len(own.layout.parts), "heads": spec.num_kv_heads, **rank})
    return descriptors


def _components(kv_cache_config: Any, rank: dict[str, int]) -> list[str]:
    """Which part of the cache each group is. Of several groups also how all of them are cut: another
    cut may give a group of the same kind other layers."""
    contracts, groups = contracts_of(kv_cache_config), kv_cache_config.kv_cache_groups
    kinds = [f"window{group.kv_cache_spec.sliding_window}" if isinstance(one, recovery.Window)
             else "full" for one, group in zip(contracts, groups, strict=True)]
    if len(groups) == 1:
        return ["kv" if kinds == ["full"] else kinds[0]]
    cut = [[kind, one.page_tokens] for kind, one in zip(kinds, contracts, strict=True)]
    # A stage's layers differ by stage, whose number is in the descriptor.
    layers = [list(group.layer_names) for group in groups] if rank["pp_size"] == 1 else []
    digest = digest_of([cut, layers])
    return [f"{kind}.{i}of{len(groups)}-{digest}" for i, kind in enumerate(kinds)]


def _backend(config: Any, group: Any, spec: Any, dims: str) -> str:
    """Which kernels understand the pages. dims: of pages on a GPU."""
    layers = config.compilation_config.static_forward_context
    if dims:
        kernels = {layers[name].attn_backend.get_name() for name in group.layer_names}
        if len(kernels) != 1:
            raise Refused(f"layers of one KV cache group have several kernels: {', '.join(sorted(kernels))}")
        return f"cuda-{kernels.pop()}-{dims}"
    # The attention kernel chooses how a CPU page looks inside (K transposed or packed).
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
