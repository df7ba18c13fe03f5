# SPDX-License-Identifier: Apache-2.0
"""What Orlop does for `vllm serve`: a long real text is read once, and not again by the next server.

Starts a node and one `vllm serve`, asks it about a licence text over HTTP, ends it, starts a second,
fresh one on the same node, and asks again. Prints a table; exit status 0 only if the second server
took the text's pages from the node and answered the same.

  ./dev demo vllm            float32, where the same tokens have the same answer to the last bit
  ./dev demo vllm --bf16     bfloat16, where vLLM's answer after a hit in its own cache may differ from
                             its answer without one: the second server is compared with the first one's
                             own hit, which ends at the same token
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from node import NodeProcess
from orlop.programs import find
from serving import BLOCK, Answer, ServerFailed, VllmServer
from smollm2 import make_smollm2

_TEXT = Path("/usr/share/common-licenses/GPL-3")
_PROMPT_TOKENS = 3460  # 108 blocks of 32, and 4 tokens
_WARM_TOKENS = 100  # the first hit of a process takes a second to load code
_ANSWER_TOKENS = 24
_STORE_SECONDS = 300.0  # most of it for trying again


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev demo vllm")
    parser.add_argument("--bf16", action="store_true", help="bfloat16 instead of float32")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))  # unwinds: everything started is stopped
    try:
        return _run("bfloat16" if arguments.bf16 else "float32")
    except KeyboardInterrupt:
        print("interrupted; everything that was started is stopped", file=sys.stderr)
        return 130
    # OSError: no answer in time, or no room for the model; then a server that fell while it answered.
    except (ServerFailed, OSError, http.client.HTTPException) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _run(dtype: str) -> int:
    _say("SmolLM2-135M-Instruct (converted once, half a minute)")
    model = make_smollm2()
    with tempfile.TemporaryDirectory(prefix="orlop-demo-") as folder:
        place = os.path.join(folder, "orlop.sock")
        node = NodeProcess(place, "1GiB")
        try:
            first = _first_server(model, place, dtype)
            second = _second_server(model, place, dtype, first["prompt"])
        finally:
            node.close()
    return _report(dtype, first, second)


def _first_server(model: Path, place: str, dtype: str) -> dict[str, Any]:
    _say("first vllm serve: reads the text, the adapter stores its pages")
    with _server(model, place, dtype) as server:
        prompt = _prompt(server)
        _warm(server, prompt)
        cold = server.ask(prompt, _ANSWER_TOKENS)
        _until_stored(server, place, prompt)
        return {"prompt": prompt, "cold": cold, "own": server.ask(prompt, _ANSWER_TOKENS)}


def _second_server(model: Path, place: str, dtype: str, prompt: list[int]) -> dict[str, Any]:
    _say("second, fresh vllm serve: the same text")
    with _server(model, place, dtype) as server:
        _warm(server, prompt)
        before = server.counts()
        hit = server.ask(prompt, _ANSWER_TOKENS)
        # What the worker counted comes with the step after.
        server.ask([7] * (BLOCK + 1), 1, "no_load,no_save")
        after = server.counts()
        after.subtract(before)
        return {"hit": hit, "counts": after}


def _server(model: Path, place: str, dtype: str) -> VllmServer:
    return VllmServer(model, place, "--dtype", dtype, "--max-model-len", "4096",
                      "--max-num-batched-tokens", "4096")


def _prompt(server: VllmServer) -> list[int]:
    tokens = server.tokens_of(_TEXT.read_text()[:18_000])
    if len(tokens) < _PROMPT_TOKENS:
        raise ServerFailed(f"{_TEXT} has only {len(tokens)} tokens")
    return tokens[:_PROMPT_TOKENS]


def _warm(server: VllmServer, prompt: list[int]) -> None:
    """A short cold request and its hit, of other tokens than the measured ones."""
    server.until_attached()
    warm = prompt[:0:-1][:_WARM_TOKENS]  # backwards: the long prompt must not begin with it
    for _ in range(2):
        server.ask(warm, 2)


def _until_stored(server: VllmServer, place: str, prompt: list[int]) -> None:
    """A save is dropped rather than waited for: on a busy machine it is asked for again."""
    wanted = len(prompt) // BLOCK + _WARM_TOKENS // BLOCK
    command = [find("orlop"), "inspect", "namespaces", "--json", "--socket", place]

    def is_stored() -> bool:
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        if sum(one["slots"] for one in found) >= wanted:
            return True
        server.ask(prompt, 1, "no_load")
        return False

    server.until(is_stored, _STORE_SECONDS, f"{wanted} pages were not stored")


def _report(dtype: str, first: dict[str, Any], second: dict[str, Any]) -> int:
    cold, own, hit, counts = first["cold"], first["own"], second["hit"], second["counts"]
    tokens = int(counts["vllm:external_prefix_cache_hits:"])
    expected = own if dtype == "bfloat16" else cold
    rows = [("first server, nothing stored", cold, 0, ""),
            ("first server again, its own cache", own, 0, _same(own, cold)),
            ("second server, from Orlop", hit, tokens, _same(hit, expected))]
    print(f"\nSmolLM2-135M-Instruct, {dtype}, {os.cpu_count()} cores; the first {_PROMPT_TOKENS:,} tokens of "
          f"{_TEXT}\n")
    print(f"{'':36}{'first token':>12}{'from Orlop':>16}   answer")
    for name, answer, taken, same in rows:
        print(f"{name:36}{answer.first_seconds:10.3f} s{taken:9,} tokens   {same}")
    print(f"\npages loaded: {int(counts['vllm:orlop_loaded_pages:']):,}, "
          f"{counts['vllm:orlop_loaded_bytes:'] / 1e6:,.0f} MB in "
          f"{counts['vllm:orlop_load_seconds:'] * 1e3:,.0f} ms; first token "
          f"{cold.first_seconds / max(hit.first_seconds, 1e-6):.1f} times sooner than without")
    print(f"answer: {hit.text.strip()!r}")
    wanted = (_PROMPT_TOKENS - 1) // BLOCK * BLOCK
    wrong = []
    if tokens != wanted or counts["vllm:orlop_hit_tokens:"] != wanted:
        wrong.append(f"{tokens} tokens came from the store instead of {wanted}: "
                     f"{ {name: n for name, n in counts.items() if n and 'orlop' in name} }")
    if hit.tokens != expected.tokens:
        wrong.append(f"the answers differ: {expected.tokens} and {hit.tokens}")
    for one in wrong:
        print(f"NOT AS IT SHOULD BE: {one}", file=sys.stderr)
    return 1 if wrong else 0


def _same(one: Answer, other: Answer) -> str:
    return "the same" if one.tokens == other.tokens else "another"


def _say(text: str) -> None:
    print(f"- {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
