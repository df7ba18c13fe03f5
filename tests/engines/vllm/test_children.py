# SPDX-License-Identifier: Apache-2.0
"""What a killed test run leaves behind: nothing."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

_STARTS = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from children import ends_with_us
from node import NodeProcess
node = NodeProcess(sys.argv[2])
deadline = time.monotonic() + 60
while True:
    try:
        server = node.server()
        break
    except FileNotFoundError:
        assert time.monotonic() < deadline
        time.sleep(0.01)
other = subprocess.Popen(ends_with_us(["sh", "-c", "echo; exec sleep 600"]), stdout=subprocess.PIPE)
other.stdout.readline()  # a command that runs has been given its signal
print(server, node._process.pid, other.pid, flush=True)
sys.stdin.read()
"""


def test_node_and_others_end_when_the_process_that_started_them_is_killed(tmp_path):
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTS, str(Path(__file__).parent), str(tmp_path / "orlop.sock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    processes = []
    try:
        processes = [os.pidfd_open(int(pid)) for pid in starter.stdout.readline().split()]
        assert len(processes) == 3 and not select.select(processes, [], [], 0)[0]
        starter.kill()
        for one in processes:
            assert select.select([one], [], [], 60)[0], "it outlives its parent"
    finally:
        starter.kill()
        starter.wait()
        starter.stdin.close()
        starter.stdout.close()
        for one in processes:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(one, signal.SIGKILL)
            os.close(one)
