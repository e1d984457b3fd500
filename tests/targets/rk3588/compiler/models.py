"""Small models, in floats and quantised, and what the RK3588 makes of them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from npuviz.base.progress import NoProgress
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588.compiler.layers import CONVERSIONS
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables, Task
from npuviz.targets.rk3588.target import TARGET
from npuviz.targets.rk3588.task.cost import cost_of

FOREVER = 1 << 50
SLOW_HOST = {"host_operator_ns": "1000000"}
"""Settings with which everything stays on the NPU that it can run."""


class Model:
    """A graph of float operators on one input `x`; weights are seeded."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self._random = np.random.default_rng(len(shape) + sum(shape))

    def weight(self, *shape: int, scale: float = 0.0) -> str:
        """Normal random numbers of a standard deviation, by default 1 / sqrt(fan-in)."""
        fan_in = int(np.prod(shape[1:] if len(shape) > 2 else shape[:1]))
        values = self._random.standard_normal(shape) * (scale or 1 / np.sqrt(max(1, fan_in)))
        return self.constant(values.astype(np.float32))

    def constant(self, values: Any) -> str:
        """A stored tensor."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node; its output has its name."""
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def conv(self, source: str, inputs: int, outputs: int, *kernel: int, **attributes: Any) -> str:
        """A convolution with bias."""
        groups = int(attributes.get("group", 1))
        weights = self.weight(outputs, inputs // groups, *kernel)
        return self.add("Conv", source, weights, self.weight(outputs, scale=0.3), **attributes)

    def save(self, folder: Path, *, quantised: bool = False, **options: Any) -> Path:
        """Write the model; the output is the last node's."""
        last = self.nodes[-1].output[0]
        graph = helper.make_graph(
            self.nodes,
            "small",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        model = onnx.shape_inference.infer_shapes(model)
        path = folder / "model.onnx"
        onnx.save(model, path)
        return quantise(path, self.shape, **options) if quantised else path


class _Inputs(CalibrationDataReader):
    def __init__(self, shape: tuple[int, ...]) -> None:
        generator = np.random.default_rng(0)
        self._left = iter([{"x": generator.standard_normal(shape).astype(np.float32)} for _ in range(4)])

    def get_next(self) -> dict[str, np.ndarray]:
        return next(self._left, {})


def quantise(
    path: Path,
    shape: tuple[int, ...],
    *,
    per_channel: bool = False,
    kind: QuantType = QuantType.QInt8,
    operators: Sequence[str] | None = None,
    form: QuantFormat = QuantFormat.QDQ,
) -> Path:
    """The model in 8 bits, by ONNX Runtime."""
    logging.getLogger().setLevel(logging.ERROR)
    result = path.with_name("quantised.onnx")
    quantize_static(
        str(path),
        str(result),
        _Inputs(shape),
        quant_format=form,
        activation_type=kind,
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
        op_types_to_quantize=operators,
    )
    return result


@dataclass(frozen=True)
class Finished:
    """A program at its end, and its check."""

    program: Program
    machine: RknnMachine
    result: CheckResult

    @property
    def tables(self) -> Tables:
        """Tasks and buffers."""
        return self.machine.engine.tables

    @property
    def spec(self) -> RknnSpec:
        """Settings."""
        return self.machine.engine.spec

    @property
    def work(self) -> list[Task]:
        """Tasks that do not only convert between fp16 and int8, or copy what the Host gives and takes."""
        nodes = self.program.graph.nodes
        return [
            task
            for task in self.tables.tasks
            if task.node >= 0 and nodes[task.node].op_type not in CONVERSIONS
        ]

    @property
    def host_reasons(self) -> list[str]:
        """Why operators are on the Host."""
        return [note.text for note in self.program.notes if note.code == "host-operator"]

    def nodes_on_host(self) -> set[str]:
        """Operators that the Host ran."""
        graph = self.program.graph
        return {graph.nodes[call.node].op_type for call in self.tables.hosts if call.node >= 0}


def run(path: Path, settings: Mapping[str, str] | None = None) -> Finished:
    """Compile, run to the end, compare with ONNX Runtime, and look for tasks that could not work, and for
    reads and writes that nothing orders or of what nobody wrote."""
    request = LoadRequest(path, settings=dict(settings or {}))
    spec, program = TARGET.load(request, NoProgress())
    machine = TARGET.build(spec, program)
    assert isinstance(machine, RknnMachine)
    stop = machine.advance(FOREVER, NO_STOPS, None)
    assert stop.kind is StopKind.FINISHED, stop.detail
    assert machine.memory_hazards().hazards == ()
    finished = Finished(program, machine, TARGET.check(machine, NoProgress()))
    for task in finished.tables.tasks:
        assert cost_of(task, spec).problem == ""
        conv = task.work.convolution
        if conv is not None:
            assert conv.data_banks + conv.weight_banks <= spec.cbuf_banks
    return finished


def checked(path: Path, settings: Mapping[str, str] | None = None) -> Finished:
    """As `run`; all values are right and no task was left out."""
    finished = run(path, settings)
    assert finished.result.num_tensors > 0
    assert finished.result.num_failed == 0, finished.result.first_divergence
    assert "not executed" not in finished.result.tolerance
    return finished


def on_npu(path: Path, settings: Mapping[str, str] | None = None) -> Finished:
    """As `checked`; the Host runs no operator."""
    finished = checked(path, settings)
    assert not finished.nodes_on_host(), finished.host_reasons
    return finished
