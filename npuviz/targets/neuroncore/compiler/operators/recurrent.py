"""Lower RNN, GRU and LSTM: time steps in order, hidden units on partitions, batch in the free axis.

So a step's state is directly the moving operand of the next step, and the loop needs no transposes.
"""

from dataclasses import dataclass

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.matmul.matmul import require_floats
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import (
    Matrix,
    consecutive,
    operand_dtype,
    panel,
)
from npuviz.targets.neuroncore.compiler.operators.recurrent_cells import (
    Gates,
    Tiles,
    blend,
    function,
    load_gates,
    unit_parts,
)
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Activation, Alu

_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_MAX_BATCH = 512
_MAX_STEPS = 2048


@dataclass(slots=True)
class _State:
    """State after a step: h, and c of an LSTM; one tile for each part of the units."""

    hidden: Tiles
    cell: Tiles


def lower_recurrent(b: Builder, node: Node) -> None:
    """Lower RNN, GRU and LSTM, any direction and layout, with peepholes and sequence lengths."""
    require_floats(b, node.inputs[:3])
    attributes = node.attributes
    if attributes.get("clip") is not None or attributes.get("input_forget"):
        raise CannotLower(f"{node.op_type} with clip or input_forget")
    direction = attributes_of(node).text("direction", "forward")
    directions = [False, True] if direction == "bidirectional" else [direction == "reverse"]
    names = [_text(name) for name in attributes.get("activations") or []]
    names = names or _DEFAULTS[node.op_type] * len(directions)
    each = len(names) // len(directions)
    for index, is_reverse in enumerate(directions):
        functions = [function(name) for name in names[index * each : (index + 1) * each]]
        with b.tiles.scope():
            _Direction(b, node, index, is_reverse, functions).run()


def _text(value: object) -> str:
    """Return an element of an attribute that is a list of texts as str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class _Direction:
    """Emits one direction of a node."""

    def __init__(
        self, b: Builder, node: Node, index: int, is_reverse: bool, functions: list[Activation]
    ) -> None:
        self.b, self.node, self.index, self.is_reverse, self.functions = b, node, index, is_reverse, functions
        self.is_batch_first = bool(node.attributes.get("layout", 0))
        axes = [len(b.graph.tensors[tensor].shape) for tensor in node.inputs[:3]]
        if axes != [3, 3, 3]:
            raise CannotLower(
                f"inputs and weights of {axes[0]}, {axes[1]} and {axes[2]} axes; expected 3 of each"
            )
        source = b.hbm[node.inputs[0]]
        self.source = source.permute(1, 0, 2) if self.is_batch_first else source
        self.steps, self.batch, _ = self.source.shape
        self.units = b.graph.tensors[node.inputs[2]].shape[2]
        self.dtype = operand_dtype(b, source.dtype)
        if self.batch > _MAX_BATCH or self.steps > _MAX_STEPS:
            raise CannotLower(f"{self.steps} steps of a batch of {self.batch}")
        self.lengths = self._input(4)
        if self.lengths is not None and is_reverse:
            raise CannotLower("sequence lengths in reverse")
        self.peepholes = self._input(7)

    def _input(self, position: int) -> HbmView | None:
        inputs = self.node.inputs
        return self.b.hbm[inputs[position]] if len(inputs) > position and inputs[position] >= 0 else None

    def _output(self, position: int) -> HbmView | None:
        outputs = self.node.outputs
        return self.b.hbm[outputs[position]] if len(outputs) > position and outputs[position] >= 0 else None

    def run(self) -> None:
        """Emit all steps."""
        bias = self._input(3)
        weights = self.b.hbm[self.node.inputs[1]][self.index], self.b.hbm[self.node.inputs[2]][self.index]
        splits = self.node.op_type == "GRU"
        gates = load_gates(
            self.b, weights, None if bias is None else bias[self.index], self.units, splits, self.dtype
        )
        state = _State(self._initial(5), self._initial(6) if self.node.op_type == "LSTM" else [])
        order = range(self.steps - 1, -1, -1) if self.is_reverse else range(self.steps)
        for step in order:
            with self.b.tiles.scope():
                new = self._step(gates, self._inputs(step), state)
                self._keep(state, new, step)
        self._store(self._output(1), state.hidden)
        if state.cell:
            self._store(self._output(2), state.cell)

    def _inputs(self, step: int) -> Tiles:
        """Load the inputs of a step: chunks [features, batch]."""
        view = self.source[step]
        return panel(
            self.b, Matrix(view, False), consecutive(0, view.shape[1]), (0, self.batch), self.dtype, True
        )

    def _by_units(self, view: HbmView) -> list[HbmView]:
        """Return parts [units of the part, batch] of a view [batch, units]."""
        turned = view.permute(1, 0)
        return [turned[u0:u1] for u0, u1 in unit_parts(self.units)]

    def _of_direction(self, view: HbmView) -> HbmView:
        """Return this direction's [batch, units] of an initial or final state."""
        return view[:, self.index] if self.is_batch_first else view[self.index]

    def _initial(self, position: int) -> Tiles:
        given = self._input(position)
        tiles = [self.b.tiles.sbuf(u1 - u0, (self.batch,), self.dtype) for u0, u1 in unit_parts(self.units)]
        if given is None:
            for tile in tiles:
                self.b.isa.memset(tile, 0.0)
        else:
            for tile, part in zip(tiles, self._by_units(self._of_direction(given)), strict=True):
                self.b.dma.load(tile, part)
        return tiles

    def _store(self, target: HbmView | None, tiles: Tiles) -> None:
        if target is not None:
            for tile, part in zip(tiles, self._by_units(self._of_direction(target)), strict=True):
                self.b.dma.store(part, tile)

    def _keep(self, state: _State, new: _State, step: int) -> None:
        """Store Y of a step, and update the state of the sequences that are longer than `step`."""
        sequence = self._output(0)
        target: list[HbmView] = []
        if sequence is not None:
            target = self._by_units(
                sequence[:, step, self.index] if self.is_batch_first else sequence[step, self.index]
            )
        b = self.b
        for part in range(len(state.hidden)):
            hidden, old = new.hidden[part], state.hidden[part]
            if self.lengths is None:
                b.isa.copy(old, hidden)
                if state.cell:
                    b.isa.copy(state.cell[part], new.cell[part])
            else:
                mask = self._mask(step, hidden)
                b.isa.copy_predicated(old, hidden, mask)
                if state.cell:
                    b.isa.copy_predicated(state.cell[part], new.cell[part], mask)
                b.isa.tensor_tensor(hidden, hidden, mask, Alu.MULTIPLY)
            if target:
                b.dma.store(target[part], hidden)

    def _mask(self, step: int, like: View) -> View:
        """Compute a mask: 1 for sequences of the batch that are longer than `step`."""
        assert self.lengths is not None
        lengths = self.b.dma.fetch(self.lengths.broadcast_to((like.partitions, self.batch)))
        mask = self.b.tiles.sbuf(like.partitions, like.shape, "uint8")
        self.b.isa.tensor_scalar(mask, lengths, Alu.GREATER, step)
        return mask

    def _step(self, gates: Gates, inputs: Tiles, state: _State) -> _State:
        if self.node.op_type == "LSTM":
            return self._lstm(gates, inputs, state)
        if self.node.op_type == "GRU":
            return self._gru(gates, inputs, state)
        hidden = [
            self._activated(gates, 0, part, self._terms(gates, inputs, state.hidden), self.functions[0])
            for part in range(len(state.hidden))
        ]
        return _State(hidden, [])

    def _terms(self, gates: Gates, inputs: Tiles, hidden: Tiles) -> list[tuple[Tiles, Tiles]]:
        return [(gates.inputs, inputs), (gates.recurrent, hidden)]

    def _activated(
        self,
        gates: Gates,
        gate: int,
        part: int,
        terms: list[tuple[Tiles, Tiles]],
        func: Activation,
        peephole: tuple[int, View] | None = None,
    ) -> View:
        """Compute a gate: func(sums + bias (+ peephole weight * cell))."""
        b = self.b
        u0, u1 = unit_parts(self.units)[part]
        result = b.tiles.sbuf(u1 - u0, (self.batch,), self.dtype)
        with b.tiles.scope():
            source = gates.sums(gate, terms, part)
            if peephole is not None and self.peepholes is not None:
                first = peephole[0] * self.units + u0
                column = b.dma.fetch(
                    self.peepholes[self.index, first : first + u1 - u0].reshape(-1, 1), "float32"
                )
                total = b.tiles.sbuf(u1 - u0, (self.batch,), "float32")
                b.isa.scalar_tensor_tensor(total, peephole[1], Alu.MULTIPLY, column, Alu.ADD, source)
                source = total
            b.isa.activation(result, source, func, bias=gates.bias(gate, part))
        return result

    def _lstm(self, gates: Gates, inputs: Tiles, state: _State) -> _State:
        """Emit an LSTM step; gates: input, output, forget, cell; peepholes: input, output, forget."""
        b = self.b
        sigmoid, squash, final = self.functions
        terms = self._terms(gates, inputs, state.hidden)
        new = _State([], [])
        for part, old in enumerate(state.cell):
            admit = self._activated(gates, 0, part, terms, sigmoid, (0, old))
            forget = self._activated(gates, 2, part, terms, sigmoid, (2, old))
            candidate = self._activated(gates, 3, part, terms, squash)
            cell = b.tiles.sbuf(old.partitions, old.shape, self.dtype)
            kept = b.tiles.sbuf(old.partitions, old.shape, "float32")
            b.isa.tensor_tensor(kept, forget, old, Alu.MULTIPLY)
            b.isa.tensor_tensor(candidate, candidate, admit, Alu.MULTIPLY)
            b.isa.tensor_tensor(cell, kept, candidate, Alu.ADD)
            output = self._activated(gates, 1, part, terms, sigmoid, (1, cell))
            hidden = b.tiles.sbuf(old.partitions, old.shape, self.dtype)
            b.isa.activation(hidden, cell, final)
            b.isa.tensor_tensor(hidden, hidden, output, Alu.MULTIPLY)
            new.hidden.append(hidden)
            new.cell.append(cell)
        return new

    def _gru(self, gates: Gates, inputs: Tiles, state: _State) -> _State:
        """Emit a GRU step; gates: update, reset, hidden."""
        b = self.b
        sigmoid, squash = self.functions
        terms = self._terms(gates, inputs, state.hidden)
        parts = range(len(state.hidden))
        update = [self._activated(gates, 0, part, terms, sigmoid) for part in parts]
        reset = [self._activated(gates, 1, part, terms, sigmoid) for part in parts]
        if self.node.attributes.get("linear_before_reset", 0):
            candidate = [self._reset_after(gates, inputs, state.hidden, reset[part], part) for part in parts]
        else:
            damped = [b.tiles.sbuf(old.partitions, old.shape, self.dtype) for old in state.hidden]
            for tile, gate, old in zip(damped, reset, state.hidden, strict=True):
                b.isa.tensor_tensor(tile, gate, old, Alu.MULTIPLY)
            candidate = [self._reset_before(gates, inputs, damped, part) for part in parts]
        hidden: Tiles = []
        for part, old in enumerate(state.hidden):
            b.isa.activation(candidate[part], candidate[part], squash)
            tile = b.tiles.sbuf(old.partitions, old.shape, self.dtype)
            blend(b, tile, update[part], candidate[part], old)
            hidden.append(tile)
        return _State(hidden, [])

    def _reset_before(self, gates: Gates, inputs: Tiles, damped: Tiles, part: int) -> View:
        """Compute W x + R (r h) + both biases."""
        b = self.b
        u0, u1 = unit_parts(self.units)[part]
        total = b.tiles.sbuf(u1 - u0, (self.batch,), "float32")
        with b.tiles.scope():
            bank = gates.sums(2, self._terms(gates, inputs, damped), part)
            if gates.biases:
                own, other = gates.biases[2][part], gates.unit_biases[2][part]
                b.isa.tensor_scalar(total, bank, Alu.ADD, own, Alu.ADD, other)
            else:
                b.isa.copy(total, bank)
        return total

    def _reset_after(self, gates: Gates, inputs: Tiles, hidden: Tiles, reset: View, part: int) -> View:
        """Compute W x + bias + r (R h + its bias)."""
        b = self.b
        u0, u1 = unit_parts(self.units)[part]
        total = b.tiles.sbuf(u1 - u0, (self.batch,), "float32")
        with b.tiles.scope():
            bank = gates.sums(2, [(gates.recurrent, hidden)], part)
            own = gates.unit_biases[2][part] if gates.biases else 0.0
            b.isa.scalar_tensor_tensor(total, bank, Alu.ADD, own, Alu.MULTIPLY, reset)
        with b.tiles.scope():
            bank = gates.sums(2, [(gates.inputs, inputs)], part)
            bias = gates.biases[2][part] if gates.biases else 0.0
            b.isa.scalar_tensor_tensor(total, bank, Alu.ADD, bias, Alu.ADD, total)
        return total


LOWERINGS = {"RNN": lower_recurrent, "GRU": lower_recurrent, "LSTM": lower_recurrent}
