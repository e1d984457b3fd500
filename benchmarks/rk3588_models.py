"""Quantises models for the RK3588, and compares runs on one core and on three."""

import hashlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.row import Row
from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.target import TARGET
from npuviz.targets.rk3588.view.reports import LayerReport, layer_reports

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FOREVER = 1 << 50
OPSET = 17
SAMPLES = 4


class RandomInputs(CalibrationDataReader):
    """A few random images for one input, from a fixed seed."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        generator = np.random.default_rng(0)
        self._left: Iterator[dict[str, np.ndarray]] = iter(
            [{name: generator.standard_normal(shape).astype(np.float32)} for _ in range(SAMPLES)]
        )

    def get_next(self) -> dict[str, np.ndarray]:
        """Return the next image, {} behind the last one."""
        return next(self._left, {})


def with_constant_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert a model to OPSET, with initialisers that are no inputs, and Add instead of Sum of two
    tensors."""
    stored = {initial.name for initial in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in stored]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = 8
    made = version_converter.convert_version(model, OPSET)
    for node in made.graph.node:
        if node.op_type == "Sum" and len(node.input) == 2:
            node.op_type = "Add"
    return made


def quantise(source: Path, result: Path, *, per_channel: bool = True) -> None:
    """Write an int8 model (QDQ) of a float model with one input, calibrated with random pictures."""
    model = with_constant_weights(onnx.load(source))
    first = model.graph.input[0]
    shape = tuple(d.dim_value or 1 for d in first.type.tensor_type.shape.dim)
    with tempfile.TemporaryDirectory() as folder:
        plain, prepared = Path(folder) / "plain.onnx", Path(folder) / "prepared.onnx"
        onnx.save(model, plain)
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(result),
            RandomInputs(first.name, shape),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel=per_channel,
        )


def quantised_light(name: str) -> Path:
    """Return an int8 version of one of onnx's light models, cached in the temporary folder."""
    source = LIGHT / f"{name}.onnx"
    key = hashlib.sha256(source.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    result = Path(tempfile.gettempdir()) / f"npuviz_{name}_int8_{key}.onnx"
    if not result.exists():
        # Written atomically, since two processes may write it.
        part = result.with_suffix(f".{time.time_ns()}.onnx")
        quantise(source, part)
        part.replace(result)
    return result


@dataclass(frozen=True)
class Run:
    """A finished run: milliseconds in total, and with a task on at least one core."""

    whole_ms: float
    npu_ms: float
    machine: RknnMachine
    layers: tuple[LayerReport, ...]


def run_model(path: Path, cores: int, **settings: str) -> Run:
    """Simulate a model to its end. Raises RuntimeError if it stops before."""
    request = LoadRequest(path, settings={"cores": str(cores), **settings})
    spec, program = TARGET.load(request, NoProgress())
    machine = TARGET.build(spec, program)
    assert isinstance(machine, RknnMachine)
    stop = machine.advance(FOREVER, NO_STOPS, None)
    if stop.kind is not StopKind.FINISHED:
        raise RuntimeError(f"stopped at cycle {stop.cycle}: {stop.kind} {stop.detail}")
    per_ms = machine.engine.spec.npu_hz / 1e3
    layers = layer_reports(machine.engine, program.graph)
    return Run(machine.cycle / per_ms, busy_cycles(machine.engine) / per_ms, machine, layers)


def busy_cycles(engine: Engine) -> int:
    """Return the cycles in which at least one core ran a task, without driver and host."""
    spans = sorted(
        (int(record.start), int(record.end))
        for record in (engine.record(task.index) for task in engine.tables.tasks)
    )
    total, end = 0, 0
    for start, stop in spans:
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def run() -> list[Row]:
    """Measure everything; takes about a minute, and half a minute more the first time for quantising."""
    TARGET.warm_up(NoProgress())
    return resnet_rows()


def resnet_rows() -> list[Row]:
    """Compare light_resnet50 in int8 on one core and on three, also with four times the DDR bandwidth."""
    path = quantised_light("light_resnet50")
    one, three = run_model(path, 1), run_model(path, 3)
    result = TARGET.check(three.machine, NoProgress())
    title = "light_resnet50 int8"
    rows = [
        Row(f"{title}: tensors beyond quantisation error", result.num_failed, "", "0"),
        Row(f"{title}, 1 core: all", one.whole_ms, "ms"),
        Row(f"{title}, 1 core: NPU", one.npu_ms, "ms"),
        Row(f"{title}, 3 cores: all", three.whole_ms, "ms"),
        Row(f"{title}, 3 cores: NPU", three.npu_ms, "ms"),
        Row(f"{title}, 3 cores: NPU bound by DDR", 100 * share_of(three, "DDR"), "%"),
        Row(f"{title}: NPU, 1 core / 3 cores", one.npu_ms / three.npu_ms, "x", "2.0 to 3.0 unless DDR-bound"),
    ]
    rows.append(Row(f"{title}: the same, layers not DDR-bound", gain(one, three), "x", "2.0 to 3.0"))
    # With memory four times as fast, the gain shows how well three cores share the work.
    fast = {"ddr_bytes_per_clock": "64"}
    one, three = run_model(path, 1, **fast), run_model(path, 3, **fast)
    gained = one.npu_ms / three.npu_ms
    return [*rows, Row(f"{title}: the same with four times the DDR", gained, "x", "2.0 to 3.0")]


def share_of(run: Run, bottleneck: str) -> float:
    """Return the share of all layers' time in layers with this bottleneck."""
    total = sum(layer.cycles for layer in run.layers)
    return sum(layer.cycles for layer in run.layers if layer.bottleneck == bottleneck) / total


def gain(one: Run, three: Run) -> float:
    """Return the speedup by three cores of the layers that are not bound by DDR."""
    pairs = [
        (a.cycles, b.cycles) for a, b in zip(one.layers, three.layers, strict=True) if b.bottleneck != "DDR"
    ]
    return sum(a for a, _ in pairs) / max(1, sum(b for _, b in pairs))
