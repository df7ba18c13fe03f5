# SPDX-License-Identifier: Apache-2.0
"""Engines in processes of their own: what one did never helps the next.

  python remote.py PIPE     serves the engine that the first message names
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import Any

from children import ends_with_us
from counting import Counting

_START_SECONDS = 1200.0  # a cold import on a loaded machine
_CALL_SECONDS = 600.0  # a first answer compiles


class EngineFailed(Exception):
    """What the other process raised, with its traceback."""


class RemoteEngine(Counting):
    """remote.ask(...) is engine.ask(...) in the other process, for every method of kind."""

    def __init__(self, kind: str, *arguments: Any, environment: dict[str, str] | None = None,
                 **named: Any) -> None:
        """kind: "module.Class" of this folder."""
        self._pipe, theirs = Pipe()
        self._process = subprocess.Popen(
            ends_with_us([sys.executable, str(Path(__file__)), str(theirs.fileno())]), pass_fds=[theirs.fileno()],
            env={**os.environ, **(environment or {})})
        theirs.close()
        try:
            self._call("", (kind, arguments, named), {}, _START_SECONDS)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "RemoteEngine":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments, **named: self._call(method, arguments, named, _CALL_SECONDS)

    def _call(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any],
              seconds: float) -> Any:
        self._pipe.send((method, arguments, named))
        if not self._pipe.poll(seconds):
            raise EngineFailed(f"no answer to {method or 'start'} in {seconds:g} s")
        try:
            failed, answer = self._pipe.recv()
        except EOFError:
            raise EngineFailed(f"the process ended during {method or 'start'}, "
                               f"status {self._process.wait(60)}") from None
        if failed:
            raise EngineFailed(answer)
        return answer

    def close(self) -> None:
        self._pipe.close()  # the other process ends its engine
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(60)


def answer_of(model: Path, socket: str, prompt: list[int], environment: dict[str, str] | None = None,
              **arguments: Any) -> dict[str, Any]:
    """What an engine as users start it answers to one prompt, and what it counted (one_engine.py)."""
    plain = {name: value for name, value in os.environ.items()
             if name != "VLLM_ENABLE_V1_MULTIPROCESSING"}
    script = Path(__file__).parent / "one_engine.py"
    process = subprocess.Popen(
        ends_with_us([sys.executable, str(script), str(model), socket, json.dumps(prompt),
                      json.dumps(arguments)], "TERM"),
        env={**plain, **(environment or {})}, stdout=subprocess.PIPE, text=True,
        start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=_START_SECONDS)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # it and the processes that vLLM made for it
        process.wait(60)
        raise
    assert process.returncode == 0, printed
    # vLLM's processes may write there too.
    line = next(line for line in printed.splitlines() if line.startswith('{"tokens"'))
    answer: dict[str, Any] = json.loads(line)
    return answer


def _serve(pipe: Connection) -> None:
    engine = None
    try:
        while True:
            try:
                method, arguments, named = pipe.recv()
            except EOFError:
                return
            try:
                if engine is None:
                    kind, arguments, named = arguments
                    module, name = kind.split(".")
                    engine = getattr(__import__(module), name)(*arguments, **named)
                    answer = None
                else:
                    answer = getattr(engine, method)(*arguments, **named)
                pipe.send((False, answer))
            except Exception:
                pipe.send((True, traceback.format_exc()))
    finally:
        if engine is not None:
            engine.close()


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
