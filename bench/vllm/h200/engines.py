# SPDX-License-Identifier: Apache-2.0
"""Engine processes as the benchmark sees them: started side by side, asked over pipes, each wait with a limit."""

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

_HERE = Path(__file__).resolve().parent
_ANSWER_LIMIT_S = 60.0


@dataclass(frozen=True)
class Setup:
    """connector: off, native (vLLM's own CPU offloading) or orlop. llm: arguments of vLLM's LLM. transfer: vLLM's
    kv_transfer_config. seeded: equal weights in all processes instead of vLLM's dummy ones. python_path: where its
    packages are looked for first."""

    connector: str
    llm: dict[str, Any]
    transfer: dict[str, Any] | None = None
    seeded: bool = False
    python_path: str | None = None


class Broken(RuntimeError):
    """An engine has ended or does not answer; its last words are in the text."""


class EngineProcess:
    """name: of its log, NAME.log in folder, and of its caches of compiled code: engines that compile the same at
    the same time would write the same files."""

    def __init__(self, name: str, setup: Setup, folder: Path) -> None:
        self.name, self.connector = name, setup.connector
        self._log = folder / f"{name}.log"
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orlop-h200" / name
        path = os.pathsep.join(filter(None, (setup.python_path, os.environ.get("PYTHONPATH"))))
        self._words: TextIO = open(self._log, "w")
        self._process = subprocess.Popen(
            [sys.executable, str(_HERE / "engine_process.py"), json.dumps(asdict(setup))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words,
            env={**os.environ, "PYTHONPATH": path, "VLLM_CACHE_ROOT": str(caches), "TORCHINDUCTOR_COMPILE_THREADS": "4"})
        self._pending = b""
        self.start_seconds: float | None = None

    def wait_started(self, limit: float) -> None:
        self.start_seconds = float(self._answer(limit)["seconds"])

    # ---- commands: see engine_process.Engine --------------------------------------------------------

    def ask(self, prompt: list[int], tokens: int = 1) -> dict[str, Any]:
        result: dict[str, Any] = self._do("ask", prompt=prompt, tokens=tokens)
        return result

    def forget(self) -> None:
        self._do("forget")

    def settle(self, filler: list[int]) -> None:
        self._do("settle", limit=90.0, filler=filler)

    def decode(self, decodes: list[list[int]], tokens: int, others: list[tuple[int, list[int]]]) -> dict[str, Any]:
        result: dict[str, Any] = self._do("decode", limit=120.0, decodes=decodes, tokens=tokens, others=others)
        return result

    def damage(self) -> None:
        self._do("damage")

    def copy_rate(self, count: int) -> dict[str, float]:
        result: dict[str, float] = self._do("copy_rate", count=count)
        return result

    def counts(self) -> dict[str, float]:
        result: dict[str, float] = self._do("counts")
        return result

    def close(self) -> None:
        """Ends it, at the latest after 30 s."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process.stdout.close()
        self._words.close()

    def kill(self) -> None:
        self._process.kill()

    # ---- pipes --------------------------------------------------------------------------------------

    def _do(self, what: str, limit: float = _ANSWER_LIMIT_S, **how: Any) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps({"do": what, **how}) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return self._answer(limit)

    def _answer(self, limit: float) -> Any:
        assert self._process.stdout is not None
        pipe, until = self._process.stdout.fileno(), time.monotonic() + limit
        while b"\n" not in self._pending:
            ready, _, _ = select.select([pipe], [], [], max(until - time.monotonic(), 0))
            read = os.read(pipe, 1 << 16) if ready else b""
            if not read:
                raise self._broken(f"no answer in {limit:.0f} s" if not ready else "it ended")
            self._pending += read
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)

    def _broken(self, how: str) -> Broken:
        self._process.kill()  # an answer that comes later would be taken for that of the next command
        self._process.wait()
        return Broken(f"engine {self.name}: {how}:\n{self._log.read_text(errors='replace')[-3000:]}")
