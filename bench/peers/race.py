# SPDX-License-Identifier: Apache-2.0
"""Orlop against what people use today: see docs/benchmarks/peers.md. Started by `./dev bench peers`.

Exit status: 0 all bars hold, 1 one is missed, 2 wrong arguments or a peer that could not be run to the
end (no bar is judged then).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import environments
import pins
import report
from cells import CELLS, KIB, ONE_CORE, TWO_CORES, Cell
from echo import Echo

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@dataclass(frozen=True)
class PeerKind:
    name: str  # module peer_NAME
    environment: str  # a lock of environments.py; orlop: what the build made
    judged: bool  # the bars compare Orlop with the best of these
    only: tuple[str, ...] = ()  # cells; empty: all


PEERS = (
    PeerKind("orlop", "orlop", judged=False),
    PeerKind("mooncake", "mooncake", judged=True),
    PeerKind("lmcache", "lmcache", judged=True),
    PeerKind("redis", "redis", judged=True),
    PeerKind("redis_raw", "redis", judged=False),
    PeerKind("memcpy", "orlop", judged=False,
             only=tuple(cell.name for cell in CELLS if cell.bytes)),
    PeerKind("lmcache_plain", "lmcache", judged=False, only=("get 4 KiB", "get 64 KiB")),
)


@dataclass(frozen=True)
class Placement:
    name: str
    client_core: int
    server_core: int


@dataclass(frozen=True)
class Effort:
    rounds: int
    seconds: float  # measured time of a round of one cell and peer
    warm_up: float
    most: int  # calls of a round


FULL = Effort(rounds=5, seconds=0.12, warm_up=0.1, most=2000)
QUICK_SIZE = 64 * KIB  # quick leaves larger values out
QUICK = Effort(rounds=1, seconds=0.01, warm_up=0.005, most=5)


class Driver:
    """One peer's process (driver.py), and the orders to it."""

    def __init__(self, kind: PeerKind, python: Path, env: dict[str, str], verbose: bool):
        """verbose: what the peer's own client writes is shown; our errors come as answers."""
        self.kind = kind
        noise = sys.stderr if verbose else subprocess.DEVNULL
        ours, theirs = os.pipe()
        self._process = subprocess.Popen(
            [python, HERE / "driver.py", kind.name, str(theirs)], stdin=subprocess.PIPE,
            stdout=noise, stderr=noise, pass_fds=[theirs], text=True, env={**os.environ, **env})
        os.close(theirs)
        self._answers = os.fdopen(ours)
        self.about: dict[str, str] = {}

    def send(self, order: dict) -> None:
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.answer()  # why it ended, if it could still say so
            raise RuntimeError(f"{self.kind.name}: its process ended") from None

    def answer(self) -> dict:
        line = self._answers.readline()
        answer = json.loads(line) if line else {"error": "its process ended"}
        if "error" in answer:
            raise RuntimeError(f"{self.kind.name}: {answer['error']}")
        return answer

    def started(self) -> None:
        self.about = self.answer()["about"]

    def round(self, cell: Cell, seconds: float, most: int) -> list[int]:
        self.send({"do": "round", "cell": cell.name, "seconds": seconds, "most": most})
        return self.answer()["ns"]

    def _cores(self, placement: Placement) -> list[tuple[int, int]]:
        """(process, the core it belongs on)"""
        client = self._process.pid
        return [(client, placement.client_core),
                *((pid, placement.server_core) for pid in pins.descendants(client))]

    def place(self, placement: Placement) -> None:
        for pid, core in self._cores(placement):
            pins.pin(pid, core)
        self.check_placed(placement)

    def check_placed(self, placement: Placement) -> None:
        """Raises when a thread, also one born after place(), may run elsewhere. Moves nothing."""
        for pid, core in self._cores(placement):
            pins.check(pid, core)

    def stop(self) -> None:
        try:
            self.send({"do": "stop"})
            self._process.stdin.close()
        except (RuntimeError, OSError, ValueError):
            pass  # it has ended, or says so below
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.terminate()  # its servers end with it: PR_SET_PDEATHSIG
            self._process.wait()


@dataclass
class Samples:
    """Durations in ns by (placement, cell, peer); the echo is a peer of the put cells."""

    ns: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)

    def add(self, placement: Placement, cell: Cell, peer: str, durations: list[int]) -> None:
        self.ns.setdefault((placement.name, cell.name, peer), []).extend(durations)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def placements() -> list[Placement]:
    cores = sorted(os.sched_getaffinity(0))
    found = [Placement(ONE_CORE, cores[0], cores[0])]
    if len(cores) > 1:
        found.append(Placement(TWO_CORES, cores[0], cores[1]))
    return found


def measure(drivers: list[Driver], echo: Echo | None, cells: list[Cell], effort: Effort) -> Samples:
    samples = Samples()
    for placement in placements():
        os.sched_setaffinity(0, {placement.client_core})  # for the echo; otherwise we sleep
        for driver in drivers:
            driver.place(placement)
        if echo:
            pins.pin(echo.pid, placement.server_core)
        for cell in cells:
            begin = time.monotonic()
            taking_part = [d for d in drivers if not d.kind.only or cell.name in d.kind.only]
            for driver in taking_part:
                driver.round(cell, effort.warm_up, effort.most)
            for turn in range(effort.rounds):
                # Each round begins with another peer, so that nobody always follows the same one.
                first = turn % len(taking_part)
                for driver in taking_part[first:] + taking_part[:first]:
                    durations = driver.round(cell, effort.seconds, effort.most)
                    samples.add(placement, cell, driver.kind.name, durations)
                if echo and "put" in cell.kind:
                    samples.add(placement, cell, "echo", echo.round(effort.seconds / 4))
            say(f"{placement.name}, {cell.name}: {time.monotonic() - begin:.1f} s")
        for driver in drivers:
            driver.check_placed(placement)
    return samples


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev bench peers", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, no table")
    parser.add_argument("--only", metavar="PEER,...", help="these peers; nothing is judged")
    parser.add_argument("--cells", metavar="TEXT", help="cells whose name contains TEXT; nothing is judged")
    parser.add_argument("--quick", action="store_true", help="shows that it runs; nothing is judged")
    parser.add_argument("--write", action="store_true",
                        help="puts table and plot into docs/benchmarks/peers.md and peers.svg")
    parser.add_argument("--or-skip", action="store_true",
                        help="ends with status 77 when an environment or server program cannot be had")
    parser.add_argument("--orlop-python", type=Path, default=sys.executable,
                        help="interpreter that the package in BIN/../python was built for")
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=Path, help="folder of orlop and orlopd")
    parser.add_argument("--verbose", action="store_true", help="shows what the peers' clients write")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [kind.name for kind in PEERS]
    options.kinds = [kind for kind in PEERS if kind.name in wanted]
    if unknown := set(wanted) - {kind.name for kind in options.kinds}:
        parser.error(f"no peer {', '.join(sorted(unknown))}; there are: {', '.join(k.name for k in PEERS)}")
    options.chosen = [cell for cell in CELLS if not options.cells or options.cells in cell.name]
    if options.quick:
        options.chosen = [cell for cell in options.chosen if cell.size <= QUICK_SIZE]
    if not options.chosen:
        parser.error(f"no cell contains {options.cells!r}")
    # Servers run in folders of their own.
    options.bin, options.orlop_python = options.bin.absolute(), Path(options.orlop_python).absolute()
    options.whole = not (options.only or options.cells or options.quick)
    if options.write and not options.whole:
        parser.error("--write is for whole runs")
    # Figures stand for a commit; before the race, not after its minutes.
    if options.write and (changed := report.uncommitted()):
        parser.error(f"--write with {len(changed)} files that differ from the commit, first {changed[0]}")
    return options


def main() -> int:
    options = arguments()
    kinds, cells, whole = options.kinds, options.chosen, options.whole
    try:
        pythons = {name: environments.ensure(name, say)
                   for name in {kind.environment for kind in kinds} - {"orlop"}}
        pythons["orlop"] = options.orlop_python
        if "redis" in pythons and not shutil.which("redis-server"):
            raise FileNotFoundError("no redis-server; ./dev setup bench installs it")
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        say(str(error))
        return 77 if options.or_skip else 2
    machine = report.machine()
    env = {"RACE_PROGRAMS": str(options.bin), "PYTHONPATH": str(options.bin.parent / "python")}
    program = options.bin / "orlop"
    echo = Echo(str(program)) if program.exists() else None
    drivers: list[Driver] = []
    try:
        for kind in kinds:
            drivers.append(Driver(kind, pythons[kind.environment], env, options.verbose))
            drivers[-1].send({"do": "start"})
        for driver in drivers:
            driver.started()
        say(f"running: {', '.join(driver.kind.name for driver in drivers)}")
        samples = measure(drivers, echo, cells, QUICK if options.quick else FULL)
    except (RuntimeError, OSError) as error:  # OSError: also the echo's pipe
        say(str(error))
        return 2
    finally:
        for driver in drivers:
            driver.stop()
        if echo:
            echo.stop()
    judged = [kind.name for kind in PEERS if kind.judged]
    result = report.Result(samples.ns, {d.kind.name: d.about for d in drivers}, judged if whole else [], machine)
    print(json.dumps(result.as_json(), indent=1) if options.json else result.as_text())
    if options.write:
        result.write(ROOT / "docs/benchmarks", environments.ensure("plot", say))
    return 0 if result.ok or not whole else 1


if __name__ == "__main__":
    sys.exit(main())
