"""LSTM and GRU step by step: the products with the inputs of all steps at once, then a step for each.

Of the forms that exporters write: usual activations, no clip, no peepholes, sequences of one length.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer

MAX_STEPS = 512
"""Steps of all directions: more are better done by a loop than written out."""

MIN_WEIGHTS = 1 << 15
"""Of a direction: with fewer, a step is over so soon that beginning its operators takes longer than a Host
does for all (measured on the systolic machine: 15,360 weights 2.8 times slower, 36,864 1.2 times faster)."""

Step = Callable[[str, tuple[str, ...]], tuple[str, ...]]
"""Gates from the input of a step, and the state before it -> the state after it, hidden values first."""


def write_lstm(writer: Writer, node: NodeProto) -> None:
    """LSTM of the standard."""
    if writer.given(7) or int(writer.attribute("input_forget", 0)):
        raise CannotWrite
    _refuse_others(writer, [b"Sigmoid", b"Tanh", b"Tanh"])
    _write(writer, node, 4, _lstm_step, (5, 6))


def write_gru(writer: Writer, node: NodeProto) -> None:
    """GRU of the standard, with the reset before or after the product."""
    _refuse_others(writer, [b"Sigmoid", b"Tanh"])
    _write(writer, node, 3, _gru_step, (5,))


def _refuse_others(writer: Writer, usual: list[bytes]) -> None:
    """Raise CannotWrite for a form without a rule here."""
    direction = writer.attribute("direction", b"forward")
    known = [each.lower() for each in usual] * (2 if direction == b"bidirectional" else 1)
    chosen = [each.lower() for each in writer.attribute("activations", known)]
    if chosen != known or writer.given(4) or writer.attribute("clip", 0.0) or writer.attribute("layout", 0):
        raise CannotWrite


def _write(
    writer: Writer,
    node: NodeProto,
    gates: int,
    make_step: Callable[..., Step],
    states: tuple[int, ...],
) -> None:
    """states  positions of the inputs with the states before the first step"""
    del node
    sizes = writer.shape(writer.given(0))
    weights, again = writer.known(writer.given(1)), writer.known(writer.given(2))
    if not len(sizes) == weights.ndim == again.ndim == 3 or not weights.size:
        raise CannotWrite
    rows, batch, _ = sizes
    directions, hidden = again.shape[0], again.shape[2]
    if weights.shape != (directions, gates * hidden, sizes[2]) or again.shape[1] != gates * hidden:
        raise CannotWrite
    if weights[0].size + again[0].size < MIN_WEIGHTS:
        raise CannotWrite
    if not 0 < rows * directions <= MAX_STEPS or not batch:
        raise CannotWrite
    shape = (directions, 2 * gates * hidden)
    bias = writer.known(writer.given(3)) if writer.given(3) else np.zeros(shape, weights.dtype)
    if bias.shape != shape:
        raise CannotWrite
    begins = [_first_states(writer, position, (directions, batch, hidden)) for position in states]
    is_reverse = writer.attribute("direction", b"forward") == b"reverse"
    ends: list[tuple[str, ...]] = []
    wholes: list[str] = []
    for number in range(directions):
        step = make_step(writer, again[number], bias[number], number)
        inputs = _inputs(writer, weights[number], bias[number, : gates * hidden], (number, rows))
        state = tuple(each[number] for each in begins)
        found: list[str] = []
        order = range(rows - 1, -1, -1) if number or is_reverse else range(rows)
        for place in order:
            state = step(inputs[place], state)
            found.append(state[0])
        ends.append(state)
        if writer.wanted(0):
            wholes.append(_joined(writer, found if order.step > 0 else found[::-1], (rows, 1, batch, hidden)))
    if writer.wanted(0):
        writer.add("Concat", wholes, writer.wanted(0), axis=1)
    for position in range(len(states)):
        if writer.wanted(1 + position):
            writer.add("Concat", [each[position] for each in ends], writer.wanted(1 + position), axis=0)


def _first_states(writer: Writer, position: int, shape: tuple[int, int, int]) -> list[str]:
    """A state before the first step, (1, batch, hidden) for each direction."""
    if writer.given(position):
        return writer.split(writer.given(position), [1] * shape[0], 0)
    dtype = writer.dtype(writer.given(0))
    return [writer.constant("zeros", np.zeros((1, *shape[1:]), dtype))] * shape[0]


def _inputs(writer: Writer, weights: np.ndarray, bias: np.ndarray, size: tuple[int, int]) -> list[str]:
    """Gates from the inputs alone, (1, batch, gates * hidden) for each step."""
    number, rows = size
    product = writer.add("MatMul", [writer.given(0), writer.constant(f"W{number}", weights.T)])
    return writer.split(writer.add("Add", [product, writer.constant(f"b{number}", bias)]), [1] * rows, 0)


def _joined(writer: Writer, parts: list[str], shape: tuple[int, ...]) -> str:
    """Hidden values of all steps in their order, under a shape."""
    whole = writer.add("Concat", parts, axis=0) if len(parts) > 1 else parts[0]
    return writer.reshape(whole, shape)


def _lstm_step(writer: Writer, again: np.ndarray, bias: np.ndarray, number: int) -> Step:
    """Gates lie in the order input, output, forget, cell."""
    hidden = again.shape[1]
    weights = writer.constant(f"R{number}", again.T)
    rest = bias[4 * hidden :]
    constant = writer.constant(f"Rb{number}", rest) if rest.any() else ""

    def step(given: str, state: tuple[str, ...]) -> tuple[str, ...]:
        before, cell = state
        gates = writer.add("Add", [given, writer.add("MatMul", [before, weights])])
        if constant:
            gates = writer.add("Add", [gates, constant])
        doors, new = writer.split(gates, [3 * hidden, hidden], -1)
        enter, leave, keep = writer.split(writer.add("Sigmoid", [doors]), [hidden] * 3, -1)
        added = writer.add("Mul", [enter, writer.add("Tanh", [new])])
        cell = writer.add("Add", [writer.add("Mul", [keep, cell]), added])
        return writer.add("Mul", [leave, writer.add("Tanh", [cell])]), cell

    return step


def _gru_step(writer: Writer, again: np.ndarray, bias: np.ndarray, number: int) -> Step:
    """Gates lie in the order update, reset, hidden."""
    hidden = again.shape[1]
    is_reset_late = bool(writer.attribute("linear_before_reset", 0))
    first = writer.constant(f"R{number}", again[: 2 * hidden].T)
    last = writer.constant(f"Rh{number}", again[2 * hidden :].T)
    first_bias = writer.constant(f"Rb{number}", bias[3 * hidden : 5 * hidden])
    last_bias = writer.constant(f"Rbh{number}", bias[5 * hidden :])
    one = writer.constant("one", np.ones(1, again.dtype))

    def step(given: str, state: tuple[str, ...]) -> tuple[str, ...]:
        (before,) = state
        doors, new = writer.split(given, [2 * hidden, hidden], -1)
        product = writer.add("Add", [writer.add("MatMul", [before, first]), first_bias])
        opened = writer.add("Sigmoid", [writer.add("Add", [doors, product])])
        update, reset = writer.split(opened, [hidden, hidden], -1)
        source = before if is_reset_late else writer.add("Mul", [reset, before])
        product = writer.add("Add", [writer.add("MatMul", [source, last]), last_bias])
        if is_reset_late:
            product = writer.add("Mul", [reset, product])
        new = writer.add("Tanh", [writer.add("Add", [new, product])])
        kept = writer.add("Mul", [update, before])
        return (writer.add("Add", [writer.add("Mul", [writer.add("Sub", [one, update]), new]), kept]),)

    return step


WRITERS: dict[str, Callable[[Writer, NodeProto], Any]] = {"LSTM": write_lstm, "GRU": write_gru}
