"""Emit the epilogue of a matrix operator on PE's fp32 sums in PSUM: scale, bias, following operators."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.fusion import emit_epilogue
from npuviz.targets.neuroncore.compiler.operators.elementwise.formulas import as_activation
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Activation, Alu

Part = Callable[[HbmView], HbmView]
"""Function that returns a tile's part, (partitions, *free), of a tensor of the result's shape."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """f(sums * scale + bias), where f are the followers of a matrix operator in a fused group.

    head    the matrix operator, whose first output is the followers' input
    result  tensor that is stored: the last follower's output, or the head's
    """

    b: Builder
    head: Node
    followers: Sequence[Node]
    result: int
    scale: float = 1.0

    def apply(
        self, target: View, source: View, part: Part, column: View | None = None, tile: View | None = None
    ) -> None:
        """Write `target` from `source` (PSUM or SBUF, of equal shape).

        column  bias by partition, [P, 1]; tile  bias by element; at most one of both
        """
        rest = list(self.followers)
        value = source
        func = self._leading_function() if tile is None else None
        if func is not None:
            node = rest.pop(0)
            value = self._target(target, rest)
            bias = 0.0 if column is None else column
            self.b.isa.activation(value, source, func[0], scale=self.scale, bias=bias, alpha=func[1])
            first = node.outputs[0]
        else:
            first = self.head.outputs[0]
            if column is not None or tile is not None or self.scale != 1.0 or not rest:
                value = self._target(target, rest)
                self._affine(value, source, column, tile)
        if rest:
            emit_epilogue(self.b, rest, {first: value}, lambda tensor: self._operand(tensor, part), target)

    def _leading_function(self) -> tuple[Activation, float] | None:
        """Return the first follower's activation, if it is one instruction and no other follower reads the
        sums.
        """
        if not self.followers:
            return None
        start = self.head.outputs[0]
        if any(start in node.inputs for node in self.followers[1:]):
            return None
        return as_activation(self.b.graph, self.followers[0])

    def _target(self, target: View, rest: Sequence[Node]) -> View:
        return self.b.tiles.sbuf(target.partitions, target.shape, "float32") if rest else target

    def _affine(self, target: View, source: View, column: View | None, tile: View | None) -> None:
        b = self.b
        if tile is not None:
            if self.scale == 1.0:
                b.isa.tensor_tensor(target, source, tile, Alu.ADD)
            else:
                b.isa.scalar_tensor_tensor(target, source, Alu.MULTIPLY, self.scale, Alu.ADD, tile)
        elif column is not None:
            if self.scale == 1.0:
                b.isa.tensor_scalar(target, source, Alu.ADD, column)
            else:
                b.isa.tensor_scalar(target, source, Alu.MULTIPLY, self.scale, Alu.ADD, column)
        elif self.scale != 1.0:
            b.isa.tensor_scalar(target, source, Alu.MULTIPLY, self.scale)
        else:
            b.isa.copy(target, source)

    def _operand(self, tensor: int, part: Part) -> View | float:
        """Return another operand of a follower: a number, or its elements for the tile."""
        graph = self.b.graph
        known = graph.constants.get(tensor)
        if known is not None and known.size == 1:
            return float(known.reshape(-1)[0])
        shape = graph.tensors[self.result].shape
        return fetch_repeated(self.b, part(self.b.hbm[tensor].broadcast_to(shape)))


def fetch_repeated(b: Builder, source: HbmView, dtype: str | None = None) -> View:
    """Fetch (partitions, *free); a free dimension that repeats one element is fetched once."""
    free = source.shape[1:]
    key: list[slice] = [slice(None)]
    for size, step in zip(free, source.steps[1:], strict=True):
        key.append(slice(0, 1) if size > 1 and step == 0 else slice(None))
    found = b.dma.fetch(source[tuple(key)], dtype)
    return found if found.shape == tuple(free) else found.broadcast(*free)
