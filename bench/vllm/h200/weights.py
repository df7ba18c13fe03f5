# SPDX-License-Identifier: Apache-2.0
"""What is done to a model and its memory from inside of an engine's process. Imports torch, not vLLM."""

import time
import zlib
from statistics import median
from typing import Any

import torch

# Of the scores of attention before the softmax: a few positions win, so that a wrong page of any of 16,384 tokens
# shows in the next token. With vLLM's dummy weights (1e-3, the norms' too) attention has no effect.
_SHARPNESS = 2.5


def seed(model: Any) -> int:
    """Weights that are the same in every process, in place of vLLM's dummy ones. Returns their bytes."""
    count = 0
    for name, parameter in model.named_parameters():
        data = parameter.data
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            data.fill_(_SHARPNESS)
        elif "norm" in name:
            data.fill_(1.0)
        else:
            random = torch.Generator(data.device).manual_seed(zlib.crc32(name.encode()))
            data.normal_(0.0, 1.0 if "embed" in name else 0.02, generator=random)
        count += data.nbytes
    return count


def zero_cache(worker: Any) -> None:
    """worker: vLLM's, which collective_rpc hands over."""
    for tensor in worker.model_runner.kv_caches:
        tensor.zero_()


def copy_rate(count: int) -> dict[str, float]:
    """Bytes a second of one copy of count bytes from page-locked memory to the device (here: within memory, if
    there is none) and back: medians of 9 after one that warms up."""
    there = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    host = torch.ones(count, dtype=torch.uint8, pin_memory=there.type == "cuda")
    device = torch.ones(count, dtype=torch.uint8, device=there)

    def timed(to: Any, of: Any) -> float:
        begun = time.perf_counter()
        to.copy_(of, non_blocking=True)
        if there.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    seconds = [(timed(device, host), timed(host, device)) for _ in range(10)][1:]
    return {"load": count / median(one for one, _ in seconds), "save": count / median(one for _, one in seconds)}
