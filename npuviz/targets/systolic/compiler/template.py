"""The instructions of one tile program while they are being written."""

from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import DoesNotFit
from npuviz.targets.systolic.kernels import program_records as tk

MAX_ROWS = 1 << 20
"""Largest number of instructions of one tile program."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The bytes that a MOVIN or MOVOUT moves: see the request rule in `kernels.program_records`.

    base    which base address of the tile (0..7) the rows are relative to
    offset  byte offset of row (0, 0); length: bytes of a row
    n0, s0, n1, s1  row counts and byte strides of the two loops, n1 innermost
    mode    MODE_COVER or MODE_STEP
    """

    base: int
    offset: int
    length: int
    n0: int = 1
    s0: int = 0
    n1: int = 1
    s1: int = 0
    mode: int = tk.MODE_COVER

    def addresses(self, base: int, req_size: int) -> np.ndarray:
        """Return the block addresses (int64) of these rows for a base address, in request order.

        This is the request rule of `kernels.program_records` in numpy; compilers use it for sizes, tests as
        the reference of the kernel.
        """
        first = base + self.offset
        rows = (
            first
            + np.arange(self.n0, dtype=np.int64)[:, None] * self.s0
            + np.arange(self.n1, dtype=np.int64)[None, :] * self.s1
        ).reshape(-1)
        return blocks_of_rows(rows, self.length, self.mode, req_size)


def blocks_of_rows(rows: np.ndarray, length: int, mode: int, req_size: int) -> np.ndarray:
    """Return the aligned blocks of byte rows in order, equal neighbours merged (int64 addresses)."""
    start = rows - rows % req_size
    if length <= 0 or rows.size == 0:
        return np.empty(0, dtype=np.int64)
    if mode == tk.MODE_STEP:
        count = np.full(rows.shape, -(-length // req_size), dtype=np.int64)
    else:
        count = (rows + length - 1) // req_size - rows // req_size + 1
    total = int(count.sum())
    within = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    blocks = np.repeat(start, count) + within * req_size
    keep = np.ones(total, dtype=bool)
    keep[1:] = blocks[1:] != blocks[:-1]
    return blocks[keep]


@dataclass(frozen=True, slots=True)
class Pick:
    """Where the rows of a move lie in addition to their known offset, by a number computed at run time.

    offsets  operand word of the entry with byte offsets; number: which of them
    assumed  byte offset that requests use instead, since times do not depend on values
    """

    offsets: int
    number: int
    assumed: int


class Template:
    """Collects CODE rows. Operand words (`entry`, `sources`, `destination`) come from the builder.

    A method per instruction family; `size` is the number of bytes that the destination entry takes
    of its half, `tensor` the tensor moved or produced (-1: none), `aux` free for the compiler.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def movin(
        self, entry: int, rows: Rows, *, size: int, tensor: int = -1, aux: int = 0, pick: Pick | None = None
    ) -> None:
        """Load rows of DRAM into an entry."""
        self._move(tk.OP_MOVIN, entry, rows, (size, tensor, aux), pick)

    def movout(
        self, entry: int, rows: Rows, *, tensor: int = -1, aux: int = 0, pick: Pick | None = None
    ) -> None:
        """Store an entry to rows of DRAM."""
        self._move(tk.OP_MOVOUT, entry, rows, (0, tensor, aux), pick)

    def _append(self, row: tuple[int, ...]) -> None:
        if len(self._rows) == MAX_ROWS:
            raise DoesNotFit(f"one tile has more than {MAX_ROWS} instructions; use smaller tiles")
        self._rows.append(row)

    def _move(
        self, opcode: int, entry: int, rows: Rows, rest: tuple[int, int, int], pick: Pick | None
    ) -> None:
        r, p = rows, pick or Pick(0, 0, 0)
        place = (r.base, r.offset + p.assumed, r.n0, r.s0, r.n1, r.s1, r.length, r.mode)
        self._append((opcode, p.number, p.offsets, 0, entry, 0, p.assumed, 0, 0, *place, *rest))

    def gemm(
        self,
        sources: tuple[int, int],
        destination: int,
        rows: int,
        *,
        tile: tuple[int, int, int],
        size: int,
        preload: bool = True,
        tensor: int = -1,
        aux: int = 0,
    ) -> None:
        """Stream `rows` rows through the array; `tile` is (tile_m, tile_k, tile_n)."""
        opcode = tk.OP_GEMM_PRELOAD if preload else tk.OP_GEMM
        self._append(
            (opcode, rows, *sources, destination, *tile, 0, 0, 0, 1, 0, 1, 0, 0, 0, size, tensor, aux)
        )

    def vector(
        self,
        opcode: int,
        sources: tuple[int, int],
        destination: int,
        *,
        vbytes: int,
        tile_m: int,
        size: int,
        tensor: int = -1,
        aux: int = 0,
    ) -> None:
        """Add a vector operation over `vbytes` bytes; `sources[1]` is 0 for one-operand operations."""
        row = (opcode, 0, *sources, destination, tile_m, 0, 0, vbytes, 0, 0, 1, 0, 1, 0, 0, 0)
        self._append((*row, size, tensor, aux))

    def array(self) -> np.ndarray:
        """Return the rows as an (n, CODE_WORDS) int64 array, owned by the caller."""
        return np.array(self._rows, dtype=np.int64).reshape(len(self._rows), tk.CODE.num_words)
