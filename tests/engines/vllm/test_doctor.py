# SPDX-License-Identifier: Apache-2.0
"""orlop doctor vllm: each situation that leaves hits at zero is named first, with what to do.

Pages are in the form of vLLM's (test_serve.py looks at a real one); nodes and their namespaces are
real.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import orlop
import pytest
from orlop.engine.counters import NAMES
from orlop.engine.doctor import as_json, as_text, judge_namespaces, most_important_first, worst
from orlop.vllm import doctor

_LABELS = 'engine="0",model_name="model"'


def page(asked=0.0, hits=0.0, **counts):
    """A metrics page of vLLM with the connector on; lookups__not_found=3 is a count with a reason."""
    lines = [f"# HELP vllm:orlop_{name}_total Orlop: {text}.\n# TYPE vllm:orlop_{name}_total counter"
             for name, text in NAMES.items()]
    for key, value in counts.items():
        name, _, reason = key.partition("__")
        lines.append(f'vllm:orlop_{name}_total{{{_LABELS},reason="{reason}"}} {value}')
        lines.append(f'vllm:orlop_{name}_created{{{_LABELS},reason="{reason}"}} 1.796037073e+09')
    for name, value in (("external_prefix_cache_queries", asked), ("external_prefix_cache_hits", hits),
                        ("prompt_tokens", asked)):
        lines.append(f"vllm:{name}_total{{{_LABELS}}} {value}")
    return "\n".join(lines) + "\n"


def judged(**counts):
    return most_important_first(doctor.judge_metrics(page(**counts)))


def names(checks):
    return [one.name for one in checks]


def test_hits_are_well():
    checks = judged(asked=1e4, hits=6e3, lookups__hit=60, lookups__not_found=40, saved_pages=100)
    assert worst(checks) == "ok"
    assert "6,000 of 10,000 tokens (60.0%)" in as_text(checks)


def test_page_without_our_connector_says_how_to_start():
    (check,) = doctor.judge_metrics(f"vllm:prompt_tokens_total{{{_LABELS}}} 5.0\n")
    assert (check.name, check.verdict) == ("connector", "fail") and "kv-transfer-config" in check.remedy
    (check,) = doctor.judge_metrics("python_info 1\n")
    assert check.name == "metrics" and "not a metrics page of vLLM" in check.finding


def test_no_request_yet_is_no_fault():
    (check,) = judged()
    assert (check.name, check.verdict) == ("lookups", "warn")


def test_refused_configuration_comes_before_everything_else():
    checks = judged(asked=100.0, lookups__off=4, refused__Refused=1, refused__OptionError=2)
    assert names(checks)[:2] == ["refused", "refused"]
    told = checks[0].finding + checks[1].finding
    assert "an option is wrong" in told and "does not understand" in told


def test_adapter_that_could_not_start_is_off():
    # Captured: an adapter whose register_kv_caches raised.
    checks = judged(asked=6.0, lookups__too_short=1, exceptions__register_kv_caches=1, hook_seconds=0.07)
    assert checks[0].name == "exceptions" and checks[0].verdict == "fail"
    assert "register_kv_caches" in checks[0].finding and "is off" in checks[0].finding


@pytest.mark.parametrize(("reason", "words"), [
    ("no_node", "orlop serve"), ("family_unknown", "`weights`"), ("too_short", "smaller block size"),
    ("asked_not_to", "kv_both"), ("below_minimum", "lower min_hit_tokens"), ("pin_limit", "larger node"),
    ("resting", "failed loads"), ("not_taken", "larger KV cache"),
])
def test_reason_of_most_lookups_is_the_first_after_the_rate(reason, words):
    checks = judged(asked=1e4, saved_pages=5, lookups__not_found=1, **{f"lookups__{reason}": 99})
    assert names(checks)[:2] == ["hits", reason], as_text(checks)
    assert "99 of 100 look-ups" in checks[1].finding and words in checks[1].remedy
    assert "not_found" not in names(checks)[:2]


def test_every_reason_has_words():
    from orlop.engine import doctor as words
    from orlop.engine.reasons import Reason

    known = {*words._LOOKUPS, *words._DROPPED, *words._FAILED}
    assert {str(one) for one in Reason} - known == {"hit"}


def test_engine_that_stored_nothing_says_so_before_the_misses():
    checks = judged(asked=1e4, lookups__not_found=50)
    assert names(checks)[:3] == ["hits", "stored", "not_found"]
    assert "stored no page" in checks[1].finding and "load_only" in checks[1].remedy


@pytest.mark.parametrize(("reason", "words"), [
    ("no_node", "save_deadline"), ("overwritten", "larger KV cache"), ("not_stored", "orlop status")])
def test_dropped_pages_are_told_with_their_reason(reason, words):
    checks = judged(asked=1e4, lookups__not_found=50, **{f"dropped_pages__{reason}": 300})
    (check,) = [one for one in checks if one.name == f"dropped_{reason}"]
    assert "300 of 300 pages" in check.finding and words in check.remedy
    assert names(checks).index(check.name) < names(checks).index("not_found")


def test_failed_loads_are_told_even_when_hits_are_well():
    checks = judged(asked=1e4, hits=9e3, lookups__hit=9, saved_pages=9, failed_loads__mismatch=2)
    assert worst(checks) == "warn" and checks[0].name == "failed_mismatch"
    assert "memory is damaged" in checks[0].remedy


def test_counts_of_several_engines_are_added():
    text = page(asked=100.0, hits=50.0, lookups__hit=1, saved_pages=1)
    both = text + text.replace('engine="0"', 'engine="1"')
    assert "100 of 200 tokens" in as_text(doctor.judge_metrics(both))


# ---- pages of something else ----------------------------------------------------------------------


def judge_answer(*parts, pause=0.0, seconds=30.0):
    """What is said of a port that answers a connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                for part in parts:
                    connection.sendall(part)
                    done.wait(pause)
                connection.recv(1 << 16)

        done = threading.Event()
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            (check,) = doctor.judge_page(f"http://127.0.0.1:{server.getsockname()[1]}/metrics")
            return check
        finally:
            done.set()
            thread.join(seconds)


def test_address_that_speaks_no_http_is_told():
    check = judge_answer(b"SSH-2.0-OpenSSH_9.2\r\n")
    assert (check.name, check.verdict) == ("metrics", "fail") and "SSH-2.0" in check.finding
    (check,) = doctor.judge_page("http://127.0.0.1:port/metrics")
    assert check.verdict == "fail" and "port" in check.finding


def test_answer_that_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr(doctor, "_SECONDS", 0.3)
    check = judge_answer(b"HTTP/1.1 200 OK\r\n\r\n", *[b"x"] * 10_000, pause=0.05)
    assert "no whole answer in 0.3 s" in check.finding


def test_page_that_is_too_large_is_told(monkeypatch):
    monkeypatch.setattr(doctor, "_MOST_BYTES", 1 << 20)
    check = judge_answer(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * ((1 << 20) + 1))
    assert "larger than 1 MiB" in check.finding


@pytest.mark.parametrize("value", ["nan", "1e999", "-3", "many", "1e300"])
def test_what_is_no_count_counts_nothing(value):
    text = page(asked=100.0, hits=50.0, lookups__hit=1, saved_pages=1)
    wrong = f'vllm:orlop_lookups_total{{{_LABELS},reason="hit"}} {value}\n'
    checks = doctor.judge_metrics(text + wrong)
    assert checks == doctor.judge_metrics(text)
    json.dumps(as_json(checks), allow_nan=False)


def test_long_line_takes_no_time():
    text = page(asked=100.0, hits=50.0, lookups__hit=1, saved_pages=1)
    line = f'vllm:orlop_lookups_total{{{"a" * 4_000_000}}} 1\n'  # its square is a day
    assert worst(doctor.judge_metrics(text + line)) == "ok"


def test_control_characters_do_not_reach_the_terminal():
    checks = judged(asked=1e4, hits=9e3, lookups__hit=9, saved_pages=9, **{"exceptions__\x1b[2J\u202e": 1})
    assert "\\x1b[2J\\u202e" in as_text(checks) and "\x1b" not in as_text(checks)


def test_what_vllm_prints_when_it_is_imported_is_not_in_the_answer(tmp_path):
    (tmp_path / "vllm.py").write_text("print('INFO: no platform detected')\nraise ImportError('no driver')")
    done = run_program(["--json", "--socket", str(tmp_path / "none.sock"), "--python", sys.executable],
                       PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    (check,) = [one for one in json.loads(done.stdout)["checks"] if one["name"] == "vllm"]
    assert "no driver" in check["finding"] and "no platform" in done.stderr, done


# ---- a real node ----------------------------------------------------------------------------------

_FIELDS = {"engine": "vllm", "layout": "vllm-0.32/LBHNC/cpu-vec-AVX512/sha256-py3.11.2", "model": "llama-1",
           "revision": "r", "dtype": "auto:float32", "page_tokens": 32, "value_len": 4096}


@pytest.fixture
def small_node():
    with orlop.serve(capacity="16MiB") as node, node.client(call_budget=10.0) as client:
        assert client.wait_ready(60)
        yield node, client


def namespaces_of(node):
    status, text = doctor._orlop("inspect", "namespaces", "--json", "--socket", node.socket)
    assert status == 0, text
    return json.loads(text)


def test_engines_that_differ_in_one_field_are_told_which(small_node):
    node, client = small_node
    ours = client.open_namespace(_FIELDS)
    client.put(client.open_namespace({**_FIELDS, "dtype": "auto:bfloat16"}), [b"a"], [bytes(4096)])
    client.open_namespace({**_FIELDS, "model": "other", "revision": "x", "dtype": "y", "page_tokens": 64})
    client.open_namespace({**_FIELDS, "engine": "sglang"})
    assert client.get_bytes(ours, [b"a"]) == []
    (check,) = told_of(node, lambda check: check.figures.get("never_stored_in_one"))
    assert check.name == "namespaces_differ" and "kv_cache_dtype" in check.finding
    assert "auto:float32 and auto:bfloat16" in check.finding and "0 and 1 pages" in check.finding
    assert "never stored there: 1 and 0" in check.finding


def told_of(node, condition):
    """What is not as it should be, once it is so: clients tell the node of their misses now and then."""
    deadline = time.monotonic() + 60
    while True:
        checks = [one for one in judge_namespaces(namespaces_of(node), "vllm") if one.verdict != "ok"]
        if any(condition(one) for one in checks):
            return checks
        assert time.monotonic() < deadline, as_text(checks)


def test_ranks_of_one_family_do_not_differ(small_node):
    node, client = small_node
    for rank in range(2):
        client.open_namespace({**_FIELDS, "tp_rank": rank, "tp_size": 2})
    checks = judge_namespaces(namespaces_of(node), "vllm")
    assert worst(checks) == "ok" and "1 families" in checks[0].finding


def test_evicted_and_flushed_keys_are_told(small_node):
    node, client = small_node
    ns = client.open_namespace({**_FIELDS, "value_len": 1 << 20})
    keys = [b"%d" % i for i in range(64)]
    for key in keys:  # four times what the node holds
        client.put(ns, [key], [bytes(1 << 20)])
    assert client.get_bytes(ns, [keys[0]]) == []
    client.flush(ns)
    assert client.get_bytes(ns, [keys[-1]]) == []
    told_of(node, lambda check: check.name == "flushed")
    (check,) = told_of(node, lambda check: check.name == "evicted")[:1]
    assert check.name == "evicted" and "--capacity" in check.remedy


def test_node_without_our_engine_is_told(small_node):
    node, _ = small_node
    (check,) = judge_namespaces(namespaces_of(node), "vllm")
    assert check.verdict == "warn" and "no namespace of an engine 'vllm'" in check.finding


def test_command_tells_what_is_wrong_and_ends_accordingly(small_node, tmp_path, capsys):
    node, client = small_node
    client.open_namespace(_FIELDS)
    metrics = tmp_path / "page"
    metrics.write_text(page(asked=1e4, lookups__not_found=50, saved_pages=9))
    with served(metrics) as url:
        status = doctor.main(["--socket", node.socket, "--metrics", url, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert (status, answer["verdict"]) == (1, "fail")
    assert answer["checks"][0]["name"] == "hits"
    assert {"vllm", "interface", "node", "not_found"} <= {one["name"] for one in answer["checks"]}
    assert doctor.main(["--socket", node.socket, "--metrics", "http://127.0.0.1:1"]) == 1
    assert "does not answer" in capsys.readouterr().out


def test_absent_node_is_told_first_and_ends_with_3(tmp_path, capsys):
    assert doctor.main(["--socket", str(tmp_path / "none.sock")]) == 3
    assert capsys.readouterr().out.splitlines()[0].startswith("fail  no node answers at")


def test_python_without_vllm_is_told(tmp_path):
    done = run_program(["--python", "/usr/bin/python3", "--socket", str(tmp_path / "none.sock")],
                       PYTHONPATH=os.environ["PYTHONPATH"])
    assert done.returncode == 3 and "/usr/bin/python3 has no vLLM" in done.stdout, done


def test_python_without_the_package_is_told():
    done = run_program(["--python", "/usr/bin/python3"], PYTHONPATH="")
    assert done.returncode == 5 and "cannot import the package orlop" in done.stderr, done
    done = run_program(["--python", "/none/python"])
    assert done.returncode == 5 and "/none/python" in done.stderr, done


def test_program_passes_options_on(tmp_path):
    done = run_program(["--json", "--socket", str(tmp_path / "none.sock"), "--metrics", "http://127.0.0.1:1"],
                       ORLOP_PYTHON=sys.executable)
    assert done.returncode == 3, done
    checks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert str(tmp_path) in checks["node"]["finding"] and "http://127.0.0.1:1" in checks["metrics"]["finding"]
    before = subprocess.run([doctor.find("orlop"), "doctor", "--json", "--socket", str(tmp_path / "a.sock"), "vllm",
                             "--python", sys.executable], text=True, stdout=subprocess.PIPE, check=False)
    checks = {one["name"]: one for one in json.loads(before.stdout)["checks"]}
    assert "a.sock" in checks["node"]["finding"]
    assert run_program(["--metrics", "nonsense"], ORLOP_PYTHON=sys.executable).returncode == 2


def run_program(arguments, **environment):
    return subprocess.run([doctor.find("orlop"), "doctor", "vllm", *arguments], text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          env={**os.environ, **environment})


class served:
    """A file as the page /metrics of a server of its own."""

    def __init__(self, file: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                assert self.path == "/metrics"
                self.send_response(200)
                self.end_headers()
                self.wfile.write(file.read_bytes())

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
