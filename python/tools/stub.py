# SPDX-License-Identifier: Apache-2.0
"""Writes the type stub of orlop._native from the module's own signatures.

  python tools/stub.py [FILE]      default: python/orlop/_native.pyi
"""

import sys
from pathlib import Path

from nanobind.stubgen import StubGen

import orlop._native

HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by python/tools/stub.py from the module; do not edit.
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from typing_extensions import Buffer

from orlop.descriptor import NamespaceDescriptor
from orlop.outcomes import MissReason, Outcome

# Keys: one bytes-like object (one key), an iterable of them, PackedKeys, or 2-D uint8.
Keys = Buffer | PackedKeys | Iterable[Buffer]
# One buffer per key, or one buffer for all.
Buffers = Buffer | Iterable[Buffer]
'''


def stub() -> str:
    generator = StubGen(orlop._native, include_private=True)
    generator.put(orlop._native)
    lines = generator.get().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(("class ", "def ")))
    return HEAD + "\n\n" + "\n".join(lines[first:]) + "\n"


if __name__ == "__main__":
    default = Path(__file__).parent.parent / "orlop/_native.pyi"
    Path(sys.argv[1] if len(sys.argv) > 1 else default).write_text(stub())
