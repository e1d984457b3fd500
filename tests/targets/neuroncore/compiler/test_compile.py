"""Whole graphs: right results in any order, what goes to the host and why, and how long it takes."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from npuviz.base.errors import Cancelled, UsageError
from npuviz.base.progress import CallbackProgress
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.compiler import lowerings as families
from npuviz.targets.neuroncore.compiler.compile import compile_graph
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.ids import hbm_memory
from npuviz.targets.neuroncore.isa import Activation, Alu, Engine, Flag, Opcode
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.values.engine import ValueEngine
from tests.sweeps import quick
from tests.targets.neuroncore.compiler.graphs import make_graph
from tests.targets.neuroncore.compiler.random_order import RandomMachine

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FLOATS = ((128, 64), "float32")


def compiled(graph: Graph, preset: str = "trn2", **settings: str) -> Compiled:
    spec, _ = make_spec(preset, settings=settings)
    return compile_graph(graph, spec)


def contents(
    result: Compiled, inputs: dict[str, np.ndarray], preset: str = "trn2", **settings: str
) -> ValueEngine:
    """Contents after a run in a random order; nothing was read before it was written."""
    machine = RandomMachine(result.tables, 3)
    assert machine.run()
    engine = ValueEngine(result.tables, result.graph, make_spec(preset, settings=settings)[0], inputs)
    engine.advance_to(np.array(machine.log, np.int64))
    assert engine.hazards == []
    return engine


def mixed_model(path: Path) -> Path:
    """A small convolutional network with a branch, a reduction and a matrix product."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(draw.standard_normal(shape).astype(np.float32) / 4, name)

    nodes = [
        helper.make_node("Conv", ["x", "w", "c"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["r", "s"], ["m"]),
        helper.make_node("MaxPool", ["m"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["t", "v"], ["q"]),
        helper.make_node("Softmax", ["q"], ["y"], axis=-1),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 10])]
    weights = [weight("w", 8, 3, 3, 3), weight("c", 8), weight("v", 8, 10)]
    graph = helper.make_graph(nodes, "mixed", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize("preset", ["inf1", "trn1", "trn2", "trn3"])
def test_a_network_computes_what_the_reference_computes(preset: str, tmp_path: Path) -> None:
    graph = read_model(mixed_model(tmp_path / "mixed.onnx"))
    result = compiled(graph, preset)
    assert set(result.placement.values()) == {"Core"}
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    engine = contents(result, {"x": x}, preset)
    (output,) = result.graph.outputs
    (expected,) = run_reference(result.graph, {"x": x}, [output]).values()
    np.testing.assert_allclose(engine.variable(result.tables.outputs[output]), expected, rtol=1e-4, atol=1e-5)
    assert result.tables.outputs.keys() == {output}


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_intermediates_have_the_compute_type(dtype: str, tmp_path: Path) -> None:
    graph = read_model(mixed_model(tmp_path / "mixed.onnx"))
    result = compiled(graph, dtype=dtype)
    wide = {"bf16": "bfloat16", "fp16": "float16"}[dtype]
    kinds = {each.kind: each.dtype for each in result.tables.variables if each.tensor >= 0}
    assert kinds["input"] == kinds["output"] == "float32"
    assert kinds["constant"] == kinds["scratch"] == wide
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    (output,) = result.graph.outputs
    (expected,) = run_reference(result.graph, {"x": x}, [output]).values()
    found = contents(result, {"x": x}).variable(result.tables.outputs[output])
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.02)


def test_every_tensor_has_its_place_in_hbm(tmp_path: Path) -> None:
    result = compiled(read_model(mixed_model(tmp_path / "mixed.onnx")))
    places = result.memory_map.allocations
    assert {place.memory for place in places} == {hbm_memory(make_spec("trn2")[0])}
    ends = 0
    for variable in result.tables.variables:
        assert variable.address >= ends
        assert variable.address % 64 == 0
        ends = variable.address + variable.size_bytes
    inputs_and_output = {*result.graph.inputs, *result.graph.outputs}
    assert inputs_and_output <= {place.tensor for place in places}


def test_what_nobody_can_lower_runs_on_the_host() -> None:
    graph = make_graph(
        {"x": FLOATS},
        {"y": FLOATS},
        [("Relu", ["x"], ["a"], {}), ("Unheard", ["a"], ["b"], {}), ("Neg", ["b"], ["y"], {})],
        inner={"a": FLOATS, "b": FLOATS},
    )
    result = compiled(graph)
    assert result.placement == {0: "Core", 1: "Host", 2: "Core"}
    (note,) = [note for note in result.notes if note.code == "host-operator"]
    assert (note.node, note.severity) == (1, "info")
    assert "Unheard n1 runs on the host: the engines have no lowering for it" in note.text
    first, end = result.tables.sequencers[-1].tolist()
    (call,) = result.tables.instructions[first:end]
    assert (call["opcode"], call["id"], call["imm"][0]) == (Opcode.HOST_CALL, 1, 2 * 128 * 64 * 4)
    assert call["waits"]["used"].any()
    assert RandomMachine(result.tables, 0).run()


def test_two_cores_share_the_work_and_hear_of_the_host(tmp_path: Path) -> None:
    nodes = [
        ("Relu", ["x"], ["a"], {}),
        ("Unheard", ["a"], ["b"], {}),
        ("Neg", ["b"], ["c"], {}),
        ("Transpose", ["b"], ["d"], {"perm": [1, 0]}),
        ("MatMul", ["c", "d"], ["y"], {}),
    ]
    inner = {"a": FLOATS, "b": FLOATS, "c": FLOATS, "d": ((64, 128), "float32")}
    graph = make_graph({"x": FLOATS}, {"y": ((128, 128), "float32")}, nodes, inner=inner)
    result = compiled(graph, lnc="2")
    assert result.tables.num_cores == 2
    for seed in range(4):
        assert RandomMachine(result.tables, seed).run()
    model = compiled(read_model(mixed_model(tmp_path / "mixed.onnx")), lnc="2")
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    (output,) = model.graph.outputs
    (expected,) = run_reference(model.graph, {"x": x}, [output]).values()
    found = contents(model, {"x": x}, lnc="2").variable(model.tables.outputs[output])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert any(transfer.remote_semaphores for transfer in model.tables.transfers)


def test_reshaping_costs_nothing() -> None:
    nodes = [
        ("Relu", ["x"], ["a"], {}),
        ("Reshape", ["a", "s"], ["b"], {}),
        ("Unheard", ["b"], ["c"], {}),
        ("Neg", ["b"], ["d"], {}),
        ("Flatten", ["d"], ["y"], {}),
    ]
    flat, cube = ((128, 64), "float32"), ((32, 4, 64), "float32")
    inner = {"a": flat, "b": cube, "c": cube, "d": cube}
    graph = make_graph(
        {"x": FLOATS}, {"y": ((32, 256), "float32")}, nodes, {"s": np.array([32, 4, 64])}, inner
    )
    result = compiled(graph)
    assert result.placement == {0: "Core", 1: "Core", 2: "Host", 3: "Core", 4: "Core"}
    assert 1 not in result.tables.nodes
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    machine = RandomMachine(result.tables, 3)
    assert machine.run()
    engine = ValueEngine(result.tables, graph, make_spec("trn2")[0], {"x": x})
    engine.advance_to(np.array(machine.log, np.int64))
    (home,) = result.tables.outputs.values()
    np.testing.assert_array_equal(engine.variable(home), -np.maximum(x, 0).reshape(32, 256))
    # The host looks tensors up by name: for it the reshaped one has bytes of its own.
    (own,) = [each.id for each in result.tables.variables if each.name == "b"]
    np.testing.assert_array_equal(engine.variable(own), np.maximum(x, 0).reshape(32, 4, 64))


@pytest.mark.parametrize(
    ("dge", "preset", "owners"),
    [("hardware", "trn2", {Engine.SP, Engine.ACTIVATION}), ("software", "trn1", {Engine.POOL})],
)
def test_instructions_can_make_the_descriptors(
    dge: str, preset: str, owners: set[Engine], tmp_path: Path
) -> None:
    result = compiled(read_model(mixed_model(tmp_path / "mixed.onnx")), preset, dge=dge)
    tables = result.tables
    assert {transfer.trigger for transfer in tables.transfers} == {f"{dge} DGE"}
    triggers = tables.instructions[tables.transfer_of >= 0]
    assert set(triggers["opcode"].tolist()) == {Opcode.DMA_COPY}
    assert set(triggers["engine"].tolist()) == owners
    assert ((triggers["flags"] & Flag.SOFTWARE > 0) == (dge == "software")).all()
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    (output,) = result.graph.outputs
    (expected,) = run_reference(result.graph, {"x": x}, [output]).values()
    found = contents(result, {"x": x}, preset).variable(tables.outputs[output])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dge", "preset"), [("hardware", "trn1"), ("software", "inf1")])
def test_a_generation_without_such_dge_refuses_it(dge: str, preset: str) -> None:
    with pytest.raises(UsageError, match=f"dge={dge}: {preset} has no"):
        make_spec(preset, settings={"dge": dge})


def lower_badly(b: Any, node: Any) -> None:
    """Emits half of its work and gives up."""
    with b.tiles.scope():
        x = b.dma.fetch(b.hbm[node.inputs[0]])
        b.dma.store(b.hbm[node.outputs[0]], x)
        b.dma.store(b.hbm.scratch((128, 64), "float32"), x)
        raise CannotLower("half of it was enough")


def lower_wrongly(b: Any, node: Any) -> None:
    """A bug: operands that do not go together."""
    x = b.dma.fetch(b.hbm[node.inputs[0]])
    b.isa.tensor_tensor(x, x, x[:, :7], Alu.ADD)


@pytest.fixture
def with_lowerings(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"Bad": lower_badly, "Wrong": lower_wrongly}
    table: Mapping[str, Any] = {**families.lowerings(), **extra}
    monkeypatch.setattr(families, "lowerings", lambda: table)


@pytest.mark.usefixtures("with_lowerings")
def test_a_half_lowered_node_leaves_nothing_behind() -> None:
    nodes = [("Relu", ["x"], ["a"], {}), ("Bad", ["a"], ["b"], {}), ("Neg", ["a"], ["y"], {})]
    graph = make_graph({"x": FLOATS}, {"y": FLOATS}, nodes, inner={"a": FLOATS, "b": FLOATS})
    result = compiled(graph)
    assert result.placement == {0: "Core", 1: "Host", 2: "Core"}
    assert "half of it was enough" in next(n.text for n in result.notes if n.code == "host-operator")
    on_engines = result.tables.nodes[: result.tables.sequencers[-1, 0]]
    assert 1 not in on_engines
    assert not any(variable.name.startswith("scratch.") for variable in result.tables.variables)


@pytest.mark.usefixtures("with_lowerings")
def test_a_bug_of_a_lowering_is_told_and_not_computed() -> None:
    graph = make_graph({"x": FLOATS}, {"y": FLOATS}, [("Wrong", ["x"], ["y"], {})])
    result = compiled(graph)
    assert result.placement == {0: "Host"}
    (note,) = [note for note in result.notes if note.code == "lowering-bug"]
    assert note.severity == "warning"
    assert "operands differ in elements" in note.text


def test_outputs_that_nobody_computes_are_copied() -> None:
    constant = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = make_graph({"x": FLOATS}, {}, [], {"w": constant})
    graph = Graph("g", (), graph.tensors, graph.inputs, (0, 1), graph.constants, graph.opsets)
    result = compiled(graph, dtype="bf16")
    given = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    engine = contents(result, {"x": given})
    np.testing.assert_array_equal(engine.variable(result.tables.outputs[0]), given)
    np.testing.assert_array_equal(engine.variable(result.tables.outputs[1]), constant)
    assert all(result.tables.variables[home].kind == "output" for home in result.tables.outputs.values())


def test_tables_are_loaded_before_the_functions_that_need_them() -> None:
    nodes = [(op, [x], [y], {}) for op, x, y in (("Exp", "x", "a"), ("Sin", "a", "b"), ("Exp", "b", "y"))]
    graph = make_graph({"x": FLOATS}, {"y": FLOATS}, nodes, inner={"a": FLOATS, "b": FLOATS})
    tables = compiled(graph).tables
    stream = tables.instructions[slice(*tables.sequencers[Engine.ACTIVATION].tolist())]
    found = [
        (int(row["opcode"]), int(row["op0"]))
        for row in stream
        if row["opcode"] in (Opcode.TABLE_LOAD, Opcode.ACTIVATION)
    ]
    loads = [at for at, (opcode, _) in enumerate(found) if opcode == Opcode.TABLE_LOAD]
    assert found[loads[0] + 1] == (Opcode.ACTIVATION, Activation.EXP)
    assert len(loads) == 3


def test_tiles_are_on_record() -> None:
    graph = make_graph({"x": FLOATS}, {"y": FLOATS}, [("Relu", ["x"], ["y"], {})])
    tables = compiled(graph).tables
    assert len(tables.allocations) >= 2
    assert set(tables.allocations["tensor"].tolist()) == {0, 1}
    assert (tables.allocations["first"] < len(tables.instructions)).all()
    assert (tables.nodes[tables.allocations["first"]] == 0).all()


def test_compiling_can_be_cancelled() -> None:
    progress = CallbackProgress(lambda fraction, text: None)
    progress.cancel()
    graph = make_graph({"x": FLOATS}, {"y": FLOATS}, [("Relu", ["x"], ["y"], {})])
    with pytest.raises(Cancelled):
        compile_graph(graph, make_spec("trn2")[0], progress)


def test_one_long_operator_can_be_cancelled() -> None:
    told: list[str] = []

    def tell(fraction: float, text: str) -> None:
        told.append(text)
        if len(told) == 3:
            progress.cancel()

    progress = CallbackProgress(tell)
    long = ((1 << 13, 1 << 15), "float32")
    graph = make_graph({"x": long}, {"y": long}, [("Relu", ["x"], ["y"], {})])
    with pytest.raises(Cancelled):
        compile_graph(graph, make_spec("trn2")[0], progress)
    assert len(told) == 3


def test_equal_graphs_give_equal_tables(tmp_path: Path) -> None:
    graph = read_model(mixed_model(tmp_path / "mixed.onnx"))
    first, second = compiled(graph).tables, compiled(graph).tables
    np.testing.assert_array_equal(first.instructions, second.instructions)
    assert first.transfers == second.transfers


@quick("light_shufflenet", "light_squeezenet", "light_inception_v1")
@pytest.mark.parametrize("name", sorted(path.stem for path in LIGHT.glob("light_*.onnx")))
def test_light_models_run_wholly_on_the_engines(name: str) -> None:
    started = time.process_time()
    result = compiled(read_model(LIGHT / f"{name}.onnx"))
    assert time.process_time() - started < 60  # 1 to 5 s
    assert set(result.placement.values()) == {"Core"}
    assert not [note for note in result.notes if note.severity == "warning"]
    assert RandomMachine(result.tables, 0).run()
