# SPDX-License-Identifier: Apache-2.0
"""An engine with LoRA adapters of the tiny model, made here as PEFT lays them out."""

import json
from pathlib import Path
from typing import Any

import torch
from answers import Output
from engine import Engine, sampling
from safetensors.torch import save_file
from vllm.lora.request import LoRARequest

_RANK = 8
# (module, inputs, outputs) of a layer of tiny_model.make_llama: what makes K and V.
_MODULES = (("k_proj", 128, 64), ("v_proj", 128, 64))


def make_lora(folder: Path, seed: int) -> Path:
    folder.mkdir(parents=True)
    random = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(2):
        for module, inputs, outputs in _MODULES:
            name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{name}.lora_A.weight"] = torch.randn(_RANK, inputs, generator=random) * 0.3
            tensors[f"{name}.lora_B.weight"] = torch.randn(outputs, _RANK, generator=random) * 0.3
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": _RANK, "lora_alpha": _RANK, "bias": "none",
        "target_modules": [module for module, _, _ in _MODULES]}))
    return folder


class LoraEngine(Engine):
    def __init__(self, model: Path, options: dict[str, Any], loras: dict[str, Path], **arguments: Any) -> None:
        """loras: their folders, by name."""
        super().__init__(model, options, enable_lora=True, max_lora_rank=_RANK, max_loras=2,
                         max_cpu_loras=4, **arguments)
        self._loras = loras

    def ask_with(self, prompt: list[int], lora: str, orlop: str | None = None) -> Output:
        """lora: a name, or the path behind another one after a colon: "name:other"."""
        name, _, of = lora.partition(":")
        folder = self._loras[of or name]
        request = LoRARequest(name, 1 + sorted(self._loras).index(of or name), str(folder))
        (one,) = self.llm.generate([{"prompt_token_ids": prompt}], sampling(8, orlop), use_tqdm=False,
                                   lora_request=request)
        return Output(list(one.outputs[0].token_ids), one.num_cached_tokens or 0,
                      one.outputs[0].finish_reason)

    def plain_with(self, prompt: list[int], lora: str) -> list[int]:
        self.forget()
        tokens = self.ask_with(prompt, lora, "no_load,no_save").tokens
        self.forget()
        return tokens
