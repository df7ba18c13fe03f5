# SPDX-License-Identifier: Apache-2.0
"""One engine as users start it: vLLM's default of three processes, with the connector in two of them.

  python one_engine.py MODEL SOCKET TOKENS [ARGUMENTS]
      answers the prompt TOKENS (a JSON list) after a warm-up that takes part in nothing; prints one
      JSON line. ARGUMENTS: more of vLLM's, as a JSON object.
"""

import json
import signal
import sys
import time

from engine import BLOCK, POOL_BLOCKS, sampling, transfer_config
from vllm import LLM


def main(model: str, socket: str, tokens: str, arguments: str = "{}") -> None:
    llm = LLM(model=model, enforce_eager=True, dtype="float32", max_model_len=512, max_num_seqs=4,
              block_size=BLOCK, seed=0, num_gpu_blocks_override=POOL_BLOCKS, disable_log_stats=False,
              kv_transfer_config=transfer_config({"socket": socket, "save_deadline": "10"}),
              **json.loads(arguments))
    prompt = {"prompt_token_ids": json.loads(tokens)}

    def counts() -> dict[str, float]:
        return {f"{one.name.removeprefix('vllm:orlop_')}:{one.labels.get('reason', '')}": one.value
                for one in llm.get_metrics() if one.name.startswith("vllm:orlop_")}

    # What the adapter waits for in the background (node, weights) is over when a look-up says so.
    deadline = time.monotonic() + 120
    while not counts().get("lookups:not_found"):
        assert time.monotonic() < deadline, counts()
        llm.generate({"prompt_token_ids": [5] * (BLOCK + 1)}, sampling(1, "no_save"), use_tqdm=False)
        assert llm.reset_prefix_cache()
    (answer,) = llm.generate(prompt, sampling(8), use_tqdm=False)
    # A step more, so that counts of the last one arrive.
    llm.generate({"prompt_token_ids": [5] * (BLOCK + 1)}, sampling(1, "no_save"), use_tqdm=False)
    print(json.dumps({"tokens": list(answer.outputs[0].token_ids), "cached": answer.num_cached_tokens,
                      "counts": counts()}))
    llm.llm_engine.engine_core.shutdown()  # flushes what is still to be stored


if __name__ == "__main__":
    # Its end at once would leave vLLM's processes running.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(*sys.argv[1:])
