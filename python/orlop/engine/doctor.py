# SPDX-License-Identifier: Apache-2.0
"""Why an adapter's hits are zero or few, in words, from its own counts and the node's namespaces.

Nothing here knows the engine. Every check is a pure function of what was read.
"""

import dataclasses
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

VERDICTS = ("ok", "warn", "fail")  # those of `orlop doctor`, least first
LOW_HIT_RATE = 0.05  # of tokens asked for; a cache that works has more even on mixed traffic
_TOLD_SHARE = 0.02  # a reason of fewer look-ups explains nothing
_WIDTH = 78


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    verdict: str
    finding: str
    remedy: str = ""
    weight: float = 0.0  #: among checks of one verdict the heaviest is told first
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)


Counts = Mapping[str, float]  # of engine.counters: "name" or "name:reason"


def worst(checks: Iterable[Check]) -> str:
    return max((one.verdict for one in checks), key=VERDICTS.index, default="ok")


def most_important_first(checks: Iterable[Check]) -> list[Check]:
    return sorted(checks, key=lambda one: (-VERDICTS.index(one.verdict), -one.weight))


# What a reason of a look-up means for whoever looks for hits: (words, what to do). The words follow
# "N of M look-ups".
_LOOKUPS: dict[str, tuple[str, str]] = {
    "off": ("found the adapter off", "its reason is in the engine's log, in a line with 'orlop is off'"),
    "no_node": ("found no node",
                "start one (`orlop serve`) as the engine's user, or name its socket in ORLOP_SOCKET or "
                "the option `socket`; in a container mount the socket's folder"),
    "family_unknown": (
        "came before the adapter knew its namespace",
        "after a start it reads the weights' files once (some 10 s for 16 GB): wait. If it stays, a "
        "rank does not take part or the weights cannot be identified: see 'orlop is off' in the log, "
        "and set the option `weights`"),
    "too_short": ("were for prompts that have no whole page beyond what the engine has itself",
                  "nothing is wrong: short prompts, or the engine's own cache has them; a smaller block "
                  "size makes more pages whole"),
    "asked_not_to": ("were asked not to load, by the request or by the mode",
                     "use mode read_write and kv_role kv_both, and no \"no_load\" in kv_transfer_params"),
    "below_minimum": ("found less than min_hit_tokens", "lower min_hit_tokens"),
    "not_found": ("found nothing under the prompt's first key", ""),
    "failed_before": ("were of requests whose load failed", "see failed loads"),
    "failed_recently": ("were for pages whose load failed less than 30 s ago", "see failed loads"),
    "resting": ("came while loads rested after failing several times in a row", "see failed loads"),
    "pin_limit": ("found no room for pins", "fewer requests at a time, or a larger node"),
    "raced": ("lost the pages while pinning them", "the node evicts too early: give it more memory"),
    "unsupported_request": ("were of requests that have no keys (embeddings, streaming sessions, prompt "
                            "log probabilities)", "nothing is wrong"),
    "not_taken": ("were offered and not taken by the engine", "the engine had no room for the blocks: "
                  "give it a larger KV cache"),
    "exception": ("ended in an error of the adapter", "please report the traceback in the engine's log"),
}

_DROPPED: dict[str, tuple[str, str]] = {
    "off": ("the node's memory could not be made known to the GPU", "the engine's log says why (\"orlop is off\")"),
    "no_node": ("the node did not answer in time",
                "if the node runs, raise save_deadline (a busy machine answers late)"),
    "resting": ("saves rested after the node had not answered several times in a row",
                "as for the node that did not answer"),
    "overwritten": ("the engine needed the blocks before they were copied",
                    "give the engine a larger KV cache"),
    "backlog": ("too many saves were waiting", "storing is slower than computing: see `orlop doctor`"),
    "not_stored": ("the node did not take them",
                   "`orlop status` says why (outcomes): no space, quota, drained"),
    "tainted": ("they were computed in a step whose load failed", "see failed loads"),
    "asleep": ("the engine had given its cache's memory away", "nothing is wrong: it slept"),
    "exception": ("the adapter failed", "please report the traceback in the engine's log"),
    "aborted": ("the engine ended", ""),
}

_FAILED: dict[str, tuple[str, str]] = {
    "off": ("the node's memory could not be made known to the GPU", "the engine's log says why (\"orlop is off\")"),
    "mismatch": ("bytes did not match their checksums", "memory is damaged or somebody else writes to "
                 "it: look for it in the node's log"),
    "not_found": ("pages were gone between look-up and load", "the node evicts too early: give it more "
                  "memory"),
    "deadline": ("they waited longer than load_deadline", "raise load_deadline, or load fewer at a time"),
    "no_node": ("the node went away", "keep it running; its restarts are in `orlop status`"),
    "pin_limit": ("there was no room for pins", "fewer requests at a time, or a larger node"),
    "asleep": ("the engine had given its cache's memory away", "nothing is wrong: it slept"),
    "exception": ("the adapter failed", "please report the traceback in the engine's log"),
}


def judge_counts(counts: Counts, asked_tokens: float, hit_tokens: float) -> list[Check]:
    """counts: totals of the adapter. asked_tokens, hit_tokens: the engine's own count of tokens that
    it asked the store for, and got."""
    checks = [*_judge_errors(counts)]
    rate = hit_tokens / asked_tokens if asked_tokens else 0.0
    low = rate < LOW_HIT_RATE
    lookups = _by_reason(counts, "lookups")
    if not lookups:
        checks.append(Check("lookups", "warn", "no request has been looked up yet",
                            "send requests, then ask again"))
        return checks
    figures = {"asked_tokens": asked_tokens, "hit_tokens": hit_tokens}
    words = f"{hit_tokens:,.0f} of {asked_tokens:,.0f} tokens ({rate:.1%}) came from the store"
    # Its reasons are told after it.
    checks.append(Check("hits", "fail" if not hit_tokens else "warn" if low else "ok", words, "", 1e9,
                        figures))
    checks += _judge_lookups(lookups, low)
    checks += _judge_limits(counts)
    checks += _judge_saves(counts, low)
    checks += _judge_failed_loads(counts)
    return checks


def _judge_errors(counts: Counts) -> Iterable[Check]:
    for reason, number in _by_reason(counts, "refused").items():
        yield Check("refused", "fail",
                    f"the adapter is off in {number:,.0f} of the engine's processes: {_refusal(reason)}",
                    "the engine's log says what, in a line with 'orlop is off'", 3e9, {reason: number})
    for hook, number in _by_reason(counts, "exceptions").items():
        off = hook in ("init", "register_kv_caches")
        yield Check("exceptions", "fail" if off else "warn",
                    f"the adapter failed {number:,.0f} times in {hook}"
                    + (": it could not start, and is off" if off else ", each treated as a miss"),
                    "please report the traceback in the engine's log", 2e9, {hook: number})


def _refusal(reason: str) -> str:
    if reason == "OptionError":
        return "an option is wrong"
    if reason == "Refused":
        return "it does not understand something of the model or the configuration"
    return reason


def _judge_lookups(lookups: Mapping[str, float], low: bool) -> Iterable[Check]:
    total = sum(lookups.values())
    for reason, number in lookups.items():
        if reason == "hit" or number / total < _TOLD_SHARE:
            continue
        words, remedy = _LOOKUPS.get(reason, (f"ended with {reason}", ""))
        yield Check(reason, "warn" if low else "ok", f"{number:,.0f} of {total:,.0f} look-ups {words}",
                    remedy, 1e6 * number / total, {"lookups": number, "all": total})


def _judge_limits(counts: Counts) -> Iterable[Check]:
    if number := counts.get("pin_limited", 0):
        yield Check("pin_limited", "warn", f"{number:,.0f} hits were cut short: the node had no room for "
                    "more pins", "give the node more memory, or raise client.max_pinned (a quarter of the "
                    "memory for each client)", 1.2e6, {"hits": number})
    if number := counts.get("not_understood", 0):
        yield Check("not_understood", "warn", f"{number:,.0f} requests asked the adapter for something "
                    "that there is not", "kv_transfer_params: \"no_load\", \"no_save\" or both with a comma",
                    1.1e6, {"requests": number})


def _judge_saves(counts: Counts, low: bool) -> Iterable[Check]:
    saved, present = counts.get("saved_pages", 0), counts.get("present_pages", 0)
    dropped = _by_reason(counts, "dropped_pages")
    lost = sum(dropped.values())
    figures = {"saved_pages": saved, "present_pages": present, "dropped_pages": lost}
    if not saved + present:
        yield Check("stored", "fail" if low else "ok", "this engine has stored no page"
                    + (f", and dropped {lost:,.0f}" if lost else ""),
                    "" if lost else "prompts of at least one whole block are stored: send one; mode "
                    "load_only, kv_role kv_consumer and \"no_save\" store nothing", 2e6, figures)
    else:
        yield Check("stored", "ok", f"{saved:,.0f} pages stored by this engine, {present:,.0f} were "
                    "there already", "", 0.0, figures)
    every = saved + present + lost
    for reason, number in dropped.items():
        if number / every < _TOLD_SHARE:
            continue
        words, remedy = _DROPPED.get(reason, (reason, ""))
        yield Check(f"dropped_{reason}", "warn" if low or number > saved else "ok",
                    f"{number:,.0f} of {every:,.0f} pages were not stored: {words}", remedy,
                    1.5e6 * number / every, {"pages": number})


def _judge_failed_loads(counts: Counts) -> Iterable[Check]:
    for reason, number in _by_reason(counts, "failed_loads").items():
        words, remedy = _FAILED.get(reason, (reason, ""))
        yield Check(f"failed_{reason}", "warn", f"{number:,.0f} loads failed: {words}", remedy,
                    1e6, {"loads": number})


def _by_reason(counts: Counts, name: str) -> dict[str, float]:
    return {key.partition(":")[2]: number for key, number in counts.items()
            if key.partition(":")[0] == name and ":" in key and number}


# ---- namespaces ---------------------------------------------------------------------------------

_NAMED_SO = {
    "model": "the model's configuration (config.json, quantization, data type)",
    "revision": "the weights: other files, an update, or another option `weights`",
    "dtype": "the data type of the KV cache (dtype, kv_cache_dtype)",
    "page_tokens": "the block size",
    "layout": "how pages look inside: the engine's version, its KV layout, the attention kernel, or how "
              "keys are made",
    "tp_size": "tensor parallelism", "pp_size": "pipeline parallelism",
    "value_len": "bytes of a page", "engine": "the engine",
}
_SAME_PURPOSE = 3  # fields: two that differ in more are simply of different models
_FOLLOW = {"value_len", "heads", "layers", "first_layer", "first_head"}  # from other fields
_MOST_PAIRS = 5


def judge_namespaces(namespaces: Sequence[Mapping[str, Any]], engine: str) -> list[Check]:
    """namespaces: `orlop inspect namespaces --json`. Families that differ in little, one of which has
    what the other one's users ask for in vain."""
    families: dict[str, list[Mapping[str, Any]]] = {}
    for one in namespaces:
        if one["descriptor"]["engine"] == engine:
            families.setdefault(one["family_digest"], []).append(one)
    if not families:
        return [Check("namespaces", "warn", f"the node has no namespace of an engine {engine!r}",
                      "no such engine has attached to this node, or it does not know its weights yet",
                      1e5)]
    checks: list[Check] = []
    shown = list(families.values())
    pairs = [(a, b) for i, a in enumerate(shown) for b in shown[i + 1:]]
    for a, b in pairs:
        different = _differences(a[0]["descriptor"], b[0]["descriptor"])
        if 0 < len(different) <= _SAME_PURPOSE and len(checks) < _MOST_PAIRS:
            checks.append(_pair(a, b, different))
    missed = _sum_missed(one for family in shown for one in family)
    if number := missed.get("evicted", 0):
        checks.append(Check("evicted", "warn", f"{number:,} keys were asked for after the node had evicted "
                            "them", "give the node more memory (--capacity)", 9e5, {"keys": number}))
    if number := missed.get("other_namespace", 0):
        checks.append(Check("ranks", "warn", f"{number:,} keys that one rank asked for only other ranks have",
                            "a rank's saves are dropped: see what was not stored", 8.5e5, {"keys": number}))
    if number := missed.get("flushed", 0) + missed.get("removed", 0):
        checks.append(Check("flushed", "warn", f"{number:,} keys were asked for after they had been flushed "
                            "or removed", "flush only after a weight update", 8e5, {"keys": number}))
    slots = sum(one["slots"] for family in shown for one in family)
    checks.append(Check("namespaces", "ok", f"{len(shown)} families of {engine} namespaces with {slots:,} "
                        "pages", "", 0.0, {"families": len(shown), "slots": slots}))
    return checks


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (one[name], other.get(name)) for name in one
            if one[name] != other.get(name) and name not in _FOLLOW and not name.endswith("_rank")}


def _pair(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]],
          different: Mapping[str, tuple[Any, Any]]) -> Check:
    pages = [sum(one["slots"] for one in family) for family in (a, b)]
    vain = [_sum_missed(family).get("never_written", 0) for family in (a, b)]
    words = "; ".join(f"{name} ({_NAMED_SO.get(name, name)}): {_shown(one)} and {_shown(other)}"
                      for name, (one, other) in different.items())
    finding = (f"two families of namespaces, with {pages[0]:,} and {pages[1]:,} pages, share nothing, because "
               f"they differ in {words}; keys asked for that were never stored there: {vain[0]:,} and "
               f"{vain[1]:,}")
    if {"revision"} == set(different) and any("updated:" in str(one) for one in different["revision"]):
        remedy = "after a weight update an engine keeps to itself until it is started again"
    else:
        remedy = "make these equal in both engines if they should share"
    suspicious = any(pages[i] and vain[1 - i] for i in range(2))
    return Check("namespaces_differ", "warn", finding, remedy, 1.2e6 if suspicious else 5e5,
                 {"pages_of_one": pages[0], "pages_of_other": pages[1], "never_stored_in_one": vain[0],
                  "never_stored_in_other": vain[1]})


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _sum_missed(namespaces: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    missed: dict[str, int] = {}
    for one in namespaces:
        for cause, number in one["missed"].items():
            missed[cause] = missed.get(cause, 0) + number
    return missed


# ---- the report ---------------------------------------------------------------------------------


def as_text(checks: Sequence[Check]) -> str:
    lines = []
    for one in checks:
        lines += textwrap.wrap(_printable(one.finding), _WIDTH, initial_indent=f"{one.verdict:5} ",
                               subsequent_indent="      ")
        if one.remedy:
            lines += textwrap.wrap(_printable(one.remedy), _WIDTH, initial_indent="      -> ",
                                   subsequent_indent="         ")
    return "\n".join(lines)


def _printable(text: str) -> str:
    """Names and errors come from others, whose control characters a terminal must not see."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def as_json(checks: Sequence[Check]) -> dict[str, Any]:
    return {"verdict": worst(checks),
            "checks": [{"name": one.name, "verdict": one.verdict, "finding": one.finding,
                        "remedy": one.remedy, "figures": dict(one.figures)} for one in checks]}
