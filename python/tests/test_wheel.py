# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed into a fresh environment without anything else."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=850, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    return ROOT / run(ROOT / "dev", "wheel", cwd=ROOT).split()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python3*/site-packages"))
    run(sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet",
        "--no-deps", "--no-index", "--disable-pip-version-check", wheel, cwd=folder)
    assert (site / "orlop/py.typed").exists()
    return folder


@pytest.mark.timeout(900)
def test_the_wheel_has_the_package_the_programs_and_nothing_else(wheel):
    names = {Path(name).as_posix() for name in zipfile.ZipFile(wheel).namelist()}
    package = {name for name in names if not name.startswith("orlop-")}
    assert {"orlop/bin/orlop", "orlop/bin/orlopd", "orlop/_native.pyi", "orlop/py.typed"} <= package
    sources = {one.relative_to(ROOT / "python").as_posix()
               for one in (ROOT / "python/orlop").rglob("*.py*") if one.suffix != ".pyc"}
    assert {name for name in package if name.endswith((".py", ".pyi"))} == {
        name for name in sources if name.endswith((".py", ".pyi"))}
    assert all(name.startswith("orlop/") for name in package)


@pytest.mark.timeout(900)
def test_the_quick_start_works_where_only_the_wheel_is_installed(installed):
    code = ("import doctest, orlop\n"
            "failed, tried = doctest.testmod(orlop)\n"
            "assert failed == 0 and tried >= 2\n"
            "print(orlop.__file__)\n")
    assert str(installed) in run(installed / "bin/python", "-c", code, cwd=installed)


@pytest.mark.timeout(900)
def test_the_programs_are_on_the_path(installed):
    assert "--capacity" in run(installed / "bin/orlop", "serve", "--help", cwd=installed)
    assert "--capacity" in run(installed / "bin/orlopd", "--help", cwd=installed)
