"""What the builder emits for each call, on which engine, and what it need not load again."""

import ml_dtypes
import numpy as np
import pytest

from npuviz.base.errors import DoesNotFit, SimulationError
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import dtype_name
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.compiler.assembly import assemble
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.isa import (
    ARG0,
    ARG1,
    DST,
    RES,
    SRC0,
    Activation,
    Alu,
    Dtype,
    Engine,
    Flag,
    Opcode,
    ReduceCmd,
    Space,
)
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.values.engine import ValueEngine
from tests.targets.neuroncore.compiler.graphs import io_graph, make_graph
from tests.targets.neuroncore.compiler.random_order import RandomMachine


def new_builder(preset: str = "trn2", graph: Graph | None = None, **settings: str) -> Builder:
    spec, _ = make_spec(preset, settings=settings)
    return Builder(graph or io_graph(2, (128, 64)), spec)


def rows(tables: Tables, opcode: Opcode) -> np.ndarray:
    return tables.instructions[tables.instructions["opcode"] == opcode]


def values_after(builder: Builder, inputs: dict[str, np.ndarray] | None = None) -> ValueEngine:
    """Contents after the program ran in a random order."""
    tables = assemble(builder, {})
    machine = RandomMachine(tables, 5)
    assert machine.run()
    engine = ValueEngine(tables, builder.graph, builder.spec, inputs or {})
    engine.advance_to(np.array(machine.log, np.int64))
    assert engine.hazards == []
    return engine


def test_activation_operands() -> None:
    b = new_builder()
    x, y = b.tiles.sbuf(128, (64,), "float32"), b.tiles.sbuf(128, (64,), "bfloat16")
    scale, sums = b.tiles.sbuf(128, (1,), "float32"), b.tiles.sbuf(128, (1,), "float32")
    b.isa.activation(
        y, x, Activation.GELU, scale=scale, bias=2.0, cmd=ReduceCmd.RESET_REDUCE, accumulators=sums
    )
    (row,) = rows(assemble(b, {}), Opcode.ACTIVATION)
    spaces = row["operands"]["space"].tolist()
    assert spaces == [Space.SBUF, Space.SBUF, 0, Space.SBUF, 0, Space.SBUF]
    assert (row["engine"], row["op0"], row["cmd"]) == (Engine.ACTIVATION, Activation.GELU, 3)
    assert row["imm"].tolist() == [1.0, 2.0, 0.0]
    assert row["operands"]["dtype"][[DST, SRC0]].tolist() == [Dtype.BFLOAT16, Dtype.FLOAT32]
    assert row["operands"]["address"][[ARG0, RES]].tolist() == [scale.address, sums.address]


def test_a_bias_is_a_column_where_the_generation_has_no_immediate() -> None:
    b = new_builder("trn1")
    x = b.tiles.sbuf(128, (64,), "float32")
    b.isa.memset(x, 1.0)
    b.isa.activation(x, x, Activation.RELU, bias=2.5)
    b.isa.activation(x, x, Activation.RELU, bias=2.5)
    tables = assemble(b, {})
    found = rows(tables, Opcode.ACTIVATION)
    assert found["operands"]["space"][:, ARG1].tolist() == [Space.SBUF] * 2
    assert found["imm"][:, 1].tolist() == [0.0, 0.0]
    assert len(tables.transfers) == 1
    assert (
        values_after(b).operand(int(np.flatnonzero(tables.instructions["opcode"] == 24)[-1]), 0).max() == 6.0
    )
    with pytest.raises(CannotLower, match="reciprocal with a bias"):
        b.isa.activation(x, x, Activation.RECIPROCAL, bias=1.0)


def test_integers_go_to_gpsimd() -> None:
    b = new_builder()
    x = b.tiles.sbuf(128, (8,), "int32")
    b.isa.memset(x, 1 << 30)
    b.isa.tensor_scalar(x, x, Alu.ADD, 7, integer=True)
    b.isa.tensor_tensor(x, x, x, Alu.SUBTRACT)
    b.isa.tensor_tensor(x, x, x, Alu.BITWISE_XOR)
    tables = assemble(b, {})
    (scalar,) = rows(tables, Opcode.TENSOR_SCALAR)
    assert scalar["imm"].view(np.int32)[0] == 7
    assert scalar["flags"] & Flag.INTEGER
    assert rows(tables, Opcode.TENSOR_TENSOR)["engine"].tolist()[0] == Engine.POOL
    assert rows(tables, Opcode.MEMSET)["imm"].view(np.int32)[0, 0] == 1 << 30
    old = new_builder("inf1")
    y = old.tiles.sbuf(128, (8,), "int32")
    with pytest.raises(CannotLower, match="inf1"):
        old.isa.tensor_tensor(y, y, y, Alu.ADD)


def test_work_is_spread_over_the_engines_that_can() -> None:
    b = new_builder()
    x = b.tiles.sbuf(128, (512,), "float32")
    for part in range(8):
        b.isa.copy(b.tiles.sbuf(128, (512,), "float32"), x) if part else b.isa.memset(x, 0)
    engines = set(rows(assemble(b, {}), Opcode.TENSOR_COPY)["engine"].tolist())
    assert engines == {Engine.ACTIVATION, Engine.POOL, Engine.DVE}
    psum = b.tiles.psum(128, (512,))
    with pytest.raises(CannotLower, match="not possible on POOL"):
        b.isa.copy(x, psum, engine=Engine.POOL)


def test_what_does_not_go_together_is_a_bug() -> None:
    b = new_builder()
    x, y = b.tiles.sbuf(128, (64,), "float32"), b.tiles.sbuf(128, (32,), "float32")
    with pytest.raises(SimulationError, match=r"TENSOR_COPY of .* differ in elements"):
        b.isa.copy(x, y)
    with pytest.raises(SimulationError, match="differ in partitions"):
        b.isa.copy(x[:64], x)
    with pytest.raises(SimulationError, match="8 elements"):
        b.isa.max8(y, x)
    with pytest.raises(SimulationError, match="matmul"):
        b.isa.matmul(b.tiles.psum(64, (64,)), x, y, False)
    with pytest.raises(SimulationError, match="transpose"):
        b.isa.transpose(b.tiles.psum(64, (64,)), x)
    with pytest.raises(SimulationError, match="one element"):
        b.isa.tensor_scalar(x, x, Alu.ADD, y)
    with pytest.raises(DoesNotFit, match="PSUM bank"):
        b.tiles.psum(128, (513,))
    with pytest.raises(DoesNotFit, match=r"a tile 128x100000"):
        b.tiles.sbuf(128, (100000,), "float32")


def test_a_reduction_keeps_its_dimensions_apart() -> None:
    b = new_builder()
    x, y = b.tiles.sbuf(128, (4, 16), "float32"), b.tiles.sbuf(128, (4,), "float32")
    b.dma.load(x, b.hbm[0])
    b.isa.tensor_reduce(y, x, Alu.ADD, 1)
    b.dma.store(b.hbm[3][:, :4], y)
    given = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    engine = values_after(b, {"x0": given})
    found = engine.variable(b.hbm[3].variable)[:, :4]
    np.testing.assert_allclose(found, given.reshape(128, 4, 16).sum(axis=2), rtol=1e-5, atol=1e-5)


def test_a_tile_that_was_stored_is_not_loaded_again() -> None:
    b = new_builder()
    with b.tiles.scope():
        x = b.dma.fetch(b.hbm[0])
        y = b.tiles.sbuf(128, (64,), "float32")
        b.isa.activation(y, x, Activation.RELU)
        b.dma.store(b.hbm[2], y)
    for part in (b.hbm[2], b.hbm[2][:64, 8:24], b.hbm[2].reshape(128, 8, 8)[:, 2:4, :4], b.hbm[0][:32]):
        found = b.dma.fetch(part)
        assert (found.partitions, *found.shape) == part.shape
    assert len(b.emitter.transfers) == 2
    b.dma.fetch(b.hbm[2][32:64])  # lies in partitions 32..63: engines would see it shifted
    b.dma.fetch(b.hbm[2].reshape(64, 128))
    assert len(b.emitter.transfers) == 4


def test_a_copy_that_is_no_copy_any_more_is_loaded_again() -> None:
    b = new_builder()
    first = b.dma.fetch(b.hbm[0])
    assert b.dma.fetch(b.hbm[0]).tile is first.tile
    b.isa.memset(first[:, 60:], 0.0)
    assert b.dma.fetch(b.hbm[0]).tile is not first.tile
    second = b.tiles.sbuf(128, (64,), "float32")
    b.isa.memset(second, 1.0)
    b.dma.store(b.hbm[2], second)
    assert b.dma.fetch(b.hbm[2]).tile is second.tile
    b.dma.copy(b.hbm[2][:, :8], b.hbm[0][:, :8])
    assert b.dma.fetch(b.hbm[2]).tile is not second.tile


def test_copies_in_use_are_not_evicted() -> None:
    b = new_builder(sbuf_partition_bytes="2048")
    with b.tiles.scope():
        held = b.dma.fetch(b.hbm[0])
        for _ in range(20):
            with b.tiles.scope():
                tile = b.tiles.sbuf(128, (128,), "float32")
                assert tile.address + 512 <= held.address or held.address + 256 <= tile.address
        assert b.dma.fetch(b.hbm[0]).tile is held.tile
    for _ in range(20):
        with b.tiles.scope():
            b.tiles.sbuf(128, (128,), "float32")
    assert b.dma.fetch(b.hbm[0]).tile is not held.tile


def test_copies_of_tiles_that_are_gone_are_not_kept() -> None:
    """Each write looks at all of them: a long program would take quadratic time."""
    b = new_builder(sbuf_partition_bytes="2048")
    for row in range(128):
        for first in range(0, 64, 2):
            with b.tiles.scope():
                tile = b.tiles.sbuf(1, (2,), "float32")
                b.isa.memset(tile, 0.0)
                b.dma.store(b.hbm[2][row : row + 1, first : first + 2], tile)
    assert len(b.tiles.cache) < len(b.emitter.transfers) / 4


@pytest.mark.parametrize("preset", ["inf1", "trn1", "trn2"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "bfloat16"),
        ("float16", "float32"),
        ("int64", "int64"),
        ("uint64", "uint64"),
        ("int32", "int64"),
        ("int64", "int32"),
        ("bool", "bool"),
        ("int8", "float32"),
        ("uint8", "int64"),
    ],
)
def test_values_survive_load_and_store(preset: str, source: str, target: str) -> None:
    graph = make_graph({"x": ((5, 6), source)}, {"y": ((5, 6), target)}, [])
    b = new_builder(preset, graph)
    b.dma.store(b.hbm[1], b.dma.fetch(b.hbm[0]))
    kind = np.dtype(ml_dtypes.bfloat16) if source == "bfloat16" else np.dtype(source)
    low = 0 if source[0] in "ub" else -3
    given = np.arange(low, low + 30).reshape(5, 6)
    given = given % 2 if source == "bool" else given
    engine = values_after(b, {"x": given.astype(kind)})
    found = engine.variable(b.hbm[1].variable)
    assert dtype_name(found.dtype) == target
    np.testing.assert_array_equal(found.astype(np.float64), given.astype(kind).astype(np.float64))


def test_gather_and_scatter_by_rows() -> None:
    graph = make_graph({"x": ((9, 6), "float32"), "i": ((4, 1), "int64")}, {"y": ((9, 6), "float32")}, [])
    b = new_builder("trn2", graph)
    index = b.dma.fetch(b.hbm[1], "int32")
    rows_of_x = b.tiles.sbuf(4, (6,), "float32")
    b.dma.gather(rows_of_x, b.hbm[0], index)
    b.dma.copy(b.hbm[2], b.hbm[0])
    b.isa.activation(rows_of_x, rows_of_x, Activation.COPY, scale=-1.0)
    b.dma.scatter(b.hbm[2], index, rows_of_x)
    x = np.arange(54, dtype=np.float32).reshape(9, 6)
    order = np.array([[7], [0], [3], [8]])
    found = values_after(b, {"x": x, "i": order}).variable(b.hbm[2].variable)
    x[order[:, 0]] *= -1
    np.testing.assert_array_equal(found, x)


def test_gather_and_scatter_cast_what_they_move_and_leave_skipped_rows() -> None:
    graph = make_graph({"x": ((9, 6), "float32"), "i": ((4, 1), "int64")}, {"y": ((9, 6), "bfloat16")}, [])
    b = new_builder("trn2", graph)
    index = b.dma.fetch(b.hbm[1], "int32")
    rows = b.tiles.sbuf(4, (6,), "int32")
    b.isa.memset(rows, -5)
    b.dma.gather(rows, b.hbm[0], index, skips=True)
    b.dma.copy(b.hbm[2], b.hbm[0])
    b.dma.scatter(b.hbm[2][::-1], index, rows, skips=True)
    x = np.arange(54, dtype=np.float32).reshape(9, 6) + np.float32(0.75)
    order = np.array([[7], [0], [30], [8]])
    found = values_after(b, {"x": x, "i": order}).variable(b.hbm[2].variable)
    expected = x.astype(ml_dtypes.bfloat16)
    for row in (7, 0, 8):
        expected[8 - row] = np.rint(x[row])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_high_rank_copies_within_hbm() -> None:
    shape = (2, 3, 2, 3, 2, 3)
    graph = make_graph({"x": (shape, "float32")}, {"y": (shape[::-1], "float32")}, [])
    b = new_builder("trn2", graph)
    b.dma.copy(b.hbm[1], b.hbm[0][::-1].permute(5, 4, 3, 2, 1, 0))
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(values_after(b, {"x": x}).variable(b.hbm[1].variable), x[::-1].transpose())


def test_taking_back_leaves_a_program_that_is_right() -> None:
    b = new_builder()
    x = b.dma.fetch(b.hbm[0])
    y = b.tiles.sbuf(128, (64,), "float32")
    b.isa.activation(y, x, Activation.RELU)
    b.dma.store(b.hbm[2], y)
    for tile in b.tiles.all:
        tile.users = 0
    mark = b.mark()
    before = len(b.emitter.transfers), len(b.hbm.drafts)
    with b.tiles.scope():
        z = b.dma.fetch(b.hbm[1])
        b.isa.tensor_tensor(z, z, b.dma.fetch(b.hbm[2]), Alu.ADD)
        b.dma.store(b.hbm.scratch((128, 64), "float32"), z)
        b.dma.store(b.hbm[3], z)
    b.take_back(mark)
    assert (len(b.emitter.transfers), len(b.hbm.drafts)) == before
    with b.tiles.scope():
        z = b.dma.fetch(b.hbm[2])
        b.isa.tensor_tensor(b.tiles.sbuf(128, (64,), "float32"), z, z, Alu.ADD)
        b.dma.store(b.hbm[3], z)
    given = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    found = values_after(b, {"x0": given}).variable(b.hbm[3].variable)
    np.testing.assert_array_equal(found, np.maximum(given, 0))
