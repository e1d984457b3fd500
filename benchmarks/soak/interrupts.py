"""Ctrl-C at any moment: in a program that has loaded everything, and in one that has just been started."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.soak import forks
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.programs import TARGETS, arguments, record, warm, what_remains

LOADED, STARTED = 100, 25
"""Interrupted runs per target."""
PROGRAM = "import sys; from npuviz.cli.main import main; sys.stderr.write('started\\n'); sys.exit(main())"
"""The command `npuviz`. Before `main`, Python starts, and takes 0.05 s to load `main`."""
LINE = "npuviz: interrupted\n"


def run(share: float) -> Iterator[Outcome]:
    """Interrupt runs of every target."""
    for target in TARGETS:
        warm(target)
        with tempfile.TemporaryDirectory(prefix="npuviz-soak-") as name:
            yield loaded(target, Path(name), max(1, round(LOADED * share)))
            yield started(target, Path(name), max(1, round(STARTED * share)))


def loaded(target: str, folder: Path, count: int) -> Outcome:
    """Interrupt runs that record, at random moments."""
    outcome = Outcome("interrupts", f"{target}: Ctrl-C in a run")
    choose, bundle = random.Random(f"{target} loaded"), folder / "run"
    longest = max(forks.run(lambda: record(target, bundle), folder).seconds for _ in range(2))
    early = 0
    while outcome.tried < count:
        shutil.rmtree(bundle, ignore_errors=True)
        seconds = choose.uniform(0.005, longest)
        ended = forks.struck(lambda: record(target, bundle), folder, seconds, signal.SIGINT)
        if ended.code in (0, forks.BEFORE):
            early += 1
            if early > 10 * count:
                break
            continue
        outcome.count(_wrong(ended.code, ended.error) or _left(folder, bundle))
    return outcome


def started(target: str, folder: Path, count: int) -> Outcome:
    """Interrupt programs that have just been started, from their first line to their last."""
    outcome = Outcome("interrupts", f"{target}: Ctrl-C from the first line of the program on")
    choose, bundle = random.Random(f"{target} started"), folder / "run"
    command = [sys.executable, "-c", PROGRAM, "run", *arguments(target), "--json", "--record", str(bundle)]
    longest, ends = 0.0, 0
    for _ in range(2):
        begin = time.monotonic()
        subprocess.run(command, capture_output=True, check=False)
        longest = time.monotonic() - begin
    while outcome.tried < count:
        shutil.rmtree(bundle, ignore_errors=True)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=0, process_group=0
        )
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(choose.uniform(0, longest))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=forks.PATIENCE_SECONDS)
        if process.returncode == 0 and not error:
            ends += 1
            if ends > 5 * count:
                break
            continue
        outcome.count(_wrong(process.returncode, error) or _left(folder, bundle))
    return outcome


def _wrong(code: int, error: str) -> str:
    return "" if (code, error) == (130, LINE) else f"ended with {code}: {error[-400:]}"


def _left(folder: Path, bundle: Path) -> str:
    """Describe wrong remains of an interrupted run: parts, or a bundle that is not whole."""
    left = [path for path in folder.iterdir() if path.name not in ("run", "out", "err")]
    for path in left:  # counted once
        shutil.rmtree(path)
    if left:
        return f"left {[path.name for path in left]}"
    return "the bundle is not whole" if bundle.exists() and what_remains(bundle) != "whole" else ""
