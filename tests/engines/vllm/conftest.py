# SPDX-License-Identifier: Apache-2.0
"""One real vLLM engine in this process for the whole run, on a node that starts after it."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before vLLM is imported: in one process, on little memory, without a network.
os.environ.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1",
                  VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL=os.environ.get("LEVEL", "WARNING"))
sys.path.insert(0, str(Path(__file__).parent))

import pytest
from node import NodeProcess

if TYPE_CHECKING:  # vLLM's import takes long: tests of engines in other processes do without
    from engine import Engine
    from served import Served


@pytest.fixture(scope="session")
def model() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orlop"
    folder = cache / "tiny-llama-1"
    if not (folder / "complete").exists():
        from tiny_model import make_llama

        make_llama(folder)
    return folder


@pytest.fixture(scope="session")
def socket(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("node") / "orlop.sock")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a node of this module's own."""
    node = NodeProcess(str(tmp_path_factory.mktemp("node") / "orlop.sock"))
    yield node.socket
    node.close()


@pytest.fixture(scope="session")
def started(model: Path, socket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """(engine, node, what the engine did while there was no node)."""
    from engine import Engine

    trace = str(tmp_path_factory.mktemp("trace") / "requests.jsonl")
    engine = Engine(model, {"socket": socket, "trace_requests": trace, "save_deadline": "2"})
    engine.trace = trace
    begun = time.monotonic()
    without_node = engine.ask([prompt_of(0)], tokens=8)
    without = {"outputs": without_node, "counts": engine.counts(), "seconds": time.monotonic() - begun}
    node = NodeProcess(socket)
    try:
        engine.wait_ready()
        yield engine, node, without
    finally:
        engine.close()
        node.close()


@pytest.fixture
def engine(started: Any) -> "Engine":
    """With an empty cache of its own; every test has prompts of its own in the store."""
    engine: Engine = started[0]
    engine.settle()
    engine.forget()
    return engine


@pytest.fixture
def node(started: Any) -> NodeProcess:
    node: NodeProcess = started[1]
    return node


@pytest.fixture(scope="session")
def served(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Served"]:
    """One `vllm serve` with a node of its own, KV events on, options as a command line has them."""
    from served import Served

    with Served(model, str(tmp_path_factory.mktemp("served"))) as one:
        yield one


_seeds = iter(range(1, 100_000))


def prompt_of(seed: int, length: int = 150) -> list[int]:
    return [3 + (7 * i + seed * 131 + (i * i * seed) % 17) % 1000 for i in range(length)]


@pytest.fixture
def fresh_prompt() -> Any:
    return lambda length=150: prompt_of(next(_seeds), length)
