"""Design-space sweeps: speed-up by a second process, and runs that a killed sweep repeats."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.row import Row
from npuviz.workbench.choosing import find_file
from npuviz.workbench.sweep.dispatch import SweepOptions, run_sweep
from npuviz.workbench.sweep.plan import read_plan

MODEL = "tiny_transformer.onnx"
PLAN = """
name = "benchmark"
[base]
model = "{model}"
preset = "edge-8x8"
[axes.set]
"core_width, core_height" = [4, 8]
cores = [1, 2, 3, 4]
icnt_latency = [1, 2, 3, 4, 5]
dram_latency = [5, 10, 15, 20, 25]
"""
RUNS = 200
KILL_AT = 60
"""Results after which the sweep is killed."""
LONGEST_SECONDS = 900


def run() -> list[Row]:
    """Measure the figures of issue 6: speed-up on two processes, and no repeats after a kill."""
    with TemporaryDirectory(prefix="npuviz-bench-") as name:
        folder = Path(name)
        plan = folder / "plan.toml"
        plan.write_text(PLAN.format(model=find_file(MODEL)), encoding="utf-8")
        seconds = [_timed(plan, folder / f"with-{count}", count) for count in (1, 2)]
        repeated, resumed = _killed(plan, folder / "killed")
    return [
        Row(f"{RUNS} runs on one process", seconds[0], "s"),
        Row(f"{RUNS} runs on two processes", seconds[1], "s"),
        Row("two processes against one", seconds[0] / seconds[1], "x", "at least 1.8 (needs two free cores)"),
        Row("finished runs repeated after a kill", repeated, "runs", "0"),
        Row("runs done after the kill", resumed, "runs", f"{RUNS} less those finished before"),
    ]


def _timed(plan: Path, out: Path, processes: int) -> float:
    outcome = run_sweep(read_plan(plan), SweepOptions(out, processes))
    assert (outcome.executed, outcome.failed) == (RUNS, 0)
    return outcome.seconds


def _killed(plan: Path, out: Path) -> tuple[int, int]:
    """Return (finished runs whose result was written again, runs done by the second sweep)."""
    command = [sys.executable, "-m", "npuviz.cli.main", "sweep", str(plan), "-o", str(out), "--json"]
    command += ["--processes", "2"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    end = time.monotonic() + LONGEST_SECONDS
    while len(_results(out)) < KILL_AT and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = _results(out)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST_SECONDS)
    after = _results(out)
    assert len(after) == RUNS
    values = json.loads(done.stdout)
    assert values["executed"] == RUNS - len(before)
    return sum(after[name] != stamp for name, stamp in before.items()), values["executed"]


def _results(out: Path) -> dict[str, int]:
    """Return the time of writing of each existing result, by name."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "runs").glob("*.json")}
