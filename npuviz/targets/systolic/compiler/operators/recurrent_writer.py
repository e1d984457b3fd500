"""The tile of a direction of a recurrent layer.

Weights are loaded once and stay in the scratchpad. The products with the inputs are made for many steps at
once; then a step is a product with the hidden values before it, which the accumulator holds, and vector
instructions on parts of its rows. Hidden values of all steps stay until they are stored.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from npuviz.onnx.model_form import GATES, Recurrence
from npuviz.onnx.semantics.attributes import Attributes
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.operators.formulas import unary_steps
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.dataflow import array_steps, cut
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, WEIGHTS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.matrix import MatrixProduct
from npuviz.targets.systolic.values.plan import Apply, Block

Columns = tuple[int, int]
"""First column of a part of the rows of an entry, and the one behind its last."""


@dataclass(frozen=True)
class RecurrentProblem:
    """A recurrent operator; tensors by id, -1: absent.

    backward   of each direction, whether it begins with the last step
    functions  of each direction of an RNN
    states     hidden values (and cells) before the first step
    together   steps whose products with the inputs are made at once
    """

    layer: Recurrence
    backward: tuple[bool, ...]
    functions: tuple[str, ...]
    is_reset_late: bool
    source: int
    weights: int
    again: int
    bias: int
    states: tuple[int, ...]
    peepholes: int
    together: int


@dataclass(frozen=True, slots=True)
class _Operand:
    """Contents of an entry, or those of some of its columns."""

    word: int
    columns: Columns | None = None


def write_recurrent(lowering: Lowering, node: Node, problem: RecurrentProblem) -> None:
    """Write the layer: a tile for each direction, on a core of its own where there are several."""
    builder = lowering.builder
    builder.begin_layer(node.name or node.op_type, node.id)
    read = [problem.source, problem.weights, problem.again, problem.bias, *problem.states, problem.peepholes]
    written = [index for index in node.outputs if index >= 0]
    writer = _Writer(lowering, node, problem)
    for direction in range(len(problem.backward)):
        template = builder.template(direction, partial(writer.write, direction))
        core = direction % lowering.resources.num_cores
        builder.add_tile(template, [writer.base], core=core, coord=(direction,))
    builder.end_layer()
    lowering.add_layer(node, [index for index in read if index >= 0], written)


class _Writer:
    """Writes the tiles of one layer; addresses are told from that of the input."""

    def __init__(self, lowering: Lowering, node: Node, problem: RecurrentProblem) -> None:
        self.lowering = lowering
        self.node = node
        self.problem = problem
        self.layer = problem.layer
        self.gates = GATES[problem.layer.kind] * problem.layer.hidden
        self.base = lowering.storage(problem.source).address
        resources, builder = lowering.resources, lowering.builder
        self.resources = resources
        self.spad = Half(builder.scratchpad_entry, resources.request_bytes, resources.spad_half)
        self.acc = Half(builder.accumulator_entry, resources.request_bytes, resources.acc_half)

    def write(self, direction: int, template: Template) -> None:
        """All instructions of a direction."""
        layer, problem = self.layer, self.problem
        self.template, self.direction = template, direction
        self._widths: dict[int, int] = {}
        self.root = self.lowering.storage(next(index for index in self.node.outputs if index >= 0)).root
        self.weights = self._load("weights", problem.weights, self.gates, layer.inputs)
        self._load_again()
        rows = layer.steps * layer.batch
        self.source = self._load("inputs", problem.source, rows, layer.inputs, 0)
        self._load_bias()
        self.peepholes = [
            self._load(("peephole", part), problem.peepholes, 1, layer.hidden, part * layer.hidden)
            for part in range(3 if problem.peepholes >= 0 else 0)
        ]
        state = [self._first_state(place) for place in range(len(problem.states))]
        order = list(range(layer.steps))
        if problem.backward[direction]:
            order.reverse()
        for begin, count in cut(layer.steps, problem.together):
            steps = order[begin : begin + count]
            gates = self._multiply_inputs(steps)
            for place, step in enumerate(steps):
                is_first = place == 0
                state = _STEPS[layer.kind](self, gates[place], state, step, is_first)
                self._store(0, state[0], step)
        for place, word in enumerate(state):
            self._store(1 + place, word, 0)

    # Loads and stores --------------------------------------------------------------------------

    def _load(
        self, key: Hashable, tensor: int, rows: int, width: int, first: int | None = None, whole: int = 0
    ) -> int:
        """A tensor's rows of this direction, or those from element `first` of it on.

        whole  elements of a direction, where they are more than what is loaded
        """
        storage = self.lowering.storage(tensor)
        item = storage.item_bytes
        size = rows * width * item
        word = self.spad.entry(key, size)
        skipped = self.direction * (whole or storage.shape[-1] * (rows if len(storage.shape) > 2 else 1))
        if tensor == self.problem.source:
            skipped = 0
        offset = storage.address - self.base + (skipped + (first or 0)) * item
        place = Rows(0, offset, width * item, n0=rows, s0=width * item)
        aux = self.lowering.shape((rows, width))
        self.template.movin(word, place, size=size, tensor=storage.root, aux=aux)
        self._widths[word] = width
        return word

    def _load_again(self) -> None:
        """Weights of the hidden values; those of a GRU's new values apart where the reset comes before."""
        layer, problem = self.layer, self.problem
        hidden, whole = layer.hidden, self.gates * layer.hidden
        self.is_reset_early = layer.kind == "GRU" and not problem.is_reset_late
        doors = 2 * hidden if self.is_reset_early else self.gates
        self.again = self._load("again", problem.again, doors, hidden, 0, whole)
        if self.is_reset_early:
            self.again_new = self._load("new", problem.again, hidden, hidden, doors * hidden, whole)

    def _load_bias(self) -> None:
        """The sum of both biases; that of a late reset's new values stays apart."""
        self.bias = self.late_bias = 0
        if self.problem.bias < 0:
            return
        size = self.gates
        own = self._load("bias", self.problem.bias, 1, size, 0, 2 * size)
        late = self._load("late bias", self.problem.bias, 1, size, size, 2 * size)
        self.bias = self._entry("biases", 1, size)
        apart = self.layer.kind == "GRU" and self.problem.is_reset_late
        summed = size - self.layer.hidden if apart else size
        if apart:
            self.late_bias = late
        self._vector(
            tk.OP_ADD, _Operand(own), _Operand(late), self.bias, ("first", summed), _add_first(summed)
        )

    def _first_state(self, place: int) -> int:
        """Entry of a state before the first step."""
        layer, tensor = self.layer, self.problem.states[place]
        if tensor >= 0:
            whole = layer.batch * layer.hidden
            return self._load(("state", place), tensor, layer.batch, layer.hidden, 0, whole)
        word = self._entry(("state", place), layer.batch, layer.hidden)
        zeros = partial(_zeros, (layer.batch, layer.hidden))
        self._vector(tk.OP_COMP, _Operand(self.source), None, word, ("zeros", layer), zeros)
        return word

    def _store(self, position: int, word: int, step: int) -> None:
        """Hidden values of a step (position 0), or a state after the last."""
        if position >= len(self.node.outputs) or self.node.outputs[position] < 0:
            return
        storage = self.lowering.storage(self.node.outputs[position])
        strides = storage.strides()
        offset = storage.address - self.base + self.direction * strides[-3]
        offset += step * strides[0] if position == 0 else 0
        length = self.layer.hidden * storage.item_bytes
        place = Rows(0, offset, length, n0=self.layer.batch, s0=strides[-2])
        self.template.movout(word, place, tensor=storage.root)

    # Products ----------------------------------------------------------------------------------

    def _multiply_inputs(self, steps: Sequence[int]) -> list[int]:
        """Gates from the inputs of some steps, with the biases: an entry for each step."""
        batch = self.layer.batch
        words = [self._entry(("gates", place), batch, self.gates) for place in range(len(steps))]
        places = dict(zip(steps, words, strict=True))
        blocks = {
            word: Block(step * batch, (step + 1) * batch, 0, self.gates) for step, word in places.items()
        }
        self._product(
            (self.source, self.weights), blocks, (self.layer.steps * batch, self.gates, self.layer.inputs)
        )
        if self.bias:
            for word in words:
                self._combine("Add", _Operand(word), _Operand(self.bias), word)
        return words

    def multiply(self, left: int, right: int, destination: int, width: int, adds: bool, keeps: bool) -> None:
        """Hidden values times weights, `width` columns. adds  to what is there;  keeps  the weights that the
        array holds, if they are all"""
        batch, hidden = self.layer.batch, self.layer.hidden
        blocks = {destination: Block(0, batch, 0, width)}
        self._product((left, right), blocks, (batch, width, hidden), adds, keeps)

    def _product(
        self,
        sources: tuple[int, int],
        blocks: dict[int, Block],
        shape: tuple[int, int, int],
        adds: bool = False,
        keeps: bool = False,
    ) -> None:
        """Rows times columns over depth, a block of rows into each entry."""
        resources = self.resources
        rows, columns, depth = shape
        step = resources.depth_step(depth)
        product = MatrixProduct(
            (rows, columns), depth, step, sources[:1], sources[1:], blocks, right_by_depth=False,
            continues=adds,
        )  # fmt: skip
        aux = self.lowering.product(product)
        streams = resources.dataflow == WEIGHTS
        pieces = [
            (word, size)
            for word, block in blocks.items()
            for _, size in cut(block.row_end - block.row, block.row_end if streams else resources.row_block)
        ]
        across = [size for _, size in cut(columns, resources.column_block)]
        parts = [size for _, size in cut(depth, step)]
        is_held = keeps and streams and len(across) == len(parts) == 1
        for each in array_steps(resources, [size for _, size in pieces], across, parts):
            self.template.gemm(
                sources, pieces[each.row][0], rows=each.streamed, tile=each.tile,
                size=self.layer.batch * columns * ACC_BYTES, preload=each.preload and not is_held,
                tensor=self.root, aux=aux,
            )  # fmt: skip

    # Vector work -------------------------------------------------------------------------------

    def _entry(self, key: Hashable, rows: int, width: int) -> int:
        word = self.acc.entry(key, rows * width * ACC_BYTES)
        self._widths[word] = width
        return word

    def hidden_entry(self, step: int) -> int:
        """Where the hidden values of a step lie."""
        return self._entry(("hidden", step), self.layer.batch, self.layer.hidden)

    def work_entry(self, name: str, gates: int = 1) -> int:
        """Room for what lies between, of so many gates."""
        return self._entry(name, self.layer.batch, gates * self.layer.hidden)

    def gate(self, word: int, first: int, count: int = 1) -> _Operand:
        """Some gates of an entry with several."""
        hidden = self.layer.hidden
        return _Operand(word, (first * hidden, (first + count) * hidden))

    def activate(self, name: str, source: _Operand, destination: _Operand) -> None:
        """A function of one operand, one vector instruction for each of its steps."""
        for step in unary_steps(name, _NO_ATTRIBUTES):
            self._vector(step.opcode, source, None, destination, step.key, step.apply)
            source = destination

    def combine(self, name: str, first: _Operand, second: _Operand, destination: _Operand | int) -> None:
        """A sum, difference or product of two operands."""
        self._combine(name, first, second, destination)

    def _combine(self, name: str, first: _Operand, second: _Operand, destination: _Operand | int) -> None:
        opcode, apply = _BINARY[name]
        self._vector(opcode, first, second, destination, name, apply)

    def _vector(
        self,
        opcode: int,
        first: _Operand,
        second: _Operand | None,
        destination: _Operand | int,
        key: Hashable,
        apply: Apply,
    ) -> None:
        """One instruction on parts of entries; what else the destination holds stays."""
        target = destination if isinstance(destination, _Operand) else _Operand(destination)
        columns = first.columns, second.columns if second else None, target.columns
        # A part of an entry is written into a copy of the whole, which has to be a source of the function.
        assert target.columns is None or target.word in (first.word, second.word if second else 0)
        holds_second = second is not None and target.columns is not None and target.word == second.word
        kept = holds_second and target.word != first.word
        aux = self.lowering.function((key, columns, kept), _on_columns(apply, columns, kept))
        rows = 1 if target.word == self.bias else self.layer.batch
        width = target.columns[1] - target.columns[0] if target.columns else self._widths[target.word]
        self.template.vector(
            opcode,
            (first.word, second.word if second else 0),
            target.word,
            vbytes=rows * width * ACC_BYTES,
            tile_m=1,
            size=rows * self._widths[target.word] * ACC_BYTES,
            tensor=self.root,
            aux=aux,
        )


_BINARY: dict[str, tuple[int, Apply]] = {
    "Add": (tk.OP_ADD, np.add),
    "Sub": (tk.OP_ADD, np.subtract),
    "Mul": (tk.OP_MUL, np.multiply),
}
_NO_ATTRIBUTES = Attributes("Tanh", {})


def _on_columns(
    apply: Apply, columns: tuple[Columns | None, Columns | None, Columns | None], kept_is_second: bool
) -> Apply:
    """A function of parts of two entries, into a part of what one of them holds."""
    first, second, target = (slice(*each) if each else slice(None) for each in columns)
    whole = columns[2] is None

    def on_columns(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = apply(a[:, first], b[:, second])
        if whole:
            return result
        kept = (b if kept_is_second else a).copy()
        kept[:, target] = result
        return kept

    return on_columns


def _add_first(count: int) -> Apply:
    """The sum of two rows in their first columns, the first row behind them."""

    def add_first(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.concatenate((a[:, :count] + b[:, :count], a[:, count:]), axis=1)

    return add_first


def _zeros(shape: tuple[int, int], _: np.ndarray, __: np.ndarray) -> np.ndarray:
    return np.zeros(shape, np.float32)


# A step: gates from the inputs, and the state before it -> the state after it, hidden values first -----


def _rnn_step(writer: _Writer, gates: int, state: list[int], step: int, is_first: bool) -> list[int]:
    writer.multiply(state[0], writer.again, gates, writer.gates, adds=True, keeps=not is_first)
    hidden = writer.hidden_entry(step)
    function = writer.problem.functions[writer.direction]
    writer.activate(function, _Operand(gates), _Operand(hidden))
    return [hidden]


def _lstm_step(writer: _Writer, gates: int, state: list[int], step: int, is_first: bool) -> list[int]:
    """Gates lie in the order input, output, forget, cell."""
    before, old = state
    enter, leave, keep, new = (writer.gate(gates, number) for number in range(4))
    cell, work = _Operand(writer.work_entry("cell")), _Operand(writer.work_entry("work"))
    writer.multiply(before, writer.again, gates, writer.gates, adds=True, keeps=not is_first)
    if writer.peepholes:
        for gate, peephole in ((enter, 0), (keep, 2)):
            writer.combine("Mul", _Operand(old), _Operand(writer.peepholes[peephole]), work)
            writer.combine("Add", gate, work, gate)
            writer.activate("Sigmoid", gate, gate)
    else:
        doors = writer.gate(gates, 0, 3)
        writer.activate("Sigmoid", doors, doors)
    writer.activate("Tanh", new, new)
    writer.combine("Mul", enter, new, work)
    writer.combine("Mul", keep, _Operand(old), cell)
    writer.combine("Add", cell, work, cell)
    if writer.peepholes:
        writer.combine("Mul", cell, _Operand(writer.peepholes[1]), work)
        writer.combine("Add", leave, work, leave)
        writer.activate("Sigmoid", leave, leave)
    writer.activate("Tanh", cell, work)
    hidden = _Operand(writer.hidden_entry(step))
    writer.combine("Mul", leave, work, hidden)
    return [hidden.word, cell.word]


def _gru_step(writer: _Writer, gates: int, state: list[int], step: int, is_first: bool) -> list[int]:
    """Gates lie in the order update, reset, hidden. New values n become n + update * (state - n)."""
    (before,) = state
    doors, new = writer.gate(gates, 0, 2), writer.gate(gates, 2)
    update, reset = writer.gate(gates, 0), writer.gate(gates, 1)
    width = 2 if writer.is_reset_early else 3
    product = writer.work_entry("product", width)
    columns = width * writer.layer.hidden
    # A reset before the product means two products a step, of which neither stays in the array.
    keeps = not is_first and not writer.is_reset_early
    writer.multiply(before, writer.again, product, columns, adds=False, keeps=keeps)
    writer.combine("Add", doors, writer.gate(product, 0, 2), doors)
    writer.activate("Sigmoid", doors, doors)
    work = _Operand(writer.work_entry("work"))
    if writer.is_reset_early:
        writer.combine("Mul", reset, _Operand(before), work)
        rest = _Operand(writer.work_entry("rest"))
        writer.multiply(work.word, writer.again_new, rest.word, writer.layer.hidden, adds=False, keeps=False)
    else:
        rest = writer.gate(product, 2)
        if writer.late_bias:
            writer.combine("Add", rest, writer.gate(writer.late_bias, 2), rest)
        writer.combine("Mul", rest, reset, rest)
    writer.combine("Add", new, rest, new)
    writer.activate("Tanh", new, new)
    writer.combine("Sub", _Operand(before), new, work)
    writer.combine("Mul", work, update, work)
    hidden = _Operand(writer.hidden_entry(step))
    writer.combine("Add", new, work, hidden)
    return [hidden.word]


_STEPS = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}
