"""NaNs and infinities of outputs are followed back to the operator that made them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor
from npuviz.sim.checks.births import births
from npuviz.sim.checks.findings import findings_of
from npuviz.sim.machine import HasStillMemories, Hazard
from npuviz.workbench.opening import OpenOptions, open_file

NAN, INF = float("nan"), float("inf")


def chain(*values: float | None) -> list[Hazard]:
    """Births in a chain of operators A, B, C ... on tensor t0; None: no memory holds it."""
    tensors = [Tensor(n, f"t{n}", (1,), "float32", "activation", n - 1) for n in range(len(values))]
    nodes = [Node(n, chr(65 + n), "Op", "", (n,), (n + 1,)) for n in range(len(values) - 1)]
    graph = Graph("chain", tuple(nodes), tuple(tensors), (0,), (len(values) - 1,))

    def held(tensor: int) -> np.ndarray | None:
        value = values[tensor]
        return None if value is None else np.array([value], np.float32)

    return [*births(graph, held, 7)]


@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        ((1.0, 1.0, 1.0), "", ""),
        ((1.0, NAN, NAN), "nan", "A"),
        ((1.0, 1.0, NAN, NAN), "nan", "B"),
        ((1.0, INF, NAN, NAN), "infinity", "A"),
        ((1.0, 1.0, None, NAN), "nan", "BC"),
        ((1.0, NAN, None, 1.0), "", ""),
        ((NAN, NAN, NAN), "", ""),
        ((1.0, INF, 1.0, -INF), "infinity", "C"),
    ],
)
def test_the_operator_that_made_them_is_named(
    values: tuple[float | None, ...], kind: str, names: str
) -> None:
    found = chain(*values)
    assert [hazard.kind for hazard in found] == ([kind] if kind else [])
    for hazard in found:
        assert [name for name in "ABC" if f"{name} (Op)" in hazard.text] == list(names)
        assert (hazard.level, hazard.cycle, bool(hazard.mend)) == ("warning", 7, True)


@pytest.mark.parametrize(
    ("op_type", "attributes", "shapes", "is_told"),
    [
        ("ReduceMax", {}, [(0, 4)], False),
        ("ReduceMax", {}, [(1, 4)], True),
        ("Attention", {"is_causal": 1}, [(1, 4)] * 3, False),
        ("Attention", {}, [(1, 4)] * 3, True),
        ("Attention", {}, [(1, 4)] * 4, False),
    ],
)
@pytest.mark.parametrize("made", [INF, NAN])
def test_infinities_that_an_operator_is_defined_to_give_are_not_told(
    op_type: str, attributes: dict[str, int], shapes: list[tuple[int, ...]], is_told: bool, made: float
) -> None:
    inputs = tuple(range(len(shapes)))
    tensors = [Tensor(n, f"t{n}", shape, "float32", "activation", -1) for n, shape in enumerate(shapes)]
    tensors.append(Tensor(len(shapes), "y", (1, 4), "float32", "activation", 0))
    node = Node(0, "A", op_type, "", inputs, (len(shapes),), attributes)
    graph = Graph("one", (node,), tuple(tensors), inputs, (len(shapes),))

    def held(tensor: int) -> np.ndarray:
        return np.full(tensors[tensor].shape, made if tensor == len(shapes) else 1.0, np.float32)

    assert len([*births(graph, held, 7)]) == (is_told or np.isnan(made))


@pytest.mark.parametrize("target", ["neuroncore", "rk3588", "systolic"])
def test_machines_say_it_at_the_end(target: str, tmp_path: Path) -> None:
    """Log of -1, with operators before and behind it."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy"]
    nodes = [
        helper.make_node("Neg", ["x"], ["minus"], "before"),
        helper.make_node("Log", ["minus"], ["logs"], "culprit"),
        helper.make_node("Add", ["logs", "x"], ["y"], "behind"),
    ]
    graph = helper.make_graph(nodes, "born", info[:1], info[1:])
    path = tmp_path / "born.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    for sign, count in ((1.0, 1), (-1.0, 0)):
        given = tmp_path / f"x{sign}.npy"
        np.save(given, np.full((1, 8), sign, np.float32))
        session = open_file(path, OpenOptions(target=target, inputs={"x": np.load(given)})).session
        assert session is not None
        session.run()
        machine = session.machine
        assert isinstance(machine, HasStillMemories)
        found = [h for h in findings_of(machine).hazards if h.kind in ("nan", "infinity")]
        assert len(found) == count
        assert all("culprit" in hazard.text for hazard in found)
        assert findings_of(machine, machine.still_memories()) == findings_of(machine)
