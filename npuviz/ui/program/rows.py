"""Rows of a listing that may hold hundreds of millions of instructions: arithmetic instead of a list."""

from collections.abc import Sequence

import numpy as np

from npuviz.program.instruction import Instruction, Listing

DECODED_LIMIT = 4096


class ListingRows:
    """Maps rows 0..len-1 to instruction indices of rising half-open ranges, and back."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        table = np.array([r for r in ranges if r[1] > r[0]], dtype=np.int64).reshape(-1, 2)
        table = table[np.argsort(table[:, 0], kind="stable")]
        self._starts = table[:, 0]
        self._ends = table[:, 1]
        self._first_rows = np.concatenate([[0], np.cumsum(self._ends - self._starts)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    def instruction_at(self, row: int) -> int:
        """Instruction index of a row. Raises IndexError outside 0..len-1."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a listing of {len(self)} rows")
        part = int(np.searchsorted(self._first_rows, np.int64(row), side="right")) - 1
        return int(self._starts[part] + row - self._first_rows[part])

    def instructions(self, first: int, count: int) -> np.ndarray:
        """(n,) int64 instruction indices of the rows first..first+count-1 that exist."""
        rows = np.arange(max(0, first), min(len(self), first + count), dtype=np.int64)
        parts = np.searchsorted(self._first_rows, rows, side="right") - 1
        return self._starts[parts] + rows - self._first_rows[parts] if len(rows) else rows

    def row_at_or_after(self, instruction: int) -> int:
        """Row of an instruction, or of the next one that has a row; the last row if none follows."""
        if not len(self):
            return 0
        part = int(np.searchsorted(self._ends, np.int64(instruction), side="right"))
        if part == len(self._ends):
            return len(self) - 1
        inside = max(0, instruction - int(self._starts[part]))
        return int(self._first_rows[part]) + inside

    def row_of(self, instruction: int) -> int | None:
        """Row of an instruction, None if it has none."""
        if not len(self) or instruction < 0:
            return None
        row = self.row_at_or_after(instruction)
        return row if self.instruction_at(row) == instruction else None


class Decoder:
    """Decodes instructions on demand and keeps the latest few thousand."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._kept: dict[int, Instruction] = {}

    def describe(self, index: int) -> Instruction:
        """One decoded instruction. Raises IndexError outside the listing."""
        found = self._kept.get(index)
        if found is None:
            if len(self._kept) >= DECODED_LIMIT:
                self._kept.clear()
            found = self._kept[index] = self._listing.describe(index)
        return found
