"""The instructions of a program, by index, unit and node."""

from collections.abc import Sequence

import numpy as np

from npuviz.program.instruction import Instruction


class ToyListing:
    """See npuviz.program.instruction.Listing."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._made = instructions
        writes = [instruction.writes[0] for instruction in instructions]
        self._columns = {
            "node": np.array([each.node for each in instructions], np.int32),
            "unit": np.array([each.unit for each in instructions], np.int32),
            "address": np.array([write.address for write in writes], np.int64),
            "size": np.array([write.size_bytes for write in writes], np.int64),
            "tensor": np.array([write.tensor for write in writes], np.int32),
        }

    def __len__(self) -> int:
        return len(self._made)

    def describe(self, index: int) -> Instruction:
        """Decode one instruction. Raises IndexError."""
        if index < 0:
            raise IndexError(index)
        return self._made[index]

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Graph nodes of instructions."""
        return self._column("node", indices, -1)

    def units_of(self, indices: np.ndarray) -> np.ndarray:
        """Units of instructions."""
        return self._column("unit", indices, -1)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where instructions write: address, bytes, tensor."""
        address, size, tensor = (
            self._column(name, indices, none) for name, none in (("address", 0), ("size", 0), ("tensor", -1))
        )
        return address, size, tensor

    def ranges_of_node(self, node: int) -> list[tuple[int, int]]:
        """Half-open instruction ranges of a node."""
        return _ranges(self._columns["node"] == node)

    def ranges_of_unit(self, unit: int) -> list[tuple[int, int]]:
        """Half-open instruction ranges of a unit."""
        return _ranges(self._columns["unit"] == unit)

    def _column(self, name: str, indices: np.ndarray, none: int) -> np.ndarray:
        column = self._columns[name]
        is_known = (indices >= 0) & (indices < len(column))
        return np.where(is_known, column[np.where(is_known, indices, 0)], none).astype(column.dtype)


def _ranges(mine: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(mine.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]
