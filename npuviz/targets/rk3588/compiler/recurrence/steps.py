"""Make the steps of RNN, GRU and LSTM for any number of examples: EW joins what is one value an element."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from npuviz.targets.rk3588.compiler.builder import filled_up
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD, MULTIPLY, SUBTRACT, Stages
from npuviz.targets.rk3588.compiler.recurrence.gates import SHIFT, gate_table, rnn_table
from npuviz.targets.rk3588.compiler.recurrence.tasks import Direction, Part, State, Step, Weights
from npuviz.targets.rk3588.compiler.steps import HALF, SINGLE, bits, half_bits

TO_TANGENT = Stages(bias_constant=bits(-SHIFT), main_factor=half_bits(-1.0))
"""Stages from x to where the table of gates has tanh(x)."""


def rnn_steps(d: Direction) -> Step:
    """Make the steps of an RNN: one task each."""
    (kind,) = d.form.activations(d.number)
    table = None if kind == "relu" else rnn_table(kind, *d.form.parameters(d.number))
    weights = d.weights()

    def step(place: int, state: State, target: Part | None, keeps: bool) -> State:
        assert target is not None
        operand = replace(d.input_at(place).operand(ALU_ADD), relu=table is None)
        d.multiply(state.hidden, target, weights, Stages(operand=operand), table, keeps and d.stays)
        return State(target)

    return step


def lstm_steps(d: Direction) -> Step:
    """Make the steps of an LSTM, of five tasks: the gates o, i, f, g; i * g and f * c; their sum; its table;
    times o.

    The cell lies behind the gates, so that g and cell are the main input of one task.
    """
    width = d.width
    weights = d.weights()
    gates = d.cube("gates", 5 * width)
    parts, looked = d.cube("parts", 2 * width), d.cube("cell", width)
    place_of_cell = Part(gates, (4 * width, 0))

    def step(place: int, state: State, target: Part | None, keeps: bool) -> State:
        if state.cell is not None and state.cell is not place_of_cell:
            d.move(state.cell, place_of_cell, d.stored)
        given = d.input_at(place).operand(ALU_ADD)
        stages = Stages(operand=given)
        d.multiply(state.hidden, Part(gates), weights, stages, gate_table(), keeps and d.stays)
        joined = Stages(operand=Part(gates, (width, 0)).operand(MULTIPLY))
        d.move(Part(gates, (3 * width, 0)), Part(parts), 2 * width, joined)
        d.move(Part(parts), place_of_cell, width, Stages(operand=Part(parts, (width, 0)).operand(ALU_ADD)))
        if target is None:
            return State(state.hidden, place_of_cell)
        d.move(place_of_cell, Part(looked), width, TO_TANGENT, gate_table())
        d.move(Part(looked), target, d.stored, Stages(operand=Part(gates).operand(MULTIPLY)))
        return State(target, place_of_cell)

    return step


def gru_steps(d: Direction) -> Step:
    """Make the steps of a GRU, of six tasks; of three or four for one example.

    They are the gates z and r; r with the state or its product; the table of the new values n, which finds
    -n; then n + z * (h - n). Of one example z and r are operands of BN, and two or three of these are one.
    Assumed: a task that keeps the weights in CBUF may have fewer kernels than the one that loaded them, and
    takes the first.
    """
    width, is_single = d.width, d.form.batch == 1
    doors = d.cube("doors", 3 * width, HALF if is_single else SINGLE)
    new = d.cube("new", width)
    whole = d.weights()
    first = 0 if d.stays else d.gates.first(0)
    for_doors = whole if d.stays else d.part_of(whole, first, whole.kernels - first)
    door = Part(doors, (d.gates.first(0), 0))
    new_values = _new_values(d, whole, Part(doors, (d.gates.first(1), 0)), Part(new))
    changed, passed = (None, None) if is_single else (d.cube(name, width) for name in ("change", "passed"))

    def step(place: int, state: State, target: Part | None, keeps: bool) -> State:
        assert target is not None
        given = Stages(operand=d.input_at(place, first).operand(ALU_ADD))
        keeps = keeps and d.stays
        d.multiply(state.hidden, Part(doors, (first, 0)), for_doors, given, gate_table(), keeps)
        new_values(place, state)
        less = Part(new).operand(SUBTRACT)
        if changed is None or passed is None:
            stages = Stages(bias_address=new.address, scale_address=door.address, operand=less)
            d.move(state.hidden, target, d.stored, stages)
            return State(target)
        d.move(state.hidden, Part(changed), d.stored, Stages(operand=Part(new).operand(ALU_ADD)))
        d.move(Part(changed), Part(passed), d.stored, Stages(operand=door.operand(MULTIPLY)))
        d.move(Part(passed), target, d.stored, Stages(operand=less))
        return State(target)

    return step


def _new_values(d: Direction, whole: Weights, reset: Part, new: Part) -> Callable[[int, State], None]:
    """Make the tasks of -n. reset  gate r"""
    form, width = d.form, d.width
    bias = form.gate(form.bias[d.number, 1], 2) if form.resets_late else None
    weights = d.part_of(whole, d.gates.first(2), width, bias)
    opened = Stages(operand=reset.operand(MULTIPLY))
    between = None
    if not form.resets_late:
        between = Part(d.cube("reset", form.hidden, HALF))
    elif form.batch > 1:
        between = Part(d.cube("reset", width))

    def make(place: int, state: State) -> None:
        given = Stages(operand=d.input_at(place, d.gates.first(2)).operand(ALU_ADD))
        if between is None:
            given = replace(given, scale_address=reset.address)
            d.multiply(state.hidden, new, weights, given, gate_table(), d.stays)
        elif form.resets_late:
            d.multiply(state.hidden, between, weights, opened, None, d.stays)
            d.move(between, new, width, given, gate_table())
        else:
            d.move(state.hidden, between, d.stored, opened)
            d.multiply(between, new, weights, given, gate_table(), d.stays)

    return make


def single_lstm_steps(d: Direction) -> Step:
    """Make the steps of an LSTM for one example, of four tasks: the gates g, f, i, i, o; f * c and i * g;
    the table of their sum; times o.

    Nobody writes the cell: it is p + q, the products of the step before, which those who read it add up. One
    task makes both products, of which BS adds p to q and 0 to g. For that p, q, 0 and the gates lie in this
    order in memory, and in the next step p, 0, q and the gates: from the one come (q + p) * f, 0 and g * i,
    from the other (q + p) * f and g * i.
    """
    width, weights, name = d.width, d.weights(), d.name("cell and gates")
    looked = Part(d.cube("tangent", width))
    held = [d.cube(f"{name} {n}", 8 * width) for n in range(2)]
    places = [(Part(cube), Part(cube, ((1 + n) * width, 0))) for n, cube in enumerate(held)]
    gates = [[Part(cube, ((3 + n) * width, 0)) for n in range(5)] for cube in held]
    ones = np.repeat(np.array([1, 0, 1], np.float16), width)
    apart = d.b.constant(d.name(f"one, zero, one {d.number}"), filled_up(ones), "bias").address

    def step(place: int, state: State, target: Part | None, keeps: bool) -> State:
        if state.cell is not None and state.rest is None:
            d.move(state.cell, places[0][0], d.stored)
        here = 0 if state.rest is None else held.index(state.rest.cube)
        there = 1 - here
        new, forget, _, _, out = gates[here]
        given = Stages(operand=d.input_at(place).operand(ALU_ADD))
        d.multiply(state.hidden, new, weights, given, gate_table(), keeps)
        product = Stages(
            bias_address=places[here][0].address,
            scale_address=None if here else apart,
            operand=forget.operand(MULTIPLY),
        )
        d.move(places[here][1], places[there][0], (3 - here) * width, product)
        cell, rest = places[there]
        if target is None:
            return State(state.hidden, cell, rest)
        d.move(cell, looked, width, replace(TO_TANGENT, operand=rest.operand(SUBTRACT)), gate_table())
        d.move(looked, target, d.stored, Stages(operand=out.operand(MULTIPLY)))
        return State(target, cell, rest)

    return step
