# SPDX-License-Identifier: Apache-2.0
"""A model whose pages a release of vLLM cannot have from a store: the engine runs as without one."""

from pathlib import Path

import pytest
from conftest import prompt_of
from releases import FAILED_REQUESTS_ARE_TOLD
from remote import RemoteEngine


@pytest.mark.skipif(FAILED_REQUESTS_ARE_TOLD,
                    reason="this vLLM can be told that a request's load failed: see test_hybrid.py")
def test_a_model_with_windows_runs_without_the_store(model, place):
    from tiny_model import make_gemma

    gemma = make_gemma(Path(model).parent / "tiny-gemma-2")
    prompts = [prompt_of(7, length) for length in (161, 100, 161)]
    with RemoteEngine("hybrid.PlainEngine", gemma) as engine:
        right = engine.answers(prompts)
    with RemoteEngine("engine.Engine", gemma, {"socket": place}) as engine:
        assert [one.tokens for one in engine.ask(prompts)] == right
        counts = engine.counts()
    assert counts["refused"] == 2 and counts["exceptions"] == counts["lookups"] == 0
