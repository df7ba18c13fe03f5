# SPDX-License-Identifier: Apache-2.0
"""orlop.gpu with numpy on the engine for CPU memory, against a real node."""

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import orlop
import pytest
from orlop.gpu import KvLayout, KvPart, PageCache, part_from
from orlop.tensors import strided_memory

LAYERS, PAGES, TOKENS, HEADS, DIM = 3, 12, 16, 4, 32
VALUE_LEN = LAYERS * 2 * TOKENS * HEADS * DIM * 2
DIMS = ("page", "token", "head", "channel")


def random_cache(seed: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    shape = (PAGES, TOKENS, HEADS, DIM)
    return [(rng.integers(0, 65_536, shape, dtype=np.uint16),
             rng.integers(0, 65_536, shape, dtype=np.uint16)) for _ in range(LAYERS)]


def head_first_cache() -> list[Any]:
    """[page, 2, head, token, channel]: what another engine may have."""
    return [np.zeros((PAGES, 2, HEADS, TOKENS, DIM), np.uint16) for _ in range(LAYERS)]


def layout_of(cache: list[tuple[Any, Any]]) -> KvLayout:
    return KvLayout.of_tensors(cache, DIMS)


def head_first_layout(cache: list[Any]) -> KvLayout:
    return KvLayout.of_tensors([(one[:, 0], one[:, 1]) for one in cache],
                               ("page", "head", "token", "channel"))


@pytest.fixture
def paged(client: orlop.Client, open_namespace: Callable[..., orlop.Namespace]) -> orlop.Namespace:
    return open_namespace(client, value_len=VALUE_LEN)


KEYS = [b"a", b"b", b"c", b"d"]


def store(client: orlop.Client, ns: orlop.Namespace, cache: PageCache, pages: Any) -> None:
    plan = client.put_start(ns, KEYS)
    assert cache.backup([(plan, pages)]).result(20) == [[orlop.Outcome.STORED] * len(KEYS)]


def test_pages_come_back_in_another_layout(client: orlop.Client, paged: orlop.Namespace) -> None:
    theirs, ours = random_cache(1), head_first_cache()
    layout = layout_of(theirs)
    assert layout.value_len == VALUE_LEN
    writer = PageCache(client, layout, VALUE_LEN)
    store(client, paged, writer, [3, 1, 7, 5])
    reader = PageCache(client, head_first_layout(ours), VALUE_LEN)
    with client.read(paged, KEYS) as plan:
        restore = reader.restore([(plan, np.array([0, 2, 4, 6], np.int64))])
        assert restore.result(20) == [4]
        assert restore.ready()
    for layer in range(LAYERS):
        for kv in range(2):
            got = ours[layer][[0, 2, 4, 6], kv].transpose(0, 2, 1, 3)
            np.testing.assert_array_equal(got, theirs[layer][kv][[3, 1, 7, 5]])
        assert not ours[layer][1].any()  # nobody's page
    assert reader.stats.pages_restored == 4
    assert writer.stats.bytes_backed_up == 4 * VALUE_LEN
    assert writer.engine_for(1, restore=False) == "host"
    assert "host" in writer.describe()


def test_values_are_head_token_channel(client: orlop.Client, paged: orlop.Namespace) -> None:
    cache = random_cache(2)
    store(client, paged, PageCache(client, layout_of(cache), VALUE_LEN), range(4))
    [value] = client.get_bytes(paged, [b"b"])
    wanted = b"".join(tensor[1].transpose(1, 0, 2).tobytes() for layer in cache for tensor in layer)
    assert value == wanted


def test_jobs_are_awaitable_and_report_ranges(client: orlop.Client, paged: orlop.Namespace) -> None:
    cache = random_cache(3)
    before = [(k.copy(), v.copy()) for k, v in cache]
    pages = PageCache(client, layout_of(cache), VALUE_LEN)

    async def run() -> None:
        plan = client.put_start(paged, KEYS)
        [outcomes] = await pages.backup([(plan, range(4))])
        assert outcomes == [orlop.Outcome.STORED] * 4
        for k, v in cache:
            k[:] = 0
            v[:] = 0
        with client.read(paged, KEYS) as views:
            restore = pages.restore([(views, range(4))], ranges=[(0, 1), (1, 3)])
            assert restore.ranges == 2
            restore.stream_wait(0, 0)
            assert restore.range_ready(0)
            assert await restore == [4]

    asyncio.run(run())
    for (k, v), (k0, v0) in zip(cache, before, strict=True):
        np.testing.assert_array_equal(k[:4], k0[:4])
        np.testing.assert_array_equal(v[:4], v0[:4])


def test_a_flipped_byte_is_a_miss_of_its_page_and_all_after_it(client: orlop.Client,
                                                               paged: orlop.Namespace) -> None:
    pages = PageCache(client, layout_of(random_cache(4)), VALUE_LEN)
    plan = client.put_start(paged, KEYS)
    address = int(plan.blob()[2 + 2])
    pages.backup([(plan, range(4))]).result(20)
    import ctypes
    ctypes.c_ubyte.from_address(address + 100).value ^= 4
    with client.read(paged, KEYS) as views:
        assert pages.restore([(views, range(4))]).result(20) == [2]
        assert views.valid_len == 2
    assert pages.stats.mismatches == 1


def test_plans_end_with_the_backup_or_stay_as_they_were(client: orlop.Client,
                                                        paged: orlop.Namespace) -> None:
    pages = PageCache(client, layout_of(random_cache(5)), VALUE_LEN)
    plan = client.put_start(paged, KEYS)
    with pytest.raises(ValueError, match=r"items\[0\]"):
        pages.backup([(plan, [1, 2, 3])])
    with pytest.raises(ValueError, match="format 'i'"):
        pages.backup([(plan, np.arange(4, dtype=np.int32))])
    array = plan.array(0)
    with pytest.raises(BufferError):
        pages.backup([(plan, range(4))])
    del array
    assert plan.prepared == 4
    pages.backup([(plan, range(4))]).result(20)
    with pytest.raises(orlop.WrongState):
        plan.commit()
    with pytest.raises(orlop.WrongState):
        pages.backup([(plan, range(4))])


def test_tensors_live_as_long_as_their_cache(client: orlop.Client, paged: orlop.Namespace) -> None:
    tensors = random_cache(7)
    watched = [weakref.ref(tensor) for pair in tensors for tensor in pair]
    pages = PageCache(client, layout_of(tensors), VALUE_LEN)
    del tensors
    assert all(tensor() is not None for tensor in watched)
    store(client, paged, pages, range(4))
    del pages
    assert all(tensor() is None for tensor in watched)


def test_parts_of_tensors() -> None:
    tensor = np.zeros((5, 2, 16, 4, 32), np.float16)
    part = part_from(tensor[:, 1], name="v", layer=2)
    assert part == KvPart(name="v", layer=2, base=tensor.ctypes.data + tensor.strides[1], pages=5,
                          page_stride=tensor.strides[0], tokens=16, token_stride=256, heads=4,
                          head_stride=64, row_bytes=64)
    opaque = part_from(tensor.view(np.uint8).reshape(5, -1), ("page", "channel"))
    assert (opaque.pages, opaque.row_bytes, opaque.heads) == (5, 8192, 1)
    for dims, words in [(("page", "token"), "names 2 dimensions"),
                        (("page", "one", "token", "head", "channel"), '"one" has 2 elements'),
                        (("page", "page", "token", "head", "channel"), "comes twice"),
                        (("page", "layer", "token", "head", "channel"), "is none of"),
                        (("token", "one", "one", "one", "one"), '"one" has')]:
        with pytest.raises(ValueError, match=words):
            part_from(tensor, dims)
    with pytest.raises(ValueError, match="side by side"):
        part_from(tensor[:, 0].transpose(0, 3, 1, 2))
    with pytest.raises(TypeError, match="KvPart"):
        part_from(object())


def test_interfaces_of_other_libraries() -> None:
    array = np.zeros((3, 4, 8), np.float32)[:, 1:, ::2]

    class Cuda:
        __cuda_array_interface__ = {"shape": (2, 8), "typestr": "<f2", "data": (4096, False),
                                    "strides": None, "version": 3}

    class OnlyDlpack:
        def __dlpack__(self) -> Any:
            return array.__dlpack__()

    assert strided_memory(Cuda()).strides == (16, 2)
    assert strided_memory(OnlyDlpack()) == strided_memory(array)


def test_a_cancelled_backup_raises_closed_or_was_done(client: orlop.Client,
                                                      paged: orlop.Namespace) -> None:
    pages = PageCache(client, layout_of(random_cache(6)), VALUE_LEN)
    backup = pages.backup([(client.put_start(paged, KEYS), range(4))])
    backup.cancel()
    try:
        assert backup.result(20) == [[orlop.Outcome.STORED] * 4]
        assert client.exists(paged, KEYS).prefix_len == 4
    except orlop.Closed:
        assert client.exists(paged, KEYS).prefix_len == 0
    assert pages.stats.running == 0


def test_a_backup_burst_is_taken_and_a_useless_one_is_refused_on_every_machine(client: orlop.Client,
                                                                             paged: orlop.Namespace) -> None:
    layout = layout_of(random_cache(7))
    store(client, paged, PageCache(client, layout, VALUE_LEN, backup_burst_bytes=64 << 10), range(4))
    with pytest.raises(ValueError, match="backup_burst_bytes: is 65535, must be 0 .* at least 65536"):
        PageCache(client, layout, VALUE_LEN, backup_burst_bytes=(64 << 10) - 1)


JOBS = (
    "import numpy as np\n"
    "from orlop.gpu import KvLayout, PageCache\n"
    "memory = np.zeros((1024, 4096), np.uint8)\n"
    "pages = PageCache(client, KvLayout.of_tensors([memory], ('page', 'channel')), 4096)\n"
    "def begin(i):\n"
    "    return pages.backup([(client.put_start(ns, [b'%d-%d' % (i, k) for k in range(64)]),\n"
    "                          range(64))])\n"
    "jobs = [begin(i) for i in range(20)]\n"
)


@pytest.mark.parametrize("end", [
    "",
    "del jobs, pages, memory\n",
    "client.close()\n",
    "del client, ns\n",
    "threading.Thread(target=lambda: [job.result(20) for job in jobs], daemon=True).start()\n",
    "pid = os.fork()\n"
    "if pid == 0:\n"
    "    for call in (jobs[-1].ready, jobs[-1].result, jobs[-1].cancel, pages.describe):\n"
    "        try:\n"
    "            call()\n"
    "        except orlop.ForkedChild:\n"
    "            continue\n"
    "        os._exit(3)\n"
    "    sys.exit(0)\n"
    "assert os.waitpid(pid, 0)[1] == 0\n"
    "[job.result(20) for job in jobs]\n",
], ids=["interpreter", "objects", "close", "client", "thread", "fork"])
def test_jobs_under_way_outlive_whatever_ends(run_script: Callable[..., Any], end: str) -> None:
    done = run_script(JOBS + end)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
