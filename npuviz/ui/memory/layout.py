"""Lay out the bytes of a memory on a map: lines of bytes, one block of lines for each bank."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuviz.base.units import format_bytes
from npuviz.sim.description import Memory

GAP_PIXELS = 8
LINE_PIXELS = 14
MAX_SHOWN_BANKS = 16
"""Most banks that are drawn as blocks of lines; memories with more are drawn as partitions."""
MAX_BANKS = 1024
MIN_SHOWN_BYTES = 64
MIN_EDGED_CELLS = 5


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of pixels [left, right) x [top, bottom)."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A text beside a map: its pixel, centred in `height` pixels; a main one is drawn more prominently."""

    place: int
    text: str
    is_main: bool
    height: int = 0


FAR = 8
"""A map leaves out the unused beginnings of banks if that makes it this many times finer."""


def round_step(at_least: float) -> int:
    """Return the smallest power of two that is at least a number of bytes."""
    return 1 << max(int(np.ceil(np.log2(max(at_least, 1.0)))), 0)


@dataclass(frozen=True, slots=True)
class BankView:
    """The part of a memory that a map shows: bytes [offset, offset + shown_bytes) of each bank.

    bank_bytes  size of a bank
    """

    num_banks: int
    bank_bytes: int
    offset: int
    shown_bytes: int

    @property
    def is_partitioned(self) -> bool:
        """Whether each bank is drawn as a row of pixels, because there are many, not as a block of lines."""
        return self.num_banks > MAX_SHOWN_BANKS

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are shown."""
        return self.offset == 0 and self.shown_bytes >= self.bank_bytes

    def zoomed(self, factor: float, offset: int) -> "BankView":
        """Return the view with about `factor` times as many bytes; the byte at `offset` stays in place."""
        wanted = 2.0 ** round(np.log2(max(self.shown_bytes * factor, 1.0)))
        shown = int(min(max(wanted, MIN_SHOWN_BYTES), self.bank_bytes))
        part = (offset - self.offset) / self.shown_bytes
        return self._at(int(offset - part * shown), max(shown, 1))

    def panned(self, share: float) -> "BankView":
        """Return the view moved by a share of the bytes shown."""
        return self._at(self.offset + int(share * self.shown_bytes), self.shown_bytes)

    def _at(self, offset: int, shown: int) -> "BankView":
        step = max(shown // 64, 1)
        first = min(max(offset // step * step, 0), max(self.bank_bytes - shown, 0))
        return BankView(self.num_banks, self.bank_bytes, first, shown)


def view_of(size_bytes: int, num_banks: int, ranges: Iterable[tuple[int, int]] = ()) -> BankView:
    """Return the view that shows the (address, size) ranges: all banks from their beginning; all bytes if
    none.

    If all ranges lie close together far from the beginning of their banks, the view begins near them.
    """
    size_bytes = max(size_bytes, 1)
    banks = num_banks if 1 <= num_banks <= MAX_BANKS and size_bytes % num_banks == 0 else 1
    bank_bytes = size_bytes // banks
    used, low = 0, bank_bytes
    for address, size in ranges:
        inside = address % bank_bytes
        used, low = max(used, min(inside + size, bank_bytes)), min(low, inside)
    shown = bank_bytes if not used else min(max(1 << (used - 1).bit_length(), MIN_SHOWN_BYTES), bank_bytes)
    if banks > MAX_SHOWN_BANKS and used:
        # For rows of partitions the length is only rounded to 256 bytes, so that little room stays empty.
        shown = min(-(-used // (1 << 8)) << 8, bank_bytes) if used > (1 << 8) else shown
    elif used:
        length = max(round_step(used - low), MIN_SHOWN_BYTES)
        # Views begin at multiples of half their length, so twice the length covers the range in any case.
        if low // (length // 2) * (length // 2) + length < used:
            length *= 2
        if length * FAR <= shown:
            offset = low // (length // 2) * (length // 2)
            return BankView(banks, bank_bytes, offset, min(length, bank_bytes - offset))
    return BankView(banks, bank_bytes, 0, shown)


@dataclass(frozen=True, slots=True)
class MapLayout:
    """The layout of a view in `width` x `height` pixels.

    A bank is a block of `lines` lines; a line holds `line_bytes` bytes (a power of two, so that lines
    begin at round addresses) and is `line_height` pixels high, its separator included.
    """

    view: BankView
    width: int
    height: int
    lines: int
    line_bytes: int
    line_height: int
    gap: int

    @property
    def bytes_per_pixel(self) -> int:
        """Bytes that a pixel stands for, rounded up."""
        return -(-self.line_bytes // self.width)

    @property
    def ink_height(self) -> int:
        """Pixels of a line that are painted; the rest separates it from the next."""
        return self.line_height - 1 if self.line_height >= 6 else self.line_height

    @property
    def num_cells(self) -> int:
        """Number of cells (pixels of a line) of a bank that stand for bytes; a line has `width` cells."""
        return -(-self.view.shown_bytes * self.width // self.line_bytes)

    def address_of_line(self, bank: int, line: int) -> int:
        """Return the first address of a line."""
        return bank * self.view.bank_bytes + self.view.offset + line * self.line_bytes

    def top_of_line(self, bank: int, line: int) -> int:
        """Return the first pixel row of a line."""
        return bank * (self.lines * self.line_height + self.gap) + line * self.line_height

    def address_at(self, x: int, y: int) -> int | None:
        """Return the first address of a pixel, None in a gap or outside."""
        bank, rest = divmod(y, self.lines * self.line_height + self.gap)
        line = rest // self.line_height
        if not 0 <= x < self.width or not 0 <= bank < self.view.num_banks or line >= self.lines:
            return None
        place = line * self.line_bytes + x * self.line_bytes // self.width
        if place >= self.view.shown_bytes:
            return None
        return bank * self.view.bank_bytes + self.view.offset + place

    def runs(self, address: int, size_bytes: int) -> list[tuple[int, int, int]]:
        """Return (bank, first, last), cells [first, last), for each bank in which a byte range is visible."""
        view = self.view
        found: list[tuple[int, int, int]] = []
        first_bank = max(address // view.bank_bytes, 0)
        last_bank = min((address + size_bytes - 1) // view.bank_bytes, view.num_banks - 1)
        for bank in range(first_bank, last_bank + 1):
            base = bank * view.bank_bytes + view.offset
            low = max(address - base, 0)
            high = min(address + size_bytes - base, view.shown_bytes)
            if high > low:
                first = low * self.width // self.line_bytes
                last = -(-high * self.width // self.line_bytes)
                found.append((bank, first, max(last, first + 1)))
        return found

    def pieces(self, address: int, size_bytes: int, banks: int = 1) -> list[Piece]:
        """Return the rectangles of a byte range, at most three for each bank, repeated in `banks` banks."""
        found: list[Piece] = []
        runs = [
            run
            for number in range(banks)
            for run in self.runs(address + number * self.view.bank_bytes, size_bytes)
        ]
        for bank, first, last in runs:
            line, left = divmod(first, self.width)
            last_line, right = divmod(last - 1, self.width)
            right += 1
            if line == last_line:
                found.append(self._piece(bank, left, right, line, line))
                continue
            if left:
                found.append(self._piece(bank, left, self.width, line, line))
                line += 1
            if right < self.width:
                found.append(self._piece(bank, 0, right, last_line, last_line))
                last_line -= 1
            if line <= last_line:
                found.append(self._piece(bank, 0, self.width, line, last_line))
        return found

    def label_band(self, piece: Piece) -> tuple[int, int]:
        """Return top and height of the text of a piece: in its middle line, so that no separator crosses
        it.
        """
        num_lines = -(-(piece.bottom - piece.top) // self.line_height)
        return piece.top + (num_lines - 1) // 2 * self.line_height, self.ink_height

    def rows(self, min_pixels: float) -> list[Mark]:
        """Return the addresses beside the map: about `min_pixels` apart, and one at the head of every bank.

        Marks closer than half of `min_pixels` are left out, heads of banks last, so that no two texts
        overlap.
        """
        every = max(round(min_pixels / self.line_height), 1)
        marks = [
            Mark(
                self.top_of_line(bank, line),
                f"{self.address_of_line(bank, line):#x}",
                line == 0,
                self.ink_height,
            )
            for bank in range(self.view.num_banks)
            for line in range(0, self.lines, every)
        ]
        apart: list[Mark] = []
        for mark in marks:
            if not apart or mark.place - apart[-1].place >= min_pixels / 2:
                apart.append(mark)
            elif mark.is_main and not apart[-1].is_main:
                apart[-1] = mark
        return apart

    def _piece(self, bank: int, left: int, right: int, first_line: int, last_line: int) -> Piece:
        bottom = self.top_of_line(bank, last_line) + self.ink_height
        return Piece(left, self.top_of_line(bank, first_line), right, bottom)


def fit(view: BankView, width: int, height: int, ratio: float = 1.0) -> MapLayout:
    """Return the layout of a view in `width` x `height` device pixels, with lines high enough for text."""
    width, height, banks = max(width, 1), max(height, 1), view.num_banks
    gap = round(GAP_PIXELS * ratio) if banks > 1 else 0
    if gap * (banks - 1) > height // 4:
        gap = 0
    room = max((height - gap * (banks - 1)) // banks, 1)
    wanted = max(int(room / (LINE_PIXELS * ratio)), 1)
    line_bytes = 1 << max((-(-view.shown_bytes // wanted) - 1).bit_length(), 0)
    lines = -(-view.shown_bytes // line_bytes)
    return MapLayout(view, width, height, lines, line_bytes, max(room // lines, 1), gap)


@dataclass(frozen=True, slots=True)
class Painted:
    """A byte range to paint: its colour (0xffRRGGBB), whether it is hatched (on its way), its banks."""

    address: int
    size_bytes: int
    color: int
    is_hatched: bool = False
    banks: int = 1


def paint_map(
    layout: MapLayout, ranges: Sequence[Painted], background: int, free: int, hatch: int
) -> np.ndarray:
    """Paint a map as (height, width) uint32 pixels; the cost depends on pixels and ranges, not on bytes.

    free   colour of bytes that hold nothing
    hatch  colour of the hatching over bytes that have not arrived yet
    """
    banks = layout.view.num_banks
    cells = np.full((banks, layout.lines * layout.width), background, dtype=np.uint32)
    hatched = np.zeros(cells.shape, dtype=np.bool_)
    cells[:, : layout.num_cells] = free
    for item in ranges:
        starts = (item.address + number * layout.view.bank_bytes for number in range(item.banks))
        for bank, first, last in (run for start in starts for run in layout.runs(start, item.size_bytes)):
            cells[bank, first:last] = item.color
            if last - first >= MIN_EDGED_CELLS:
                # A line between neighbours of one colour.
                cells[bank, last - 1] = background
            hatched[bank, first:last] = item.is_hatched
    pixels = np.full((layout.height, layout.width), background, dtype=np.uint32)
    has_hatching = bool(hatched.any())
    column = np.arange(layout.width)
    for bank in range(banks):
        for line in range(layout.lines):
            top = layout.top_of_line(bank, line)
            part = slice(line * layout.width, (line + 1) * layout.width)
            block = pixels[top : top + layout.ink_height]
            block[:] = cells[bank, part]
            if has_hatching and hatched[bank, part].any():
                row = np.arange(top, top + len(block))[:, None]
                block[((row + column) & 7 < 2) & hatched[bank, part]] = hatch
    return pixels


def range_text(memory: Memory, address: int, size_bytes: int, banks: int = 1) -> str:
    """Return addresses and size of a range as text; in memories of partitions, by partition and offset."""
    total = format_bytes(size_bytes * banks)
    bank, inside = divmod(address, max(memory.bank_bytes, 1))
    fits = inside + size_bytes <= memory.bank_bytes
    if memory.num_banks <= MAX_SHOWN_BANKS or not fits:
        return f"{address:#x} \u2013 {address + size_bytes:#x}  {total}"
    partitions = f"p{bank} \u2013 p{bank + banks - 1}" if banks > 1 else f"p{bank}"
    return f"{partitions}  {inside:#x} \u2013 {inside + size_bytes:#x}  {total}"


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Join rectangles of the same rows that lie less than a pixel apart: their edges would cover them."""
    made: list[Piece] = []
    for piece in sorted(pieces, key=lambda each: (each.top, each.bottom, each.left)):
        last = made[-1] if made else None
        is_same = last is not None and (last.top, last.bottom) == (piece.top, piece.bottom)
        if last is not None and is_same and piece.left <= last.right + 1:
            made[-1] = replace(last, right=max(last.right, piece.right))
        else:
            made.append(piece)
    return made
