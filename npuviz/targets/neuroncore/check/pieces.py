"""Collect the elements of tensors that never reach HBM on chip, right after they are computed."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.tables import Piece, Tables
from npuviz.targets.neuroncore.values.engine import ValueEngine


class PieceValues:
    """Elements of a tensor, collected from its pieces.

    values  (n,) float64 or the tensor's integers; covered  (n,) bool; positions  (n,) int64 in the log
    """

    def __init__(self, tensor: int, count: int, is_float: bool, pieces: int) -> None:
        self.tensor = tensor
        self.values = np.zeros(count, np.float32 if is_float else np.int64)
        self.covered = np.zeros(count, np.bool_)
        self.positions = np.full(count, -1, np.int64)
        self.left = pieces
        self._instructions: dict[int, int] = {}

    def add(self, position: int, instruction: int, where: np.ndarray, values: np.ndarray) -> None:
        """Add the values that an instruction wrote to elements `where` (flat indices)."""
        inside = (where >= 0) & (where < len(self.values))
        where, values = where[inside], values[inside]
        self.values[where] = values
        self.covered[where] = True
        self.positions[where] = position
        self._instructions[position] = instruction
        self.left -= 1

    def first_position(self, bad: np.ndarray) -> int:
        """Return the log position at which the first wrong element was computed, -1 if none was."""
        found = self.positions[bad & self.covered]
        return int(found.min()) if len(found) else -1

    def instruction_at(self, position: int) -> int:
        """Return the instruction at a position, -1 for -1."""
        return self._instructions.get(position, -1)


class Pieces:
    """Collects pieces while a log is replayed."""

    def __init__(self, tables: Tables, graph: Graph) -> None:
        self.by_instruction: dict[int, list[Piece]] = defaultdict(list)
        self._counts: dict[int, int] = defaultdict(int)
        self._graph = graph
        self._open: dict[int, PieceValues] = {}
        self._rows = tables.instructions
        for piece in tables.pieces:
            self.by_instruction[piece.instruction].append(piece)
            self._counts[piece.tensor] += 1

    def visit(self, engine: ValueEngine, position: int, entry: int) -> Iterator[PieceValues]:
        """Collect the pieces of the entry just applied; yield the tensors that are complete."""
        for piece in self.by_instruction.get(entry, ()):
            found = self._open.get(piece.tensor)
            if found is None:
                tensor = self._graph.tensors[piece.tensor]
                is_float = tensor.dtype.startswith(("float", "bfloat"))
                found = PieceValues(piece.tensor, tensor.num_elements, is_float, self._counts[piece.tensor])
                self._open[piece.tensor] = found
            values = engine.operand(entry, piece.operand)
            where = self._indices(piece, values.shape[0])
            found.add(position, entry, where, values.reshape(-1).astype(found.values.dtype))
            if found.left == 0:
                yield self._open.pop(piece.tensor)

    def unfinished(self) -> list[PieceValues]:
        """Return the tensors of which some pieces were never computed."""
        return list(self._open.values())

    def _indices(self, piece: Piece, partitions: int) -> np.ndarray:
        """Return the flat tensor indices of the operand's elements, in their order."""
        sizes = self._rows[piece.instruction]["operands"][piece.operand]["sizes"].tolist()
        found = piece.base + np.arange(partitions, dtype=np.int64) * piece.partition_step
        for size, step in zip(sizes, piece.steps, strict=True):
            found = (found[:, None] + np.arange(size, dtype=np.int64) * step).reshape(-1)
        return found
