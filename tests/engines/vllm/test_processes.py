# SPDX-License-Identifier: Apache-2.0
"""Two engines, one after the other, each in vLLM's default three processes, on one node."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import prompt_of
from node import NodeProcess


@pytest.fixture
def place(tmp_path):
    place = str(tmp_path / "orlop.sock")
    node = NodeProcess(place)
    yield place
    node.close()


def test_second_engine_hits_what_the_first_one_stored(model, place):
    first = answer_of(model, place)
    assert first["cached"] == 0 and first["counts"].get("lookups:hit", 0) == 0
    second = answer_of(model, place)
    assert second["tokens"] == first["tokens"] and second["cached"] == 128
    assert second["counts"]["lookups:hit"] == 1 and second["counts"]["loaded_pages:"] == 4
    for one in (first, second):
        assert not [name for name in one["counts"] if name.startswith(("exceptions", "refused"))]


def answer_of(model, place):
    environment = {name: value for name, value in os.environ.items()
                   if name != "VLLM_ENABLE_V1_MULTIPROCESSING"}
    script = Path(__file__).parent / "one_engine.py"
    done = subprocess.run(
        [sys.executable, str(script), str(model), place, json.dumps(prompt_of(7))], env=environment,
        stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    return json.loads(done.stdout.splitlines()[-1])
