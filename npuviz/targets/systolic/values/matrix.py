"""The products of matrix tiles: entries of the operands, and steps of the accumulation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.targets.systolic.values.plan import Block, Load
from npuviz.targets.systolic.values.storage import widen


@dataclass(frozen=True)
class MatrixProduct:
    """A tile of a matrix product: result (rows x columns) += left (rows x depth) @ right (depth x columns).

    left, right   operand words of the entries, in the order of rows and columns
    left_by_depth   left entries hold (depth x rows) instead of (rows x depth)
    right_by_depth  right entries hold (depth x columns) instead of (columns x depth)
    step          reduction elements per instruction: the height of the array
    continues     in a tile of several products: adds to what the entry holds
    left_zero, right_zero  zero points of quantised operands, subtracted before multiplying
    zero_words  entries that hold them where they are known at run time only, 0: none
    """

    shape: tuple[int, int]
    depth: int
    step: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    blocks: Mapping[int, Block] = field(default_factory=dict[int, Block])
    left_by_depth: bool = False
    right_by_depth: bool = True
    dtype: str = "float32"
    left_zero: int = 0
    right_zero: int = 0
    zero_words: tuple[int, int] = (0, 0)
    continues: bool = False

    @property
    def num_steps(self) -> int:
        """Parts of the reduction."""
        return -(-self.depth // self.step)

    def steps(self, load: Load) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs (rows x k, k x columns) in order."""
        left_zero = zero_point(load, self.zero_words[0], self.left_zero)
        right_zero = zero_point(load, self.zero_words[1], self.right_zero)
        left = _joined([load(word) for word in self.left], self.left_by_depth, left_zero)
        right = _joined([load(word) for word in self.right], self.right_by_depth, right_zero)
        if self.left_by_depth:
            left = left.T
        if not self.right_by_depth:
            right = right.T
        for start in range(0, self.depth, self.step):
            yield left[:, start : start + self.step], right[start : start + self.step]


def zero_point(load: Load, word: int, constant: int) -> int:
    """Return the zero point in entry `word`, or the constant if there is no entry (0)."""
    return int(load(word).reshape(-1)[0]) if word else constant


def _joined(parts: list[np.ndarray], along_columns: bool, zero: int) -> np.ndarray:
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1 if along_columns else 0)
    wide = widen(whole)
    return wide - np.float32(zero) if zero else wide
