# SPDX-License-Identifier: Apache-2.0
"""One vLLM engine in one process, which does what its lines on stdin say and answers each with a line.

  python engine_process.py SETUP     SETUP: JSON {"connector": off | native | orlop, "llm": {arguments of LLM},
                                     "transfer": vLLM's kv_transfer_config or null, "seeded": bool}

Commands, one JSON object a line: {"do": NAME, ...}, NAME a method of Engine that is not private.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections import Counter
from typing import Any

# Before vLLM is imported. In one process: what is timed is the engine, not its pipes.
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1",
                  VLLM_USE_FLASHINFER_SAMPLER="0", VLLM_CPU_KVCACHE_SPACE="1",
                  VLLM_LOGGING_LEVEL=os.environ.get("LEVEL", "INFO"))

# The engine writes on stdout too, at its import already: answers go to the pipe that stdout was.
_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import decoding
import weights
from vllm import LLM, SamplingParams
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer import get_kv_transfer_group

_PR_SET_PDEATHSIG = 1  # sys/prctl.h


def one_token(tokens: int = 1) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)


class Engine:
    def __init__(self, setup: dict[str, Any]) -> None:
        transfer = setup["transfer"]
        self._connector = setup["connector"]
        self._llm = LLM(**setup["llm"], kv_transfer_config=KVTransferConfig(**transfer) if transfer else None)
        self._engine = self._llm.llm_engine
        if setup["seeded"]:
            self._llm.apply_model(weights.seed)
        if self._connector == "orlop":
            self._wait_ready()

    # ---- the adapter's own --------------------------------------------------------------------------

    def _sides(self) -> list[Any]:
        """The connector's two objects, scheduler's and worker's."""
        core: Any = self._engine.engine_core
        return [core.engine_core.scheduler.connector, get_kv_transfer_group()]

    def _wait_ready(self) -> None:
        """A node that answers, and a name for the weights: hits can be."""
        scheduler, worker = self._sides()
        for side in (scheduler, worker):
            if side._client is None:
                raise RuntimeError("orlop is off: see 'orlop is off' above")
            if not side._client.wait_ready(240):
                raise RuntimeError(f"no node: {side._client.last_attach_error}")
        if not worker._worker.store.wait_opened(240):
            raise RuntimeError("the node's memory is not known to the GPU: see above")
        scheduler._family.close()  # waits for the thread that names the weights
        if scheduler._family.namespaces is None:
            raise RuntimeError(f"no namespaces: {scheduler._family.problem}")

    # ---- commands -----------------------------------------------------------------------------------

    def ask(self, prompt: list[int], tokens: int = 1) -> dict[str, Any]:
        """seconds: from the request to its last token; of one token that is its time to first token."""
        begun = time.perf_counter()
        [output] = self._llm.generate([{"prompt_token_ids": prompt}], one_token(tokens), use_tqdm=False)
        return {"seconds": time.perf_counter() - begun, "cached": output.num_cached_tokens or 0,
                "tokens": list(output.outputs[0].token_ids)}

    def forget(self) -> None:
        """The engine's own prefixes, not those of the connector."""
        for _ in range(200):
            if self._llm.reset_prefix_cache():
                return
            time.sleep(0.01)  # a store of vLLM's own may hold blocks yet
        raise RuntimeError("reset_prefix_cache: blocks are held for 2 s")

    def settle(self, filler: list[int]) -> None:
        """Until what was computed is stored: filler is a short prompt, because vLLM's own offloading begins
        its copies with a later step, and looks with one more whether they are over."""
        if self._connector == "orlop":
            if not get_kv_transfer_group()._worker.flush(60):
                raise RuntimeError("saves are not over after 60 s")
        if self._connector == "native":
            self.ask(filler)
            time.sleep(0.3)
            self.ask(filler[1:])

    def decode(self, **how: Any) -> dict[str, Any]:
        return decoding.run(self._engine, one_token, **how)

    def damage(self) -> None:
        """All pages of the cache become zeros: the negative control of every comparison of tokens."""
        self._llm.collective_rpc(weights.zero_cache)

    def copy_rate(self, count: int) -> dict[str, float]:
        return weights.copy_rate(count)

    def counts(self) -> dict[str, float]:
        totals: Counter[str] = Counter()
        for side in self._sides() if self._connector == "orlop" else []:
            totals.update(side._counters.totals())
        return dict(totals)

    def close(self) -> None:
        core: Any = self._engine.engine_core
        core.shutdown()


def main() -> None:
    # A benchmark that is killed takes its engines along.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    def answer(value: Any) -> None:
        _ANSWERS.write(json.dumps(value) + "\n")
        _ANSWERS.flush()

    begun = time.perf_counter()
    engine = Engine(json.loads(sys.argv[1]))
    answer({"seconds": time.perf_counter() - begun})
    for line in sys.stdin:
        command = json.loads(line)
        answer(getattr(engine, command.pop("do"))(**command))
    engine.close()
    os._exit(0)  # what vLLM leaves running has nothing to say any more


if __name__ == "__main__":
    main()
