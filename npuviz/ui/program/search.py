"""Search in a listing: by node through its ranges at once, by text in slices that leave the window alive."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from npuviz.program.graph import Graph
from npuviz.program.instruction import Listing
from npuviz.ui.program.rows import ListingRows


def matching_nodes(graph: Graph, text: str) -> list[int]:
    """Ids of the nodes whose name or type contains `text`, letter case ignored."""
    wanted = text.casefold().strip()
    if not wanted:
        return []
    return [
        node.id for node in graph.nodes if wanted in node.name.casefold() or wanted in node.op_type.casefold()
    ]


class ListingSearch:
    """Finds the next or previous row of a listing that matches a text.

    The text is an instruction number, or words of operators (hits are the starts of their
    instruction ranges, found without reading the listing), or part of a listing line. `opcodes` are
    words that always mean listing lines. Work comes in slices: call `advance` until it returns
    True; `row` is then the hit or None.
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
        """Search for about `seconds`; returns whether the search has ended."""
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
        """The start of a range of a wanted node that is nearest in the direction of search."""
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
        """All rows once, from the neighbour of the start row, around the end."""
        total = len(self._rows)
        step = -1 if self._backward else 1
        for offset in range(1, total + 1):
            yield (self._after + step * offset) % total
