# SPDX-License-Identifier: Apache-2.0
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


class PackedKeys:
    """
    Keys of one length behind each other in one buffer: the cheapest form of many keys.

    The buffer is held, not copied: while this object lives a bytearray cannot be resized, and
    changing its bytes changes the keys. Shape: len(self) x key_len bytes.
    """

    def __init__(self, buffer: Buffer, key_len: int) -> None:
        """
        key_len: bytes of one key, 1 to 4096. Raises ValueError when the buffer is not a
        multiple of it, TypeError when it is no buffer.
        """

    def __len__(self) -> int: ...

    def __getitem__(self, i: int) -> bytes:
        """Key i as bytes (a copy)."""

    @property
    def key_len(self) -> int:
        """Bytes of one key."""

class Namespace:
    """An open namespace: Client.open_namespace. Belongs to its Client."""

    @property
    def value_len(self) -> int:
        """Bytes of one value."""

    @property
    def resolved(self) -> bool:
        """True once the node knows it."""

    @property
    def descriptor(self) -> NamespaceDescriptor:
        """The NamespaceDescriptor it was opened with, all fields filled in."""

class GetResult:
    """What get_start found and pinned. Lengths in keys."""

    @property
    def raw_prefix_hit_len(self) -> int:
        """Keys pinned as a prefix before rounding down to whole groups."""

    @property
    def transferable_len(self) -> int:
        """Rounded down to whole groups."""

    @property
    def prefix_hit_groups(self) -> int:
        """Whole groups of the prefix."""

    @property
    def first_miss_index(self) -> int:
        """Index of the first missing key; the number of keys if all hit."""

    @property
    def first_miss_group_index(self) -> int:
        """Index of the first group that is not whole."""

    @property
    def all_hit(self) -> bool:
        """True: nothing is missing."""

    @property
    def reason(self) -> MissReason:
        """Why the first missing key is missing."""

class ExistsResult:
    """Which of the keys asked for are readable."""

    @property
    def prefix_len(self) -> int:
        """Readable keys before the first missing one."""

    def __len__(self) -> int:
        """Number of keys asked for."""

    def __getitem__(self, i: int) -> bool:
        """True when key i is readable."""

    @property
    def mask(self) -> bytes:
        """One byte per key, 1 or 0: for numpy.frombuffer(mask, dtype=bool)."""

    @property
    def present(self) -> list[bool]:
        """One bool per key; made at every access."""

class Stats:
    """Counters of one Client since it was opened, and gauges of now."""

    @property
    def gets(self) -> int:
        """Reads begun."""

    @property
    def keys_asked(self) -> int:
        """Keys of those reads."""

    @property
    def keys_hit(self) -> int:
        """Keys pinned by them."""

    @property
    def bytes_read(self) -> int:
        """Bytes of values transferred."""

    @property
    def puts(self) -> int:
        """Puts begun."""

    @property
    def keys_put(self) -> int:
        """Keys of those puts."""

    @property
    def keys_stored(self) -> int:
        """Keys stored by them."""

    @property
    def bytes_written(self) -> int:
        """Bytes of values stored."""

    @property
    def mismatches(self) -> int:
        """Values that did not match their checksum."""

    @property
    def attaches(self) -> int:
        """Times attached to a node's memory."""

    @property
    def resumes(self) -> int:
        """Times a restarted server was found again."""

    @property
    def aborted_late(self) -> int:
        """Puts whose answer came after nobody waited any more."""

    @property
    def open_read_plans(self) -> int:
        """Gauge."""

    @property
    def open_put_plans(self) -> int:
        """Gauge."""

    @property
    def open_handles(self) -> int:
        """Gauge."""

    @property
    def pinned_bytes(self) -> int:
        """Gauge: bytes pinned by plans."""

    @property
    def pin_cap_bytes(self) -> int:
        """Gauge: bytes that may be pinned."""

    @property
    def misses(self) -> dict[MissReason, int]:
        """
        Reads by the reason of their first miss; NONE: all hit. Reasons that never came are left out.
        """

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """Keys of puts by outcome. Outcomes that never came are left out."""

class Page:
    """
    Memory of one page of a plan: what a view of it exports. Not made by callers.
    """

class Future:
    """
    The answer to a commit: one Outcome per key of the put, exactly once.

    `await future` and future.result() give the same list. May be asked from any thread and any
    event loop, any number of times; may be dropped, the commit goes on. Resolves to NO_NODE
    when the node's memory or the client is gone.
    """

    def ready(self) -> bool:
        """True when result() would not wait. Never blocks."""

    def __await__(self) -> Generator[Any, None, list[Outcome]]:
        """The outcomes, without blocking the event loop."""

    def result(self, timeout: float | None = None) -> list[Outcome]:
        """
        Waits for the outcomes. timeout: seconds, None: for ever; then raises TimeoutError and
        may be asked again. The GIL is released meanwhile, Ctrl-C raises KeyboardInterrupt.
        """

class PutPlan:
    """
    Memory of one put: write it, then commit. A context manager: leaving the block without a
    commit aborts.

    Key i has memory when outcomes[i] is PREPARED. memory(i) and array(i) are the node's shared
    memory itself. commit() and abort() release the memoryviews that were handed out: using them
    afterwards raises ValueError. An array cannot be told: while one lives, commit() raises
    BufferError and the plan stays open. After its end every call raises WrongState.
    """

    def __len__(self) -> int:
        """Keys of the put."""

    @property
    def prepared(self) -> int:
        """Number of keys that got memory."""

    @property
    def outcomes(self) -> list[Outcome]:
        """One Outcome per key: PREPARED, or why there is no memory."""

    @property
    def explanation(self) -> str:
        """
        Of NO_SPACE, OVER_QUOTA and NO_NODE: the state of things in words; else empty.
        """

    def memory(self, i: int) -> memoryview:
        """
        The value_len bytes of key i, writable, zero-copy. Its checksum is then computed at
        commit. Raises ValueError when key i got no memory. torch.frombuffer(view) would not hold
        the memory and would write into other values after the commit: torch.from_numpy(array(i)).
        """

    def array(self, i: int, dtype: Any = None, shape: Any = None) -> Any:
        """
        memory(i) as a writable numpy.ndarray. dtype: default uint8; shape: default 1-D; together
        they must make value_len bytes. Delete it before commit().
        """

    def copy_in(self, i: int, source: Buffer) -> None:
        """
        Copies value_len bytes and computes their checksum in one pass, without the GIL. Raises
        ValueError when key i got no memory or source is not value_len bytes long.
        """

    def copy_in_all(self, sources: Buffers) -> int:
        """
        copy_in for every prepared key. sources: one buffer per key, or one buffer of
        len(self) x value_len bytes. Returns the number of keys copied.
        """

    def set_checksum(self, i: int, checksum: int) -> None:
        """The 64-bit checksum of memory(i), computed elsewhere (a GPU kernel)."""

    def blob(self) -> memoryview:
        """
        The plan blob, 64-bit words {magic, count, addresses[count]} of the prepared keys in key
        order; valid until the plan ends.
        """

    def commit(self) -> Future:
        """
        Makes the values readable; posts and returns. Raises BufferError while arrays over the
        plan's memory live (the plan stays open).
        """

    def abort(self) -> None:
        """
        Gives the memory back. May be called again. Raises BufferError while arrays over the
        plan's memory live: the plan is over, its memory goes with the last of them.
        """

    def __enter__(self) -> PutPlan: ...

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        """Aborts what was not committed."""

class GetHandle:
    """
    A pinned prefix, not yet transferred: Client.get_transfer consumes it, Client.cancel_get,
    dropping it and handle_ttl cancel it.
    """

    @property
    def result(self) -> GetResult:
        """What was pinned; also after the handle's end."""

class ReadPlan:
    """
    The readable values of a prefix of the keys asked for. A context manager: leaving the block
    releases it.

    view(i) and array(i) are the node's shared memory itself, pinned while the plan is open.
    release() releases the memoryviews that were handed out: using them afterwards raises
    ValueError. An array cannot be told: while one lives, release() raises BufferError and the
    memory stays pinned until the last one is gone. After its end every call raises WrongState.
    A page whose bytes do not match their checksum is a miss, and so are all after it.
    """

    def __len__(self) -> int:
        """Pages: the length of the prefix."""

    @property
    def ranks(self) -> int:
        """1, or the size of the cohort."""

    @property
    def valid_len(self) -> int:
        """Pages before the first mismatch found."""

    @property
    def result(self) -> GetResult:
        """How the prefix came about: its length, the first miss and why."""

    def view(self, i: int, rank: int = 0) -> memoryview | None:
        """
        The value_len bytes of page i, read-only, zero-copy; checked at the first look, without
        the GIL. None: they do not match their checksum. torch.frombuffer(view) would not keep the
        memory pinned and would read other values after the release: torch.from_numpy(array(i)).
        """

    def array(self, i: int, dtype: Any = None, shape: Any = None, rank: int = 0) -> Any:
        """
        view(i) as a read-only numpy.ndarray. dtype: default uint8; shape: default 1-D; together
        they must make value_len bytes. None: a mismatch. Delete it before release().
        """

    def copy_out(self, i: int, destination: Buffer, rank: int = 0) -> bool:
        """
        Copies value_len bytes and checks them in one pass, without the GIL. False: a mismatch,
        the destination's bytes must not be used.
        """

    def copy_out_all(self, destinations: Buffers, rank: int = 0) -> int:
        """
        copy_out for every page, up to the first mismatch. destinations: at least one buffer per
        page, or one buffer of len(self) x value_len bytes. Returns the number of pages copied.
        """

    def expected_checksum(self, i: int, rank: int = 0) -> int:
        """The 64-bit checksum that page i must have."""

    def blob(self) -> memoryview:
        """
        The plan blob, 64-bit words {magic, count, addresses[count]}, page-major (page 0 of all
        ranks first); valid until the plan ends.
        """

    def release(self) -> None:
        """
        Unpins the pages. May be called again. Raises BufferError while arrays over the plan's
        memory live: the plan is over, its pages stay pinned until the last of them is gone.
        """

    def __enter__(self) -> ReadPlan: ...

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        """Releases."""

class Client:
    """The part of orlop.Client that is written in C++; use orlop.Client."""

    def __init__(self, socket: str | None = None, name: str | None = None, call_budget: float = 0.2, handle_ttl: float = 30.0, ledger_cells: int = 1000000, on_ready: Callable[[bool], object] | None = None) -> None: ...

    @property
    def ready(self) -> bool:
        """True while attached to a node that answers."""

    def wait_ready(self, timeout: float | None = None) -> bool:
        """
        Waits until attached. timeout: seconds, None: for ever. False: not in time. The GIL is
        released, Ctrl-C raises KeyboardInterrupt.
        """

    @property
    def last_attach_error(self) -> str:
        """Why not ready: the words of the last attempt to attach."""

    @property
    def segment_id(self) -> int:
        """Identity of the node's memory contents; 0 while not attached."""

    @property
    def incarnation(self) -> int:
        """
        Identity of the node's present life, changed by every start; 0 before the first attach and
        after the memory is gone.
        """

    def _open_namespace(self, arg: str, /) -> Namespace: ...

    def stats(self) -> Stats:
        """Counters of this client since it was opened."""

    def ping(self) -> None:
        """
        One round trip to the node. Raises NoNode when it does not answer within call_budget.
        """

    def close(self) -> None:
        """
        Ends every plan and handle, waits at most call_budget for commits in flight, detaches.
        Copies of other threads end before. May be called again, also by a signal handler: the call
        that it interrupted then raises Closed. Memory under living arrays stays until they are gone.
        """

    def get(self, ns: Namespace, keys: Keys, buffers: Buffers, group_lens: Iterable[int] | None = None) -> int:
        """
        Copies the longest readable prefix of keys into the caller's writable buffers.

        keys: 1 to 65,535. buffers: one of value_len bytes per key, or one of
        len(keys) x value_len bytes. Returns the number of keys copied (0: a miss); buffers after
        it are as before or undefined. The GIL is released for 4 KiB and more.
        """

    def get_bytes(self, ns: Namespace, keys: Keys) -> list[bytes]:
        """
        The values of the longest readable prefix of keys, copied. Shorter than keys: a miss.
        """

    def get_start(self, ns: Namespace, keys: Keys, group_lens: Iterable[int] | None = None) -> GetHandle:
        """
        Pins the longest readable prefix of keys. group_lens: lengths of the reader's groups, sum
        = len(keys); the prefix is rounded down to whole groups. No round trip to the node.
        """

    def get_start_cohort(self, namespaces: Iterable[Namespace], keys: Keys, group_lens: Iterable[int] | None = None) -> GetHandle:
        """
        One decision for several ranks of one family: the prefix that every rank has.
        """

    def get_transfer(self, handle: GetHandle, consume_prefix_len: int | None = None) -> ReadPlan:
        """
        Turns a handle into a plan. consume_prefix_len: at most transferable_len, on a group
        boundary; ValueError otherwise, and the handle stays usable.
        """

    def cancel_get(self, handle: GetHandle) -> None:
        """Unpins what a handle pinned."""

    def read(self, ns: Namespace, keys: Keys, group_lens: Iterable[int] | None = None) -> ReadPlan:
        """
        get_start and get_transfer at once: a plan of the longest readable prefix, maybe empty.
        """

    def exists(self, ns: Namespace, keys: Keys) -> ExistsResult:
        """Which keys are readable now. Pins nothing, asks nobody."""

    def put_start(self, ns: Namespace, keys: Keys, group_lens: Iterable[int] | None = None, parent: Buffer | None = None, deadline: float | None = None) -> PutPlan:
        """
        Asks the node for memory for keys; one round trip.

        keys: 1 to 65,535, each once, in prefix order. group_lens: lengths of groups that are
        stored and evicted as a whole, sum = len(keys). parent: the key before keys[0]. deadline:
        seconds, default call_budget. Without a node in time all outcomes are NO_NODE.
        """

    def put(self, ns: Namespace, keys: Keys, buffers: Buffers, group_lens: Iterable[int] | None = None, parent: Buffer | None = None) -> list[Outcome]:
        """
        Stores one value per key and waits for the outcomes, at most call_budget.

        buffers: one of value_len bytes per key, or one of len(keys) x value_len bytes.
        """

    def remove(self, ns: Namespace, keys: Keys) -> int:
        """
        Removes the writers' whole groups of these keys. Returns the number of values removed.
        Raises NoNode when the node does not answer in time; it may still do it.
        """

    def flush(self, ns: Namespace, family: bool = False) -> int:
        """
        Forgets every value of the namespace, or of all ranks of its family. Returns the number
        of namespaces. A plan begun after it never sees bytes from before. Raises NoNode.
        """

class PageCacheStats:
    """Counters of one PageCache since it was opened, and gauges of now."""

    @property
    def backups(self) -> int:
        """Backups begun."""

    @property
    def restores(self) -> int:
        """Restores begun."""

    @property
    def pages_backed_up(self) -> int:
        """Values written."""

    @property
    def bytes_backed_up(self) -> int:
        """Their bytes."""

    @property
    def pages_restored(self) -> int:
        """Values read."""

    @property
    def bytes_restored(self) -> int:
        """Their bytes."""

    @property
    def mismatches(self) -> int:
        """Values whose checksum was wrong."""

    @property
    def cancelled(self) -> int:
        """Jobs that were cancelled."""

    @property
    def failed(self) -> int:
        """Jobs that ended with an error of CUDA."""

    @property
    def running(self) -> int:
        """Gauge: jobs that are not over."""

    @property
    def registered_bytes(self) -> int:
        """Gauge: value memory in use by the engines."""

def _layout_value_len(pools: Sequence[tuple[str, int]], parts: Sequence[tuple[str, int, int, int, int, int, int, int, int, int, int]]) -> int: ...

def _open_page_cache(client: Client, pools: Sequence[tuple[str, int]], parts: Sequence[tuple[str, int, int, int, int, int, int, int, int, int, int]], token_first: bool, value_len: int, engine: str, device: int, staging_bytes: int, backup_burst_bytes: int, progress: object | None, memory: object) -> _PageCache: ...

class _PageCache:
    """Behind orlop.gpu.PageCache."""

    def backup(self, items: Sequence[tuple[object, object, int]], stream: int) -> Backup: ...

    def restore(self, items: Sequence[tuple[object, object, int]], stream: int, ranges: Sequence[tuple[int, int]]) -> Restore: ...

    def describe(self) -> str: ...

    def engine_for(self, values: int, restore: bool) -> str: ...

    @property
    def stats(self) -> PageCacheStats: ...

class Backup:
    """
    A backup under way: PageCache.backup. `await backup` and backup.result() give one list of
    Outcome per plan. May be dropped, the backup goes on and commits by itself.
    """

    def ready(self) -> bool:
        """True when result() would not wait. Never blocks."""

    def __await__(self) -> Generator[Any, None, list[list[Outcome]]]:
        """The outcomes, without blocking the event loop."""

    def result(self, timeout: float | None = None) -> list[list[Outcome]]:
        """
        Waits for the outcomes, one list per plan. timeout: seconds, None: for ever; then raises
        TimeoutError and may be asked again. Closed after a cancel. The GIL is released.
        """

    def stream_wait(self, stream: int) -> None:
        """
        What is submitted to the CUDA stream afterwards waits until the pages have been read.
        On the CPU: waits.
        """

    def cancel(self) -> None:
        """
        Copies nothing more; the plans are aborted when what was begun is over.
        """

class Restore:
    """
    A restore under way: PageCache.restore. `await restore` and restore.result() give, per plan,
    the number of pages before the first whose checksum was wrong; what lies after it must not be
    used. May be dropped, the restore goes on.
    """

    def ready(self) -> bool:
        """True when result() would not wait. Never blocks."""

    def __await__(self) -> Generator[Any, None, list[int]]:
        """The valid lengths, without blocking the event loop."""

    def result(self, timeout: float | None = None) -> list[int]:
        """
        Waits until all is copied and checked; valid pages per plan. timeout as of Backup.
        """

    @property
    def ranges(self) -> int:
        """Number of layer ranges, at least 1."""

    def range_ready(self, range: int) -> bool:
        """True when the range has arrived (checked only at the end)."""

    def stream_wait(self, range: int, stream: int) -> None:
        """
        What is submitted to the CUDA stream afterwards waits for the range. On the CPU: waits.
        """

    def cancel(self) -> None:
        """Copies nothing more."""

class _Child:
    """A child process; ends with the thread that started it."""

    @staticmethod
    def start(arguments: Sequence[str], log_path: str) -> _Child:
        """
        arguments: argv, the program's path first. Its output goes to the end of log_path.
        """

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def has_exited(self) -> bool:
        """True once it is dead."""

    def reap(self, timeout: float) -> bool:
        """Waits at most timeout seconds for its end. True: it has ended."""

    @property
    def returncode(self) -> int | None:
        """Its exit status, -N for signal N; None before reap() has seen its end."""

    def send_signal(self, number: int) -> None:
        """Sends a signal to exactly this process, if it still lives."""

def _in_main_interpreter() -> bool: ...

def _after_fork_in_child() -> None: ...

def _close_all() -> None: ...
