# SPDX-License-Identifier: Apache-2.0
"""What the adapter uses of vLLM, compared with the releases it was written for.

  python -m orlop.vllm.interface             the installed vLLM's interface
  python -m orlop.vllm.interface --compare   the differences, if there are any; status 1 then

interface-VERSION.txt beside this file is the first one's output for a release that was tested.
"""

import contextlib
import dataclasses
import enum
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parent  # the build tree has links only to the sources
_CONNECTOR = "vllm.distributed.kv_transfer.kv_connector.v1"
# Everything of these: a hook that is new may be one that the adapter has to answer.
_WHOLE = {
    f"{_CONNECTOR}.base": ("KVConnectorBase_V1", "SupportsHMA", "KVConnectorRole", "KVConnectorMetadata",
                           "KVConnectorWorkerMetadata", "KVConnectorHandshakeMetadata",
                           "KVConnectorTransferResults"),
    f"{_CONNECTOR}.metrics": ("KVConnectorStats", "KVConnectorPromMetrics"),
    "vllm.v1.outputs": ("KVConnectorOutput",),
    "vllm.v1.core.kv_cache_utils": ("generate_block_hash_extra_keys",),
    "vllm.v1.attention.backends.cpu_attn": ("_get_attn_isa",),
    "vllm.distributed.parallel_state": ("get_tp_group", "get_pp_group"),
}
# Of these only what is used: the rest changes with every release.
_PARTS = {
    "vllm.distributed.kv_transfer.kv_connector.factory.KVConnectorFactory": ("register_connector",),
    "vllm.v1.attention.backend.AttentionBackend": ("get_name",),
    "vllm.config.VllmConfig": (
        "cache_config", "compilation_config", "kv_events_config", "load_config", "lora_config",
        "max_concurrent_batches", "model_config", "parallel_config", "scheduler_config",
        "speculative_config"),
    "vllm.config.ModelConfig": (
        "dtype", "get_total_num_kv_heads", "hf_config", "hf_text_config", "is_multimodal_model",
        "max_model_len", "quantization", "seed"),
    "vllm.config.KVTransferConfig": (
        "kv_role", "kv_load_failure_policy", "kv_connector_extra_config", "is_kv_producer",
        "is_kv_consumer"),
    "vllm.config.CacheConfig": (
        "block_size", "cache_dtype", "calculate_kv_scales", "prefix_caching_hash_algo"),
    "vllm.config.ParallelConfig": (
        "decode_context_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size",
        "tensor_parallel_size", "world_size"),
    "vllm.v1.core.sched.output.SchedulerOutput": (
        "num_scheduled_tokens", "scheduled_cached_reqs", "scheduled_new_reqs",
        "total_num_scheduled_tokens"),
    "vllm.v1.core.sched.output.NewRequestData": ("block_ids", "num_computed_tokens", "req_id"),
    "vllm.v1.core.sched.output.CachedRequestData": (
        "new_block_ids", "num_computed_tokens", "req_ids", "resumed_req_ids"),
    "vllm.v1.core.kv_cache_manager.KVCacheBlocks": ("get_block_ids",),
    "vllm.v1.request.Request": (
        "all_token_ids", "block_hashes", "kv_transfer_params", "lora_request", "num_computed_tokens",
        "num_prompt_tokens", "num_tokens", "prompt_embeds", "request_id", "resumable",
        "skip_reading_prefix_cache"),
    "vllm.v1.kv_cache_interface.KVCacheConfig": ("kv_cache_groups", "num_blocks"),
    "vllm.v1.kv_cache_interface.KVCacheGroupSpec": ("is_eagle_group", "kv_cache_spec", "layer_names"),
    "vllm.v1.kv_cache_interface.FullAttentionSpec": (
        "block_size", "dtype", "head_size", "num_kv_heads"),
    "vllm.v1.kv_cache_interface.SlidingWindowSpec": (
        "block_size", "dtype", "head_size", "num_kv_heads", "sliding_window"),
    "vllm.v1.metrics.cache_hit_source.CacheHitSource": ("HOST",),
}


def interface() -> list[str]:
    """One line a member, "Class.member(parameters)" or "Class.member"; sorted. What is not there has
    no line. Imports vLLM."""
    lines: list[str] = []
    for module, names in _WHOLE.items():
        for name in names:
            found = _find(f"{module}.{name}")
            if found is not None:
                lines += _whole(name, found)
    for path, names in _PARTS.items():
        found = _find(path)
        if found is not None:
            lines += [_member(path.rpartition(".")[2], name, getattr(found, name, None))
                      for name in names if _has(found, name)]
    return sorted(lines)


def interface_differences() -> list[str]:
    """What the installed vLLM has otherwise than the release that the adapter was tested with, one
    sentence each; empty: nothing. Never raises: a vLLM that cannot be looked at is a difference."""
    try:
        import vllm

        version, there = vllm.__version__, interface()
        tested, golden = golden_of(version)
    except Exception as error:  # whatever an unknown release does when it is imported
        return [f"vLLM cannot be looked at: {type(error).__name__}: {error}"]
    if golden == there:
        return []
    return [f"vLLM {version}, tested with {tested}: {one}" for one in differences(golden, there)]


def differences(before: list[str], after: list[str]) -> Iterator[str]:
    """Between two answers of interface(), by member."""
    old, new = ({line.partition("(")[0]: line for line in lines} for lines in (before, after))
    for name in sorted({*old, *new}):
        if name not in new:
            yield f"{old[name]} is gone"
        elif name not in old:
            yield f"{new[name]} is new"
        elif old[name] != new[name]:
            yield f"{old[name]} is now {new[name]}"


def golden_of(version: str) -> tuple[str, list[str]]:
    """The tested release next to a version, the older one first, and its interface."""
    releases = tested_releases()
    older = [one for one in releases if _numbers(one) <= _numbers(version)]
    tested = older[-1] if older else releases[0]
    return tested, (_FOLDER / f"interface-{tested}.txt").read_text().splitlines()


def tested_releases() -> list[str]:
    """Oldest first."""
    return sorted((file.stem.removeprefix("interface-") for file in _FOLDER.glob("interface-*.txt")),
                  key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:3] if part.isdigit())


def _find(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def _whole(name: str, found: Any) -> Iterator[str]:
    if not inspect.isclass(found):
        yield f"{name}{_parameters(found)}"
        return
    if issubclass(found, enum.Enum):
        yield from (f"{name}.{one}" for one in found.__members__)
        return
    yield name
    fields = {one.name for one in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else set()
    yield from (f"{name}.{one}" for one in fields)
    for member, value in vars(found).items():
        if member not in fields and (not member.startswith("_") or member == "_cache_hit_source"
                                     or (member == "__init__" and not fields)):
            yield _member(name, member, value)


def _member(owner: str, name: str, value: Any) -> str:
    function = getattr(value, "__func__", value)
    return f"{owner}.{name}{_parameters(function) if inspect.isfunction(function) else ''}"


def _parameters(function: Any) -> str:
    # Names, kinds and whether they may be left out; types and values are not what a call breaks on.
    shown = [one.replace(annotation=one.empty, default=one.empty if one.default is one.empty else ...)
             for one in inspect.signature(function).parameters.values()]
    return str(inspect.Signature(shown)).replace(" = Ellipsis", "=...").replace("=Ellipsis", "=...")


def _has(found: Any, name: str) -> bool:
    """As a member, a field, or something that the constructor gives to every object."""
    fields = getattr(found, "__dataclass_fields__", {})
    code = getattr(found.__init__, "__code__", None)
    return hasattr(found, name) or name in fields or (code is not None and name in code.co_names)


def main(arguments: list[str]) -> int:
    with contextlib.redirect_stdout(sys.stderr):  # vLLM's import logs to stdout, which is our answer's
        lines = interface_differences() if arguments == ["--compare"] else interface()
    print("\n".join(lines))
    return 1 if arguments == ["--compare"] and lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
