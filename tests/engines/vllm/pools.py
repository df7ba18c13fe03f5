# SPDX-License-Identifier: Apache-2.0
"""The engine's pool of blocks made smaller for a while, and what it holds besides blocks."""

import contextlib
import os
import threading
from collections.abc import Iterator

from engine import Engine


@contextlib.contextmanager
def pool_of(engine: Engine, blocks: int) -> Iterator[None]:
    """Leaves so many blocks to requests. Nothing may be running, before and after."""
    pool = engine.scheduler.kv_cache_manager.block_pool
    taken = pool.get_new_blocks(pool.get_num_free_blocks() - blocks)
    try:
        yield
    finally:
        pool.free_blocks(taken)


def preempt_all(engine: Engine) -> None:
    """What vLLM does with all running requests when there is no block for them."""
    scheduler = engine.scheduler
    while scheduler.running:
        scheduler._preempt_request(scheduler.running.pop(), 0.0)
    scheduler.prev_step_scheduled_req_ids.clear()


def threads_and_descriptors() -> tuple[list[str], int]:
    return (sorted(one.name for one in threading.enumerate()), len(os.listdir("/proc/self/fd")))
