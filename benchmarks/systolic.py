"""The systolic machine: cycle counts and seconds against ONNXim's, cost of recording, memory."""

import csv
import subprocess
import sys
import tempfile
import time
from math import exp, log
from pathlib import Path

from onnx import TensorProto, helper, save

from benchmarks.row import Row
from npuviz.base.progress import NoProgress
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Machine
from npuviz.sim.recording import ProgramResolver, schema_of
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.machine.machine import SystolicMachine
from npuviz.targets.systolic.target import TARGET
from npuviz.trace.recorder import Recorder

HOME = Path(__file__).parents[1] / "tests" / "data" / "onnxim"
FOREVER = 1 << 40
REPEATS = 7
SPEED = 20
"""Goal: how many times faster than ONNXim a run is, recording included."""
MEMORY_MIB = 1024
SCALED_CORES = (16, 64, 256)
SCALED_REPEATS = 8
SCALED_SECONDS = 6.0
"""A run is repeated until this number of repetitions or seconds of processor time is reached."""
GROWN_PRODUCTS = (3, 12, 48)
"""Products one after another; the first one alone is cheaper, because requests enter empty queues."""
GROWN_ROWS = 65536
GROWN_WIDTH = 64


def reference_rows() -> list[dict[str, str]]:
    """Read the rows of ONNXim's reference counts, for any DRAM and network."""
    with (HOME / "reference_cycles.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def row_name(row: dict[str, str]) -> str:
    """Return a text with workload and machine."""
    config = row["config"]
    size = "8x8" if "8x8" in config else "TPUv4"
    dram = "simple DRAM" if config.endswith("_dramsimple") else "DDR4" if size == "8x8" else "HBM2"
    network = ", booksim2" if "booksim2" in config else ""
    return f"{row['models_list']} on {size}, {dram}{network}"


def load(row: dict[str, str]) -> tuple[object, object]:
    """Return spec and program of a reference row, in parity mode."""
    request = LoadRequest(
        HOME / "model_lists" / f"{row['models_list']}.json",
        config=HOME / "configs" / f"{row['config']}.json",
        settings={"mode": "parity"},
    )
    return TARGET.load(request, NoProgress())


def simulate(machine: Machine, recorder: Recorder | None, buffer: EventBuffer) -> float:
    """Run to the end; returns the seconds of processor time it took, as ONNXim's are counted."""
    begin = time.process_time()
    while machine.advance(FOREVER, NO_STOPS, buffer if recorder else None).kind is StopKind.EVENTS_FULL:
        if recorder is not None:
            recorder.drain(buffer)
    if recorder is not None:
        recorder.drain(buffer)
    return time.process_time() - begin


def measure_pair(spec: object, program: object) -> tuple[float, float, int]:
    """Return (seconds with recording, seconds without, cycles), each the best of several, measured in
    turn."""
    recorded, bare, cycles = float("inf"), float("inf"), 0
    machine = TARGET.build(spec, program)  # type: ignore[arg-type]
    start = machine.snapshot()
    buffer = EventBuffer(max(1 << 16, 4 * machine.event_rows_per_cycle))
    for _ in range(REPEATS):
        schema = schema_of(machine.description, machine.program)
        resolver = ProgramResolver(machine.program.listing, machine.description.memories)
        recorded = min(recorded, simulate(machine, Recorder(schema, resolver), buffer))
        cycles = machine.cycle
        machine.restore(start)
        bare = min(bare, simulate(machine, None, buffer))
        machine.restore(start)
    return recorded, bare, cycles


def run() -> list[Row]:
    """Measure everything; a minute or two."""
    TARGET.warm_up(NoProgress())
    rows: list[Row] = []
    total_recorded = total_bare = 0.0
    ratios: list[float] = []
    for reference in reference_rows():
        spec, program = load(reference)
        recorded, bare, cycles = measure_pair(spec, program)
        total_recorded, total_bare = total_recorded + recorded, total_bare + bare
        name = row_name(reference)
        onnxim = float(reference["onnxim_user_s"])
        rows.append(Row(f"{name}: cycles", cycles, "cycles", f"exactly {int(reference['cycles']):,}"))
        ratios.append(onnxim / recorded)
        figure = f"ONNXim {onnxim * 1e3:,.0f} ms: {ratios[-1]:.1f} times as long"
        rows.append(Row(f"{name}: simulate, recording on", recorded * 1e3, "ms", figure))
        rows.append(Row(f"{name}: cost of recording", (recorded / bare - 1) * 100, "%", ""))
    mean = exp(sum(log(ratio) for ratio in ratios) / len(ratios))
    rows.append(Row("ONNXim's seconds / ours, geometric mean", mean, "times", f"at least {SPEED}"))
    cost = (total_recorded / total_bare - 1) * 100
    rows.append(Row("cost of recording, all rows together", cost, "%", "under 10"))
    rows += scaling_rows()
    rows.append(Row("GEMM 2048 on 8x8: peak memory of process", _peak_mib(), "MiB", f"under {MEMORY_MIB}"))
    return rows


def scaling_rows() -> list[Row]:
    """Measure nanoseconds per event (requests, DRAM commands, instructions) on HBM2 with 64 channels.

    As work grows: the largest machine runs more and more products one after another. The first one meets
    empty queues and is cheaper; what counts is that a further event costs the same, however many there were.

    As cores grow, with the rows of the product: the channels are idle more than half of the time with 16
    cores and never with 64 or more: buffers are full then, a quarter of the requests meets another row, and a
    command is chosen among many.
    """
    found: list[Row] = []
    known_events, known_seconds = 0, 0.0
    for products in GROWN_PRODUCTS:
        events, seconds = _time_events(SCALED_CORES[-1], GROWN_ROWS, GROWN_WIDTH, products)
        further = (seconds - known_seconds) / (events - known_events)
        name = f"{SCALED_CORES[-1]} cores, 64 channels of HBM2, {products} products: "
        name += f"{events / 1e6:.1f} million events, time of each" + (" further one" if found else "")
        figure = "as in the row above: linear" if len(found) > 1 else ""
        found.append(Row(name, further * 1e9, "ns", figure))
        known_events, known_seconds = events, seconds
    for cores in SCALED_CORES:
        events, seconds = _time_events(cores, 256 * cores, 256, 1)
        name = f"{cores} cores, 64 channels of HBM2: {events / 1e6:.1f} million events, time of one"
        is_first = cores == SCALED_CORES[0]
        found.append(Row(name, seconds / events * 1e9, "ns", "" if is_first else "about the same in all"))
    return found


def _time_events(cores: int, rows: int, width: int, products: int) -> tuple[int, float]:
    """Measure (events, seconds of processor time) of a run without recording, the best of up to
    SCALED_REPEATS runs."""
    settings = {
        "mode": "parity",
        "cores": str(cores),
        "dram_channels": "64",
        "dram_type": "ramulator2",
        "dram_device": "HBM2",
        "icnt_injection_ports_per_core": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        model = _products(Path(folder), rows, width, products)
        spec, program = TARGET.load(LoadRequest(model, preset="tpuv4", settings=settings), NoProgress())
    times: list[float] = []
    events = 0
    while len(times) < SCALED_REPEATS and sum(times) < SCALED_SECONDS:
        machine = SystolicMachine(spec, program)
        begin = time.process_time()
        machine.advance(FOREVER, NO_STOPS, None)
        times.append(time.process_time() - begin)
        counters = machine.summary().counters
        names = ("reads", "writes", "gemm_instructions", "dram_commands")
        events = sum(counters[name] for name in names)
    return events, min(times)


def _products(folder: Path, rows: int, width: int, count: int) -> Path:
    """Make a model of consecutive MatMuls: [rows, width] with stored [width, width]."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [width, width])
    value = helper.make_tensor("value", TensorProto.FLOAT16, [1], [0.001])
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["w"], value=value)]
    names = ["x", *(f"h{index}" for index in range(1, count)), "y"]
    for index in range(count):
        ends = [names[index], "w"], [names[index + 1]]
        nodes.append(helper.make_node("MatMul", *ends, name=f"product{index}"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [rows, width]) for n in "xy"]
    graph = helper.make_graph(nodes, "gemm", ends[:1], ends[1:], [shape])
    path = folder / "products.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


_LARGE = """
import resource, sys, tempfile
from pathlib import Path
from onnx import TensorProto, helper, save
from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.target import TARGET

size = 2048
shape = helper.make_tensor("shape", TensorProto.INT64, [2], [size, size])
value = helper.make_tensor("value", TensorProto.FLOAT16, [1], [0.001])
nodes = [
    helper.make_node("ConstantOfShape", ["shape"], ["w"], value=value),
    helper.make_node("MatMul", ["x", "w"], ["y"], name="product"),
]
ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [size, size]) for n in "xy"]
graph = helper.make_graph(nodes, "gemm", ends[:1], ends[1:], [shape])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "gemm2048.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    request = LoadRequest(path, config=Path(sys.argv[1]), settings={"mode": "parity"})
    spec, program = TARGET.load(request, NoProgress())
machine = TARGET.build(spec, program)
machine.advance(1 << 40, NO_STOPS, None)
assert machine.is_finished
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def _peak_mib() -> float:
    """Measure the peak memory of a separate process that runs GEMM 2048 on the 8x8 array."""
    config = HOME / "configs" / "systolic_ws_8x8_c1_simple_noc_transformer_dramsimple.json"
    done = subprocess.run(
        [sys.executable, "-c", _LARGE, str(config)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])
