"""Measures how long opening kernels takes, and checks that documented errors are reported with their line.

Times are processor times, which other processes on the computer affect little.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.row import Row

ROOT = Path(__file__).resolve().parents[1]
INSTRUCTIONS = 5000
TRACING_SECONDS, RUNNING_SECONDS, STEPPING_SECONDS = 2.0, 0.5, 3.0
REPEATS = 3
_LONG = f"""
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for n in range({INSTRUCTIONS // 5}):
        tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[n % 8])
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[n % 8], src=tile)
    return out
"""
_STEP = """
import json, sys, time
from pathlib import Path
from npuviz.ui.shell.headless import HeadlessWindow
from npuviz.workbench.opening import OpenOptions

window = HeadlessWindow("dark", (1600, 1000))
settings = {f"shape.{each}": size for each, size in (("q", "64x256"), ("k", "64x256"), ("v", "256x64"))}
begin = time.process_time()
window.open(Path(sys.argv[1]), OpenOptions(settings=settings))
model = window.widget.model
model.step_instruction(next(iter(model.session.machine.next_instructions())))
window.settle()
print(json.dumps([time.process_time() - begin, model.session.cycle]))
window.close()
"""


def run() -> list[Row]:
    """Measure everything."""
    return [*_long_kernel(), _stepping(), _errors()]


def _long_kernel() -> list[Row]:
    """Measure tracing, lowering and simulating a kernel of many instructions; best of several runs."""
    import tempfile

    from npuviz.base.progress import NoProgress
    from npuviz.sim.stop import NO_STOPS
    from npuviz.sim.target import LoadRequest
    from npuviz.targets.neuroncore.load.loader import load
    from npuviz.targets.neuroncore.machine.machine import NeuronMachine

    tracing: list[float] = []
    running: list[float] = []
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(_LONG, encoding="utf-8")
        for _ in range(REPEATS):
            begin = time.process_time()
            spec, program = load(LoadRequest(path, settings={"shape.a": "8x128x64"}), NoProgress())
            loaded = time.process_time()
            machine = NeuronMachine(spec, program)
            machine.advance(1 << 62, NO_STOPS, None)
            tracing.append(loaded - begin)
            running.append(time.process_time() - loaded)
            count = len(program.listing)
    return [
        Row(f"tracing and lowering {count} instructions", min(tracing), "s", f"under {TRACING_SECONDS:g} s",
            min(tracing) > TRACING_SECONDS),
        Row(f"simulating {count} instructions", min(running), "s", f"under {RUNNING_SECONDS:g} s",
            min(running) > RUNNING_SECONDS),
    ]  # fmt: skip


def _stepping() -> Row:
    """Measure opening the sample `flash_attention` in the window and its first step, with all panels
    drawn."""
    sample = ROOT / "sample_models" / "nki" / "flash_attention.py"
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    found: list[float] = []
    for _ in range(REPEATS):
        done = subprocess.run(
            [sys.executable, "-c", _STEP, str(sample)], env=environment, capture_output=True, text=True,
            check=False, cwd=ROOT,
        )  # fmt: skip
        if done.returncode:
            return Row("flash attention opened and stepped", float("nan"), "s", done.stderr[-200:], True)
        found.append(json.loads(done.stdout.splitlines()[-1])[0])
    return Row(
        "flash attention opened and stepped in the window", min(found), "s", f"under {STEPPING_SECONDS:g} s",
        min(found) > STEPPING_SECONDS,
    )  # fmt: skip


def _errors() -> Row:
    """Run the tests of documented errors, and count those that pass."""
    tests = ROOT / "tests" / "targets" / "neuroncore" / "nki" / "test_errors.py"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    said = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]
    found = re.search(r"(\d+) passed", said)
    return Row(
        "documented errors with their line: tests that pass", int(found[1]) if found else 0, "", said[:80],
        bool(done.returncode),
    )  # fmt: skip
