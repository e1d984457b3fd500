"""Tiles that do not fit into SBUF or PSUM wait in HBM: the one that is needed last goes first."""

from bisect import bisect_left
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager

from npuviz.program.dtypes import dtype_name
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.nki.record.element_types import carrier, name_of
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Storage


class Spilling:
    """Saves tiles of SBUF to HBM and loads them again.

    uses   storage id -> steps that touch it, rising
    saved_bytes, loaded_bytes  moved so far
    """

    def __init__(self, builder: Builder, uses: Mapping[int, list[int]]) -> None:
        self._builder = builder
        self._uses = uses
        self._homes: dict[int, HbmView] = {}
        self._clean: set[int] = set()
        self.saved_bytes = self.loaded_bytes = 0

    def written(self, storage: Storage) -> None:
        """A step writes the tile: what HBM holds of it is old."""
        self._clean.discard(storage.id)

    def make_room(
        self,
        tiles: dict[int, Tile],
        storages: Mapping[int, Storage],
        step: int,
        needed: Collection[int],
        space: str = SBUF,
    ) -> bool:
        """Save the tile of `space`, none of `needed`, that is used last after `step`; False without one."""
        candidates = [number for number in tiles if number not in needed and storages[number].space == space]
        if not candidates:
            return False
        chosen = max(candidates, key=lambda number: self._next_use(number, step))
        storage, tile = storages[chosen], tiles.pop(chosen)
        if chosen not in self._clean:
            home = self._homes.get(chosen)
            if home is None:
                home = self._homes[chosen] = self._builder.hbm.add(
                    f"{storage.name}.saved.{chosen}",
                    "scratch",
                    dtype_name(carrier(storage.dtype)),
                    storage.shape,
                    None,
                    -1,
                )
            self._save(storage, tile, home)
            self.saved_bytes += storage.shape[0] * storage.shape[1] * storage.dtype.itemsize
        tile.users -= 1
        return True

    def load(self, storage: Storage, tile: Tile) -> None:
        """Fill a tile that has a place again, if it was saved."""
        home = self._homes.get(storage.id)
        if home is None:
            return
        whole = _whole(tile, storage)
        if storage.space == SBUF:
            self._builder.dma.load(whole, home)
        else:
            with self._staged(whole) as staged:
                self._builder.dma.load(staged, home)
                self._builder.isa.copy(whole, staged, None)
        self._clean.add(storage.id)
        self.loaded_bytes += storage.shape[0] * storage.shape[1] * storage.dtype.itemsize

    def _save(self, storage: Storage, tile: Tile, home: HbmView) -> None:
        whole = _whole(tile, storage)
        if storage.space == SBUF:
            self._builder.dma.store(home, whole)
            return
        with self._staged(whole) as staged:
            self._builder.isa.copy(staged, whole, None)
            self._builder.dma.store(home, staged)

    @contextmanager
    def _staged(self, whole: View) -> Generator[View]:
        """A tile of SBUF by which one of PSUM comes or goes. Raises DoesNotFit."""
        with self._builder.tiles.scope():
            yield self._builder.tiles.sbuf(whole.partitions, whole.shape, whole.dtype)

    def _next_use(self, number: int, step: int) -> int:
        uses = self._uses[number]
        at = bisect_left(uses, step)
        return uses[at] if at < len(uses) else 1 << 62


def _whole(tile: Tile, storage: Storage) -> View:
    partitions, count = storage.shape
    return View(tile, 0, partitions, tile.address, name_of(storage.dtype), (count,))
