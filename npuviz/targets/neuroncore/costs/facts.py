"""Derive facts about instructions (element counts, memories, steps) as arrays, for costs and rules."""

from typing import NamedTuple

import numpy as np

from npuviz.targets.neuroncore.isa import DST, DTYPE_BYTES, SRC0, SRC1, Flag, Space

_BYTES = np.array([*DTYPE_BYTES, *[4] * (256 - len(DTYPE_BYTES))], np.int64)
_TENSORS = (DST, SRC0, SRC1)


class Pattern(NamedTuple):
    """The fields of an operand that decide its cost; sizes and steps as in isa.OPERAND_DTYPE."""

    space: int
    dtype: int
    partitions: int
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


class Facts:
    """Facts about n instructions of one opcode, as arrays (n,), or (n, 6) by operand position.

    count   elements per partition, 0 for an absent operand
    """

    def __init__(self, instructions: np.ndarray) -> None:
        operands = instructions["operands"]
        self.instructions = instructions
        self.space = operands["space"]
        self.dtype = operands["dtype"]
        self.is_tensor = (self.space == Space.SBUF) | (self.space == Space.PSUM)
        sizes = operands["sizes"].astype(np.int64)
        self.count = np.where(self.is_tensor, sizes.prod(axis=2), 0)
        self.bytes = _BYTES[self.dtype]
        self._sizes = sizes
        self._steps = operands["steps"].astype(np.int64)

    @property
    def elements(self) -> np.ndarray:
        """N: the most elements per partition of DST, SRC0, SRC1."""
        return self.count[:, :3].max(axis=1)

    def has_flag(self, flag: Flag) -> np.ndarray:
        """Return whether a flag is set, (n,) bool."""
        return (self.instructions["flags"] & flag) != 0

    def in_space(self, space: Space, positions: tuple[int, ...] = _TENSORS) -> np.ndarray:
        """Return whether all present operands (of `positions`) are in a memory, (n,) bool."""
        there = self.is_tensor[:, positions]
        return ((self.space[:, positions] == space) | ~there).all(axis=1)

    def touches(self, space: Space) -> np.ndarray:
        """Return whether any operand is in a memory, (n,) bool."""
        return (self.space == space).any(axis=1)

    def all_of(self, dtypes: np.ndarray, positions: tuple[int, ...] = _TENSORS) -> np.ndarray:
        """Return whether all present tensor operands (of `positions`) have one of these types, (n,) bool."""
        there = self.is_tensor[:, positions]
        return (np.isin(self.dtype[:, positions], dtypes) | ~there).all(axis=1)

    def inner_step_bytes(self) -> np.ndarray:
        """Return the absolute step in bytes, (n, 6), of the innermost dimension with more than one
        element.
        """
        many = self._sizes > 1
        last = 3 - np.argmax(many[:, :, ::-1], axis=2)
        step = np.take_along_axis(self._steps, last[:, :, None], axis=2)[:, :, 0]
        return np.where(self.is_tensor & many.any(axis=2), np.abs(step) * self.bytes, 0)

    def is_contiguous(self) -> np.ndarray:
        """Return whether the elements of DST, SRC0 and SRC1 are contiguous in the innermost dimension, (n,)
        bool.
        """
        step = self.inner_step_bytes()[:, :3]
        return ((step == self.bytes[:, :3]) | (step == 0)).all(axis=1)

    def psum_banks(self, bank_bytes: int) -> np.ndarray:
        """Return a mask of the PSUM banks that the operands lie in; bit b is bank b."""
        reach = (self._sizes - 1) * self._steps
        first = self.instructions["operands"]["address"].astype(np.int64)
        low = first + np.minimum(reach, 0).sum(axis=2) * self.bytes
        high = first + np.maximum(reach, 0).sum(axis=2) * self.bytes + self.bytes - 1
        low = np.clip(low // bank_bytes, 0, 7)
        high = np.clip(high // bank_bytes, low, 7)
        bits = (np.int64(2) << high) - (np.int64(1) << low)
        bits = np.where(self.space == Space.PSUM, bits, 0)
        return np.bitwise_or.reduce(bits, axis=1)
