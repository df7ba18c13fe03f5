# SPDX-License-Identifier: Apache-2.0
"""Engine processes as the benchmark sees them: started with a setup, asked over pipes, ended."""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path.append(str(_HERE.parents[1] / "tests/engines/vllm"))
from children import ends_with_us

POOL_BLOCKS = 512  # 16,384 tokens: several of the long prompts


@dataclass(frozen=True)
class Setup:
    """transfer: vLLM's kv_transfer_config; None: no connector."""

    model: str
    transfer: dict[str, Any] | None
    blocks: int = POOL_BLOCKS
    longest: int = 4096  # tokens of a request; such a one has to fit into the blocks


def orlop_at(socket: str, **options: Any) -> dict[str, Any]:
    return {"kv_connector": "OrlopConnector", "kv_connector_module_path": "orlop.vllm",
            "kv_role": "kv_both", "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"socket": socket, **options}}


def example_in(folder: str) -> dict[str, Any]:
    """vLLM's ExampleConnector: a file a layer and prompt."""
    return {"kv_connector": "ExampleConnector", "kv_role": "kv_both",
            "kv_connector_extra_config": {"shared_storage_path": folder}}


def offload_of(size: int) -> dict[str, Any]:
    """vLLM's own offloading scheduler and manager over a plain copy (offload_spec.py)."""
    return {"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "spec_name": "MemorySpec", "spec_module_path": "offload_spec", "cpu_bytes_to_use": size}}


class EngineProcess:
    """Raises RuntimeError, with the process's last words, when it has ended."""

    def __init__(self, setup: Setup) -> None:
        # A file, because nobody reads while an answer is waited for.
        self._words = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            ends_with_us([sys.executable, str(_HERE / "engine_process.py"), json.dumps(asdict(setup))]), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words)
        self.start_seconds = float(self._answer()["seconds"])

    def __enter__(self) -> "EngineProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def ask(self, *prompts: list[int], tokens: int = 1) -> dict[str, Any]:
        result: dict[str, Any] = self._do("ask", prompts=prompts, tokens=tokens)
        return result

    def forget(self) -> None:
        self._do("forget")

    def settle(self) -> None:
        self._do("settle")

    def counts(self) -> dict[str, float]:
        result: dict[str, float] = self._do("counts")
        return result

    def words(self, *names: str) -> list[int]:
        result: list[int] = self._do("words", names=names)
        return result

    def close(self) -> None:
        """Its shutdown stores what is still to be stored."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._words.close()

    def _do(self, what: str, **how: Any) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": what, **how}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._words.seek(0)
        raise RuntimeError(f"an engine ended with status {self._process.returncode}:\n"
                           + self._words.read()[-4000:])
