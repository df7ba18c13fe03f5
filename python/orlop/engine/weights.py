# SPDX-License-Identifier: Apache-2.0
"""The identity of a model's weights: of their contents, never of their path.

Two folders with the same files have one identity, and a folder whose file was changed has another.
Hashing 16 GB takes about 10 s, once a machine: results are remembered by device, inode, size and
change time of each file. Files of a Hugging Face cache are named by their digest already.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_CHUNK = 1 << 20
_MAX_FILES = 10_000


class WeightsUnknown(Exception):
    """The identity cannot be found out; says what to do."""


def weights_identity(folder: Path, cache: Path | None = None) -> str:
    """32 hexadecimal digits. folder: the model's, or one file of weights.

    cache: folder that remembers digests; None: ${XDG_CACHE_HOME:-~/.cache}/orlop/weights. Blocks for
    as long as hashing takes: call it on a thread of its own. Raises WeightsUnknown.
    """
    try:
        files = [folder] if folder.is_file() else sorted(
            one for one in folder.iterdir() if one.suffix in _WEIGHTS and one.is_file())
        if not 0 < len(files) <= _MAX_FILES:
            raise WeightsUnknown(f"{folder} has {len(files)} files of weights; set the option "
                                 "`weights` to a name that changes with the weights")
        all_of_them = hashlib.sha256()
        for file in files:
            name = "" if file == folder else file.name
            all_of_them.update(f"{len(name)}:{name}{_digest(file, cache)}".encode())
    except OSError as error:
        raise WeightsUnknown(f"{error}; set the option `weights` to a name that changes with the "
                             "weights") from error
    return all_of_them.hexdigest()[:32]


def _digest(file: Path, cache: Path | None) -> str:
    if _is_named_by_digest(file):
        return file.resolve().name
    status = file.stat()
    # ctime too: it cannot be set back as mtime can.
    what = f"{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}"
    folder = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orlop/weights"
    remembered = folder / what
    try:
        text = remembered.read_text()
        if len(text) == 64:
            return text
    except OSError:
        pass
    with open(file, "rb") as opened:
        digest = hashlib.sha256()
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    _remember(remembered, digest.hexdigest())
    return digest.hexdigest()


def _is_named_by_digest(file: Path) -> bool:
    target = file.resolve()
    return (file.is_symlink() and target.parent.name == "blobs" and len(target.name) == 64
            and all(c in "0123456789abcdef" for c in target.name))


def _remember(remembered: Path, text: str) -> None:
    # Not being able to remember costs the next process the hashing, nothing else.
    try:
        remembered.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=remembered.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, remembered)
    except OSError:
        pass


def digest_of(value: object) -> str:
    """16 hexadecimal digits of a JSON-like value, independent of the order of its mappings.

    Raises TypeError for what JSON does not know: unknown parts are refused, not left out.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
