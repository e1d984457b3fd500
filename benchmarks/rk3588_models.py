"""Quantised models for the RK3588, and what one core and three cores make of them."""

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

from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588 import state_kernels as sk
from npuviz.targets.rk3588.engine import Engine
from npuviz.targets.rk3588.machine import RknnMachine
from npuviz.targets.rk3588.reports import LayerReport, layer_reports
from npuviz.targets.rk3588.target import TARGET

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FOREVER = 1 << 50
OPSET = 17
SAMPLES = 4


class RandomInputs(CalibrationDataReader):
    """A few seeded pictures of one input."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        generator = np.random.default_rng(0)
        self._left: Iterator[dict[str, np.ndarray]] = iter(
            [{name: generator.standard_normal(shape).astype(np.float32)} for _ in range(SAMPLES)]
        )

    def get_next(self) -> dict[str, np.ndarray]:
        """The next picture, an empty one behind the last."""
        return next(self._left, {})


def with_constant_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in a new opset; initializers are no inputs, a Sum of two is an Add."""
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
    """An int8 model of one of onnx's light models, kept in the temporary folder."""
    source = LIGHT / f"{name}.onnx"
    key = hashlib.sha256(source.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    result = Path(tempfile.gettempdir()) / f"npuviz_{name}_int8_{key}.onnx"
    if not result.exists():
        # Whole or not at all, also when two processes make it.
        part = result.with_suffix(f".{time.time_ns()}.onnx")
        quantise(source, part)
        part.replace(result)
    return result


@dataclass(frozen=True)
class Run:
    """A finished program: milliseconds of all, and of the time in which some core ran a task."""

    whole_ms: float
    npu_ms: float
    machine: RknnMachine
    layers: tuple[LayerReport, ...]


def run_model(path: Path, cores: int, **settings: str) -> Run:
    """Simulate a model to its end. Raises RuntimeError if it stops elsewhere."""
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
    """Cycles in which at least one core ran a task: jobs' spans, without driver and host."""
    spans = sorted(
        (int(record[sk.X_START]), int(record[sk.X_END]))
        for record in (engine.record(task.index) for task in engine.tables.tasks)
    )
    total, end = 0, 0
    for start, stop in spans:
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total
