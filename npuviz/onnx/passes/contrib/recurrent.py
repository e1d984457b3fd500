"""Rewrites RNN, GRU and LSTM step by step: one product for the inputs of all steps, then operators for each
step.

Covers the forms that exporters write: default activations, no clip, no peepholes, sequences of one length. An
LSTM of ONNX Runtime's quantiser rounds the inputs of all steps at once, and the state before each step, to 8
bits.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import NodeProto

from npuviz.onnx.model_form import ModelForm, Recurrence
from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer

MAX_STEPS = 512
"""Most steps of all directions together that are written out."""

MIN_WEIGHTS = 1 << 15
"""Least weights of a direction: with fewer, starting the operators of a step takes longer than the whole
operator on a Host. Measured on the systolic machine: 15,360 weights of an LSTM take 2.8 times as long as on
the Host, 28,224 of a GRU 1.3 times, 36,864 of an LSTM a 1.2th."""

FEW_STEPS = 4
"""Steps of all directions up to which an operator is written out whatever its weights, since reaching the
Host takes longer (measured there: one of 24,576 weights takes a third of the time)."""

MIN_RNN_WEIGHTS = 1 << 13
"""Least weights of a direction of an RNN, whose step has three operators only (measured there: two of 50,160
and four of 23,232 weights take a 1.1th)."""

_PLAIN = {b"tanh": "Tanh", b"relu": "Relu", b"sigmoid": "Sigmoid"}
"""Activations of an RNN that have no parameters."""
_DYNAMIC_FROM = 11
"""The first operator set with DynamicQuantizeLinear."""
Product = Callable[[str, np.ndarray, str], str]
"""Function: (tensor (..., k), weights of a direction (n, k), name of the weights) -> their product (...,
n)."""
Step = Callable[[str, tuple[str, ...]], tuple[str, ...]]
"""Function: (gates from the input of a step, state before it) -> state after it, hidden values first."""


def write_lstm(writer: Writer, node: NodeProto) -> None:
    """Rewrite LSTM of the standard."""
    if writer.given(7) or int(writer.attribute("input_forget", 0)):
        raise CannotWrite
    _refuse_others(writer, [b"Sigmoid", b"Tanh", b"Tanh"])
    _write(writer, node, 4, _lstm_step, (5, 6))


def write_dynamic_lstm(writer: Writer, node: NodeProto) -> None:
    """Rewrite DynamicQuantizeLSTM of ONNX Runtime: weights of 8 bits, stored (directions, k, 4 * hidden).

    Rounds as ONNX Runtime does with one thread; with more threads it rounds the states of a batch separately.
    """
    if writer.opset < _DYNAMIC_FROM or writer.given(7) or int(writer.attribute("input_forget", 0)):
        raise CannotWrite
    _refuse_others(writer, [b"Sigmoid", b"Tanh", b"Tanh"])
    _write(writer, node, 4, _lstm_step, (5, 6), {"W": (8, 9), "R": (10, 11)})


def write_gru(writer: Writer, node: NodeProto) -> None:
    """Rewrite GRU of the standard, with the reset before or after the product."""
    _refuse_others(writer, [b"Sigmoid", b"Tanh"])
    _write(writer, node, 3, _gru_step, (5,))


def write_rnn(writer: Writer, node: NodeProto) -> None:
    """Rewrite RNN of the standard, with one activation of _PLAIN in all directions."""
    chosen = writer.attribute("activations", [b"Tanh"])[:1]
    if chosen[0].lower() not in _PLAIN:
        raise CannotWrite
    _refuse_others(writer, chosen)
    _write(writer, node, 1, _rnn_step, (5,))


def _refuse_others(writer: Writer, usual: list[bytes]) -> None:
    """Raise CannotWrite for activations other than the usual ones, sequence lengths, clip and layout 1."""
    direction = writer.attribute("direction", b"forward")
    known = [each.lower() for each in usual] * (2 if direction == b"bidirectional" else 1)
    chosen = [each.lower() for each in writer.attribute("activations", known)]
    if chosen != known or writer.given(4) or writer.attribute("clip", 0.0) or writer.attribute("layout", 0):
        raise CannotWrite


def _require_worth(
    form: ModelForm, layer: Recurrence, directions: int, weights: int, is_quantised: bool
) -> None:
    """Raise CannotWrite if the target runs the layer whole, or for no steps, too many, or too few weights.

    weights  number of those of a direction
    """
    if not is_quantised and form.whole_recurrence and form.whole_recurrence(layer):
        raise CannotWrite
    count = layer.steps * directions
    least = form.dynamic_weights if is_quantised else fewest_weights(layer.kind, count)
    if weights < least or not 0 < count <= MAX_STEPS or not layer.batch:
        raise CannotWrite


def _write(
    writer: Writer,
    node: NodeProto,
    gates: int,
    make_step: Callable[..., Step],
    states: tuple[int, ...],
    steps: Mapping[str, tuple[int, int]] | None = None,
) -> None:
    """Write a recurrent operator step by step. Raises CannotWrite if it does not fit, or the Host is faster.

    gates   number of gates;  make_step  makes the Step of a direction
    states  positions of the inputs with the states before the first step
    steps   "W" and "R" -> positions of scale and zero point of weights of 8 bits, which are stored transposed
    """
    sizes = writer.shape(writer.given(0))
    weights, again = writer.known(writer.given(1)), writer.known(writer.given(2))
    if steps:
        weights, again = weights.swapaxes(-1, -2), again.swapaxes(-1, -2)
    if not len(sizes) == weights.ndim == again.ndim == 3 or not weights.size:
        raise CannotWrite
    rows, batch, _ = sizes
    directions, hidden = again.shape[0], again.shape[2]
    if weights.shape != (directions, gates * hidden, sizes[2]) or again.shape[1] != gates * hidden:
        raise CannotWrite
    layer = Recurrence(node.op_type, rows, batch, sizes[2], hidden)
    _require_worth(writer.form, layer, directions, weights[0].size + again[0].size, bool(steps))
    shape = (directions, 2 * gates * hidden)
    dtype = writer.dtype(writer.given(0))
    bias = writer.known(writer.given(3)) if writer.given(3) else np.zeros(shape, dtype)
    if bias.shape != shape:
        raise CannotWrite
    begins = [_first_states(writer, position, (directions, batch, hidden)) for position in states]
    is_reverse = writer.attribute("direction", b"forward") == b"reverse"
    ends: list[tuple[str, ...]] = []
    wholes: list[str] = []
    for number in range(directions):
        product = _in_eight_bits(writer, steps, number) if steps else _in_floats(writer)
        own, late = bias[number].reshape(2, gates * hidden)
        step = make_step(writer, (again[number], product), late, number)
        summed = own + late
        if node.op_type == "GRU" and writer.attribute("linear_before_reset", 0):
            summed[2 * hidden :] = own[2 * hidden :]
        inputs = _inputs(writer, (weights[number], product), summed, (number, rows))
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


def fewest_weights(kind: str, steps: int) -> int:
    """Return the weights of a direction from which on the steps are written out. steps  of all directions
    together"""
    if steps <= FEW_STEPS:
        return 0
    return MIN_RNN_WEIGHTS if kind == "RNN" else MIN_WEIGHTS


def _first_states(writer: Writer, position: int, shape: tuple[int, int, int]) -> list[str]:
    """Return a state before the first step, (1, batch, hidden) for each direction."""
    if writer.given(position):
        return writer.split(writer.given(position), [1] * shape[0], 0)
    dtype = writer.dtype(writer.given(0))
    return [writer.constant("zeros", np.zeros((1, *shape[1:]), dtype))] * shape[0]


def _in_floats(writer: Writer) -> Product:
    def product(source: str, weights: np.ndarray, name: str) -> str:
        return writer.add("MatMul", [source, writer.constant(name, weights.T)])

    return product


def _in_eight_bits(writer: Writer, steps: Mapping[str, tuple[int, int]], number: int) -> Product:
    """Return a function for products with 8-bit weights, which rounds the other operand to 8 bits at run
    time."""

    def product(source: str, weights: np.ndarray, name: str) -> str:
        scales, points = (_of_direction(writer, position, number) for position in steps[name[0]])
        codes = writer.shared(("codes", source))
        if not codes:
            codes, scale, point = writer.add_many("DynamicQuantizeLinear", [source], ["", "", ""])
            writer.share(("codes", source), codes)
            writer.share(("scale", source), scale)
            writer.share(("point", source), point)
        scale, point = writer.shared(("scale", source)), writer.shared(("point", source))
        names = [codes, writer.constant(name, weights.T), point]
        if points.any():
            names.append(writer.constant(f"{name}_point", points.astype(weights.dtype)))
        sums = writer.cast(writer.add("MatMulInteger", names), np.float32)
        factor = writer.add("Mul", [scale, writer.constant(f"{name}_scale", scales)])
        return writer.add("Mul", [sums, factor])

    return product


def _of_direction(writer: Writer, position: int, number: int) -> np.ndarray:
    """Return the scale or zero point of a direction: one number, or one for each column."""
    values = writer.known(writer.given(position))
    found = values.reshape(values.shape[0], -1)[number] if values.ndim else values.reshape(1)
    return found[0] if found.size == 1 else found


def _inputs(
    writer: Writer, weights: tuple[np.ndarray, Product], bias: np.ndarray, size: tuple[int, int]
) -> list[str]:
    """Compute the part of the gates that depends on the inputs, (1, batch, gates * hidden) for each step."""
    number, rows = size
    array, product = weights
    found = product(writer.given(0), array, f"W{number}")
    return writer.split(writer.add("Add", [found, writer.constant(f"b{number}", bias)]), [1] * rows, 0)


def _joined(writer: Writer, parts: list[str], shape: tuple[int, ...]) -> str:
    """Concatenate the hidden values of all steps, and reshape them."""
    whole = writer.add("Concat", parts, axis=0) if len(parts) > 1 else parts[0]
    return writer.reshape(whole, shape)


def _lstm_step(writer: Writer, weights: tuple[np.ndarray, Product], bias: np.ndarray, number: int) -> Step:
    """Make the step of an LSTM; gates are in the order input, output, forget, cell."""
    again, product = weights
    hidden = again.shape[1]
    del bias

    def step(given: str, state: tuple[str, ...]) -> tuple[str, ...]:
        before, cell = state
        gates = writer.add("Add", [given, product(before, again, f"R{number}")])
        doors, new = writer.split(gates, [3 * hidden, hidden], -1)
        enter, leave, keep = writer.split(writer.add("Sigmoid", [doors]), [hidden] * 3, -1)
        added = writer.add("Mul", [enter, writer.add("Tanh", [new])])
        cell = writer.add("Add", [writer.add("Mul", [keep, cell]), added])
        return writer.add("Mul", [leave, writer.add("Tanh", [cell])]), cell

    return step


def _rnn_step(writer: Writer, weights: tuple[np.ndarray, Product], bias: np.ndarray, number: int) -> Step:
    again, product = weights
    function = _PLAIN[writer.attribute("activations", [b"Tanh"])[0].lower()]
    del bias

    def step(given: str, state: tuple[str, ...]) -> tuple[str, ...]:
        summed = writer.add("Add", [given, product(state[0], again, f"R{number}")])
        return (writer.add(function, [summed]),)

    return step


def _gru_step(writer: Writer, weights: tuple[np.ndarray, Product], bias: np.ndarray, number: int) -> Step:
    """Make the step of a GRU; gates are in the order update, reset, hidden. The new state is
    n + update * (state - n)."""
    again, _ = weights
    hidden = again.shape[1]
    is_reset_late = bool(writer.attribute("linear_before_reset", 0))
    first = writer.constant(f"R{number}", (again if is_reset_late else again[: 2 * hidden]).T)
    last = "" if is_reset_late else writer.constant(f"Rh{number}", again[2 * hidden :].T)
    late = bias[2 * hidden :]
    constant = writer.constant(f"Rbh{number}", late) if is_reset_late and late.any() else ""

    def step(given: str, state: tuple[str, ...]) -> tuple[str, ...]:
        (before,) = state
        doors, new = writer.split(given, [2 * hidden, hidden], -1)
        product, rest = writer.add("MatMul", [before, first]), ""
        if is_reset_late:
            product, rest = writer.split(product, [2 * hidden, hidden], -1)
            rest = writer.add("Add", [rest, constant]) if constant else rest
        opened = writer.add("Sigmoid", [writer.add("Add", [doors, product])])
        update, reset = writer.split(opened, [hidden, hidden], -1)
        if is_reset_late:
            rest = writer.add("Mul", [reset, rest])
        else:
            rest = writer.add("MatMul", [writer.add("Mul", [reset, before]), last])
        new = writer.add("Tanh", [writer.add("Add", [new, rest])])
        kept = writer.add("Mul", [update, writer.add("Sub", [before, new])])
        return (writer.add("Add", [new, kept]),)

    return step


WRITERS: dict[str, Callable[[Writer, NodeProto], Any]] = {
    "LSTM": write_lstm,
    "GRU": write_gru,
    "RNN": write_rnn,
}
DYNAMIC: dict[str, Callable[[Writer, NodeProto], Any]] = {"DynamicQuantizeLSTM": write_dynamic_lstm}
