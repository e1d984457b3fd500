"""Map rows of a listing of up to hundreds of millions of instructions, decode them, and search them."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from npuviz.program.graph import Graph
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
        """Return the instruction index of a row. Raises IndexError outside 0..len-1."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a listing of {len(self)} rows")
        part = int(np.searchsorted(self._first_rows, np.int64(row), side="right")) - 1
        return int(self._starts[part] + row - self._first_rows[part])

    def instructions(self, first: int, count: int) -> np.ndarray:
        """Return the instruction indices, (n,) int64, of the rows first..first+count-1 that exist."""
        rows = np.arange(max(0, first), min(len(self), first + count), dtype=np.int64)
        parts = np.searchsorted(self._first_rows, rows, side="right") - 1
        return self._starts[parts] + rows - self._first_rows[parts] if len(rows) else rows

    def row_at_or_after(self, instruction: int) -> int:
        """Return the row of an instruction, or of the next one that has a row; the last row if none
        follows.
        """
        if not len(self):
            return 0
        part = int(np.searchsorted(self._ends, np.int64(instruction), side="right"))
        if part == len(self._ends):
            return len(self) - 1
        inside = max(0, instruction - int(self._starts[part]))
        return int(self._first_rows[part]) + inside

    def row_of(self, instruction: int) -> int | None:
        """Return the row of an instruction, None if it has none."""
        if not len(self) or instruction < 0:
            return None
        row = self.row_at_or_after(instruction)
        return row if self.instruction_at(row) == instruction else None


class Decoder:
    """Decodes instructions on demand, and keeps up to DECODED_LIMIT of them."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._kept: dict[int, Instruction] = {}

    def describe(self, index: int) -> Instruction:
        """Return one decoded instruction. Raises IndexError outside the listing."""
        found = self._kept.get(index)
        if found is None:
            if len(self._kept) >= DECODED_LIMIT:
                self._kept.clear()
            found = self._kept[index] = self._listing.describe(index)
        return found


def matching_nodes(graph: Graph, text: str) -> list[int]:
    """Return the ids of the nodes whose name or type contains `text`, ignoring case."""
    wanted = text.casefold().strip()
    if not wanted:
        return []
    return [
        node.id for node in graph.nodes if wanted in node.name.casefold() or wanted in node.op_type.casefold()
    ]


class ListingSearch:
    """Finds the next or previous row of a listing that matches a text.

    The text is an instruction number; or part of operators' names (hits are the starts of their instruction
    ranges, found without reading the listing); or part of a listing line. `opcodes` are words that always
    mean
    listing lines. Call `advance` until it returns True; `row` is then the hit or None.
    """

    def __init__(
        self,
        rows: ListingRows,
        listing: Listing,
        graph: Graph,
        text: str,
        after: int,
        backward: bool = False,
        opcodes: Iterable[str] = (),
    ) -> None:
        self.row: int | None = None
        self.num_searched = 0
        self._rows = rows
        self._listing = listing
        self._wanted = text.casefold().strip()
        self._after = after
        self._backward = backward
        means_line = any(self._wanted in opcode.casefold() for opcode in opcodes)
        self._nodes = [] if means_line else matching_nodes(graph, self._wanted)
        self._order = self._rows_in_order()

    def advance(self, seconds: float) -> bool:
        """Search for about `seconds`; return whether the search has ended."""
        if not self._wanted or not len(self._rows):
            return True
        if self._wanted.isdigit():
            self.row = self._rows.row_of(int(self._wanted))
            return True
        if self._nodes:
            self.row = self._node_hit()
            if self.row is not None:
                return True
            self._nodes = []
        return self._scan(time.perf_counter() + seconds)

    def _scan(self, deadline: float) -> bool:
        for row in self._order:
            self.num_searched += 1
            instruction = self._listing.describe(self._rows.instruction_at(row))
            if self._wanted in instruction.text.casefold():
                self.row = row
                return True
            if not self.num_searched % 64 and time.perf_counter() > deadline:
                return False
        return True

    def _node_hit(self) -> int | None:
        """Return the nearest row, in the direction of search, at which a range of a matching node begins."""
        starts: set[int] = set()
        for node in self._nodes:
            for first, end in self._listing.ranges_of_node(node):
                row = self._rows.row_at_or_after(first)
                if first <= self._rows.instruction_at(row) < end:
                    starts.add(row)
        if not starts:
            return None
        ordered = sorted(starts)
        if self._backward:
            return ordered[bisect_left(ordered, self._after) - 1]
        place = bisect_right(ordered, self._after)
        return ordered[place % len(ordered)]

    def _rows_in_order(self) -> Iterator[int]:
        """Yield all rows once, from the neighbour of the start row on, continuing at the other end."""
        total = len(self._rows)
        step = -1 if self._backward else 1
        for offset in range(1, total + 1):
            yield (self._after + step * offset) % total
