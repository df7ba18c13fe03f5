#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the code blocks of a guide page, in their order, in one shell: what the page says, works.

usage: run_guide.py PAGE --programs DIR --python PYTHON --module-path DIR

`sh` blocks run in one bash, stopping at the first failure; `python` blocks are given to PYTHON from there.
Everything happens in a folder of its own, with ORLOP_SOCKET inside it; what the page starts is stopped.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

LIMIT_SECONDS = 100
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Background jobs that a failed page leaves behind end with the shell.
PROLOGUE = """set -euo pipefail
trap 'for job in $(jobs -p); do kill "$job" || true; done; wait' EXIT
"""


def script_of(page, python):
    blocks = BLOCK.findall(page)
    if not {"sh", "python"} <= {kind for kind, _ in blocks}:
        sys.exit("run_guide: the page has no sh or no python block: nothing would be tested")
    parts = [PROLOGUE]
    for number, (kind, text) in enumerate(blocks, 1):
        parts.append(f"echo '-- block {number} ({kind})' >&2\n")
        parts.append(text if kind == "sh" else f"'{python}' - <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n")
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("--programs", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--module-path", required=True)
    arguments = parser.parse_args()
    with open(arguments.page, encoding="utf-8") as file:
        script = script_of(file.read(), arguments.python)
    folder = tempfile.mkdtemp(prefix="orlop-guide-")
    environment = dict(os.environ, ORLOP_SOCKET=os.path.join(folder, "orlop.sock"),
                       PATH=os.path.abspath(arguments.programs) + os.pathsep + os.environ["PATH"],
                       PYTHONPATH=os.path.abspath(arguments.module_path))
    # A session of its own, so that whatever the page started can be ended as one.
    shell = subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment, start_new_session=True)
    try:
        status = shell.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"run_guide: the page takes longer than {LIMIT_SECONDS} s", file=sys.stderr)
        status = 1
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
