"""Lower RNN, GRU and LSTM: the products with the inputs of all steps at once, then a few tasks for each step.

CORE multiplies the state with its weights, which stay in CBUF from step to step where they fit; EW adds what
the input gives, and the table follows in the same task. One table serves all gates: a logistic function of
2x, whose double less 1 is the hyperbolic tangent, so that it is filled once. Weights of gates that want the
logistic function of x are halves. What lies between the tasks of a step is fp32; the state is fp16, as CORE
multiplies it, and the cell of an LSTM fp32.
Assumed: EW's operand may be of another size than the main input, as both have fields for it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import Attributes
from npuviz.onnx.semantics.recurrence import Recurrence, recurrence_of
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.targets.rk3588.compiler.activation_functions import activation_function
from npuviz.targets.rk3588.compiler.builder import Builder, filled_up
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD, MULTIPLY, SUBTRACT, Operand, Stages
from npuviz.targets.rk3588.compiler.dpu_task import (
    DPU_ENABLES,
    Move,
    Plane,
    cube_of,
    move_words,
    with_table,
)
from npuviz.targets.rk3588.compiler.layers import Layer, Planner, Stored
from npuviz.targets.rk3588.compiler.lookup_table import ActivationTable, Function, half_table
from npuviz.targets.rk3588.compiler.operators.conv import (
    Operands,
    conv_words,
    convolve_into,
    enables_of,
    pack_dense,
)
from npuviz.targets.rk3588.compiler.operators.rows import relaid, rows_of
from npuviz.targets.rk3588.compiler.operators.run_weights import operand_cube
from npuviz.targets.rk3588.compiler.steps import HALF, SINGLE, bits, half_bits
from npuviz.targets.rk3588.compiler.tiling import MAX_KERNELS, Shape, tiles
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES

_KERNELS, _LANES = packing(HALF).kernels, packing(HALF).channels
_USUAL: Mapping[str, tuple[str, ...]] = {"GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
_ORDER: Mapping[str, tuple[int, ...]] = {"RNN": (0,), "GRU": (0, 1, 2), "LSTM": (1, 0, 2, 3)}
"""Order of gates in memory, by their numbers in the operator: of an LSTM output, input, forget, cell."""
_TANH: Mapping[str, tuple[int, ...]] = {"RNN": (), "GRU": (2,), "LSTM": (3,)}
"""Numbers of the gates whose function is the hyperbolic tangent."""
_SPELLING = {"leakyrelu": "LeakyRelu", "hardsigmoid": "HardSigmoid", "thresholdedrelu": "ThresholdedRelu"}
_CENTRE = Stages(bias_constant=bits(-0.5), main_factor=half_bits(2.0))
"""Stages from the logistic function of 2x to the hyperbolic tangent of x."""


@cache
def _logistic() -> ActivationTable:
    """Return the single table of GRU and LSTM; level outside."""
    return half_table(lambda x: 0.5 + 0.5 * np.tanh(x), -8, 8)


@cache
def _table_of(kind: str, alpha: float | None, beta: float | None) -> ActivationTable:
    """Return the table of an RNN's activation. Raises CannotLower if none is known."""
    given = {name: value for name, value in (("alpha", alpha), ("beta", beta)) if value is not None}
    known: dict[str, tuple[Function, int, int]] = {"tanh": (np.tanh, -8, 8)}
    found = known.get(kind)
    if found is None:
        name = _SPELLING.get(kind, kind.capitalize())
        other = activation_function(name, Attributes(name, given))
        if other is None:
            raise CannotLower(f"an activation {kind}", kind, "Tanh, Relu or Sigmoid")
        found = other.function, other.low, other.high
    return half_table(*found)


@dataclass(frozen=True)
class _Part:
    """Some channels of a cube of rows, from one row on, that a task reads or writes.

    at  channel, row
    """

    cube: Buffer
    at: tuple[int, int] = (0, 0)

    @property
    def address(self) -> int:
        """Address of the first atom."""
        channel, row = self.at
        lanes = packing(self.cube.dtype).channels
        return self.cube.address + (channel // lanes * self.cube.shape[0] + row) * ATOM_BYTES

    def operand(self, alu: int) -> Operand:
        """Return the part as an operand of EW."""
        item = 4 if self.cube.dtype == SINGLE else 2
        return Operand(self.address, alu, self.cube.shape[0], item)


@dataclass(frozen=True)
class _Steps:
    """One direction of a layer.

    number   of the direction
    given    products of the inputs, (steps * batch, gates) in fp32, from a channel on
    """

    b: Builder
    layer: Layer
    form: Recurrence
    number: int
    given: tuple[Buffer, int]

    @cached_property
    def width(self) -> int:
        """Channels of a gate in memory."""
        return _filled(self.form.hidden)

    @cached_property
    def stored(self) -> int:
        """Channels of the state in memory."""
        return aligned(self.form.hidden, _LANES)

    def cube(self, name: str, channels: int, dtype: str = SINGLE) -> Buffer:
        """Make a cube for one batch, with zeros at first."""
        whole = f"{self.layer.head.name or self.layer.head.op_type} {name}"
        return self.b.cleared(whole, (self.form.batch, channels), dtype)

    def input_at(self, step: int, gate: int) -> _Part:
        """Return the products of the input for gates from one on."""
        cube, first = self.given
        return _Part(cube, (first + gate * self.width, step * self.form.batch))

    def move(
        self,
        source: _Part,
        target: _Part,
        channels: int,
        stages: Stages = Stages(),  # noqa: B008
        table: ActivationTable | None = None,
    ) -> None:
        """Add a task of the DPU alone. table  follows the stages"""
        size = (channels, self.form.batch, 1)
        dtypes = (source.cube.dtype, target.cube.dtype)
        planes = [Plane(part.cube.shape[0]) for part in (source, target)]
        words = move_words(Move(size, (source.address, target.address), dtypes, planes[0], planes[1]), stages)
        if table is not None:
            words = with_table(
                words, table, self.b.needs_table(0, table), to_half=target.cube.dtype == HALF,
                keeps_operand=stages.operand is not None,
            )  # fmt: skip
        self.b.task(self.layer.head.id, 0, words, DPU_ENABLES)

    def multiply(
        self,
        source: _Part,
        target: _Part,
        weights: "_Weights",
        stages: Stages,
        table: ActivationTable | None,
        keeps: bool,
    ) -> None:
        """Multiply the state of one batch with weights. keeps  those still in CBUF are not fetched again"""
        batch = self.form.batch
        base = ConvTask(
            in_dtype=HALF, out_dtype=target.cube.dtype, width=1, height=batch, channels=self.stored,
            kernels=weights.kernels, out_height=batch, layer_height=source.cube.shape[0],
            surface_stride=target.cube.shape[0], real_channels=self.stored, quantised=True,
            feature_address=source.address, weight_address=weights.held.address,
            output_address=target.address,
        )  # fmt: skip
        alone = replace(self.b.spec, cores=1)
        cut = tiles(alone, base, Shape(WindowAxis(batch, batch), WindowAxis(1, 1)))
        stays = len(cut) == 1 and base.weight_bytes <= cut[0].task.weight_banks * self.b.spec.cbuf_bank_bytes
        for tile in cut:
            task = replace(tile.task, weight_reuse=True) if stays and keeps else tile.task
            moved = task.output_address - target.address
            operand = stages.operand
            part = replace(
                stages,
                bias_address=None if weights.bias is None else weights.bias.address,
                operand=None if operand is None else replace(operand, address=operand.address + moved),
            )
            words = conv_words(task, part)
            if table is not None:
                words = with_table(
                    words, table, self.b.needs_table(0, table), to_half=target.cube.dtype == HALF,
                    keeps_operand=operand is not None,
                )  # fmt: skip
            self.b.task(self.layer.head.id, 0, words, enables_of(part))

    def weights(self, name: str, gates: Sequence[int], bias: np.ndarray | None = None) -> "_Weights":
        """Make the weights of the state for some gates, given by their place in memory."""
        form, order = self.form, _ORDER[self.form.kind]
        full = np.zeros((len(gates) * self.width, self.stored), np.float32)
        for place, gate in enumerate(gates):
            low = place * self.width
            full[low : low + form.hidden, : form.hidden] = form.gate(form.again[self.number], order[gate])
            full[low : low + self.width] *= _share(form.kind, order[gate])
        packed = pack_dense(_half(full)[:, :, None, None], _KERNELS)
        whole = f"{self.layer.head.name or self.layer.head.op_type} {name}"
        held = self.b.constant(f"{whole} {self.number}", packed)
        sums = None
        if bias is not None and np.any(bias):
            sums = self.b.constant(f"{whole} bias {self.number}", filled_up(bias.astype(np.float32)), "bias")
        return _Weights(held, len(full), sums)


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights as CORE wants them, the number of their kernels, and the bias that BS adds to the sums."""

    held: Buffer
    kernels: int
    bias: Buffer | None


@dataclass(frozen=True, slots=True)
class _State:
    """Hidden values before a step, and the cell of an LSTM."""

    hidden: _Part
    cell: _Part | None = None


def _filled(hidden: int) -> int:
    return aligned(hidden, _KERNELS)


def _share(kind: str, gate: int) -> float:
    """Return the factor of a gate's weights that lets one table serve all gates."""
    return 1.0 if kind == "RNN" or gate in _TANH[kind] else 0.5


def _half(values: np.ndarray) -> np.ndarray:
    """Return weights in fp16. Raises CannotLower for weights that it cannot hold."""
    if np.abs(values).max(initial=0) > np.finfo(np.float16).max:
        raise CannotLower("weights that fp16 cannot hold")
    return values.astype(np.float16)


# --- the layer ------------------------------------------------------------------------------------------


def lower_recurrent(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower RNN, GRU and LSTM with constant weights, in any direction, with or without given states."""
    form = recurrence_of(b.graph, layer.head, lambda t: _constant(planner, t))
    _refuse(form)
    node = layer.head
    source = operand_cube(b, layer, planner, node.inputs[0])
    rows = rows_of(b, layer, source, b.graph.tensors[node.inputs[0]].shape, [2])
    given = _inputs(b, layer, form, rows)
    whole = _Ends.of(b, layer, 0, form)
    hidden, cell = (_Ends.of(b, layer, place, form) for place in (1, 2))
    begins = [_given_state(b, layer, planner, place, form) for place in (5, 6)]
    make = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}[form.kind]
    for number in range(form.directions):
        steps = _Steps(b, layer, form, number, (given, number * _gates(form) * _filled(form.hidden)))
        step = make(steps)
        state = _first_state(steps, begins)
        order = range(form.steps)[:: -1 if form.is_backward(number) else 1]
        own = None if whole is not None else steps.cube("state", form.hidden, HALF)
        for place in order:
            at = (place * form.directions + number) * form.batch
            target = _Part(own) if own is not None else _Part(whole.rows, (0, at)) if whole else None
            if own is not None and hidden is None and place == order[-1]:
                target = None
            state = step(place, state, target, place != order[0])
        for ends, last in ((hidden, state.hidden), (cell, state.cell)):
            if ends is not None and last is not None:
                steps.move(last, _Part(ends.rows, (0, number * form.batch)), steps.stored)
    b.begin_layer()
    for ends in (whole, hidden, cell):
        if ends is not None and ends.target is not ends.rows:
            relaid(b, layer, ends.rows, ends.target)


def _constant(planner: Planner, tensor: int) -> np.ndarray | None:
    return planner.quantised.constant(tensor) if planner.is_constant(tensor) else None


def _gates(form: Recurrence) -> int:
    return len(_ORDER[form.kind])


def _refuse(form: Recurrence) -> None:
    """Raise CannotLower for a form that has no tasks here."""
    for is_there, what, change in (
        (form.clip > 0, "a clip of the gates", "no clip"),
        (form.has_peepholes, "peepholes", "no peepholes"),
        (form.joins_gates, "input and forget gate in one", "input_forget 0"),
        (form.has_lengths, "sequences of unlike length", "sequence_lens left out"),
        (form.is_batch_first and form.batch > 1, "a batch before the steps", "layout 0"),
        (form.directions * _gates(form) * _filled(form.hidden) > MAX_KERNELS,
         f"more than {MAX_KERNELS:,} kernels", "fewer hidden values"),
    ):  # fmt: skip
        if is_there:
            raise CannotLower(what, change=change)
    wanted = _USUAL.get(form.kind)
    if wanted is not None and any(tuple(form.activations(n)) != wanted for n in range(form.directions)):
        chosen = ", ".join(form.activations(0))
        raise CannotLower("activations other than Sigmoid and Tanh", chosen, "the usual activations")


def _inputs(b: Builder, layer: Layer, form: Recurrence, rows: Buffer) -> Buffer:
    """Return (steps * batch, directions * gates) in fp32: the product of all inputs, with the bias that is
    added there."""
    width, order = _filled(form.hidden), _ORDER[form.kind]
    full = np.zeros((form.directions, len(order), width, form.features), np.float32)
    bias = np.zeros((form.directions, len(order), width), np.float32)
    for number in range(form.directions):
        for place, gate in enumerate(order):
            share = _share(form.kind, gate)
            full[number, place, : form.hidden] = share * form.gate(form.weights[number], gate)
            own, again = (form.gate(each, gate) for each in form.bias[number])
            is_late = form.kind == "GRU" and gate == 2 and form.resets_late
            bias[number, place, : form.hidden] = share * (own + (0 if is_late else again))
    kernels = full.reshape(-1, form.features)
    target = b.scratch(
        f"{layer.head.name or layer.head.op_type} inputs", (rows.shape[0], len(kernels)), SINGLE
    )
    shape = Shape(WindowAxis(rows.shape[0], rows.shape[0]), WindowAxis(1, 1))
    operands = Operands(_half(kernels)[:, :, None, None], bias.reshape(-1))
    convolve_into(b, layer, shape, operands, (rows, target))
    b.begin_layer()
    return target


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


def _first_state(steps: _Steps, begins: Sequence[Buffer | None]) -> _State:
    """Return the state before the first step; the cell lies after the gates."""
    hidden, cell = (
        None if held is None else _Part(held, (0, steps.number * steps.form.batch)) for held in begins
    )
    if hidden is None:
        hidden = _Part(steps.cube("zeros", steps.form.hidden, HALF))
    if steps.form.kind != "LSTM":
        return _State(hidden)
    place = _Part(steps.cube("gates", 5 * steps.width), (4 * steps.width, 0))
    if cell is not None:
        steps.move(cell, place, steps.stored)
    return _State(hidden, place)


Step = Callable[[int, _State, _Part | None, bool], _State]
"""(step's number, state before it, where its hidden values go (None: they are not used), whether CBUF has the
weights of the step before) -> state after it."""


def _rnn(steps: _Steps) -> Step:
    """Make the steps of an RNN: one task each."""
    form = steps.form
    (kind,) = form.activations(steps.number)
    table = None if kind == "relu" else _table_of(kind, *form.parameters(steps.number))
    weights = steps.weights("R", [0])

    def step(place: int, state: _State, target: _Part | None, keeps: bool) -> _State:
        assert target is not None
        operand = replace(steps.input_at(place, 0).operand(ALU_ADD), relu=table is None)
        steps.multiply(state.hidden, target, weights, Stages(operand=operand), table, keeps)
        return _State(target)

    return step


def _lstm(steps: _Steps) -> Step:
    """Make the steps of an LSTM, of five tasks: the gates o, i, f, g; i * g and f * c; their sum; its table;
    times o."""
    width = steps.width
    weights = steps.weights("R", range(4))
    parts, looked = steps.cube("parts", 2 * width), steps.cube("cell", width)
    name = steps.layer.head.name or "LSTM"
    ends = np.repeat(np.array([[-0.5, 0.0], [2.0, 1.0]], np.float32), width, axis=1)
    less = steps.b.constant(f"{name} less {steps.number}", filled_up(ends[0]), "bias")
    times = steps.b.constant(f"{name} times {steps.number}", filled_up(_half(ends[1])), "bias")

    def step(place: int, state: _State, target: _Part | None, keeps: bool) -> _State:
        cell = state.cell
        assert cell is not None
        gates = cell.cube
        given = steps.input_at(place, 0).operand(ALU_ADD)
        steps.multiply(state.hidden, _Part(gates), weights, Stages(operand=given), _logistic(), keeps)
        joined = Stages(
            bias_address=less.address,
            scale_address=times.address,
            operand=_Part(gates, (width, 0)).operand(MULTIPLY),
        )
        steps.move(_Part(gates, (3 * width, 0)), _Part(parts), 2 * width, joined)
        steps.move(_Part(parts), cell, width, Stages(operand=_Part(parts, (width, 0)).operand(ALU_ADD)))
        if target is None:
            return _State(state.hidden, cell)
        steps.move(cell, _Part(looked), width, table=_logistic())
        opened = replace(_CENTRE, operand=_Part(gates).operand(MULTIPLY))
        steps.move(_Part(looked), target, steps.stored, opened)
        return _State(target, cell)

    return step


def _gru(steps: _Steps) -> Step:
    """Make the steps of a GRU, of six or seven tasks.

    They are z and r; the state's part of the new values n, and their table; then n - z * (n - h).
    """
    width, form = steps.width, steps.form
    doors, new = steps.cube("doors", 2 * width), steps.cube("new", width)
    passed, first = steps.cube("passed", width), steps.cube("change", width)
    if form.resets_late:
        _, again = form.bias[steps.number]
        bias = np.zeros(3 * width, np.float32)
        bias[2 * width : 2 * width + form.hidden] = form.gate(again, 2)
        both, products = steps.weights("R", range(3), bias), steps.cube("products", 3 * width)
        return _gru_step(steps, (doors, new, passed, first), (both, both), products)
    parts = steps.weights("R", range(2)), steps.weights("Rh", [2])
    return _gru_step(steps, (doors, new, passed, first), parts, steps.cube("reset", form.hidden, HALF))


def _gru_step(
    steps: _Steps,
    cubes: tuple[Buffer, Buffer, Buffer, Buffer],
    weights: tuple[_Weights, _Weights],
    between: Buffer,
) -> Step:
    doors, new, passed, first = cubes
    width, is_late = steps.width, steps.form.resets_late

    def step(place: int, state: _State, target: _Part | None, keeps: bool) -> _State:
        assert target is not None
        for_doors = Stages(operand=steps.input_at(place, 0).operand(ALU_ADD))
        for_new = Stages(operand=steps.input_at(place, 2).operand(ALU_ADD))
        reset = _Part(doors, (width, 0)).operand(MULTIPLY)
        if is_late:
            steps.multiply(state.hidden, _Part(between), weights[0], Stages(), None, keeps)
            steps.move(_Part(between), _Part(doors), 2 * width, for_doors, _logistic())
            steps.move(_Part(between, (2 * width, 0)), _Part(passed), width, Stages(operand=reset))
            steps.move(_Part(passed), _Part(new), width, for_new, _logistic())
        else:
            steps.multiply(state.hidden, _Part(doors), weights[0], for_doors, _logistic(), False)
            steps.move(state.hidden, _Part(between), steps.stored, Stages(operand=reset))
            steps.multiply(_Part(between), _Part(new), weights[1], for_new, _logistic(), False)
        less = replace(_CENTRE, operand=state.hidden.operand(SUBTRACT))
        steps.move(_Part(new), _Part(first), steps.stored, less)
        kept = Stages(operand=_Part(doors).operand(MULTIPLY))
        steps.move(_Part(first), _Part(passed), steps.stored, kept)
        steps.move(
            _Part(new), target, steps.stored, replace(_CENTRE, operand=_Part(passed).operand(SUBTRACT))
        )
        return _State(target)

    return step


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = dict.fromkeys(
    ("RNN", "GRU", "LSTM"), lower_recurrent
)
