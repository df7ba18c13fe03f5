# SPDX-License-Identifier: Apache-2.0
"""One vLLM engine in one process, which does what its lines on stdin say and answers each with a line.

  python engine_process.py SETUP     SETUP: JSON of engines.Setup; runs in the engine's Python

Commands, one JSON object a line: ask, forget, settle, counts, words; see Engine.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before vLLM is imported. In one process: what is timed is the engine, not its pipes.
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1",
                  VLLM_CPU_KVCACHE_SPACE="1", VLLM_LOGGING_LEVEL=os.environ.get("LEVEL", "ERROR"))

from vllm import LLM, SamplingParams
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer import get_kv_transfer_group, has_kv_transfer_group

LICENCES = Path("/usr/share/common-licenses")
BLOCK = 32


class Engine:
    def __init__(self, setup: dict[str, Any]) -> None:
        transfer = setup["transfer"]
        self._llm = LLM(
            model=setup["model"], enforce_eager=True, dtype="bfloat16", max_model_len=setup["longest"],
            block_size=BLOCK, num_gpu_blocks_override=setup["blocks"], max_num_batched_tokens=4096, max_num_seqs=4,
            seed=0, enable_prefix_caching=True, distributed_executor_backend="uni", disable_log_stats=False,
            kv_transfer_config=KVTransferConfig(**transfer) if transfer else None)
        engine = self._llm.llm_engine
        step = engine.step
        self._steps = 0

        def counted() -> Any:
            self._steps += 1
            return step()

        engine.step = counted
        self._scheduler: Any = engine.engine_core.engine_core.scheduler
        self._ours = bool(transfer) and transfer["kv_connector"] == "OrlopConnector"
        if self._ours:
            self._wait_ready()

    def _sides(self) -> list[Any]:
        return [self._scheduler.connector, get_kv_transfer_group()] if self._ours else []

    def _wait_ready(self) -> None:
        for side in self._sides():
            assert side._client.wait_ready(120)
        family = self._scheduler.connector._family
        family.close()  # waits for the thread that reads the weights
        assert family.namespaces is not None, family.problem

    def ask(self, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
        """All at once. seconds: from the first word to the last; of one prompt and one token that is
        its time to first token."""
        sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        asked = [{"prompt_token_ids": prompt} for prompt in prompts]
        steps, begun = self._steps, time.perf_counter()
        outputs = self._llm.generate(asked, sampling, use_tqdm=False)
        seconds = time.perf_counter() - begun
        return {"seconds": seconds, "steps": self._steps - steps,
                "cached": [one.num_cached_tokens or 0 for one in outputs],
                "tokens": [list(one.outputs[0].token_ids) for one in outputs]}

    def forget(self) -> None:
        """The engine's own prefixes."""
        assert self._llm.reset_prefix_cache()

    def settle(self) -> None:
        """Until everything is stored that will be."""
        if self._ours:
            assert get_kv_transfer_group()._worker.flush(60)

    def counts(self) -> dict[str, float]:
        """The adapter's own counts, and vLLM's of hits."""
        totals: Counter[str] = Counter()
        for side in self._sides():
            totals.update(side._counters.totals())
        for one in self._llm.get_metrics():
            if one.name in ("vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits",
                            "vllm:num_preemptions"):
                totals[one.name.removeprefix("vllm:")] += one.value
        return dict(totals)

    def words(self, names: list[str]) -> list[int]:
        """The tokens of licence texts of this machine, one after the other."""
        tokenizer = self._llm.get_tokenizer()
        text = "\n".join((LICENCES / name).read_text() for name in names)
        return list(tokenizer(text)["input_ids"])

    def close(self) -> None:
        self._llm.llm_engine.engine_core.shutdown()


def commands() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    # The engine writes on stdout too: answers go to the pipe that stdout was.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: Any) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    begun = time.perf_counter()
    engine = Engine(json.loads(sys.argv[1]))
    answer({"seconds": time.perf_counter() - begun, "threads": has_kv_transfer_group()})
    for command in commands():
        answer(getattr(engine, command.pop("do"))(**command))
    engine.close()
    os._exit(0)  # what vLLM leaves running has nothing to say any more


if __name__ == "__main__":
    main()
