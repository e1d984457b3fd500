"""The bytes of a memory as a table of numbers; only visible pages are read."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, Qt

from npuviz.base.units import format_count
from npuviz.program.dtypes import numpy_dtype
from npuviz.ui.kit.row_model import Index

ReadBytes = Callable[[int, int], bytes | None]

PAGE_BYTES = 4096
MAX_PAGES = 512
HEX = "hex"
MAX_COLUMNS = 512
MAX_ROWS = 64 << 20
"""Most rows of a view: Qt counts pixels in 32 bits, and with more rows a header paints all of them."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The part of a memory that a table shows, and the form of its cells.

    shape    of the numbers; () if unknown, then lines have 16 bytes
    dtype    a name of npuviz.program.dtypes, or "hex"
    banks    show the same bytes of this many banks, `bank_bytes` apart; each bank begins a line
    """

    address: int = 0
    size_bytes: int = 0
    dtype: str = HEX
    shape: tuple[int, ...] = ()
    banks: int = 1
    bank_bytes: int = 0

    @property
    def item_bytes(self) -> int:
        """Bytes of one cell."""
        return 1 if self.dtype == HEX else numpy_dtype(self.dtype).itemsize

    @property
    def num_columns(self) -> int:
        """Cells of a line: the innermost dimension if known and not too long."""
        if self.dtype != HEX and self.shape and 1 < self.shape[-1] <= MAX_COLUMNS:
            return self.shape[-1]
        if self.banks > 1:
            return max(min(self.num_cells, MAX_COLUMNS), 1)
        return max(16 // self.item_bytes, 1)

    @property
    def num_cells(self) -> int:
        """Whole cells inside the range, of one bank."""
        return self.size_bytes // self.item_bytes

    @property
    def rows_of_bank(self) -> int:
        """Lines of one bank, the last one may be shorter."""
        return -(-self.num_cells // self.num_columns)

    @property
    def num_rows(self) -> int:
        """Lines of all banks."""
        return self.rows_of_bank * self.banks

    @property
    def total_bytes(self) -> int:
        """Bytes in all banks."""
        return self.size_bytes * self.banks

    @property
    def shown(self) -> "Contents":
        """These contents, cut to MAX_ROWS lines."""
        if self.num_rows <= MAX_ROWS:
            return self
        line_bytes = self.num_columns * self.item_bytes
        return replace(self, size_bytes=MAX_ROWS // self.banks * line_bytes)

    def place_of(self, row: int, column: int) -> tuple[int, int]:
        """Return bank and number of a cell; the number is num_cells or more for places after the last
        cell.
        """
        bank, line = divmod(row, max(self.rows_of_bank, 1))
        return bank, line * self.num_columns + column

    def address_of(self, row: int, column: int) -> int:
        """Return the address of a cell."""
        bank, cell = self.place_of(row, column)
        return self.start_of(bank) + cell * self.item_bytes

    def start_of(self, bank: int) -> int:
        """Return the address of the range in its n-th bank."""
        return self.address + bank * self.bank_bytes

    def row_title(self, row: int) -> str:
        """Return the title of a line: its address, or partition and offset."""
        if self.banks == 1:
            return f"{self.address_of(row, 0):#x}"
        bank, cell = self.place_of(row, 0)
        first, inside = divmod(self.address, self.bank_bytes)
        offset = f" +{inside + cell * self.item_bytes:#x}" if cell else ""
        return f"p{first + bank}{offset}"


class MemoryTable(QAbstractTableModel):
    """The table model: rows are lines of cells; pages are read when a view asks for a cell in them.

    read  (address, size_bytes) -> bytes, or None while the machine must not be asked
    contents  the part that is shown
    """

    def __init__(self, read: ReadBytes) -> None:
        super().__init__()
        self._read = read
        self.contents = Contents()
        self._pages: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def set_contents(self, contents: Contents) -> None:
        """Show another range, or the same range with another type or shape; if equal, only refresh."""
        if contents == self.contents:
            self.refresh()
            return
        self.beginResetModel()
        self.contents = contents
        self._pages.clear()
        self.endResetModel()

    def show_again(self) -> None:
        """Announce all cells as changed, because bytes that were missing can be read now."""
        contents = self.contents
        if contents.num_rows:
            last = self.index(contents.num_rows - 1, contents.num_columns - 1)
            self.dataChanged.emit(self.index(0, 0), last, [Qt.ItemDataRole.DisplayRole])

    def refresh(self) -> None:
        """Read all known pages again, because bytes may have changed, and announce cells of changed ones."""
        before = dict(self._pages)
        self._pages.clear()
        for (bank, page), old in before.items():
            fresh = self._page(bank, page)
            if fresh is not None and fresh != old:
                self._announce(bank, page)

    def _announce(self, bank: int, page: int) -> None:
        contents = self.contents
        start, rows = contents.start_of(bank), contents.rows_of_bank
        line_bytes = contents.item_bytes * contents.num_columns
        first = max((page * PAGE_BYTES - start) // line_bytes, 0)
        last = min(((page + 1) * PAGE_BYTES - start) // line_bytes, rows - 1)
        if last >= 0:
            top = self.index(bank * rows + first, 0)
            bottom = self.index(bank * rows + last, contents.num_columns - 1)
            self.dataChanged.emit(top, bottom, [Qt.ItemDataRole.DisplayRole])

    def pieces(self, address: int, size_bytes: int, banks: int = 1) -> list[bytes] | None:
        """Return the bytes of a range in each bank; None if any is not read yet, or the range is empty."""
        starts = [address + bank * self.contents.bank_bytes for bank in range(banks)]
        found = [self._read(start, size_bytes) for start in starts] if size_bytes > 0 else []
        known = [piece for piece in found if piece is not None]
        return known if known and len(known) == len(found) else None

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else self.contents.num_rows

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() or not self.contents.size_bytes else self.contents.num_columns

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        if orientation == Qt.Orientation.Vertical:
            return self.contents.row_title(section)
        return f"{section:x}" if self.contents.dtype == HEX else str(section)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        contents = self.contents
        if role == Qt.ItemDataRole.ToolTipRole:
            address = contents.address_of(index.row(), index.column())
            lines = [f"{address:#x}", format_count(address), contents.dtype]
            if contents.banks > 1:
                bank, inside = divmod(address, contents.bank_bytes)
                lines.insert(0, f"partition {bank}, {inside:#x}")
            return "\n".join(lines)
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        bank, cell = contents.place_of(index.row(), index.column())
        if cell >= contents.num_cells:
            return ""
        address = contents.start_of(bank) + cell * contents.item_bytes
        data = self._bytes(bank, address, contents.item_bytes)
        return "" if data is None else format_cell(data, contents.dtype)

    def _bytes(self, bank: int, address: int, size_bytes: int) -> bytes | None:
        found = b""
        while size_bytes > 0:
            page, offset = divmod(address, PAGE_BYTES)
            whole = self._page(bank, page)
            if whole is None:
                return None
            part = whole[offset : offset + size_bytes]
            if not part:
                return None
            found += part
            address += len(part)
            size_bytes -= len(part)
        return found

    def _page(self, bank: int, page: int) -> bytes | None:
        found = self._pages.get((bank, page))
        if found is not None:
            self._pages.move_to_end((bank, page))
            return found
        contents = self.contents
        # Only bytes of the range are asked for: a page may reach beyond the end of the memory.
        first = max(page * PAGE_BYTES, contents.start_of(bank))
        last = min((page + 1) * PAGE_BYTES, contents.start_of(bank) + contents.size_bytes)
        if last <= first:
            return None
        data = self._read(first, last - first)
        if data is None:
            return None
        found = bytes(first - page * PAGE_BYTES) + data
        self._pages[bank, page] = found
        if len(self._pages) > MAX_PAGES:
            self._pages.popitem(last=False)
        return found


def format_cell(data: bytes, dtype: str) -> str:
    """Return the text of a cell: two hexadecimal digits a byte, an integer, or a float in five digits."""
    if dtype == HEX:
        return data.hex()
    value = np.frombuffer(data, dtype=numpy_dtype(dtype))[0]
    if numpy_dtype(dtype).kind in "iub":
        return str(int(value))
    return f"{float(value):.5g}"
