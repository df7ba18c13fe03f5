# SPDX-License-Identifier: Apache-2.0
"""The Python environments of the peers and of the engines, outside the clone.

Each is ${XDG_CACHE_HOME:-~/.cache}/orlop/peers-NAME-HASH, made when absent from bench/peers/NAME.lock,
or .../NAME-HASH of another FOLDER/NAME.lock; HASH is of that file and of the Python version. The locks
name every package with its version and are installed without looking for further requirements:
LMCache's server runs without most of its own, vLLM on a CPU without most of torch's.

  python environments.py NAME|FILE.lock     makes it when absent, prints its Python
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orlop"


def _lock(name: str) -> Path:
    return Path(name) if name.endswith(".lock") else _HERE / f"{name}.lock"


def _folder(name: str) -> Path:
    text = _lock(name).read_bytes() + sys.version.encode()
    stem = Path(name).stem if name.endswith(".lock") else f"peers-{name}"
    return _CACHE / f"{stem}-{hashlib.sha256(text).hexdigest()[:12]}"


def existing(name: str) -> Path | None:
    """Its Python, or None when it was never made."""
    folder = _folder(name)
    return folder / "bin/python" if (folder / "complete").exists() else None


def ensure(name: str, say) -> Path:
    """Its Python. say(text): told before the long part. Raises when a package cannot be had."""
    if python := existing(name):
        return python
    folder = _folder(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".making"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be making it
        if python := existing(name):
            return python
        say(f"making {folder} (once)")
        shutil.rmtree(folder, ignore_errors=True)  # a run that was interrupted
        python = folder / "bin/python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary", ":all:", "--requirement", _lock(name)], check=True)
        (folder / "complete").touch()
    return python


if __name__ == "__main__":
    print(ensure(sys.argv[1], lambda text: print(text, file=sys.stderr, flush=True)))
