"""Compares simulated times of the NeuronCore with published ones, and measures compilation and simulation."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.row import Row
from npuviz.base.progress import NoProgress
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.program.program import Program
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Machine
from npuviz.sim.recording import ProgramResolver, schema_of
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.assembly import assemble
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.isa import Activation, Opcode
from npuviz.targets.neuroncore.load.loader import make_program
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.spec import NeuronSpec, make_spec
from npuviz.targets.neuroncore.target import TARGET
from npuviz.trace.recorder import Recorder

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NEFF = Path(__file__).resolve().parents[2] / "shared" / "real" / "neff" / "matmul_small.neff"
"""A vendor's file that may not be redistributed: beside the checkout, or named by NPUVIZ_REAL_NEFF."""
FOREVER = 1 << 40
REPEATS = 3
CHAIN = 9
PRODUCT = (4096, 8192, 8192)
_OPEN = """
import sys, time
from pathlib import Path
from PySide6.QtCore import QTimer
from npuviz.ui.shell.application import Application
from npuviz.workbench.settings import Settings
application = Application(Settings(None))
window = application.new_window()
window.show()

def is_open():
    application.qt.processEvents()
    print(time.time(), flush=True)
    application.qt.exit()

window.model.session_changed.connect(lambda: QTimer.singleShot(0, is_open))
window.open(Path(sys.argv[1]))
QTimer.singleShot(60000, application.qt.quit)
application.qt.exec()
window.close()
"""


def run() -> list[Row]:
    """Measure everything; about a minute."""
    TARGET.warm_up(NoProgress())
    return [*published_rows(), *resnet_rows(), *light_rows(), window_row()]


def published_rows() -> list[Row]:
    """Simulate programs whose time on hardware is published."""
    milliseconds, busy = product_time()
    return [
        Row("bf16 matmul 4096x8192x8192, trn1", milliseconds, "ms", "5.99 to 7.7 (hardware 6.97)"),
        Row("the same: PE busy", busy, "%", ""),
        Row("DMA of 32 KiB on one engine, trn2", transfer_time(), "ns", "1416 +- 5 % (hardware)"),
        Row("dependent one-element Scalar instructions, trn1", chain_time(), "ns", "189 (hardware)"),
    ]


def product_time() -> tuple[float, float]:
    """Simulate the product of two large matrices. Returns (milliseconds, percent of cycles in which PE is
    busy)."""
    m, k, n = PRODUCT
    ends = [
        helper.make_tensor_value_info(name, TensorProto.BFLOAT16, shape)
        for name, shape in (("a", [m, k]), ("b", [k, n]), ("y", [m, n]))
    ]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "product", ends[:2], ends[2:])
    zero = np.zeros((), numpy_dtype("bfloat16"))
    inputs = {"a": np.broadcast_to(zero, (m, k)), "b": np.broadcast_to(zero, (k, n))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "product.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
        spec, program = TARGET.load(LoadRequest(path, "trn1", inputs=inputs), NoProgress())
    machine = finished(TARGET.build(spec, program))
    return machine.cycle / spec.base_hz * 1e3, pe_busy(machine)


def transfer_time() -> float:
    """Return the nanoseconds that a DMA engine of trn2 is busy with [4, 4096] of bf16 and its semaphore
    write."""
    spec, _ = make_spec("trn2", None, {"max_queues": "1"})
    builder = Builder(Graph("transfer", (), (), (), ()), spec)
    builder.dma.fetch(builder.hbm.constant(np.zeros((4, 4096), numpy_dtype("bfloat16"))))
    machine = finished(built(builder, spec))
    busy = _busy(machine, "Core[0].DMA[0]")
    return busy / spec.base_hz * 1e9


def chain_time() -> float:
    """Return the nanoseconds from one Scalar instruction to the next that needs its result, on trn1."""
    spec, _ = make_spec("trn1")
    builder = Builder(Graph("chain", (), (), (), ()), spec)
    tile = builder.tiles.sbuf(1, (1,), "float32")
    for _ in range(CHAIN):
        builder.isa.activation(tile, tile, Activation.COPY)
    machine = finished(built(builder, spec))
    opcodes = machine.program.payload.tables.instructions["opcode"]
    times = [at for entry, at in machine.log().tolist() if entry >= 0 and opcodes[entry] == Opcode.ACTIVATION]
    return float(np.diff(times)[1:].mean()) / spec.base_hz * 1e9


def built(builder: Builder, spec: NeuronSpec) -> Machine:
    """Build a machine for the program of a builder."""
    compiled = Compiled(builder.graph, assemble(builder, {}))
    program = make_program(LoadRequest(Path("built.onnx")), spec, (), compiled)
    return TARGET.build(spec, program)


def finished(machine: Machine) -> NeuronMachine:
    """Run a machine to its end, without recording, and return it. Raises RuntimeError if it stops before."""
    assert isinstance(machine, NeuronMachine)
    stop = machine.advance(FOREVER, NO_STOPS, None)
    if stop.kind is not StopKind.FINISHED:
        raise RuntimeError(f"stopped at cycle {stop.cycle}: {stop.kind} {stop.detail}")
    return machine


def _busy(machine: NeuronMachine, unit: str) -> int:
    """Return the busy cycles of a unit."""
    return {name: busy for name, busy, _ in machine.summary().units}[unit]


def pe_busy(machine: NeuronMachine) -> float:
    """Return the percentage of cycles in which PE is busy."""
    return 100 * _busy(machine, "Core[0].PE") / machine.cycle


def resnet_rows() -> list[Row]:
    """Measure the seconds for light_resnet50, best of several runs."""
    path = LIGHT / "light_resnet50.onnx"
    compiling = recording = whole = float("inf")
    for _ in range(REPEATS):
        begin = time.perf_counter()
        spec, program = TARGET.load(LoadRequest(path), NoProgress())
        compiling = min(compiling, time.perf_counter() - begin)
        recording = min(recording, recorded_seconds(spec, program))
        whole = min(whole, seconds_with_values(spec, program))
    return [
        Row("light_resnet50: read and compile", compiling, "s", "under 10 s"),
        Row("light_resnet50: simulate, recording on", recording, "s", "under 1 s"),
        Row("light_resnet50: simulate, with values", whole, "s", "under 4 s"),
    ]


def recorded_seconds(spec: NeuronSpec, program: Program) -> float:
    """Measure the seconds of a run with every event recorded."""
    machine = TARGET.build(spec, program)
    buffer = EventBuffer(max(1 << 16, 4 * machine.event_rows_per_cycle))
    schema = schema_of(machine.description, machine.program)
    recorder = Recorder(schema, ProgramResolver(machine.program.listing, machine.description.memories))
    begin = time.perf_counter()
    while machine.advance(FOREVER, NO_STOPS, buffer).kind is StopKind.EVENTS_FULL:
        recorder.drain(buffer)
    recorder.drain(buffer)
    return time.perf_counter() - begin


def seconds_with_values(spec: NeuronSpec, program: Program) -> float:
    """Measure the seconds of a run and the computation of all values at its end."""
    built_machine = TARGET.build(spec, program)
    begin = time.perf_counter()
    machine = finished(built_machine)
    if machine.values() is None or machine.tensor(program.graph.outputs[0]) is None:
        raise RuntimeError("no values")
    return time.perf_counter() - begin


def light_rows() -> list[Row]:
    """Simulate the light models: time and PE use, to compare versions."""
    rows: list[Row] = []
    for path in sorted(LIGHT.glob("light_*.onnx")):
        spec, program = TARGET.load(LoadRequest(path), NoProgress())
        machine = finished(TARGET.build(spec, program))
        milliseconds = machine.cycle / spec.base_hz * 1e3
        rows.append(Row(f"{path.stem}, trn2 fp32: simulated", milliseconds, "ms", ""))
        rows.append(Row(f"{path.stem}, trn2 fp32: PE busy", pe_busy(machine), "%", ""))
    return rows


def window_row() -> Row:
    """Measure the seconds from the start of a process until its window shows a vendor's NEFF."""
    path = Path(os.environ.get("NPUVIZ_REAL_NEFF", NEFF))
    name, figure = "matmul_small.neff to a usable window", "under 2 s"
    if not path.exists():
        return Row(f"{name} (no {path.name} here)", float("nan"), "s", figure)
    # Let Python write bytecode files, so that they exist from the second run on, as after an installation.
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONDONTWRITEBYTECODE": ""}
    taken: list[float] = []
    for _ in range(REPEATS):
        begin = time.time()
        command = [sys.executable, "-c", _OPEN, str(path)]
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        words = shown.stdout.split()
        taken.append(float(words[0]) - begin if words else float("nan"))
    return Row(name, min(taken), "s", figure)
