"""Cut memories into cells: ranges of bytes that each access of a run touches as a whole or not at all."""

from dataclasses import dataclass

import numpy as np

from npuviz.sim.checks.order_kernels import BANK, BANKS, HIGH, LOW, MEMORY


@dataclass(frozen=True)
class Cells:
    """Memories cut into cells, and the cells that each access touches.

    rows   (accesses, 4) int64: first cell, banks, cells between banks, cells of a bank
    first  (memories + 1,): first cell of each memory; the last is the number of cells
    banks, bytes  (all cuts, memory after memory; index of each memory's first cut)
    """

    rows: np.ndarray
    first: np.ndarray
    banks: tuple[np.ndarray, np.ndarray]
    bytes: tuple[np.ndarray, np.ndarray]

    def place(self, cell: int) -> tuple[int, int, int, int]:
        """Return the memory, the bank, and the first and the end byte of a cell."""
        memory = int(np.searchsorted(self.first, cell, side="right")) - 1
        (banks, bank_first), (cuts, cut_first) = self.banks, self.bytes
        width = int(cut_first[memory + 1] - cut_first[memory]) - 1
        bank, low = divmod(cell - int(self.first[memory]), width)
        low += int(cut_first[memory])
        return memory, int(banks[bank_first[memory] + bank]), int(cuts[low]), int(cuts[low + 1])


def cut(accesses: np.ndarray, memories: int) -> Cells:
    """Cut `memories` memories into cells by (n, 8) int64 accesses, see `trail.accesses_of`."""
    memory = accesses[:, MEMORY]
    bank, banks = _ranked(memory, accesses[:, BANK], accesses[:, BANK] + accesses[:, BANKS], memories)
    low, cuts = _ranked(memory, accesses[:, LOW], accesses[:, HIGH], memories)
    heights, widths = (np.maximum(np.diff(first) - 1, 0) for _, first in (banks, cuts))
    first = np.zeros(memories + 1, np.int64)
    np.cumsum(heights * widths, out=first[1:])
    rows = np.empty((len(accesses), 4), np.int64)
    width = widths[memory]
    rows[:, 0] = first[memory] + (bank[0] - banks[1][memory]) * width + low[0] - cuts[1][memory]
    rows[:, 1], rows[:, 2], rows[:, 3] = bank[1] - bank[0], width, low[1] - low[0]
    return Cells(rows, first, banks, cuts)


def _ranked(
    memory: np.ndarray, low: np.ndarray, high: np.ndarray, memories: int
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return (2, n) int64 ranks of both ends among the ends in all memories;
    and these ends with each memory's first."""
    ends, owner = np.concatenate([low, high]), np.concatenate([memory, memory])
    order = np.lexsort((ends, owner))
    ends, owner = ends[order], owner[order]
    is_new = np.ones(len(ends), np.bool_)
    is_new[1:] = (ends[1:] != ends[:-1]) | (owner[1:] != owner[:-1])
    ranks = np.empty(len(ends), np.int64)
    ranks[order] = np.cumsum(is_new) - 1
    first = np.searchsorted(owner[is_new], np.arange(memories + 1))
    return ranks.reshape(2, -1), (ends[is_new], first)
