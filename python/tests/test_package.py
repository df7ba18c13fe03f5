# SPDX-License-Identifier: Apache-2.0
"""What is published is current: type stubs, reference page, examples, enums."""

import doctest
import os
import subprocess
import sys
from pathlib import Path

import orlop
import pytest

PYTHON = Path(__file__).resolve().parent.parent
ROOT = PYTHON.parent


def run(*command: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=280, check=False, cwd=ROOT, env={**os.environ, **environment})


def test_the_quick_start_of_the_readme_works():
    failed, tried = doctest.testfile(str(PYTHON / "README.md"), module_relative=False)
    assert tried >= 9 and failed == 0


def test_the_example_of_the_module_works():
    failed, tried = doctest.testmod(orlop)
    assert tried >= 2 and failed == 0


def test_the_stub_of_the_native_module_is_current(tmp_path):
    done = run(sys.executable, PYTHON / "tools/stub.py", tmp_path / "_native.pyi")
    assert done.returncode == 0, done.stderr
    committed = (PYTHON / "orlop/_native.pyi").read_text()
    assert (tmp_path / "_native.pyi").read_text() == committed, "run ./dev python"


def test_types_are_right_in_the_package_and_for_its_users(tmp_path):
    (tmp_path / "user.py").write_text(
        "import asyncio\n"
        "import orlop\n"
        "async def main(client: orlop.Client, ns: orlop.Namespace) -> list[orlop.Outcome]:\n"
        "    with client.put_start(ns, [b'k']) as plan:\n"
        "        plan.memory(0)[:] = bytes(8)\n"
        "        return await plan.commit()\n"
        "def read(client: orlop.Client, ns: orlop.Namespace) -> int:\n"
        "    with client.read(ns, orlop.PackedKeys(b'k', 1)) as plan:\n"
        "        view = plan.view(0)\n"
        "        return 0 if view is None else view[0]\n"
    )
    done = run(sys.executable, "-m", "mypy", "--config-file", PYTHON / "pyproject.toml",
               "--cache-dir", tmp_path / "cache", PYTHON / "orlop", tmp_path / "user.py",
               MYPYPATH=str(PYTHON))
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_use_is_a_type_error(tmp_path):
    (tmp_path / "user.py").write_text(
        "import orlop\n"
        "def wrong(client: orlop.Client, ns: orlop.Namespace) -> str:\n"
        "    return client.put(ns, 7, b'')\n"
    )
    done = run(sys.executable, "-m", "mypy", "--config-file", PYTHON / "pyproject.toml",
               "--cache-dir", tmp_path / "cache", tmp_path / "user.py", MYPYPATH=str(PYTHON))
    assert done.returncode == 1 and "return-value" in done.stdout and "arg-type" in done.stdout


def test_the_reference_page_is_current():
    done = run(sys.executable, PYTHON / "tools/reference.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "header"), [("Outcome", "outcome.h"), ("MissReason", "outcome.h")])
def test_enums_are_those_of_the_header(name, header):
    import re

    text = (ROOT / "include/orlop" / header).read_text()
    body = re.search(rf"enum class {name} [^{{]*{{(.*?)}};", text, re.DOTALL)
    assert body is not None
    members = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", symbol).upper(): int(value)
        for symbol, value in re.findall(r"^\s*k(\w+) = (\d+)", body.group(1), re.MULTILINE)
    }
    assert {one.name: one.value for one in getattr(orlop, name)} == members


def test_error_classes_are_those_of_the_header():
    import re

    from orlop import errors

    text = (ROOT / "include/orlop/error.h").read_text()
    codes = re.findall(r"^  k(\w+) = (\d+)", text, re.MULTILINE)
    assert {
        int(value): re.sub(r"(?<!^)(?=[A-Z])", "_", symbol).lower() for symbol, value in codes
    } == {number: error.code for number, error in errors.BY_NUMBER.items()}


def test_the_module_shows_only_its_entry_point():
    from orlop import _native

    symbols = run("nm", "-D", "--defined-only", _native.__file__).stdout.split()
    assert [one for one in symbols if "orlop" in one.lower()] == []
    assert "PyInit__native" in symbols
