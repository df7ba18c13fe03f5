# SPDX-License-Identifier: Apache-2.0
"""Ranks that hold the same heads. (Ranks that hold different layers cannot be run here: vLLM 0.32's
CPU worker of the second stage ends with an AssertionError, with no connector at all.)"""

from conftest import prompt_of
from remote import RemoteEngine

_CORES = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}
_PROMPT = prompt_of(11)


def test_heads_that_two_ranks_hold_are_stored_once(model, place):
    from tiny_model import make_llama

    one_head = make_llama(model.parent / "tiny-llama-1-head", kv_heads=1)
    with RemoteEngine("ranks.RanksEngine", one_head, {"socket": place, "save_deadline": "2"},
                      tensor_parallel_size=2, environment=_CORES) as ranks:
        ranks.wait_ready()
        (plain,) = ranks.plain([_PROMPT])
        before = ranks.counts_by_rank()
        (output,) = ranks.store([_PROMPT], tokens=8)
        saved = [after.get("saved_pages", 0) - one.get("saved_pages", 0)
                 for one, after in zip(before, ranks.counts_by_rank(), strict=True)]
        assert (output.tokens, output.cached) == (plain, 0) and saved == [4, 0]
        assert [len(one) for one in ranks.stored(_PROMPT)] == [4]
        computed = ranks.pages()
        assert computed[0] == computed[1] and len(set(computed[0])) > 4  # or sharing would be wrong
        with ranks.counted() as new:
            (output,) = ranks.ask([_PROMPT])
        assert (output.tokens, output.cached) == (plain, 128) and new["loaded_pages"] == 8
        ranks.forget()
        ranks.spoil(_PROMPT, 2, 0)
        with ranks.counted() as new:
            (output,) = ranks.ask([_PROMPT])
        assert output.tokens == plain and new["failed_pages"] == 4
        ranks.assert_nothing_held()
