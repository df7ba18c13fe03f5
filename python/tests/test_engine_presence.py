# SPDX-License-Identifier: Apache-2.0
"""What an adapter tells of the store's pages: on a real node, with removals by others."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import orlop
import pytest
from orlop.engine import presence
from orlop.engine.presence import Change, Page, Presence

_BYTES = bytes(4096)


class Watched:
    def __init__(self, client: orlop.Client) -> None:
        self.presence = Presence(client)
        self._changes: list[Change] = []

    def until(self, told: Callable[[list[Change]], bool]) -> list[Change]:
        """Everything told so far, once it is so."""
        deadline = time.monotonic() + 60
        while not told(self._changes):
            assert time.monotonic() < deadline, self._changes
            self._changes += self.presence.take()
            time.sleep(0.002)
        return self._changes


@pytest.fixture
def watched(client: orlop.Client) -> Iterator[Watched]:
    one = Watched(client)
    yield one
    one.presence.close()


def pages_of(ns: orlop.Namespace, *names: str) -> list[Page]:
    namespaces = (ns,)
    return [Page(namespaces, name.encode(), name) for name in names]


def told(changes: list[Change]) -> list[tuple[bool, list[Any]]]:
    return [(one.stored, [page.about for page in one.pages]) for one in changes]


def test_page_that_is_stored_later_is_told_once(client: orlop.Client, ns: orlop.Namespace,
                                                watched: Watched) -> None:
    pages = pages_of(ns, "a", "b")
    watched.presence.note(pages)
    assert watched.presence.take() == [] and watched.presence.is_waiting()
    assert watched.presence.is_waiting(60) and not watched.presence.is_waiting(0)
    client.put(ns, [b"a", b"b"], [_BYTES, _BYTES])
    assert told(watched.until(bool)) == [(True, ["a", "b"])]
    watched.presence.note(pages)
    assert not watched.presence.is_waiting() and not watched.presence.has_changes()


def test_gap_divides_what_is_told(client: orlop.Client, ns: orlop.Namespace, watched: Watched) -> None:
    for key in (b"a", b"b", b"d"):
        client.put(ns, [key], [_BYTES])
    watched.presence.note(pages_of(ns, "a", "b", "c", "d"))
    assert told(watched.until(lambda all: len(all) == 2)) == [(True, ["a", "b"]), (True, ["d"])]
    client.put(ns, [b"c"], [_BYTES])
    assert told(watched.until(lambda all: len(all) == 3))[2] == (True, ["c"])


def test_pages_around_one_that_was_there_are_no_neighbours(
        client: orlop.Client, ns: orlop.Namespace, watched: Watched) -> None:
    client.put(ns, [b"b"], [_BYTES])
    watched.presence.note(pages_of(ns, "a", "b", "c"))
    watched.until(bool)
    client.put(ns, [b"a", b"c"], [_BYTES, _BYTES])
    assert told(watched.until(lambda all: len(all) == 3)) == [(True, ["b"]), (True, ["a"]), (True, ["c"])]


def test_pages_around_one_that_was_told_are_no_neighbours(
        client: orlop.Client, ns: orlop.Namespace, watched: Watched) -> None:
    for key in (b"a", b"b", b"c"):
        client.put(ns, [key], [_BYTES])
    watched.presence.note(pages_of(ns, "b"))
    watched.until(bool)
    watched.presence.note(pages_of(ns, "a", "b", "c"))
    assert told(watched.until(lambda all: len(all) == 3))[1:] == [(True, ["a"]), (True, ["c"])]


def test_page_of_two_ranks_is_there_when_both_have_it(
        client: orlop.Client, open_namespace: Callable[..., orlop.Namespace], watched: Watched) -> None:
    first = open_namespace(client, tp_rank=0, tp_size=2)
    fields = {name: getattr(first.descriptor, name) for name in ("engine", "layout", "model", "revision",
                                                                 "dtype", "page_tokens")}
    second = client.open_namespace(**fields, value_len=4096, tp_rank=1, tp_size=2)
    watched.presence.note([Page((first, second), b"a", "a"), Page((first, second), b"b", "b")])
    client.put(first, [b"a", b"b"], [_BYTES, _BYTES])
    client.put(second, [b"b"], [_BYTES])
    assert told(watched.until(bool)) == [(True, ["b"])]


def test_page_that_another_process_removes_is_told_as_gone(
        node: orlop.Node, client: orlop.Client, ns: orlop.Namespace, watched: Watched) -> None:
    client.put(ns, [b"a", b"b"], [_BYTES, _BYTES])
    client.put(ns, [b"c"], [_BYTES])
    watched.presence.note(pages_of(ns, "a", "b", "c"))
    watched.until(bool)
    with node.client(call_budget=10.0) as other:
        assert other.wait_ready(30)
        other.remove(other.open_namespace(ns.descriptor), [b"c"])
    assert told(watched.until(lambda all: len(all) == 2))[1] == (False, ["c"])


def test_page_noted_again_is_not_told_as_gone_while_it_may_be_stored_again(
        client: orlop.Client, ns: orlop.Namespace, watched: Watched,
        monkeypatch: pytest.MonkeyPatch) -> None:
    client.put(ns, [b"a", b"b"], [_BYTES, _BYTES])
    watched.presence.note(pages_of(ns, "a", "b"))
    watched.until(bool)
    monkeypatch.setattr(presence, "WAIT_SECONDS", 3600.0)
    watched.presence.note(pages_of(ns, "a"))
    client.remove(ns, [b"a", b"b"])
    assert told(watched.until(lambda all: len(all) == 2))[1] == (False, ["b"])  # of a round that saw both
    client.put(ns, [b"a"], [_BYTES])
    monkeypatch.setattr(presence, "WAIT_SECONDS", 0.0)
    watched.presence.note(pages_of(ns, "a"))
    assert watched.presence.take() == []  # it is still known
    client.remove(ns, [b"a"])
    assert told(watched.until(lambda all: len(all) == 3))[2] == (False, ["a"])


def test_pages_that_nobody_stores_cost_a_tenth_of_a_processor(
        client: orlop.Client, ns: orlop.Namespace, watched: Watched) -> None:
    begun = time.monotonic()
    for i in range(2000):  # each with a look of its own
        watched.presence.note(pages_of(ns, f"never-{i}"))
    while time.monotonic() < begun + 2:
        assert watched.presence.is_waiting()
        time.sleep(0.01)
    assert 0 < watched.presence.processor_seconds < 0.2 * (time.monotonic() - begun)


def test_what_is_cleared_is_not_told(client: orlop.Client, ns: orlop.Namespace,
                                     watched: Watched) -> None:
    client.put(ns, [b"a"], [_BYTES])
    watched.presence.note(pages_of(ns, "a"))
    watched.until(bool)
    watched.presence.note(pages_of(ns, "never"))
    watched.presence.clear()
    assert not watched.presence.is_waiting()
    client.flush(ns)
    client.put(ns, [b"z"], [_BYTES])
    watched.presence.note(pages_of(ns, "z"))  # told after whatever would be told of a
    assert told(watched.until(lambda all: len(all) == 2)) == [(True, ["a"]), (True, ["z"])]


def test_page_that_is_never_stored_is_given_up(client: orlop.Client, ns: orlop.Namespace,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "WAIT_SECONDS", 0.05)
    one = Watched(client)
    try:
        one.presence.note(pages_of(ns, "never"))
        deadline = time.monotonic() + 60
        while one.presence.is_waiting():
            assert time.monotonic() < deadline
            time.sleep(0.002)
        assert one.presence.take() == []
    finally:
        one.presence.close()


def test_limits_forget_the_oldest_and_tell_so(client: orlop.Client, ns: orlop.Namespace,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "MOST_PAGES", 2)
    monkeypatch.setattr(presence, "MOST_WAITING", 3)
    one = Watched(client)
    try:
        for key in (b"a", b"b", b"c", b"d"):
            client.put(ns, [key], [_BYTES])
        one.presence.note(pages_of(ns, "a", "b", "c", "d"))
        assert told(one.until(lambda all: len(all) == 2)) == [(True, ["a", "b", "c"]), (False, ["a"])]
    finally:
        one.presence.close()


def test_nothing_is_told_as_gone_while_the_node_is_away_and_everything_when_it_came_back_empty(
        tmp_path: Any) -> None:
    import subprocess

    from orlop.programs import find

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen([find("orlop"), "serve", "--socket", place, "--capacity", "16MiB"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    place = str(tmp_path / "orlop.sock")
    node = start()
    try:
        with orlop.Client(socket=place, call_budget=10.0) as client:
            assert client.wait_ready(60)
            ns = client.open_namespace(engine="d", layout="l", model="m", revision="r", dtype="u8",
                                       page_tokens=1, value_len=4096)
            client.put(ns, [b"a"], [_BYTES])
            one = Watched(client)
            try:
                one.presence.note(pages_of(ns, "a"))
                one.until(bool)
                node.terminate()
                node.wait(60)
                deadline = time.monotonic() + 60
                while client.ready:
                    assert time.monotonic() < deadline
                    time.sleep(0.002)
                looks, deadline = one.presence.processor_seconds, time.monotonic() + 1.2  # two rounds
                while time.monotonic() < deadline:
                    assert one.presence.take() == []
                    time.sleep(0.01)
                assert one.presence.processor_seconds > looks
                node = start()
                assert told(one.until(lambda all: len(all) == 2))[1] == (False, ["a"])
            finally:
                one.presence.close()
    finally:
        node.terminate()
        node.wait(60)
