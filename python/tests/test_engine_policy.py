# SPDX-License-Identifier: Apache-2.0
"""What adapters decide alike: options, failed keys, the breaker, counts, timelines, the guard."""

import json
import logging
import os
import stat

import pytest
from orlop import MissReason, Outcome
from orlop.engine import reasons
from orlop.engine.breaker import FAILURES, FIRST_REST, LONGEST_REST, CircuitBreaker
from orlop.engine.counters import NAMES, Counters, merge, split
from orlop.engine.failures import FailedKeys
from orlop.engine.guard import Guard
from orlop.engine.options import OptionError, Options, parse_options
from orlop.engine.reasons import Reason
from orlop.engine.timeline import Timeline


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


# ---- options -------------------------------------------------------------------------------------


def test_options_all_parse_from_strings():
    given = {"socket": "/run/x.sock", "mode": "save_only", "save": "prompt", "load_mode": "sync",
             "min_hit_tokens": "64", "load_deadline": "2.5", "save_deadline": "0.1",
             "weights": "m@7", "trace_requests": "/tmp/trace"}
    options = parse_options(given)
    assert options == Options(socket="/run/x.sock", mode="save_only", save="prompt",
                              load_mode="sync", min_hit_tokens=64, load_deadline=2.5,
                              save_deadline=0.1, weights="m@7", trace_requests="/tmp/trace")
    assert options.saves and not options.loads
    assert {type(value) for value in given.values()} == {str} and set(given) == set(vars(options))


def test_options_absent_are_the_defaults():
    assert parse_options(None) == parse_options({}) == parse_options({"socket": None}) == Options()
    assert Options().loads and Options().saves


class Hostile:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(("given", "says"), [
    ({"mode": "both"}, "mode is 'both'; give one of read_write, save_only, load_only"),
    ({"mode": 1}, "mode is 1"),
    ({"min_hit_token": "1"}, "did you mean min_hit_tokens"),
    ({"qqqqqq": "1"}, "there are: socket, mode"),
    ({7: 1}, "there is no option 7"),
    ({"min_hit_tokens": "-1"}, "min_hit_tokens is '-1'; give a number from 0"),
    ({"min_hit_tokens": "1.5"}, "whole number"),
    ({"min_hit_tokens": "nan"}, "give a number"),
    ({"min_hit_tokens": True}, "min_hit_tokens is True"),
    ({"min_hit_tokens": 10**400}, "0000...; give a number"),
    ({"min_hit_tokens": 10**5000}, "cannot be shown"),
    ({"load_deadline": "inf"}, "load_deadline"),
    ({"load_deadline": "0"}, "load_deadline"),
    ({"load_deadline": "9" * 100_000}, "load_deadline"),
    ({"save_deadline": [1]}, "save_deadline is [1]"),
    ({"socket": ""}, "socket has 0 characters"),
    ({"socket": "a\0b"}, "cannot be printed"),
    ({"socket": "x" * 5000}, "socket has 5000 characters"),
    ({"socket": b"/x"}, "socket is of type bytes"),
    ({"socket": Hostile()}, "socket is of type Hostile"),
    ({"mode": Hostile()}, "a Hostile that cannot be shown"),
    ([("mode", "x")], "of type list"),
])
def test_options_that_are_wrong_are_named(given, says):
    with pytest.raises(OptionError) as raised:
        parse_options(given)
    assert says in str(raised.value) and len(str(raised.value)) < 300


def test_options_all_mistakes_are_told_at_once():
    with pytest.raises(OptionError) as raised:
        parse_options({"mode": "x", "save": "y"})
    assert "mode" in str(raised.value) and "save" in str(raised.value)


# ---- reasons -------------------------------------------------------------------------------------


def test_reasons_cover_every_answer_of_the_store():
    assert {reasons.of_miss(one) for one in MissReason} <= set(Reason)
    assert reasons.of_miss(MissReason.NOT_ATTACHED) is Reason.NO_NODE
    assert reasons.of_outcome(Outcome.NO_NODE) is Reason.NO_NODE
    assert reasons.of_outcome(Outcome.NO_SPACE) is Reason.NOT_STORED


# ---- failed keys ---------------------------------------------------------------------------------


def test_failed_keys_are_not_usable_for_30_seconds(clock):
    failed = FailedKeys(clock)
    assert failed.usable([b"a", b"b"]) == 2
    failed.add(b"b")
    assert failed.usable([b"a", b"b", b"c"]) == 1 and failed.usable([b"c"]) == 1
    clock.now += 29.9
    assert failed.usable([b"a", b"b"]) == 1
    clock.now += 0.2
    assert failed.usable([b"a", b"b"]) == 2 and len(failed) == 0


def test_failed_keys_that_fail_again_wait_again(clock):
    failed = FailedKeys(clock)
    failed.add(b"a")
    clock.now += 20
    failed.add(b"b")
    failed.add(b"a")
    clock.now += 20
    assert failed.usable([b"a"]) == 0 and failed.usable([b"b"]) == 0
    clock.now += 11
    assert failed.usable([b"a", b"b"]) == 2


def test_failed_keys_are_taken_out_of_what_is_present_and_nothing_is_added(clock):
    failed, keys = FailedKeys(clock), [b"a", b"b", b"c"]
    assert failed.without(keys, b"\1\0\1") == b"\1\0\1"
    failed.add(b"b")
    failed.add(b"c")
    assert failed.without(keys, b"\1\0\1") == b"\1\0\0"
    clock.now += 30.1
    assert failed.without(keys, b"\1\0\1") == b"\1\0\1"


def test_failed_keys_have_a_limit(clock):
    failed = FailedKeys(clock, limit=3)
    for key in (b"a", b"b", b"c", b"d"):
        failed.add(key)
    assert len(failed) == 3 and failed.usable([b"a"]) == 1 and failed.usable([b"d"]) == 0


# ---- circuit breaker -----------------------------------------------------------------------------


def opened(clock):
    breaker = CircuitBreaker(clock)
    for _ in range(FAILURES):
        assert breaker.allows()
        breaker.failed()
    return breaker


def test_breaker_rests_after_failures_in_a_row(clock):
    breaker = opened(clock)
    assert not breaker.allows() and breaker.opened == 1
    clock.now += FIRST_REST
    assert breaker.allows() and not breaker.allows()
    breaker.succeeded()
    assert all(breaker.allows() for _ in range(3))


def test_breaker_a_success_between_starts_the_count_again(clock):
    breaker = CircuitBreaker(clock)
    for _ in range(3):
        for _ in range(FAILURES - 1):
            breaker.failed()
        breaker.succeeded()
    assert breaker.allows() and breaker.opened == 0


def test_breaker_rests_twice_as_long_after_a_failed_trial_up_to_a_minute(clock):
    breaker = opened(clock)
    for rest in [FIRST_REST * 2**i for i in range(6)] + [LONGEST_REST] * 2:
        clock.now += rest - 0.01
        assert not breaker.allows()
        clock.now += 0.01
        assert breaker.allows()
        breaker.failed()


def test_breaker_tries_again_when_a_trial_stays_unanswered(clock):
    breaker = opened(clock)
    clock.now += FIRST_REST
    assert breaker.allows() and not breaker.allows()
    clock.now += FIRST_REST
    assert breaker.allows()


def test_breaker_late_answers_from_before_do_not_end_the_rest(clock):
    breaker = opened(clock)
    breaker.succeeded()
    breaker.failed()
    assert not breaker.allows()


# ---- counters ------------------------------------------------------------------------------------


def test_counters_take_gives_what_is_new_and_totals_all():
    counters = Counters()
    counters.add("lookups", reason=Reason.NOT_FOUND)
    counters.add("saved_bytes", 10)
    assert counters.take() == {"lookups:not_found": 1, "saved_bytes": 10}
    counters.add("saved_bytes", 5)
    assert counters.totals() == {"lookups:not_found": 1, "saved_bytes": 15}
    assert counters.take() == {}  # it was asked a moment ago
    counters.add("lookups")
    assert counters.take() == {"saved_bytes": 5, "lookups": 1} and counters.take() == {}
    assert counters.totals()["saved_bytes"] == 15
    assert split("lookups:not_found") == ("lookups", "not_found") and split("x") == ("x", "")
    into = {"a": 1.0}
    merge(into, {"a": 2, "b": 3})
    assert into == {"a": 3, "b": 3}
    with pytest.raises(KeyError):
        counters.add("lokups")
    assert all(NAMES.values())


def test_counters_give_what_grows_with_each_step_ten_times_a_second(clock):
    counters, told = Counters(clock), []
    for _ in range(12):
        counters.spent += 0.25
        counters.add("saved_pages")
        told.append(counters.take())
        clock.now += 0.03
    assert [bool(new) for new in told] == [i % 4 == 0 for i in range(12)]
    assert told[4] == {"hook_seconds": 1.0, "saved_pages": 4}
    assert counters.totals() == {"hook_seconds": 3.0, "saved_pages": 12}
    counters.add("lookups", reason=Reason.HIT)
    assert counters.take() == {"hook_seconds": 0.75, "saved_pages": 3, "lookups:hit": 1}  # at once


# ---- timeline ------------------------------------------------------------------------------------


def test_timeline_writes_one_line_a_request(tmp_path, clock):
    path = tmp_path / "trace"
    timeline = Timeline(str(path), clock)
    timeline.note("r1", looked_up_at=None, offered_tokens=64)
    timeline.note("r2", looked_up_at=None)
    clock.now += 0.25
    timeline.note("r1", load_begun_at=None)
    timeline.end("r1", outcome="hit")
    timeline.end("unknown", outcome="hit")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"request": "r1", "looked_up_at": 0, "offered_tokens": 64,
                      "load_begun_at": 0.25, "ended_at": 0.25, "outcome": "hit"}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    timeline.close()
    timeline.note("r3", outcome="x")
    timeline.end("r3")
    assert len(path.read_text().splitlines()) == 1


def test_timeline_that_cannot_be_written_is_off(tmp_path, clock, caplog):
    timeline = Timeline(str(tmp_path), clock)
    timeline.note("r", a=1)
    timeline.end("r")
    assert not timeline.on and "requests are not traced" in caplog.text
    full = Timeline("/dev/full", clock)
    full.note("r", a=1)
    full.end("r")
    assert not full.on and "No space left" in caplog.text
    before = len(os.listdir("/proc/self/fd"))
    Timeline("/dev/null", clock).close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_timeline_into_a_pipe_that_nobody_reads_stops_nobody(tmp_path, clock, caplog):
    os.mkfifo(tmp_path / "pipe")
    assert not Timeline(str(tmp_path / "pipe"), clock).on  # returns
    assert "requests are not traced" in caplog.text
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    timeline = Timeline(str(tmp_path / "pipe"), clock)
    for i in range(2000):  # more than a pipe holds
        timeline.note(str(i), a="x" * 100)
        timeline.end(str(i))
    assert not timeline.on and "tracing ends" in caplog.text
    os.close(reader)


# ---- guard ---------------------------------------------------------------------------------------


def test_guard_catches_counts_and_tells_once(caplog):
    counters = Counters()
    guard = Guard(counters, logging.getLogger("orlop.test"))
    assert guard.run("look_up", lambda: 5, lambda: 0) == 5
    for _ in range(3):
        assert guard.run("look_up", lambda: 1 // 0, lambda: 7) == 7
    totals = counters.totals()
    assert totals["exceptions:look_up"] == 3 and totals["hook_seconds"] > 0
    assert caplog.text.count("look_up failed") == 1 and "ZeroDivisionError" in caplog.text
    with pytest.raises(KeyboardInterrupt):
        guard.run("look_up", lambda: (_ for _ in ()).throw(KeyboardInterrupt()), lambda: 0)
