"""Load weights of recurrent operators, and compute their gates, with hidden units on partitions."""

from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import Matrix, consecutive, panel
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Activation, Alu

FUNCTIONS = {
    "Sigmoid": Activation.SIGMOID,
    "Tanh": Activation.TANH,
    "Relu": Activation.RELU,
    "Softplus": Activation.SOFTPLUS,
}
Tiles = list[View]
"""A view [units of the part, columns] for each 128 hidden units."""


def unit_parts(units: int) -> list[tuple[int, int]]:
    """Return ranges of at most 128 hidden units."""
    return blocks(units, NUM_PARTITIONS)


def function(name: str) -> Activation:
    """Return the activation for an ONNX name. Raises CannotLower if there is none."""
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise CannotLower(f"a recurrent operator with {name}") from None


@dataclass(frozen=True, slots=True)
class Gates:
    """The matrices of one direction: chunks [K of the chunk, gates * units], K being inputs or units.

    biases  by gate, one column [units of the part, 1] for each part: the sum of input and recurrent bias;
    empty without biases;  unit_biases  the recurrent biases alone
    """

    b: Builder
    units: int
    inputs: Tiles
    recurrent: Tiles
    biases: list[Tiles]
    unit_biases: list[Tiles]

    def sums(self, gate: int, terms: Sequence[tuple[Tiles, Tiles]], part: int) -> View:
        """Sum weights^T @ values of a gate over (chunks of weights, of values) in a PSUM tile."""
        u0, u1 = unit_parts(self.units)[part]
        columns = terms[0][1][0].free_size
        bank = self.b.tiles.psum(u1 - u0, (columns,))
        first = gate * self.units
        pairs = [pair for weights, values in terms for pair in zip(weights, values, strict=True)]
        for order, (weights, values) in enumerate(pairs):
            self.b.isa.matmul(bank, weights[:, first + u0 : first + u1], values, accumulate=order > 0)
        return bank

    def bias(self, gate: int, part: int) -> View | float:
        """Return the bias column of a gate (input and recurrent bias), 0.0 without biases."""
        return self.biases[gate][part] if self.biases else 0.0


def load_gates(
    b: Builder,
    weights: tuple[HbmView, HbmView],
    bias: HbmView | None,
    units: int,
    splits_bias: bool,
    dtype: str,
) -> Gates:
    """Load weights and biases of one direction to tiles of the enclosing scope.

    weights  [gates * units, inputs] and [gates * units, units];  bias [2 * gates * units]
    splits_bias  keep the input and recurrent biases of the last gate apart (GRU)
    """
    rows = weights[0].shape[0]
    count = rows // units
    chunks = [
        panel(b, Matrix(view, False), consecutive(0, view.shape[1]), (0, rows), dtype, True)
        for view in weights
    ]
    biases: list[Tiles] = []
    own: list[Tiles] = []
    for gate in range(count if bias is not None else 0):
        assert bias is not None
        together: Tiles = []
        alone: Tiles = []
        for u0, u1 in unit_parts(units):
            first = gate * units + u0
            of_input = b.dma.fetch(bias[first : first + u1 - u0].reshape(-1, 1), "float32")
            first += rows
            of_units = b.dma.fetch(bias[first : first + u1 - u0].reshape(-1, 1), "float32")
            alone.append(of_units)
            if splits_bias and gate == count - 1:
                together.append(of_input)
            else:
                total = b.tiles.sbuf(u1 - u0, (1,), "float32")
                b.isa.tensor_tensor(total, of_input, of_units, Alu.ADD)
                together.append(total)
        biases.append(together)
        own.append(alone)
    return Gates(b, units, chunks[0], chunks[1], biases, own)


def blend(b: Builder, target: View, gate: View, new: View, old: View) -> None:
    """Compute target = (1 - gate) * new + gate * old, as new + gate * (old - new)."""
    change = b.tiles.sbuf(target.partitions, target.shape, "float32")
    b.isa.tensor_tensor(change, old, new, Alu.SUBTRACT)
    b.isa.tensor_tensor(change, change, gate, Alu.MULTIPLY)
    b.isa.tensor_tensor(target, change, new, Alu.ADD)
