"""Allocate tiles in SBUF and PSUM by next fit, so that the tiles of successive iterations alternate.

A tile takes the same bytes of all 128 partitions. A closed tile keeps its contents until its bytes are
given to another tile, so that a fetch can find them again (see `cache.py`).
"""

from bisect import bisect_left, insort

from npuviz.base.errors import DoesNotFit
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.isa import Space

ALIGNMENT = 64
"""Alignment of tiles in bytes, a multiple of every element size. Assumed; the hardware's is not public."""


def _address_of(tile: Tile) -> int:
    return tile.address


class SbufAllocator:
    """Allocates byte ranges of the SBUF partitions."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.peak = 0
        self._tiles: list[Tile] = []  # by address, disjoint
        self._cursor = 0

    def allocate(self, size: int, what: str) -> tuple[Tile, list[Tile]]:
        """Allocate a tile of `size` bytes; return it, and the closed tiles that lost bytes to it.

        Raises DoesNotFit, naming `what`, if open tiles leave no such gap.
        """
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        address = self._place(size)
        if address < 0:
            open_bytes = sum(tile.size for tile in self._tiles if tile.users)
            raise DoesNotFit(
                f"{what} needs {size} bytes in each SBUF partition: {open_bytes} of {self.capacity} "
                "are in use and no gap is large enough"
            )
        tile = Tile(Space.SBUF, address, size)
        lost = self._take(tile)
        self._cursor = address + size
        self.peak = max(self.peak, self._cursor)
        return tile, lost

    def take_over(self, old: Tile, size: int) -> Tile:
        """Allocate a tile of `size` bytes at the place of a closed one that is at least as large."""
        tile = Tile(Space.SBUF, old.address, max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT))
        self._take(tile)
        return tile

    def restart(self, done: dict[int, int]) -> None:
        """Empty the memory; later writes wait for `done` (channel -> position up to which it is done)."""
        everything = Tile(Space.SBUF, 0, self.capacity)
        everything.users = 0
        everything.prior = dict(done)
        self._tiles = [everything]
        self._cursor = 0

    def _place(self, size: int) -> int:
        """Return the first free address from the cursor on, else from 0; -1 if open tiles leave none."""
        if size > self.capacity:
            return -1
        for start, keeps_used in ((self._cursor, True), (0, True), (0, True), (0, False)):
            address = self._first_fit(start, size, keeps_used)
            if address >= 0:
                return address
        return -1

    def _first_fit(self, start: int, size: int, keeps_used: bool) -> int:
        tiles = self._tiles
        at = bisect_left(tiles, start, key=_address_of)
        if at and tiles[at - 1].address + tiles[at - 1].size > start:
            at -= 1
        for tile in tiles[at:]:
            if tile.address >= start + size:
                break
            if tile.users or (keeps_used and tile.chance):
                tile.chance = False
                start = tile.address + tile.size
        return start if start + size <= self.capacity else -1

    def _take(self, new: Tile) -> list[Tile]:
        tiles = self._tiles
        low, high = new.address, new.address + new.size
        first = bisect_left(tiles, low, key=_address_of)
        if first and tiles[first - 1].address + tiles[first - 1].size > low:
            first -= 1
        last = bisect_left(tiles, high, key=_address_of)
        lost = tiles[first:last]
        rest: list[Tile] = []
        for old in lost:
            new.inherit(old)
            for begin, end in ((old.address, low), (high, old.address + old.size)):
                if begin < end:
                    remnant = Tile(Space.SBUF, begin, end - begin)
                    remnant.users = 0
                    remnant.inherit(old)
                    rest.append(remnant)
        tiles[first:last] = []
        for tile in (*rest, new):
            insort(tiles, tile, key=_address_of)
        return lost


class PsumAllocator:
    """Allocates whole PSUM banks in turn.

    most  number of banks that a tile may have
    """

    def __init__(self, num_banks: int, bank_bytes: int, most: int = 1) -> None:
        self.num_banks = num_banks
        self.most = most
        self.bank_bytes = bank_bytes
        self._banks: list[Tile | None] = [None] * num_banks
        self._next = 0

    def allocate(self, size: int, what: str, is_wide: bool = False) -> Tile:
        """Allocate one or more consecutive banks of `size` bytes a partition. Raises DoesNotFit, naming
        `what`.
        """
        count = max(1, -(-size // self.bank_bytes))
        most = self.num_banks if is_wide else self.most
        if count > most:
            limit = f"a PSUM bank has {self.bank_bytes}" if most == 1 else f"PSUM has {most} banks"
            raise DoesNotFit(f"{what} needs {size} bytes in each partition, {limit}")
        for step in range(self.num_banks):
            bank = (self._next + step) % self.num_banks
            banks = range(bank, bank + count)
            if banks.stop > self.num_banks or any(self._is_used(each) for each in banks):
                continue
            tile = Tile(Space.PSUM, bank * self.bank_bytes, count * self.bank_bytes)
            for each in banks:
                old = self._banks[each]
                if old is not None:
                    tile.inherit(old)
                self._banks[each] = tile
            self._next = banks.stop % self.num_banks
            return tile
        few = (
            f"all {self.num_banks} PSUM banks are"
            if count == 1
            else f"no {count} PSUM banks in a row are not"
        )
        raise DoesNotFit(f"{what}: {few} in use")

    def _is_used(self, bank: int) -> bool:
        tile = self._banks[bank]
        return tile is not None and tile.users > 0

    def restart(self, done: dict[int, int]) -> None:
        """Empty the memory; later writes wait for `done` (channel -> position up to which it is done)."""
        for bank in range(self.num_banks):
            tile = Tile(Space.PSUM, bank * self.bank_bytes, self.bank_bytes)
            tile.users = 0
            tile.prior = dict(done)
            self._banks[bank] = tile
        self._next = 0
