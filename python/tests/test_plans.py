# SPDX-License-Identifier: Apache-2.0
"""Views of plans: right bytes while the plan is open, never bytes of memory that was given back."""

import gc
import sys
import threading
import weakref

import numpy as np
import orlop
import pytest
from orlop import Outcome

KEYS = [b"p%02d" % i for i in range(4)]


def page(i: int) -> bytes:
    return bytes([i + 1]) * 4096


@pytest.fixture
def stored(client, ns):
    assert client.put(ns, KEYS, [page(i) for i in range(4)]) == [Outcome.STORED] * 4
    return ns


def pinned(client) -> int:
    return client.stats().pinned_bytes


# ---- read plans ----------------------------------------------------------------------------------


def test_views_and_arrays_show_the_pages(client, stored):
    with client.read(stored, KEYS) as plan:
        assert len(plan) == 4 and plan.valid_len == 4 and plan.result.all_hit
        assert plan.view(2) == page(2) and plan.view(2).readonly
        assert plan.view(2) is plan.view(2)
        halves = plan.array(1, np.float16, (64, 32))
        assert halves.shape == (64, 32) and not halves.flags.writeable
        assert halves.tobytes() == page(1)
        del halves
        target = bytearray(4096)
        assert plan.copy_out(3, target) and target == page(3)
        many = np.zeros((4, 4096), np.uint8)
        assert plan.copy_out_all(many) == 4 and many[2].tobytes() == page(2)
        words = np.array(plan.blob())
        assert words[1] == 4 and words.dtype == np.uint64 and len(words) == 6
        assert plan.expected_checksum(0) != plan.expected_checksum(1)
    assert pinned(client) == 0


def test_a_memoryview_dies_with_its_plan(client, stored):
    with client.read(stored, KEYS) as plan:
        view = plan.view(0)
    for use in (lambda: view[0], lambda: bytes(view), lambda: np.frombuffer(view)):
        with pytest.raises(ValueError, match="released"):
            use()
    assert pinned(client) == 0


HOLDERS = {
    "slice": lambda plan: plan.view(1)[16:32],
    "cast": lambda plan: plan.view(1).cast("I"),
    "memoryview of it": lambda plan: memoryview(plan.view(1)),
    "read-only copy": lambda plan: plan.view(1).toreadonly(),
    "frombuffer": lambda plan: np.frombuffer(plan.view(1), np.uint8),
    "asarray": lambda plan: np.asarray(plan.view(1)),
    "ndarray over it": lambda plan: np.ndarray((4096,), np.uint8, buffer=plan.view(1)),
    "array": lambda plan: plan.array(1),
    "slice of an array": lambda plan: plan.array(1)[7:9],
    "exporter": lambda plan: plan.view(1).obj,
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS.keys())
def test_what_cannot_be_invalidated_keeps_the_memory_pinned(client, stored, holder):
    plan = client.read(stored, KEYS)
    held = holder(plan)
    with pytest.raises(BufferError, match=r"1 view or array \(of page 1\)"):
        plan.release()
    with pytest.raises(orlop.WrongState, match="plan: was released"):
        plan.view(0)
    assert pinned(client) > 0
    client.flush(stored)
    client.put(stored, KEYS, [b"\xee" * 4096] * 4)  # must not land in the pinned page
    if not type(held).__name__ == "Page":
        assert set(memoryview(held).cast("B")) == {2}
    with pytest.raises(BufferError):
        plan.release()
    del held
    gc.collect()
    assert pinned(client) == 0
    plan.release()


def test_leaving_the_block_reports_arrays_but_not_over_an_exception(client, stored):
    with pytest.raises(BufferError):
        with client.read(stored, KEYS) as plan:
            kept = plan.array(0)
    with pytest.raises(KeyError):
        with client.read(stored, KEYS) as plan:
            kept = plan.array(0)
            raise KeyError
    assert kept[0] == 1
    del kept
    gc.collect()
    assert pinned(client) == 0


def test_a_view_outlives_a_plan_object_that_was_dropped(client, stored):
    view = client.read(stored, KEYS).view(3)
    gc.collect()
    assert view == page(3) and pinned(client) > 0
    del view
    gc.collect()
    assert pinned(client) == 0


def test_a_plan_in_a_cycle_is_collected_open(client, stored):
    loop = [client.read(stored, KEYS), client.get_start(stored, KEYS)]
    loop.append(loop)
    loop[0].view(0)
    del loop
    gc.collect()
    assert pinned(client) == 0


def test_closing_the_client_leaves_memory_under_arrays_alone(node, open_namespace):
    client = node.client(call_budget=10.0)
    assert client.wait_ready(30)
    ns = open_namespace(client)
    client.put(ns, KEYS, [page(i) for i in range(4)])
    plan = client.read(ns, KEYS)
    array, view = plan.array(0), plan.view(1)
    client.close()
    with pytest.raises(ValueError, match="released"):
        view[0]
    with node.client(call_budget=10.0) as other:
        assert other.wait_ready(30)
        same = other.open_namespace(ns.descriptor)
        other.flush(same)
        while Outcome.STORED in other.put(same, KEYS, [b"\xee" * 4096] * 4):
            other.flush(same)
            if other.stats().puts > 50:
                break
        assert set(array) == {1}
    del array, plan


def test_a_user_may_release_a_view_early(client, stored):
    with client.read(stored, KEYS) as plan:
        with plan.view(0) as view:
            assert view[0] == 1
        assert plan.view(0)[0] == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda p: p.view(4), ValueError, "i: is 4, the plan has 4 keys"),
        (lambda p: p.view(-1), ValueError, "i: is -1"),
        (lambda p: p.view(0, rank=1), ValueError, "rank: is 1, the plan has 1"),
        (lambda p: p.view("0"), TypeError, None),
        (lambda p: p.copy_out(0, bytearray(5)), ValueError, "destination: has 5 bytes"),
        (lambda p: p.copy_out(0, bytes(4096)), ValueError, "destination: is read-only"),
        (lambda p: p.copy_out(0, None), TypeError, "incompatible function arguments"),
        (lambda p: p.copy_out_all([bytearray(4096)]), ValueError, "buffers: has 1 entries"),
        (lambda p: p.array(0, np.float32, (3, 3)), ValueError, "reshape"),
        (lambda p: p.array(0, np.dtype("V5000")), ValueError, None),
        (lambda p: memoryview(p.view(0)).__setitem__(0, 1), TypeError, "read-only"),
    ],
)
def test_misuse_of_a_read_plan_is_named(client, stored, call, error, words):
    with client.read(stored, KEYS) as plan:
        with pytest.raises(error, match=words):
            call(plan)
    assert pinned(client) == 0


def test_a_handle_is_used_once(client, stored):
    handle = client.get_start(stored, KEYS)
    client.get_transfer(handle, 2).release()
    with pytest.raises(orlop.WrongState, match="handle: was transferred"):
        client.get_transfer(handle)
    assert handle.result.transferable_len == 4
    other = client.get_start(stored, KEYS)
    client.cancel_get(other)
    with pytest.raises(orlop.WrongState):
        client.cancel_get(other)


def test_threads_share_a_plan(client, stored):
    """Copies and views from several threads while one of them ends the plan: right bytes or
    WrongState, nothing else."""
    wrong = []
    for _ in range(20):
        plan = client.read(stored, KEYS)
        start = threading.Barrier(3)

        def work(plan=plan, start=start):
            start.wait()
            target = bytearray(4096)
            try:
                for i in range(40):
                    if not plan.copy_out(i % 4, target) or target != page(i % 4):
                        wrong.append("bytes")
                    if plan.view(i % 4)[5] != i % 4 + 1:
                        wrong.append("view")
            except (orlop.WrongState, ValueError):
                pass

        threads = [threading.Thread(target=work) for _ in range(2)]
        for one in threads:
            one.start()
        start.wait()
        try:
            plan.release()
        except BufferError:
            pass
        for one in threads:
            one.join()
        del work
    assert not wrong
    gc.collect()
    assert pinned(client) == 0


# ---- put plans -----------------------------------------------------------------------------------


def test_a_put_writes_into_the_memory_itself(client, ns):
    with client.put_start(ns, KEYS, parent=b"root") as plan:
        assert len(plan) == 4 and plan.prepared == 4 and plan.explanation == ""
        assert plan.outcomes == [Outcome.PREPARED] * 4
        plan.memory(0)[:] = page(0)
        plan.array(1)[:] = 2
        plan.copy_in(2, page(2))
        assert len(plan.blob()) == 6
        plan.memory(3)[:] = page(3)
        future = plan.commit()
    assert future.result(30) == [Outcome.STORED] * 4
    assert client.get_bytes(ns, KEYS) == [page(i) for i in range(4)]


def test_copy_in_all_takes_one_buffer_or_many(client, ns):
    for keys, sources in ((KEYS[:2], [page(0), page(1)]),
                          (KEYS[2:], np.frombuffer(page(2) + page(3), np.uint8).reshape(2, 4096))):
        with client.put_start(ns, keys) as plan:
            assert plan.copy_in_all(sources) == 2
            plan.commit().result(30)
    assert client.get_bytes(ns, KEYS) == [page(i) for i in range(4)]


def test_leaving_the_block_without_commit_aborts(client, ns):
    with client.put_start(ns, KEYS) as plan:
        view = plan.memory(0)
    with pytest.raises(ValueError, match="released"):
        view[0] = 1
    with pytest.raises(orlop.WrongState, match="plan: was committed, aborted"):
        plan.commit()
    assert client.put(ns, KEYS[:1], page(0)) == [Outcome.STORED]


def test_an_exception_aborts(client, ns):
    with pytest.raises(KeyError):
        with client.put_start(ns, KEYS):
            raise KeyError
    assert client.stats().open_put_plans == 0


def test_commit_is_refused_while_an_array_could_still_write(client, ns):
    plan = client.put_start(ns, KEYS)
    kept = plan.array(2)
    view = plan.memory(0)
    with pytest.raises(BufferError, match=r"cannot be committed, 1 view or array \(of page 2\)"):
        plan.commit()
    with pytest.raises(ValueError, match="released"):
        view[0] = 1
    kept[:] = 3
    del kept
    plan.memory(0)[:] = page(0)
    assert plan.commit().result(30)[2] == Outcome.STORED
    with plan_of(client, ns) as read:
        assert read.view(2) == page(2)


def plan_of(client, ns):
    return client.read(ns, KEYS)


def test_abort_waits_for_the_last_array(client, ns):
    plan = client.put_start(ns, KEYS)
    kept = plan.array(0)
    with pytest.raises(BufferError, match="aborted when they are gone"):
        plan.abort()
    with pytest.raises(orlop.WrongState):
        plan.copy_in(0, page(0))
    assert client.put(ns, KEYS[:1], page(0)) == [Outcome.IN_FLIGHT]
    kept[:] = 9
    del kept
    gc.collect()
    plan.abort()
    assert client.put(ns, KEYS[:1], page(0)) == [Outcome.STORED]


def test_a_dropped_put_plan_with_a_living_view_aborts_with_the_view(client, ns):
    view = client.put_start(ns, KEYS).memory(0)
    gc.collect()
    assert client.stats().open_put_plans == 1
    view[:] = page(0)
    del view
    gc.collect()
    assert client.stats().open_put_plans == 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda p: p.memory(2), ValueError, "i: is 2, the plan has 2 keys"),
        (lambda p: p.memory(0), ValueError, r"i: key 0 got no memory \(exists\)"),
        (lambda p: p.copy_in(0, page(0)), ValueError, r"i: key 0 got no memory \(exists\)"),
        (lambda p: p.copy_in(1, b"short"), ValueError,
         "source: has 5 bytes, the namespace's value_len is 4096"),
        (lambda p: p.copy_in(1, "text"), TypeError, "source: is of type str"),
        (lambda p: p.copy_in_all([page(0)]), ValueError, "buffers: has 1 entries for 2 keys"),
        (lambda p: p.set_checksum(0, 1), ValueError, "i: key 0 got no memory"),
        (lambda p: p.set_checksum(1, -1), TypeError, None),
    ],
)
def test_misuse_of_a_put_plan_is_named(client, ns, call, error, words):
    client.put(ns, b"there", page(0))
    with client.put_start(ns, [b"there", b"new"]) as plan:
        with pytest.raises(error, match=words):
            call(plan)


def test_a_wrong_checksum_is_a_miss_and_no_exception(client, ns):
    with client.put_start(ns, KEYS[:2]) as plan:
        plan.copy_in_all([page(0), page(1)])
        plan.set_checksum(1, 12345)
        plan.commit().result(30)
    with client.read(ns, KEYS[:2]) as read:
        assert len(read) == 2
        assert read.view(1) is None and read.array(1) is None
        assert not read.copy_out(1, bytearray(4096))
        assert read.valid_len == 1 and read.view(0) == page(0)
    assert client.get(ns, KEYS[:2], [bytearray(4096) for _ in range(2)]) <= 1


def test_a_bytearray_cannot_be_resized_under_a_copy(client, open_namespace):
    """The buffer is held while the copy runs without the GIL."""
    ns = open_namespace(client, value_len=4 << 20)
    source = bytearray(4 << 20)
    refused = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10.0)  # another thread runs only when this one gives up the GIL
    try:
        for _ in range(100):
            go = threading.Event()

            def resize(go=go):
                go.wait()
                try:
                    source.append(1)
                    source.pop()
                except BufferError as error:
                    refused.append(error)

            thread = threading.Thread(target=resize)
            thread.start()
            go.set()
            client.put(ns, b"key", source)
            thread.join()
            client.remove(ns, b"key")
            if refused:
                break
    finally:
        sys.setswitchinterval(interval)
    assert refused and len(source) == 4 << 20


def test_a_client_in_a_cycle_with_its_callback_is_collected(node):
    holder = []
    client = node.client(on_ready=lambda ready: holder)
    holder.append(client)
    gone = weakref.ref(client)
    del client, holder
    gc.collect()
    assert gone() is None
