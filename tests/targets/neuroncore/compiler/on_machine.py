"""Compiles small ONNX models, runs them on the machine and returns everything worth asserting."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from npuviz.base.progress import NoProgress
from npuviz.onnx.passes.optimization import KEEP_NODES
from npuviz.program.program import Program
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.target import TARGET


@dataclass(frozen=True)
class Ran:
    """outputs in the model's order; hazards as "kind: text"; host: operators on the Host unit."""

    outputs: list[np.ndarray]
    hazards: list[str]
    host: list[str]
    cycles: int
    program: Program


def value_info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """The declaration of a tensor of an array's type and shape."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 21,
    known: Mapping[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """A checked model with inferred shapes; known: outputs that onnx cannot infer."""
    known = known or {}
    initialisers = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "case",
        [value_info(name, array) for name, array in inputs.items()],
        [
            value_info(name, known[name]) if name in known else onnx.ValueInfoProto(name=name)
            for name in outputs
        ],
        initialisers,
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, 1) for domain in {node.domain for node in nodes} - {""}]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 10
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def run(
    model: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    preset: str = "",
    keeps_nodes: bool = True,
    settings: Mapping[str, str] | None = None,
) -> Ran:
    """Run to the end. keeps_nodes: without the optimiser, which would fold small graphs away."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    if keeps_nodes:
        made.metadata_props.add(key=KEEP_NODES[0], value=KEEP_NODES[1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(made.SerializeToString())
        request = LoadRequest(path, preset, None, settings or {}, dict(inputs))
        spec, program = TARGET.load(request, NoProgress())
    machine: Any = TARGET.build(spec, program)
    stop = machine.advance(1 << 40, NO_STOPS, None)
    assert stop.kind == StopKind.FINISHED, stop
    by_name = {tensor.name: tensor.id for tensor in program.graph.tensors}
    outputs = [np.asarray(machine.tensor(by_name[value.name])) for value in model.graph.output]
    hazards = [f"{each.kind}: {each.text}" for each in machine.hazards()]
    host = [program.graph.nodes[i].op_type for i, place in program.placement.items() if place == "Host"]
    return Ran(outputs, hazards, host, machine.cycle, program)


def run_node(
    op_type: str,
    arrays: Sequence[np.ndarray | None],
    *,
    num_outputs: int = 1,
    opset: int = 21,
    constants: Sequence[int] = (),
    preset: str = "",
    dtype: str = "",
    known: Mapping[str, np.ndarray] | None = None,
    **attributes: Any,
) -> Ran:
    """One operator. constants: positions of inputs that are initialisers; known: see make_model."""
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(arrays)]
    outputs = [f"y{i}" for i in range(num_outputs)]
    node = helper.make_node(op_type, names, outputs, **attributes)
    given = {
        n: a
        for i, (n, a) in enumerate(zip(names, arrays, strict=True))
        if a is not None and i not in constants
    }
    fixed = {names[i]: array for i in constants if (array := arrays[i]) is not None}
    model = make_model([node], given, outputs, fixed, opset, known)
    return run(model, given, preset, settings={"dtype": dtype} if dtype else {})


def reference(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnx's own reference implementation computes."""
    with np.errstate(all="ignore"):
        return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, dict(inputs))]


def assert_matches(ran: Ran, expected: Sequence[np.ndarray], rtol: float = 2e-5, atol: float = 1e-6) -> None:
    """Equal shapes, types and values, all on the engines, nothing for the user to worry about."""
    assert ran.host == []
    assert ran.hazards == []
    for got, wanted in zip(ran.outputs, expected, strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol, atol)


def check_node(
    op_type: str,
    arrays: Sequence[np.ndarray | None],
    *,
    expected: Sequence[np.ndarray] | None = None,
    num_outputs: int = 1,
    opset: int = 21,
    constants: Sequence[int] = (),
    rtol: float = 2e-5,
    atol: float = 1e-6,
    **attributes: Any,
) -> Ran:
    """Run one operator on the machine and compare with `expected`, else with onnx's reference."""
    if expected is None:
        names = [f"x{i}" if array is not None else "" for i, array in enumerate(arrays)]
        outputs = [f"y{i}" for i in range(num_outputs)]
        inputs = {f"x{i}": array for i, array in enumerate(arrays) if array is not None}
        node = helper.make_node(op_type, names, outputs, **attributes)
        expected = reference(make_model([node], inputs, outputs, opset=opset), inputs)
    known = {f"y{i}": array for i, array in enumerate(expected)}
    ran = run_node(
        op_type, arrays, num_outputs=num_outputs, opset=opset, constants=constants, known=known, **attributes
    )
    assert_matches(ran, expected, rtol, atol)
    return ran
