"""Operators that repeat elements: nearest Resize and Upsample, Pad."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.resizing import repeats_evenly
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.copies import Axis, Move, lower_moves
from npuviz.targets.systolic.compiler.operators.movement import MAX_MOVES

_NEAREST = "mode nearest, asymmetric, by whole factors"


RESIZES = ("Resize", "Upsample")


def repeats_whole(node: Node, shape: Sequence[int], result: Sequence[int]) -> bool:
    """Return whether a Resize or Upsample repeats each position of every axis equally often."""
    attributes = attributes_of(node)
    return attributes.text("mode", "nearest") == "nearest" and all(
        size > 0 and out % size == 0 and (out == size or repeats_evenly(attributes, node, size, out // size))
        for size, out in zip(shape, result, strict=True)
    )


def lower_resize(lowering: Lowering, node: Node) -> None:
    """Lower nearest Resize and Upsample by whole factors: an axis of repeats is read repeatedly."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    attributes = attributes_of(node)
    mode = attributes.text("mode", "nearest")
    if mode != "nearest":
        raise CannotLower("loads and stores repeat positions, they do not mix them", f"mode {mode}", _NEAREST)
    axes: list[Axis] = []
    for position, (size, out) in enumerate(zip(source.shape, output.shape, strict=True)):
        if size == 0 or out % size:
            raise CannotLower("whole factors are possible", f"from {size} to {out}", _NEAREST)
        factor = out // size
        if factor > 1 and not repeats_evenly(attributes, node, size, factor):
            raise CannotLower("positions that are not repeated evenly", change=_NEAREST)
        stride = output.strides()[position]
        axes.append(Axis(size, source.strides()[position], stride * factor))
        axes.append(Axis(factor, 0, stride))
    lower_moves(lowering, node, [Move(source.tensor, output.tensor, tuple(axes))])


@dataclass(frozen=True, slots=True)
class _Part:
    """Consecutive positions of an axis of the result, and their source.

    step  0 where all are the position `source` again;  is_filled  whether they are the value, not the input
    """

    start: int
    count: int
    source: int = 0
    step: int = 1
    is_filled: bool = False


def lower_pad(lowering: Lowering, node: Node) -> None:
    """Lower Pad by constant sizes: the input, surrounded by a value from memory, its edge or its mirror."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    mode = attributes_of(node).text("mode", "constant")
    before, after = _pads(lowering, node, len(source.shape))
    value = lowering.input(node, 2) if mode == "constant" else -1
    if mode == "constant" and (value < 0 or "pads" in node.attributes):
        raise CannotLower("the value around it lies nowhere in memory", change="an input constant_value")
    parts = [
        _parts(mode, size, low, high) for size, low, high in zip(source.shape, before, after, strict=True)
    ]
    if np.prod([len(each) for each in parts]) > MAX_MOVES:
        raise CannotLower(f"it has more than {MAX_MOVES} parts", f"mode {mode}")
    moves: list[Move] = []
    for chosen in product(*parts):
        target = sum(part.start * stride for part, stride in zip(chosen, output.strides(), strict=True))
        if any(part.is_filled for part in chosen):
            axes = [Axis(part.count, 0, s) for part, s in zip(chosen, output.strides(), strict=True)]
            moves.append(Move(value, output.tensor, tuple(axes), 0, target))
            continue
        pairs = list(zip(chosen, source.strides(), output.strides(), strict=True))
        axes = [Axis(part.count, own * part.step, stride) for part, own, stride in pairs]
        first = sum(part.source * own for part, own, _ in pairs)
        moves.append(Move(source.tensor, output.tensor, tuple(axes), first, target))
    lower_moves(lowering, node, moves)


def _pads(lowering: Lowering, node: Node, rank: int) -> tuple[list[int], list[int]]:
    """Return positions before and after each axis."""
    if "pads" in node.attributes:
        values: Sequence[int] = attributes_of(node).integers("pads")
    else:
        known = lowering.constant(node.inputs[1])
        if known is None:
            raise CannotLower("pads are computed at run time", change="constant pads")
        values = [int(each) for each in known.reshape(-1)]
    axes = list(range(rank))
    chosen = lowering.input(node, 3)
    if chosen >= 0:
        named = lowering.constant(chosen)
        if named is None:
            raise CannotLower("axes are computed at run time", change="constant axes")
        axes = [int(each) % rank for each in named.reshape(-1)]
    if min(values, default=0) < 0:
        raise CannotLower("pads that cut away", change="a Slice")
    before, after = [0] * rank, [0] * rank
    for number, axis in enumerate(axes):
        before[axis], after[axis] = values[number], values[len(axes) + number]
    return before, after


def _parts(mode: str, size: int, low: int, high: int) -> list[_Part]:
    """Cut an axis of the result into parts."""
    middle, end = _Part(low, size), low + size
    if mode == "constant":
        sides = [_Part(0, low, is_filled=True), _Part(end, high, is_filled=True)]
    elif mode == "edge":
        sides = [_Part(0, low, 0, 0), _Part(end, high, size - 1, 0)]
    elif mode == "reflect" and max(low, high) < size:
        sides = [_Part(place, 1, low - place) for place in range(low)]
        sides += [_Part(end + place, 1, size - 2 - place) for place in range(high)]
    else:
        raise CannotLower("a mode without a rule here", f"mode {mode}", "mode constant, edge or reflect")
    return [part for part in (middle, *sides) if part.count]


LOWERINGS = {"Resize": lower_resize, "Upsample": lower_resize, "Pad": lower_pad}
