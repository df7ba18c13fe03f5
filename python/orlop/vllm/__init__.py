# SPDX-License-Identifier: Apache-2.0
"""Orlop in vLLM, unpatched: a KV connector loaded by its module path.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "OrlopConnector",
        "kv_connector_module_path": "orlop.vllm", "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute"}'

Importing this module imports vLLM.
"""

from orlop.vllm.connector import OrlopConnector

__all__ = ["OrlopConnector"]
