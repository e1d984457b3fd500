"""Lay out and paint the map of a memory of partitions: a row for each partition, bytes from left to right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuviz.sim.machine import Region
from npuviz.ui.memory.layout import MIN_EDGED_CELLS, BankView, Mark, Painted, Piece, round_step

HATCH_PERIOD = 8


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """The layout of many banks in `width` x `height` pixels; several banks may share a row of pixels."""

    view: BankView
    width: int
    height: int

    @property
    def bytes_per_pixel(self) -> int:
        """Bytes that a pixel stands for, rounded up."""
        return -(-self.view.shown_bytes // self.width)

    def top_of_bank(self, bank: int) -> int:
        """Return the first row of pixels of a bank; for the number of banks: the height."""
        return bank * self.height // self.view.num_banks

    def address_at(self, x: int, y: int) -> int | None:
        """Return the first address of a pixel, None outside."""
        if not (0 <= x < self.width and 0 <= y < self.height):
            return None
        place = x * self.view.shown_bytes // self.width
        bank = (y * self.view.num_banks + self.view.num_banks - 1) // self.height
        return min(bank, self.view.num_banks - 1) * self.view.bank_bytes + self.view.offset + place

    def box(self, address: int, size_bytes: int, banks: int = 1) -> Piece | None:
        """Return the rectangle of a range of bytes in `banks` banks, None if none of it is shown."""
        view = self.view
        first, inside = divmod(address, view.bank_bytes)
        low, high = max(inside - view.offset, 0), min(inside + size_bytes - view.offset, view.shown_bytes)
        last = min(first + banks, view.num_banks)
        if high <= low or not 0 <= first < last:
            return None
        left = low * self.width // view.shown_bytes
        right = max(-(-high * self.width // view.shown_bytes), left + 1)
        top = min(self.top_of_bank(first), self.height - 1)
        return Piece(left, top, right, max(self.top_of_bank(last), top + 1))

    def pieces(self, address: int, size_bytes: int, banks: int = 1) -> list[Piece]:
        """Return the rectangles of a range: one, or up to three if a linear range spans several banks."""
        view = self.view
        first, inside = divmod(address, view.bank_bytes)
        if banks > 1 or inside + size_bytes <= view.bank_bytes:
            found = [self.box(address, size_bytes, banks)]
        else:
            last = min((address + size_bytes - 1) // view.bank_bytes, view.num_banks - 1)
            ends = (address + size_bytes) - last * view.bank_bytes
            found = [self.box(address, view.bank_bytes - inside)]
            if last > first + 1:
                found.append(self.box((first + 1) * view.bank_bytes, view.bank_bytes, last - first - 1))
            found.append(self.box(last * view.bank_bytes, ends))
        return [piece for piece in found if piece is not None]

    def label_band(self, piece: Piece) -> tuple[int, int]:
        """Return the top and height of the text of a piece."""
        return piece.top, piece.bottom - piece.top

    def rows(self, min_pixels: float) -> list[Mark]:
        """Return the numbers of partitions beside the map, at least `min_pixels` apart."""
        step = 1
        while step < self.view.num_banks and step * self.height < min_pixels * self.view.num_banks:
            step *= 2
        return [
            Mark(self.top_of_bank(bank), f"p{bank}", bank % 32 == 0)
            for bank in range(0, self.view.num_banks, step)
        ]

    def columns(self, min_pixels: float) -> list[Mark]:
        """Return the offsets in a partition below the map, at least `min_pixels` apart."""
        view = self.view
        step = round_step(view.shown_bytes * min_pixels / self.width)
        first = -(-view.offset // step) * step
        return [
            Mark((place - view.offset) * self.width // view.shown_bytes, f"{place:#x}", place == 0)
            for place in range(first, view.offset + view.shown_bytes, step)
        ]


def paint_partitions(
    layout: PartitionLayout, ranges: Sequence[Painted], background: int, free: int, hatch: int
) -> np.ndarray:
    """Paint a map as (height, width) uint32 pixels: each range is a rectangle with an edge at right and
    bottom.
    """
    pixels = np.full((layout.height, layout.width), free, dtype=np.uint32)
    diagonal = np.add.outer(np.arange(layout.height), np.arange(layout.width)) % HATCH_PERIOD < 2
    for item in ranges:
        for piece in layout.pieces(item.address, item.size_bytes, item.banks):
            block = pixels[piece.top : piece.bottom, piece.left : piece.right]
            block[...] = item.color
            if item.is_hatched:
                block[diagonal[piece.top : piece.bottom, piece.left : piece.right]] = hatch
            if piece.right - piece.left >= MIN_EDGED_CELLS:
                block[:, -1] = background
            if piece.bottom - piece.top >= MIN_EDGED_CELLS:
                block[-1] = background
    return pixels


def over_banks(regions: Iterable[Region], bank_bytes: int) -> list[Region]:
    """Join equal regions of consecutive banks into one each; keep the order.

    A machine may list each partition of a tile separately: 128 x 200 regions become 200.
    """
    joined: list[Region] = []
    last: dict[tuple[object, ...], int] = {}
    for region in regions:
        bank, inside = divmod(region.address, bank_bytes)
        key = (inside, region.size_bytes, region.tensor, region.label, region.is_valid, region.instruction)
        place = last.get(key, -1)
        known = joined[place] if place >= 0 else None
        if known is not None and known.address // bank_bytes + known.banks == bank:
            joined[place] = replace(known, banks=known.banks + region.banks)
        else:
            last[key] = len(joined)
            joined.append(region)
    return joined
