"""Tests the folder of compiled kernels: empty, read-only, damaged, shared by two first starts, without a
home."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.soak.conditions import disk
from benchmarks.soak.kernels import damage
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.programs import TARGETS, arguments
from npuviz.base.kernels.helper import CACHE_VARIABLE

DAMAGED, STARTS = 20, 2
"""Tries for each target; few for starts without kernels, which compile in the background."""


def run(share: float) -> Iterator[Outcome]:
    """Test every state of the cache on every target."""
    warm = Path(os.environ[CACHE_VARIABLE])
    for target in TARGETS:
        expected = _start(target, {})
        if isinstance(expected, str):
            yield Outcome("caches", f"{target}: the first run", 1, 0, "", [expected])
            continue
        with tempfile.TemporaryDirectory(prefix="npuviz-soak-") as name:
            folder = Path(name)
            yield damaged(target, warm, folder, expected, max(1, round(DAMAGED * share)))
            yield without(target, folder, expected, max(1, round(STARTS * share)))
            yield two_at_once(target, folder, expected, max(1, round(STARTS * share)))


def damaged(target: str, warm: Path, folder: Path, expected: Any, count: int) -> Outcome:
    """Run with a third of the files of a cache damaged, others each time."""
    outcome = Outcome("caches", f"{target}: a third of the compiled kernels damaged")
    choose = random.Random(f"{target} caches")
    for _ in range(count):
        cache = folder / "kernels"
        shutil.copytree(warm, cache)
        spoilt = 0
        for path in sorted(cache.rglob("*.nb?")):
            if choose.random() < 1 / 3:
                damage(path, choose)
                spoilt += 1
        found = _start(target, {CACHE_VARIABLE: str(cache)})
        outcome.count("" if found == expected else str(found))
        _end_helpers(cache)
        shutil.rmtree(cache, ignore_errors=True)
    return outcome


def without(target: str, folder: Path, expected: Any, count: int) -> Outcome:
    """Run with an empty cache, a read-only one, no home, and a missing or read-only home."""
    outcome = Outcome("caches", f"{target}: an empty or read-only cache, no home")
    with contextlib.ExitStack() as stack:
        places: list[Mapping[str, str | None]] = [{"XDG_CACHE_HOME": str(folder / "empty")}]
        none = {"XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None}
        places += [{**none, "HOME": None}, {**none, "HOME": "/dev/null/home"}]
        with contextlib.suppress(PermissionError):
            locked = str(stack.enter_context(disk("ro")))
            places += [{"XDG_CACHE_HOME": locked}, {**none, "HOME": locked}]
        for place in places * count:
            found = _start(target, {CACHE_VARIABLE: None, **place})
            outcome.count("" if found == expected else str(found))
            _end_helpers(folder / "empty")
            shutil.rmtree(folder / "empty", ignore_errors=True)
    return outcome


def two_at_once(target: str, folder: Path, expected: Any, count: int) -> Outcome:
    """Run two programs that start for the first time, at the same time."""
    outcome = Outcome("caches", f"{target}: two first starts at once")
    for _ in range(count):
        place = {CACHE_VARIABLE: None, "XDG_CACHE_HOME": str(folder / "two")}
        processes = [_begin(target, place) for _ in range(2)]
        for found in [_result(process) for process in processes]:
            outcome.count("" if found == expected else str(found))
        _end_helpers(folder / "two")
        shutil.rmtree(folder / "two", ignore_errors=True)
    return outcome


def _start(target: str, changes: Mapping[str, str | None]) -> Any:
    return _result(_begin(target, changes))


def _begin(target: str, changes: Mapping[str, str | None]) -> "subprocess.Popen[str]":
    merged = {**os.environ, **changes}
    command = [
        sys.executable,
        "-m",
        "npuviz.cli.main",
        "run",
        *arguments(target),
        "--json",
        "--record",
        "none",
    ]
    return subprocess.Popen(
        command,
        env={name: value for name, value in merged.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _result(process: "subprocess.Popen[str]") -> Any:
    """Return the results of a run, or the error as text."""
    out, error = process.communicate()
    if process.returncode or error:
        return f"{process.returncode}: {error[-400:]}"
    summary = json.loads(out)
    return [summary[name] for name in ("cycles", "outputs", "counters", "queues", "memories", "units")]


def _end_helpers(cache: Path) -> None:
    """Kill the background compilers of a cache that is about to be removed."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                str(cache).encode() in (place / "environ").read_bytes()
                and b"compiling" in (place / "cmdline").read_bytes()
            ):
                os.kill(int(place.name), signal.SIGKILL)
