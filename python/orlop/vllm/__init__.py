# SPDX-License-Identifier: Apache-2.0
"""Orlop in vLLM, unpatched: a KV connector loaded by its module path.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "OrlopConnector",
        "kv_connector_module_path": "orlop.vllm", "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute"}'

vLLM is imported when OrlopConnector is asked for: what looks at a vLLM that the adapter does not
understand (interface, doctor) can be imported all the same.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orlop.vllm.connector import OrlopConnector

__all__ = ["OrlopConnector"]


def __getattr__(name: str) -> Any:
    if name != "OrlopConnector":
        raise AttributeError(f"orlop.vllm has no {name}")
    from orlop.vllm.connector import OrlopConnector

    return OrlopConnector
