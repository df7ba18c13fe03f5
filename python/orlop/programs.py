# SPDX-License-Identifier: Apache-2.0
"""The programs ``orlop`` and ``orlopd`` that come with the package."""

import os
import shutil
import sys
from pathlib import Path


def find(name: str = "orlop") -> str:
    """Path of a program: of the package, else of the build tree around it, else of $PATH."""
    package = Path(__file__).parent
    module = Path(sys.modules["orlop._native"].__file__ or "").parent
    for folder in (package / "bin", module.parent.parent / "bin"):
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"the program {name} is neither in this package nor on $PATH")
    return found


def _become(name: str) -> None:
    program = find(name)
    os.execv(program, [name, *sys.argv[1:]])


def orlop() -> None:
    """Console entry point: becomes the program ``orlop``."""
    _become("orlop")


def orlopd() -> None:
    """Console entry point: becomes the program ``orlopd``."""
    _become("orlopd")
