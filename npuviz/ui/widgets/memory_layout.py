"""Where the bytes of a memory are on a map: lines of bytes below each other, a block a bank. No drawing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

GAP_PIXELS = 8
LINE_PIXELS = 14
MAX_SHOWN_BANKS = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of pixels [left, right) x [top, bottom)."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, slots=True)
class MapLayout:
    """The first `size_bytes` of a memory in `num_banks` equal banks, `width` x `height` pixels large.

    A bank is a block of `lines` lines; a line holds `line_bytes` bytes (a power of two, so that lines
    begin at round addresses) and is `line_height` pixels high, its separator included.
    """

    size_bytes: int
    num_banks: int
    width: int
    height: int
    lines: int
    line_bytes: int
    line_height: int
    gap: int

    @property
    def bank_bytes(self) -> int:
        """Bytes of a block."""
        return self.size_bytes // self.num_banks

    @property
    def bytes_per_pixel(self) -> int:
        """Bytes that a pixel stands for, rounded up."""
        return -(-self.line_bytes // self.width)

    @property
    def ink_height(self) -> int:
        """Pixels of a line that are painted; the rest separates it from the next."""
        return self.line_height - 1 if self.line_height >= 6 else self.line_height

    def top_of_line(self, bank: int, line: int) -> int:
        """First pixel row of a line."""
        return bank * (self.lines * self.line_height + self.gap) + line * self.line_height

    def address_at(self, x: int, y: int) -> int | None:
        """First address of a pixel, None in a gap or outside."""
        bank, rest = divmod(y, self.lines * self.line_height + self.gap)
        line = rest // self.line_height
        if not 0 <= x < self.width or not 0 <= bank < self.num_banks or line >= self.lines:
            return None
        place = line * self.line_bytes + x * self.line_bytes // self.width
        return bank * self.bank_bytes + place if place < self.bank_bytes else None

    def runs(self, address: int, size_bytes: int) -> list[tuple[int, int, int]]:
        """(bank, first, last) for each bank a byte range touches: half-open cells, `width` cells a line."""
        found: list[tuple[int, int, int]] = []
        place, end = max(address, 0), min(address + size_bytes, self.size_bytes)
        while place < end:
            bank = min(place // self.bank_bytes, self.num_banks - 1)
            base = bank * self.bank_bytes
            stop = min(end, base + self.bank_bytes) if bank < self.num_banks - 1 else end
            first = (place - base) * self.width // self.line_bytes
            last = -(-(stop - base) * self.width // self.line_bytes)
            found.append((bank, first, max(last, first + 1)))
            place = stop
        return found

    def pieces(self, address: int, size_bytes: int) -> list[Piece]:
        """At most three rectangles a bank that together show a byte range."""
        found: list[Piece] = []
        for bank, first, last in self.runs(address, size_bytes):
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

    def _piece(self, bank: int, left: int, right: int, first_line: int, last_line: int) -> Piece:
        bottom = self.top_of_line(bank, last_line) + self.ink_height
        return Piece(left, self.top_of_line(bank, first_line), right, bottom)


def fit(size_bytes: int, num_banks: int, width: int, height: int, ratio: float = 1.0) -> MapLayout:
    """The map that shows all bytes in `width` x `height` device pixels, with lines high enough for text."""
    size_bytes, width, height = max(size_bytes, 1), max(width, 1), max(height, 1)
    banks = num_banks if 1 <= num_banks <= MAX_SHOWN_BANKS and size_bytes % num_banks == 0 else 1
    gap = round(GAP_PIXELS * ratio) if banks > 1 else 0
    if gap * (banks - 1) > height // 4:
        gap = 0
    room = max((height - gap * (banks - 1)) // banks, 1)
    wanted = max(int(room / (LINE_PIXELS * ratio)), 1)
    bank_bytes = size_bytes // banks
    line_bytes = 1 << max((-(-bank_bytes // wanted) - 1).bit_length(), 0)
    lines = -(-bank_bytes // line_bytes)
    return MapLayout(size_bytes, banks, width, height, lines, line_bytes, max(room // lines, 1), gap)


@dataclass(frozen=True, slots=True)
class Painted:
    """A byte range to paint: its colour (0xffRRGGBB), and whether it is hatched (on its way)."""

    address: int
    size_bytes: int
    color: int
    is_hatched: bool = False


def paint_map(
    layout: MapLayout, ranges: Sequence[Painted], background: int, free: int, hatch: int
) -> np.ndarray:
    """Pixels (height, width) uint32 of a map; the cost follows pixels and ranges, not bytes.

    free  colour of bytes that hold nothing; hatch is drawn over bytes on their way
    """
    cells = np.full((layout.num_banks, layout.lines * layout.width), background, dtype=np.uint32)
    hatched = np.zeros(cells.shape, dtype=np.bool_)
    cells[:, : -(-layout.bank_bytes * layout.width // layout.line_bytes)] = free
    for item in ranges:
        for bank, first, last in layout.runs(item.address, item.size_bytes):
            cells[bank, first:last] = item.color
            hatched[bank, first:last] = item.is_hatched
    pixels = np.full((layout.height, layout.width), background, dtype=np.uint32)
    has_hatching = bool(hatched.any())
    column = np.arange(layout.width)
    for bank in range(layout.num_banks):
        for line in range(layout.lines):
            top = layout.top_of_line(bank, line)
            part = slice(line * layout.width, (line + 1) * layout.width)
            block = pixels[top : top + layout.ink_height]
            block[:] = cells[bank, part]
            if has_hatching and hatched[bank, part].any():
                row = np.arange(top, top + len(block))[:, None]
                block[((row + column) & 7 < 2) & hatched[bank, part]] = hatch
    return pixels
