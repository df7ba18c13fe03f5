# SPDX-License-Identifier: Apache-2.0
"""What is measured: the cells of the race, and the bars over them.

A cell is one kind of call with one value size. Both ends of the pipe between race.py and driver.py
know cells by their name only.
"""

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20

KEY_BYTES = 16  # of every key, for all peers; letters and digits, because Mooncake takes only text
EXISTS_KEYS = 1000
# A round of one cell moves at most this much, so that the stores below never evict.
ROUND_BYTES = 128 * MIB
# What every store may hold. Enough for the working set and a round's puts.
STORE_BYTES = 1024 * MIB
MOST_OPERATIONS = 2000  # of one round
WORKING_SET = 64        # values that gets choose from; fewer when they exceed ROUND_BYTES

ONE_CORE, TWO_CORES = "one core", "two cores"  # placements


@dataclass(frozen=True)
class Cell:
    """kind: get, put, batch_get, batch_put or exists. values: of one call."""

    kind: str
    size: int
    values: int = 1

    @property
    def name(self) -> str:
        if self.kind == "exists":
            return f"exists {self.values}"
        batch = f"{self.values} x " if self.values > 1 else ""
        return f"{self.kind.replace('batch_', '')} {batch}{size_text(self.size)}"

    @property
    def bytes(self) -> int:
        return 0 if self.kind == "exists" else self.size * self.values

    @property
    def working_set(self) -> int:
        return max(self.values, min(WORKING_SET, ROUND_BYTES // self.size))

    @property
    def most_operations(self) -> int:
        if not self.bytes:
            return MOST_OPERATIONS
        return max(1, min(MOST_OPERATIONS, ROUND_BYTES // self.bytes))


def size_text(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


SINGLE_SIZES = (4 * KIB, 64 * KIB, 1 * MIB, 4 * MIB, 16 * MIB)
BATCH_SIZES = (4 * KIB, 64 * KIB)

CELLS = (
    *(Cell("get", size) for size in SINGLE_SIZES),
    *(Cell("put", size) for size in SINGLE_SIZES),
    *(Cell("batch_get", size, 64) for size in BATCH_SIZES),
    *(Cell("batch_put", size, 64) for size in BATCH_SIZES),
    Cell("exists", 4 * KIB, EXISTS_KEYS),
)


@dataclass(frozen=True)
class Bar:
    """Holds when the best peer's p50 / Orlop's p50 is at least `factor`.

    For one size and kind, a ratio of p50 is also the ratio of bandwidths at p50.
    placements: where it is judged. Puts everywhere, as their bar says; the others where client and
    server have a core each, as they have outside a bench. Ratios are shown for all.
    """

    cell: Cell
    factor: float
    placements: tuple[str, ...] = (TWO_CORES,)


BARS = (
    Bar(Cell("get", 4 * KIB), 10),
    Bar(Cell("get", 64 * KIB), 10),
    Bar(Cell("put", 4 * KIB), 2, (ONE_CORE, TWO_CORES)),
    Bar(Cell("put", 64 * KIB), 2, (ONE_CORE, TWO_CORES)),
    *(Bar(Cell(kind, 1 * MIB), 1.5) for kind in ("get", "put")),
    *(Bar(Cell(kind, size), 1.1) for kind in ("get", "put") for size in (4 * MIB, 16 * MIB)),
    Bar(Cell("batch_get", 4 * KIB, 64), 5),
    Bar(Cell("batch_get", 64 * KIB, 64), 2.5),
    Bar(Cell("exists", 4 * KIB, EXISTS_KEYS), 4),
)


def cell_by_name(name: str) -> Cell:
    for cell in CELLS:
        if cell.name == name:
            return cell
    raise KeyError(f"no cell {name!r}; there are: {', '.join(cell.name for cell in CELLS)}")
