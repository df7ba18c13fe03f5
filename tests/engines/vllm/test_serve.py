# SPDX-License-Identifier: Apache-2.0
"""`vllm serve`: what its users see of the adapter over HTTP."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from orlop.engine.counters import NAMES
from orlop.engine.doctor import as_text, worst
from orlop.vllm import doctor
from served import MIN_HIT
from serving import BLOCK, TRANSFER, VllmServer, hold_port

_ORLOP = "vllm:orlop_"
_PROMPT = 150  # tokens: four blocks and a rest


def counted(served, work):
    """What was counted meanwhile, without zeros."""
    before = served.vllm.counts()
    work()
    served.step()
    after = served.vllm.counts()
    after.subtract(before)
    return {name: value for name, value in after.items() if value}


def test_options_as_text_are_taken(served):
    assert not [name for name in served.vllm.counts() if "refused" in name or "exceptions" in name]
    # The trace is written where the option says.
    served.vllm.until(lambda: Path(served.trace).exists() and Path(served.trace).stat().st_size > 0, 60,
                      "no trace was written")
    assert "request" in json.loads(Path(served.trace).read_text().splitlines()[0])


def test_cold_and_hit_are_on_the_metrics_page(served, fresh_prompt):
    prompt, answers = fresh_prompt(_PROMPT), []
    cold = counted(served, lambda: answers.append(served.vllm.ask(prompt, 4)))
    assert cold[f"{_ORLOP}lookups:not_found"] == 1 and f"{_ORLOP}loaded_pages:" not in cold
    assert "vllm:external_prefix_cache_hits:" not in cold
    served.until_stored(prompt)
    served.vllm.forget()
    hit = counted(served, lambda: answers.append(served.vllm.ask(prompt, 4)))
    assert answers[0].tokens == answers[1].tokens and len(answers[0].tokens) == 4
    assert hit[f"{_ORLOP}lookups:hit"] == 1 and hit[f"{_ORLOP}loaded_pages:"] == _PROMPT // BLOCK
    assert hit[f"{_ORLOP}hit_tokens:"] == hit["vllm:external_prefix_cache_hits:"] == 128
    assert hit[f"{_ORLOP}loaded_bytes:"] == 128 * 1024  # float32, 2 layers of 512 bytes a token
    assert hit[f"{_ORLOP}hook_seconds:"] > 0


def test_miss_has_its_reason_on_the_metrics_page(served, fresh_prompt):
    prompt = fresh_prompt(BLOCK + 8)  # one block: less than min_hit_tokens, which came as text
    assert BLOCK < MIN_HIT
    served.vllm.ask(prompt, 1)
    served.until_stored(prompt)
    served.vllm.forget()
    assert counted(served, lambda: served.vllm.ask(prompt, 1))[f"{_ORLOP}lookups:below_minimum"] == 1
    asked_not_to = counted(served, lambda: served.vllm.ask(fresh_prompt(), 1, "no_load"))
    assert asked_not_to[f"{_ORLOP}lookups:asked_not_to"] == 1


def test_every_count_is_declared_on_the_metrics_page(served):
    declared = re.findall(r"^# HELP vllm:orlop_(\w+?)(?:_total)? Orlop", served.vllm.metrics_page(), re.M)
    assert sorted({name for name in declared if not name.endswith("_created")}) == sorted(NAMES)


def test_doctor_reads_the_running_server(served, fresh_prompt, capsys):
    prompt = fresh_prompt(_PROMPT)
    served.vllm.ask(prompt, 1)
    served.until_stored(prompt)
    served.vllm.forget()
    served.vllm.ask(prompt, 1)
    served.step()
    address = f"http://127.0.0.1:{served.vllm.port}"
    checks = doctor.judge_page(doctor._url(address))
    assert worst(checks) != "fail", as_text(checks)
    assert [one for one in checks if one.name == "hits" and one.figures["hit_tokens"] >= 128], as_text(checks)
    assert doctor.main(["--socket", served.socket, "--metrics", address]) == 0
    assert "a node serves at" in capsys.readouterr().out


# ---- without an engine ----------------------------------------------------------------------------


def test_server_is_ended_by_a_second_interruption_too():
    """Of a stopping server that does not hear, in a group of its own."""
    server = VllmServer.__new__(VllmServer)
    server._folder, server._held = tempfile.TemporaryDirectory(), hold_port()
    server._process = subprocess.Popen(
        [sys.executable, "-c", "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
         "print('deaf', flush=True)\nsignal.pause()"], stdout=subprocess.PIPE, start_new_session=True)
    assert server._process.stdout.readline() == b"deaf\n"
    again = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    again.start()
    with pytest.raises(KeyboardInterrupt):
        server.close()
    again.join()
    assert server._process.returncode == -signal.SIGKILL and not Path(server._folder.name).exists()


def test_port_is_given_to_nobody_else_and_can_be_served():
    with hold_port() as held, hold_port() as other:
        assert held.getsockname() != other.getsockname()
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(held.getsockname())
        with socket.create_server(held.getsockname()) as server:  # SO_REUSEADDR, as vLLM
            socket.create_connection(server.getsockname(), 10).close()


def test_documentation_has_this_json():
    text = (Path(__file__).parents[3] / "docs/engines/vllm.md").read_text()
    found = re.search(r"--kv-transfer-config '(\{.*?\})'", text, re.S)
    assert found is not None and json.loads(found[1]) == TRANSFER
