"""The bytes of a memory as a table of numbers; only what is visible is read."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from npuviz.base.units import format_count
from npuviz.program.dtypes import numpy_dtype

Index = QModelIndex | QPersistentModelIndex
ReadBytes = Callable[[int, int], bytes | None]

PAGE_BYTES = 4096
MAX_PAGES = 512
HEX = "hex"
MAX_COLUMNS = 512
MAX_STATISTIC_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """What part of a memory a table shows, and how.

    shape    of the numbers, () if unknown: then lines of 16 bytes
    dtype    a name of npuviz.program.dtypes, or "hex"
    """

    address: int = 0
    size_bytes: int = 0
    dtype: str = HEX
    shape: tuple[int, ...] = ()

    @property
    def item_bytes(self) -> int:
        """Bytes of one cell."""
        return 1 if self.dtype == HEX else numpy_dtype(self.dtype).itemsize

    @property
    def num_columns(self) -> int:
        """Cells of a line: the innermost dimension where it is known."""
        if self.dtype != HEX and self.shape and 1 < self.shape[-1] <= MAX_COLUMNS:
            return self.shape[-1]
        return max(16 // self.item_bytes, 1)

    @property
    def num_cells(self) -> int:
        """Whole cells inside the range."""
        return self.size_bytes // self.item_bytes

    @property
    def num_rows(self) -> int:
        """Lines, the last one may be shorter."""
        return -(-self.num_cells // self.num_columns)

    def address_of(self, row: int, column: int) -> int:
        """Address of a cell."""
        return self.address + (row * self.num_columns + column) * self.item_bytes


@dataclass(frozen=True, slots=True)
class Statistics:
    """Plain numbers of a range: NaN and infinities are counted apart."""

    count: int
    low: float
    mean: float
    high: float
    num_not_finite: int


class MemoryTable(QAbstractTableModel):
    """Rows are lines of cells. Pages are read when a view asks for a cell of them.

    read  (address, size_bytes) -> bytes, or None while the machine must not be asked
    """

    def __init__(self, read: ReadBytes) -> None:
        super().__init__()
        self._read = read
        self._contents = Contents()
        self._pages: OrderedDict[int, bytes] = OrderedDict()

    @property
    def contents(self) -> Contents:
        """What is shown."""
        return self._contents

    def set_contents(self, contents: Contents) -> None:
        """Show another range, or the same range in another way."""
        if contents == self._contents:
            self.refresh()
            return
        self.beginResetModel()
        self._contents = contents
        self._pages.clear()
        self.endResetModel()

    def refresh(self) -> None:
        """The bytes may be others now: forget the pages, announce cells of those that changed."""
        before = dict(self._pages)
        self._pages.clear()
        for page, old in before.items():
            fresh = self._page(page)
            if fresh is not None and fresh != old:
                self._announce(page)

    def _announce(self, page: int) -> None:
        contents = self._contents
        first = (page * PAGE_BYTES - contents.address) // contents.item_bytes // contents.num_columns
        last = ((page + 1) * PAGE_BYTES - contents.address) // contents.item_bytes // contents.num_columns
        last = min(last, contents.num_rows - 1)
        if last >= 0:
            top, bottom = self.index(max(first, 0), 0), self.index(last, contents.num_columns - 1)
            self.dataChanged.emit(top, bottom, [Qt.ItemDataRole.DisplayRole])

    def statistics(self, address: int, size_bytes: int) -> Statistics | None:
        """Smallest, mean and largest number of a range; None for hexadecimal, empty or huge ranges."""
        contents = self._contents
        if contents.dtype == HEX or not 0 < size_bytes <= MAX_STATISTIC_BYTES:
            return None
        data = self._read(address, size_bytes // contents.item_bytes * contents.item_bytes)
        if not data:
            return None
        values = np.frombuffer(data, dtype=numpy_dtype(contents.dtype)).astype(np.float64)
        finite = values[np.isfinite(values)]
        if not len(finite):
            return Statistics(len(values), float("nan"), float("nan"), float("nan"), len(values))
        low, high = float(finite.min()), float(finite.max())
        return Statistics(len(values), low, float(finite.mean()), high, len(values) - len(finite))

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else self._contents.num_rows

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() or not self._contents.size_bytes else self._contents.num_columns

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        if orientation == Qt.Orientation.Vertical:
            return f"{self._contents.address_of(section, 0):#x}"
        return f"{section:x}" if self._contents.dtype == HEX else str(section)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        contents = self._contents
        if role == Qt.ItemDataRole.ToolTipRole:
            address = contents.address_of(index.row(), index.column())
            return f"{address:#x}\n{format_count(address)}\n{contents.dtype}"
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        cell = index.row() * contents.num_columns + index.column()
        if cell >= contents.num_cells:
            return ""
        data = self._bytes(contents.address + cell * contents.item_bytes, contents.item_bytes)
        return "" if data is None else format_cell(data, contents.dtype)

    def _bytes(self, address: int, size_bytes: int) -> bytes | None:
        found = b""
        while size_bytes > 0:
            page, offset = divmod(address, PAGE_BYTES)
            whole = self._page(page)
            if whole is None:
                return None
            part = whole[offset : offset + size_bytes]
            if not part:
                return None
            found += part
            address += len(part)
            size_bytes -= len(part)
        return found

    def _page(self, page: int) -> bytes | None:
        found = self._pages.get(page)
        if found is not None:
            self._pages.move_to_end(page)
            return found
        contents = self._contents
        # Only bytes of the range are asked for: a page may reach beyond the end of the memory.
        first = max(page * PAGE_BYTES, contents.address)
        last = min((page + 1) * PAGE_BYTES, contents.address + contents.size_bytes)
        if last <= first:
            return None
        data = self._read(first, last - first)
        if data is None:
            return None
        found = bytes(first - page * PAGE_BYTES) + data
        self._pages[page] = found
        if len(self._pages) > MAX_PAGES:
            self._pages.popitem(last=False)
        return found


def format_cell(data: bytes, dtype: str) -> str:
    """Text of one cell: two hexadecimal digits a byte, or the number in at most six digits."""
    if dtype == HEX:
        return data.hex()
    value = np.frombuffer(data, dtype=numpy_dtype(dtype))[0]
    if numpy_dtype(dtype).kind in "iub":
        return str(int(value))
    return f"{float(value):.5g}"
