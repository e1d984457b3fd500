"""The entries of one queue as a table."""

from collections.abc import Sequence

from npuviz.base.units import format_count
from npuviz.sim.machine import QueueEntry
from npuviz.ui.kit.row_model import RowModel


class EntryTable(RowModel[tuple[int, QueueEntry]]):
    """Entries of one queue with their places, head first."""

    titles = ("#", "Entry", "Instruction", "Operator")
    numbers = (0, 2)
    aligns_titles = False
    node_names: Sequence[str] = ()

    def set_entries(self, entries: Sequence[QueueEntry], node_names: Sequence[str]) -> None:
        """Show these entries; rows are inserted or removed at the tail, changed ones announced."""
        self.node_names = node_names
        self.show_rows(tuple(enumerate(entries)))

    def text(self, row: tuple[int, QueueEntry], column: int) -> str:
        place, entry = row
        node = self.node_names[entry.node] if 0 <= entry.node < len(self.node_names) else ""
        instruction = format_count(entry.instruction) if entry.instruction >= 0 else ""
        return (str(place), entry.text, instruction, node)[column]
