"""Tensors that stay on chip are found element by element."""

import numpy as np
import pytest

from npuviz.targets.neuroncore.compiler.assembly import assemble
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.isa import Activation, Alu
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.values.engine import ValueEngine
from tests.targets.neuroncore.compiler.graphs import make_graph
from tests.targets.neuroncore.compiler.random_order import RandomMachine

SHAPE = (3, 4, 5, 6)


def picked_up(builder: Builder, tables: Tables, inputs: dict[str, np.ndarray], tensor: int) -> np.ndarray:
    """The tensor as its pieces show it; NaN where none does."""
    machine = RandomMachine(tables, 1)
    assert machine.run()
    engine = ValueEngine(tables, builder.graph, builder.spec, inputs)
    found = np.full(builder.graph.tensors[tensor].num_elements, np.nan)
    of_instruction = {piece.instruction: piece for piece in tables.pieces if piece.tensor == tensor}

    def visit(position: int, entry: int) -> None:
        piece = of_instruction.get(entry)
        if piece is None:
            return
        operand = tables.instructions["operands"][entry, piece.operand]
        where = piece.base + np.arange(operand["partitions"]) * piece.partition_step
        for size, step in zip(operand["sizes"].tolist(), piece.steps, strict=True):
            where = where[..., None] + np.arange(size) * step
        found[where.reshape(-1)] = engine.operand(entry, piece.operand).reshape(-1)

    engine.replay(np.array(machine.log, np.int64), (), visit)
    return found.reshape(builder.graph.tensors[tensor].shape)


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 1, 2, 3), (2, 3, 0, 1)])
def test_intermediates_are_found_whatever_the_arrangement(order: tuple[int, ...]) -> None:
    graph = make_graph(
        {"x": (SHAPE, "float32")}, {"y": (SHAPE, "float32")}, [], inner={"m": (SHAPE, "float32")}
    )
    numbers = {tensor.name: tensor.id for tensor in graph.tensors}
    builder = Builder(graph, make_spec("trn2")[0])
    source = builder.hbm[numbers["x"]].permute(*order)
    target = builder.hbm[numbers["y"]].permute(*order)
    with builder.node(0):
        for first in range(0, source.shape[2], 2):
            with builder.tiles.scope():
                x = builder.dma.fetch(source[:, :, first : first + 2])
                whole = builder.tiles.sbuf(x.partitions, x.shape, "float32")
                for part in range(x.shape[0]):
                    middle = builder.tiles.sbuf(x.partitions, x.shape[1:], "float32")
                    builder.isa.activation(middle, x[:, part], Activation.SQUARE)
                    builder.shown.show(numbers["m"], middle)
                    builder.isa.tensor_scalar(whole[:, part], middle, Alu.ADD, 1.0)
                    builder.shown.belong_to(whole[:, part])
                builder.dma.store(target[:, :, first : first + 2], whole)
    tables = assemble(builder, {})
    assert tables.pieces
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    np.testing.assert_allclose(picked_up(builder, tables, {"x": x}, numbers["m"]), x * x, rtol=1e-6)


def test_what_is_not_stored_is_not_shown() -> None:
    graph = make_graph({"x": ((8, 8), "float32")}, {"y": ((8, 8), "float32")}, [])
    builder = Builder(graph, make_spec("trn2")[0])
    with builder.node(0):
        x = builder.dma.fetch(builder.hbm[0])
        y, z = builder.tiles.sbuf(8, (8,), "float32"), builder.tiles.sbuf(8, (8,), "float32")
        builder.isa.activation(y, x, Activation.SQUARE)
        builder.shown.show(0, y)
        builder.shown.belong_to(z)
    with builder.node(1):
        builder.dma.store(builder.hbm[1], y)
    assert assemble(builder, {}).pieces == ()


def test_half_a_tensor_is_not_shown() -> None:
    graph = make_graph({"x": ((8, 8), "float32")}, {"y": ((8, 8), "float32")}, [])
    builder = Builder(graph, make_spec("trn2")[0])
    with builder.node(0):
        x = builder.dma.fetch(builder.hbm[0])
        y, z = builder.tiles.sbuf(8, (8,), "float32"), builder.tiles.sbuf(8, (8,), "float32")
        for half in (slice(0, 4), slice(4, 8)):
            builder.isa.activation(y[:, half], x[:, half], Activation.SQUARE)
            if half.start == 0:
                builder.shown.show(0, y[:, half])
            builder.isa.copy(z[:, half], y[:, half])
            builder.shown.belong_to(z[:, half])
        builder.dma.store(builder.hbm[1], z)
    assert len(builder.shown) == 1
    assert assemble(builder, {}).pieces == ()
