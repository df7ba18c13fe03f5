# SPDX-License-Identifier: Apache-2.0
"""What the installed vLLM has, for tests of something that not every tested release has."""

from typing import Any

import pytest
import vllm
from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.v1.core import kv_cache_utils

FAILED_REQUESTS_ARE_TOLD = hasattr(base, "KVConnectorTransferResults")
# Before, the class LLM drops the counts of steps that give no output; `vllm serve` never did.
OFFLINE_COUNTS_ARE_WHOLE = not vllm.__version__.startswith("0.26.")
HASHES_ARE_SEEDED = hasattr(kv_cache_utils, "DEFAULT_NONE_HASH_SEED")

needs_failed_requests = pytest.mark.skipif(
    not FAILED_REQUESTS_ARE_TOLD, reason=f"vLLM {vllm.__version__} has no KVConnectorTransferResults, "
    "so models with sliding windows are refused")


def received(connector: Any) -> set[str]:
    """The requests whose loads the connector tells as over, as the engine asks for them."""
    if not FAILED_REQUESTS_ARE_TOLD:
        return connector.get_finished(set())[1] or set()
    results = connector.get_transfer_results(set())
    assert not results.finished_sending and results.failed_recving <= results.finished_recving
    return results.finished_recving
