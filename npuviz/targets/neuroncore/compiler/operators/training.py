"""Lower Momentum, Adagrad and Adam (ai.onnx.preview.training), with a loop for each trained tensor."""

from collections.abc import Callable

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.elementwise import home
from npuviz.targets.neuroncore.compiler.operators.elementwise.iteration import blocks
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import (
    binary,
    compared,
    scalar,
    temporary,
    where,
)
from npuviz.targets.neuroncore.compiler.operators.reduction.axis_tiles import store_as
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Activation, Alu

WIDTH = 1024
Step = Callable[[Builder, Node, View, View, list[View]], list[View]]
"""Function step(b, node, R [P,1], T [P,1], [X, G, states]) that returns [new X, new states]."""


def _number(node: Node, name: str, default: float) -> float:
    return float(node.attributes.get(name, default))


def _regularised(b: Builder, node: Node, x: View, gradient: View) -> View:
    """Compute gradient + norm_coefficient * x."""
    made = temporary(b, x)
    factor = _number(node, "norm_coefficient", 0.0)
    b.isa.scalar_tensor_tensor(made, x, Alu.MULTIPLY, factor, Alu.ADD, gradient)
    return made


def _mixed(b: Builder, old: View, share: float, new: View, other: float | View) -> View:
    """Compute share * old + other * new."""
    made, added = temporary(b, old), temporary(b, old)
    binary(b, added, new, other, Alu.MULTIPLY)
    b.isa.scalar_tensor_tensor(made, old, Alu.MULTIPLY, share, Alu.ADD, added)
    return made


def _moved(b: Builder, x: View, rate: View, direction: View) -> View:
    """Compute x - rate * direction."""
    made = temporary(b, x)
    binary(b, made, direction, rate, Alu.MULTIPLY)
    binary(b, made, x, made, Alu.SUBTRACT)
    return made


def _divided_by_root(b: Builder, x: View, squares: View, epsilon: float) -> View:
    """Compute x / (sqrt(squares) + epsilon)."""
    root = temporary(b, x)
    scalar(b, root, squares, Alu.POWER, 0.5, Alu.ADD, epsilon)
    binary(b, root, x, root, Alu.DIVIDE)
    return root


def _momentum(b: Builder, node: Node, rate: View, count: View, values: list[View]) -> list[View]:
    x, gradient, velocity = values
    gradient = _regularised(b, node, x, gradient)
    alpha, share = _number(node, "alpha", 0.0), temporary(b, count)
    # beta counts from the second step on: (T > 0) * (beta - 1) + 1.
    scalar(b, share, count, Alu.GREATER, 0.0, Alu.MULTIPLY, _number(node, "beta", 1.0) - 1.0)
    scalar(b, share, share, Alu.ADD, 1.0)
    velocity = _mixed(b, velocity, alpha, gradient, share)
    mode = node.attributes.get("mode", "standard")
    direction = velocity
    if mode in ("nesterov", b"nesterov"):
        direction = temporary(b, x)
        b.isa.scalar_tensor_tensor(direction, velocity, Alu.MULTIPLY, alpha, Alu.ADD, gradient)
    return [_moved(b, x, rate, direction), velocity]


def _adagrad(b: Builder, node: Node, rate: View, count: View, values: list[View]) -> list[View]:
    x, gradient, squares = values
    gradient = _regularised(b, node, x, gradient)
    fading = temporary(b, count)
    scalar(b, fading, count, Alu.MULTIPLY, _number(node, "decay_factor", 0.0), Alu.ADD, 1.0)
    binary(b, fading, rate, fading, Alu.DIVIDE)
    square = temporary(b, x)
    b.isa.activation(square, gradient, Activation.SQUARE)
    binary(b, square, square, squares, Alu.ADD)
    direction = _divided_by_root(b, gradient, square, _number(node, "epsilon", 1e-6))
    return [_moved(b, x, fading, direction), square]


def _adam(b: Builder, node: Node, rate: View, count: View, values: list[View]) -> list[View]:
    x, gradient, average, squares = values
    gradient = _regularised(b, node, x, gradient)
    alpha, beta = _number(node, "alpha", 0.9), _number(node, "beta", 0.999)
    square = temporary(b, x)
    b.isa.activation(square, gradient, Activation.SQUARE)
    average = _mixed(b, average, alpha, gradient, 1.0 - alpha)
    squares = _mixed(b, squares, beta, square, 1.0 - beta)
    step, below = temporary(b, rate), temporary(b, rate)
    scalar(b, step, count, Alu.POWER, beta, reverse=True)
    scalar(b, step, step, Alu.MULTIPLY, -1.0, Alu.ADD, 1.0)
    scalar(b, step, step, Alu.POWER, 0.5)
    scalar(b, below, count, Alu.POWER, alpha, reverse=True)
    scalar(b, below, below, Alu.MULTIPLY, -1.0, Alu.ADD, 1.0)
    binary(b, step, step, below, Alu.DIVIDE)
    # The first step (T = 0) is not corrected.
    where(b, step, compared(b, count, Alu.LESS_EQUAL, 0.0), 1.0)
    binary(b, step, step, rate, Alu.MULTIPLY)
    moved = _moved(b, x, step, _divided_by_root(b, average, squares, _number(node, "epsilon", 1e-6)))
    scalar(b, moved, moved, Alu.MULTIPLY, 1.0 - _number(node, "norm_coefficient_post", 0.0))
    return [moved, average, squares]


_STEPS: dict[str, tuple[Step, int]] = {
    "Momentum": (_momentum, 1),
    "Adagrad": (_adagrad, 1),
    "Adam": (_adam, 2),
}


def lower_optimiser(b: Builder, node: Node) -> None:
    """Lower an optimiser: update the trained tensors of the node in turn."""
    step, states = _STEPS[node.op_type]
    kinds = {b.graph.tensors[tensor].dtype for tensor in node.inputs[2:]}
    if kinds != {"float32"}:
        raise CannotLower(f"{node.op_type} of {', '.join(sorted(kinds))}")
    rate, count = home(b, node.inputs[0]), home(b, node.inputs[1])
    trained = (len(node.inputs) - 2) // (2 + states)
    for index in range(trained):
        read = [home(b, node.inputs[2 + index + part * trained]) for part in range(2 + states)]
        written = [home(b, node.outputs[index + part * trained]) for part in range(1 + states)]
        _train(b, node, step, (rate, count), read, written)


def _train(
    b: Builder,
    node: Node,
    step: Step,
    scalars: tuple[HbmView, HbmView],
    read: list[HbmView],
    written: list[HbmView],
) -> None:
    for block in blocks(read[0].shape, (*read, *written), WIDTH):
        with b.tiles.scope():
            rows = [
                b.dma.fetch(each.reshape(1, 1).broadcast_to((block.partitions, 1)), "float32")
                for each in scalars
            ]
            tiles = [b.dma.fetch(side) for side in block.sides[: len(read)]]
            made = step(b, node, rows[0], rows[1], tiles)
            for side, value in zip(block.sides[len(read) :], made, strict=True):
                store_as(b, side, value)


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = dict.fromkeys(_STEPS, lower_optimiser)
