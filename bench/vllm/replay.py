# SPDX-License-Identifier: Apache-2.0
"""Conversations whose users take turns: by the time one speaks again, the engine's pool has forgotten
the beginning.

What can be a hit follows from the trace alone. A turn begins with all that was said before. Of that,
every token but the last one of the answer was computed (the last was sampled, and fed to nobody), and
the complete blocks of it are stored: floor((prompt + answer - 1) / 32) x 32 tokens of the turn before.
"""

from typing import Any

from engines import EngineProcess

BLOCK = 32
FIRST = 300  # tokens of a user's first message
MORE = 60  # of each further one
ANSWER = 8
# 4 requests run at once with at most 22 blocks each; 20 users have 430.
POOL_BLOCKS = 112
LONGEST = 1024  # tokens
EXPLAINS = ("dropped_pages", "failed_loads", "failed_pages", "exceptions", "lookups")


def allowed_after(prompt: int, answer: int) -> int:
    """Tokens of the next turn that can be a hit."""
    return (prompt + answer - 1) // BLOCK * BLOCK


def run(engine: EngineProcess, words: list[int], mark: int, users: int, turns: int) -> dict[str, Any]:
    """mark: first token of the first user; runs with marks that are `users` apart share nothing."""
    engine.forget()
    texts = [[mark + user, *words[user * 700:user * 700 + FIRST - 1]] for user in range(users)]
    allowed_now = [0] * users
    seconds, cached, allowed, asked, short = 0.0, 0, 0, 0, []
    before = engine.counts()
    for turn in range(turns):
        answer = engine.ask(*texts, tokens=ANSWER)
        seconds += answer["seconds"]
        for user, text in enumerate(texts):
            hit = answer["cached"][user]
            cached, allowed, asked = cached + hit, allowed + allowed_now[user], asked + len(text)
            if hit != allowed_now[user]:
                short.append({"user": user, "turn": turn, "hit": hit, "allowed": allowed_now[user]})
            allowed_now[user] = allowed_after(len(text), ANSWER)
            said = user * 700 + FIRST + turn * MORE
            texts[user] = text + answer["tokens"][user] + words[said:said + MORE]
    engine.settle()  # else the other engine's run would share the processors with what is left of this one
    after = engine.counts()
    new = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    return {"seconds": seconds, "cached": cached, "allowed": allowed, "prompts": users * turns,
            "prompt_tokens": asked, "short": short,
            "external": new.get("external_prefix_cache_hits", 0), "local": new.get("prefix_cache_hits", 0),
            "preemptions": new.get("num_preemptions", 0),
            "explained_by": {name: count for name, count in new.items() if name.startswith(EXPLAINS)}}
