"""Run one machine with several threads, as many as there are processors."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from npuviz.sim.parts.bits_kernels import is_compiled
from npuviz.targets.wavelet.kernels.bands import LET_GO, TEAM
from npuviz.targets.wavelet.kernels.records import MOST_BANDS


def num_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_BANDS - 1, thread_name_prefix="npuviz wafer")


def run_together(
    words: tuple[Any, ...], room: tuple[np.ndarray, int], bands: int, most: int, advance: Callable[..., Any]
) -> int:
    """Call a kernel `advance(*words, team, serves)` with a thread for each band; return its result.

    bands  bands of now; 0: one thread runs them, however many there are
    most   most threads to use; while there are fewer bands, the run ends as soon as there are more bands
    room   ((words,) int64, changed: what the threads share; words of it for the call of each job). All
           helpers have ended when this returns.
    """
    team, call_words = room
    helpers = max(0, min(bands, most) - 1) if is_compiled else 0
    team[: TEAM.num_words] = 0
    shared = TEAM(team)
    shared.call_words = call_words
    shared.bands = bands if bands < most else 0
    shared.size = helpers
    serving: list[Future[Any]] = []
    try:
        serving += [_threads().submit(advance, *words, team, 1) for _ in range(helpers)]
        result = int(advance(*words, team, 0))
    finally:
        shared.jobs = LET_GO
    for each in serving:
        # A helper that has not begun yet is not needed: its thread has other work.
        if not each.cancel():
            each.result()
    return result
