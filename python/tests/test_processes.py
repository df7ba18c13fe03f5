# SPDX-License-Identifier: Apache-2.0
"""Forks, spawned workers, the end of the interpreter, the end of the node's owner."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time

import orlop
import pytest
from orlop import Outcome


def store_and_read(socket: str, descriptor: dict, number: int) -> bool:
    with orlop.Client(socket=socket, call_budget=30.0) as client:
        ns = client.open_namespace(descriptor)
        key = b"worker-%d" % number
        outcome = client.put(ns, key, bytes([number]) * 4096)
        return outcome == [Outcome.STORED] and client.get_bytes(ns, key) == [bytes([number]) * 4096]


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_workers_of_multiprocessing_have_clients_of_their_own(node, client, ns, method):
    import dataclasses

    descriptor = dataclasses.asdict(ns.descriptor)
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        arguments = [(node.socket, descriptor, n) for n in range(4)]
        assert pool.starmap(store_and_read, arguments) == [True] * 4
    assert client.exists(ns, [b"worker-%d" % n for n in range(4)]).prefix_len == 4


FORK = """
client.put(ns, b"k", bytes(4096))
read, put = client.read(ns, b"k"), client.put_start(ns, [b"new"])
handle, view = client.get_start(ns, b"k"), read.view(0)
other = client.put_start(ns, b"other"); other.copy_in(0, bytes(4096)); future = other.commit()
future.result()
pid = os.fork()
if pid == 0:
    calls = [client.ping, client.stats, lambda: client.get(ns, b"k", bytearray(4096)),
             lambda: client.put(ns, b"k", bytes(4096)), lambda: client.exists(ns, b"k"),
             lambda: len(read), lambda: read.view(0), read.release, lambda: put.memory(0),
             put.commit, put.abort, future.ready, future.result, lambda: handle.result,
             lambda: client.get_transfer(handle), lambda: client.ready,
             lambda: client.wait_ready(1), lambda: client.open_namespace("{}")]
    for i, call in enumerate(calls):
        try:
            call()
        except orlop.ForkedChild as error:
            assert "made by the parent of this process; open a new Client" in str(error)
        else:
            os._exit(10 + i)
    try:
        view[0]
        os._exit(50)
    except ValueError:
        pass
    client.close()
    mine = orlop.Client(socket=SOCKET, call_budget=10.0)
    same = mine.open_namespace(DESCRIPTOR)
    if mine.get_bytes(same, b"k") != [bytes(4096)]:
        os._exit(51)
    mine.close()
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, os.waitstatus_to_exitcode(status)
assert view[0] == 0 and len(read) == 1
put.copy_in(0, bytes(4096))
assert put.commit().result(10) == [orlop.Outcome.STORED]
print("parent fine")
"""


def test_a_forked_child_is_told_so_and_the_parent_goes_on(node, run_script):
    done = run_script(f"SOCKET = {node.socket!r}\nDESCRIPTOR = ns.descriptor\n" + FORK)
    assert (done.returncode, done.stdout) == (0, "parent fine\n"), done.stderr
    assert done.stderr == ""


ENDINGS = {
    "open plans": """
client.put(ns, b"k", bytes(4096))
read = client.read(ns, b"k"); view = read.view(0); array = read.array(0)
put = client.put_start(ns, b"new"); writable = put.memory(0)
handle = client.get_start(ns, b"k")
""",
    "open plans kept by a module": """
import builtins
client.put(ns, b"k", bytes(4096))
builtins.kept = [client.read(ns, b"k"), client.put_start(ns, b"n"), client]
builtins.kept.append(builtins.kept[0].array(0))
""",
    "a future that nobody waits for": """
plan = client.put_start(ns, b"k"); plan.copy_in(0, bytes(4096)); future = plan.commit()
""",
    "daemon threads at work": """
client.put(ns, b"k", bytes(4096))
def work():
    target = bytearray(4096)
    while True:
        client.get(ns, b"k", target)
        client.put(ns, b"x", bytes(4096))
        client.exists(ns, [b"k"] * 1 + [b"%d" % i for i in range(200)])
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
    "a daemon thread in a wait": """
lonely = orlop.Client(socket="/nonexistent/socket")
threading.Thread(target=lonely.wait_ready, daemon=True).start()
""",
    "a callback": """
kept = orlop.Client(socket=client.stats and SOCKET, on_ready=lambda ready: time.sleep(0.01))
""",
    "a second atexit handler": """
import atexit
client.put(ns, b"k", bytes(4096))
def handler():
    assert client.exists(ns, b"k").prefix_len == 1  # before orlop's own: all of it still works
    print("handled")
atexit.register(handler)
""",
    "an exception": """
plan = client.put_start(ns, b"k"); kept = plan.array(0)
raise SystemExit(0)
""",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_the_interpreter_ends_without_a_crash(node, run_script, ending):
    done = run_script(f"SOCKET = {node.socket!r}\n" + ending)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("handled\n" if "handled" in ending else "")


EARLY = """
import atexit, sys, threading
def handler():
    for call in calls:
        try:
            print(call())
        except orlop.Error as error:
            print(type(error).__name__)
    print(array[0], "handled")
atexit.register(handler)  # so it runs after orlop's own
import orlop
client = orlop.Client(socket=sys.argv[1], call_budget=10.0)
assert client.wait_ready(30)
ns = client.open_namespace(engine="e", layout="l", model=sys.argv[2], revision="1", dtype="u8",
                           page_tokens=1, value_len=1 << 20)
client.put(ns, b"k", b"\\x07" * (1 << 20))
plan, put = client.read(ns, b"k"), client.put_start(ns, b"new")
array, writable = plan.array(0), put.array(0)
calls = [lambda: plan.view(0), lambda: plan.copy_out(0, bytearray(1 << 20)), lambda: len(plan),
         lambda: put.memory(0), put.commit, lambda: client.get(ns, b"k", bytearray(1 << 20)),
         client.ping, client.close]
"""
BUSY = """
copied = threading.Event()
def work():
    target = bytearray(1 << 20)
    try:
        while True:
            plan.copy_out(0, target)
            copied.set()
    except orlop.Error:
        pass  # the client was closed between two copies
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
copied.wait()
"""


@pytest.mark.parametrize("threads", ["", BUSY], ids=["alone", "beside daemon threads"])
def test_an_atexit_handler_older_than_orlop_finds_a_closed_client(node, threads):
    """A daemon thread that copied when the interpreter ended keeps its turn on the plan for ever;
    nobody waits for it."""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", EARLY + threads, node.socket,
                           f"early-{len(threads)}"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Closed\n" * 7 + "None\n7 handled\n"


def test_a_subinterpreter_is_refused():
    code = ("import _xxsubinterpreters as s\n"
            "import orlop\n"
            "i = s.create()\n"
            "try:\n s.run_string(i, 'import orlop')\n"
            "except Exception as e: print(e)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0 and "sub-interpreter" in done.stdout, done


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def await_death(pid: int) -> None:
    deadline = time.monotonic() + 60
    while alive(pid):
        assert time.monotonic() < deadline, "the node outlives its owner"
        time.sleep(0.01)


@pytest.mark.parametrize("thread", ["main", "other"])
def test_a_private_node_dies_with_a_killed_owner(thread):
    code = ("import orlop, threading, time, sys\n"
            "nodes = []\n"
            "def start(): nodes.append(orlop.serve('16MiB'))\n"
            + ("start()\n" if thread == "main" else
               "t = threading.Thread(target=start); t.start(); t.join()\n")
            + "nodes[0].status()\n"  # lives on after the thread that asked for it
            "print(nodes[0].pid, nodes[0].socket, flush=True)\n"
            "time.sleep(600)\n")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid_text, socket = owner.stdout.readline().split()
        pid = int(pid_text)
        assert alive(pid)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        await_death(pid)
        shutil.rmtree(os.path.dirname(socket))  # a killed owner cannot


def test_a_private_node_ends_with_the_block_and_leaves_nothing():
    with orlop.serve("16MiB", max_value_len="1MiB", touch=False) as node:
        assert node.status()["state"] == "ready"
        pid, folder = node.pid, os.path.dirname(node.socket)
        with node.client() as client:
            assert client.wait_ready(30)
    assert not alive(pid) and not os.path.exists(folder) and node.pid == 0
    node.close()
    with pytest.raises(orlop.NoNode):
        node.status()


def test_a_private_node_is_told_everything_by_its_arguments(monkeypatch):
    monkeypatch.setenv("ORLOP_MEMORY_CAPACITY", "no size")
    monkeypatch.setenv("ORLOP_MEMORY_MAX_VALUE_LEN", "1MiB")
    with orlop.serve("16MiB", touch=False) as node:
        assert node.status()["configuration"]["memory.max_value_len"] != "1.00 MiB"


def test_a_node_that_cannot_start_says_why():
    with pytest.raises(orlop.InvalidArgument, match="capacity"):
        orlop.serve("no size")
    with pytest.raises(ValueError, match="nonsense"):
        orlop.serve(nonsense=1)
    with pytest.raises(orlop.Refused, match="TiB"):
        orlop.serve("8TiB")


def test_a_forked_child_leaves_the_node_to_its_parent(node):
    pid = os.fork()
    if pid == 0:
        node.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert node.status()["state"] == "ready"
