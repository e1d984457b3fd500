"""Lower RNN, GRU and LSTM: the products with the inputs of all steps at once, then a few tasks for each step.

CORE multiplies the state with its weights, which stay in CBUF from step to step where they fit; EW adds what
the input gives, and the table follows in the same task. What lies between the tasks of a step is fp32, or
fp16 where CORE or BN take it; the state is fp16, as CORE multiplies it.
Assumed: EW's operand may be of another size than the main input, as both have fields for it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.recurrence import GATES, Recurrence, recurrence_of
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.targets.rk3588.compiler.builder import Builder, filled_up
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD, Operand, Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.layers import Layer, Planner, Stored
from npuviz.targets.rk3588.compiler.operators.activation import held_limit
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into
from npuviz.targets.rk3588.compiler.operators.rows import relaid, rows_of
from npuviz.targets.rk3588.compiler.operators.run_weights import operand_cube
from npuviz.targets.rk3588.compiler.recurrence.gates import RANGE, SHIFT, Gates, gates_of, refuse_functions
from npuviz.targets.rk3588.compiler.recurrence.steps import (
    gru_steps,
    lstm_steps,
    rnn_steps,
    single_lstm_steps,
)
from npuviz.targets.rk3588.compiler.recurrence.tasks import Begins, Direction, Part, State, as_half
from npuviz.targets.rk3588.compiler.steps import HALF, SINGLE
from npuviz.targets.rk3588.compiler.tiles.tiling import MAX_KERNELS, Shape
from npuviz.targets.rk3588.tables import Buffer


def lower_recurrent(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower RNN, GRU and LSTM with constant weights, in any direction, with or without given states."""
    form = recurrence_of(b.graph, layer.head, lambda t: _constant(planner, t))
    gates = gates_of(form, b.spec)
    _refuse(form, gates)
    node = layer.head
    source = operand_cube(b, layer, planner, node.inputs[0])
    rows = rows_of(b, layer, source, b.graph.tensors[node.inputs[0]].shape, [2])
    given = _inputs(b, layer, gates, rows)
    whole = _Ends.of(b, layer, 0, form)
    hidden, cell = (_Ends.of(b, layer, place, form) for place in (1, 2))
    begins = [_given_state(b, layer, planner, place, form) for place in (5, 6)]
    lstm = single_lstm_steps if len(gates.order) > GATES["LSTM"] else lstm_steps
    make = {"RNN": rnn_steps, "GRU": gru_steps, "LSTM": lstm}[form.kind]
    for number in range(form.directions):
        steps = Direction(b, layer, gates, number, (given, number * gates.kernels))
        state = _first_state(steps, begins)
        step = make(steps)
        order = range(form.steps)[:: -1 if form.is_backward(number) else 1]
        own = None if whole is not None else steps.cube("state", form.hidden, HALF)
        for place in order:
            at = (place * form.directions + number) * form.batch
            target = Part(own) if own is not None else Part(whole.rows, (0, at)) if whole else None
            if own is not None and hidden is None and place == order[-1]:
                target = None
            state = step(place, state, target, place != order[0])
        for ends, last in ((hidden, state.hidden), (cell, state.cell)):
            if ends is not None and last is not None:
                rest = state.rest if ends is cell else None
                stages = Stages(operand=None if rest is None else rest.operand(ALU_ADD))
                steps.move(last, Part(ends.rows, (0, number * form.batch)), steps.stored, stages)
    b.begin_layer()
    for ends in (whole, hidden, cell):
        if ends is not None and ends.target is not ends.rows:
            relaid(b, layer, ends.rows, ends.target)


def _constant(planner: Planner, tensor: int) -> np.ndarray | None:
    return planner.quantised.constant(tensor) if planner.is_constant(tensor) else None


def _refuse(form: Recurrence, gates: Gates) -> None:
    """Raise CannotLower for a form that has no tasks here."""
    for is_there, what, change in (
        (form.clip > 0, "a clip of the gates", "no clip"),
        (form.has_peepholes, "peepholes", "no peepholes"),
        (form.joins_gates, "input and forget gate in one", "input_forget 0"),
        (form.has_lengths, "sequences of unlike length", "sequence_lens left out"),
        (form.is_batch_first and form.batch > 1, "a batch before the steps", "layout 0"),
        (form.directions * gates.kernels > MAX_KERNELS,
         f"more than {MAX_KERNELS:,} kernels", "fewer hidden values"),
    ):  # fmt: skip
        if is_there:
            raise CannotLower(what, change=change)
    refuse_functions(form)


def _inputs(b: Builder, layer: Layer, gates: Gates, rows: Buffer) -> Buffer:
    """Return (steps * batch, directions * kernels) in fp32: the product of all inputs, with the bias that is
    added there; of gates that are looked up together, within RANGE and moved to their half of the table."""
    form = gates.form
    kernels = np.concatenate([gates.spread(form.weights[number]) for number in range(form.directions)])
    bias = np.concatenate([_bias_of(gates, number) for number in range(form.directions)])
    name = layer.head.name or layer.head.op_type
    target = b.scratch(f"{name} inputs", (rows.shape[0], len(kernels)), SINGLE)
    shape = Shape(WindowAxis(rows.shape[0], rows.shape[0]), WindowAxis(1, 1))
    stages = None
    if gates.tangent is not None:
        moved = np.full((form.directions, gates.kernels), -RANGE, np.float32)
        first = gates.first(gates.tangent)
        moved[:, first : first + gates.width] += SHIFT
        held = b.constant(f"{name} moved", filled_up(moved.reshape(-1)), "bias")
        bias = bias + RANGE
        stages = Stages(relu=True, limit=held_limit(2 * RANGE), operand=Operand(held.address, ALU_ADD, 0, 4))
    operands = Operands(as_half(kernels)[:, :, None, None], bias)
    convolve_into(b, layer, shape, operands, (rows, target), stages=stages)
    b.begin_layer()
    return target


def _bias_of(gates: Gates, number: int) -> np.ndarray:
    """Return the bias of a direction that belongs to the inputs: all but that of a late reset."""
    form = gates.form
    own, again = form.bias[number]
    if form.kind == "GRU" and form.resets_late:
        again = np.concatenate([again[: 2 * form.hidden], np.zeros(form.hidden, again.dtype)])
    return gates.spread(own + again)


@dataclass(frozen=True, slots=True)
class _Ends:
    """An output: rows of hidden values that the steps write, and the cube that they become."""

    rows: Buffer
    target: Buffer

    @staticmethod
    def of(b: Builder, layer: Layer, place: int, form: Recurrence) -> "_Ends | None":
        """Return the output at a place, None if it is not used."""
        tensor = layer.head.outputs[place] if place < len(layer.head.outputs) else -1
        if tensor < 0:
            return None
        target = cube_of(b, layer, Stored(tensor))
        count = math.prod(b.graph.tensors[tensor].shape) // form.hidden
        if target.shape == (count, form.hidden):
            return _Ends(target, target)
        return _Ends(b.scratch(f"{target.name} rows", (count, form.hidden), HALF), target)


def _given_state(b: Builder, layer: Layer, planner: Planner, place: int, form: Recurrence) -> Buffer | None:
    """Return a state before the first step, as rows of all directions; None if it is zeros."""
    node = layer.head
    tensor = node.inputs[place] if place < len(node.inputs) else -1
    if tensor < 0 or (place == 6 and form.kind != "LSTM"):
        return None
    if planner.is_constant(tensor) and not np.any(planner.quantised.constant(tensor)):
        return None
    cube = operand_cube(b, layer, planner, tensor)
    return rows_of(b, layer, cube, b.graph.tensors[tensor].shape, [2])


def _first_state(steps: Direction, begins: Begins) -> State:
    """Return the state before the first step."""
    hidden, cell = (
        None if held is None else Part(held, (0, steps.number * steps.form.batch)) for held in begins
    )
    if hidden is None:
        hidden = Part(steps.cube("zeros", steps.form.hidden, HALF))
    return State(hidden, cell)


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = dict.fromkeys(
    ("RNN", "GRU", "LSTM"), lower_recurrent
)
