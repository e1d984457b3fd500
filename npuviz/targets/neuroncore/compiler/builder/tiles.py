"""Open and close the tiles of a program under construction, and keep the caches of HBM patterns in them."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import prod

from npuviz.base.errors import DoesNotFit
from npuviz.targets.neuroncore.compiler.builder.allocator import PsumAllocator, SbufAllocator
from npuviz.targets.neuroncore.compiler.builder.cache import TileCache
from npuviz.targets.neuroncore.compiler.patterns.tile import Box, Tile
from npuviz.targets.neuroncore.compiler.patterns.tile_view import ITEM_BYTES, View
from npuviz.targets.neuroncore.compiler.streams.emitter import Emitter
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.spec import NeuronSpec


class Tiles:
    """Opens and closes tiles on the core of the next instructions.

    all        every tile, in the order of creation
    make_room  closes a tile of SBUF where open ones leave no gap, and returns whether there was one to close
    """

    def __init__(self, spec: NeuronSpec, emitter: Emitter) -> None:
        cores = range(spec.num_cores)
        self.all: list[Tile] = []
        self.make_room: Callable[[], bool] = lambda: False
        self._emitter = emitter
        self._sbuf = [SbufAllocator(spec.sbuf_usable_bytes) for _ in cores]
        self._psum = [
            PsumAllocator(spec.num_psum_banks, spec.psum_bank_bytes, _most_banks(spec)) for _ in cores
        ]
        self._cache = [TileCache() for _ in cores]
        self._scopes: list[list[Tile]] = [[]]
        self._num_scopes = 0

    @contextmanager
    def scope(self) -> Generator[None]:
        """Keep the tiles made inside open until the end of the block.

        With two cores, the blocks of a node alternate between them, unless the node has made tiles
        outside of any block.
        """
        emitter = self._emitter
        if len(self._scopes) == 2 and not self._scopes[1]:
            emitter.core = (emitter.core + 1) % emitter.num_cores
        outer = emitter.tile
        if len(self._scopes) <= 2:
            emitter.tile = self._num_scopes
            self._num_scopes += 1
        try:
            with self.plain_scope():
                yield
        finally:
            emitter.tile = outer

    @contextmanager
    def plain_scope(self) -> Generator[bool]:
        """Open a scope that stays on its core; yield whether it is the outermost."""
        made: list[Tile] = []
        self._scopes.append(made)
        try:
            yield len(self._scopes) == 2
        finally:
            self._scopes.pop()
            for tile in made:
                tile.users -= 1

    def sbuf(self, partitions: int, free_shape: tuple[int, ...], dtype: str) -> View:
        """Open a tile in SBUF. Raises DoesNotFit."""
        size = _bytes_of(partitions, free_shape, dtype)
        what = f"a tile {'x'.join(map(str, (partitions, *free_shape)))} of {dtype}"
        while True:
            try:
                tile, lost = self._sbuf[self._emitter.core].allocate(size, what)
                break
            except DoesNotFit:
                if not self.make_room():
                    raise
        for old in lost:
            old.keys.clear()
        return self._opened(tile, partitions, free_shape, dtype)

    def sbuf_again(self, old: Tile, partitions: int, free_shape: tuple[int, ...], dtype: str) -> View:
        """Open a tile at the place of a closed one that is large enough."""
        size = _bytes_of(partitions, free_shape, dtype)
        tile = self._sbuf[self._emitter.core].take_over(old, size)
        return self._opened(tile, partitions, free_shape, dtype)

    def psum(
        self, partitions: int, free_shape: tuple[int, ...], dtype: str = "float32", is_wide: bool = False
    ) -> View:
        """Open a tile in PSUM. Raises DoesNotFit.

        is_wide  whether it may have all banks; else those of one product: one (2 KiB a partition), on v4 more
        """
        size = _bytes_of(partitions, free_shape, dtype)
        what = f"a PSUM tile {'x'.join(map(str, (partitions, *free_shape)))} of {dtype}"
        tile = self._psum[self._emitter.core].allocate(size, what, is_wide)
        return self._opened(tile, partitions, free_shape, dtype)

    def _opened(self, tile: Tile, partitions: int, free_shape: tuple[int, ...], dtype: str) -> View:
        tile.core = self._emitter.core
        tile.partitions = partitions
        tile.held = max(1, _bytes_of(partitions, free_shape, dtype))
        self.all.append(tile)
        self._scopes[-1].append(tile)
        return View(tile, 0, partitions, tile.address, dtype, tuple(free_shape))

    def hold(self, tile: Tile) -> None:
        """Keep a tile until the innermost scope ends."""
        tile.users += 1
        tile.chance = True
        self._scopes[-1].append(tile)

    @property
    def cache(self) -> TileCache:
        """HBM patterns that the core's SBUF holds."""
        return self._cache[self._emitter.core]

    def forget(self, variable: int, box: Box) -> None:
        """Forget the copies, on any core, of bytes of a variable, which change."""
        for cache in self._cache:
            cache.forget_range(variable, box)

    def take_back(self, length: int, streams: tuple[int, ...], done: dict[int, int]) -> None:
        """Remove the tiles from `length` on, close the others, and empty SBUF and PSUM.

        streams, done  present lengths of the streams, and of all channels
        """
        del self.all[length:]
        for core, cache in enumerate(self._cache):
            own = {channel: n for channel, n in done.items() if self._emitter.core_of(channel) == core}
            self._sbuf[core].restart(own)
            self._psum[core].restart(own)
            cache.clear()
        for tile in self.all:
            if tile.last is not None and tile.last[1] >= streams[tile.last[0]]:
                end = streams[tile.last[0]]
                tile.last = (tile.last[0], end - 1) if end else tile.first


def _most_banks(spec: NeuronSpec) -> int:
    """Return the banks that one tile may have: those of the result of one NC_MATMUL."""
    return max(1, min(spec.num_psum_banks, 2 * spec.matmul_max_moving // spec.psum_bank_bytes))


def _bytes_of(partitions: int, free_shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of a tile in each partition. Raises ValueError for a wrong number of partitions."""
    if not 1 <= partitions <= NUM_PARTITIONS:
        raise ValueError(f"a tile has 1..{NUM_PARTITIONS} partitions, not {partitions}")
    return ITEM_BYTES[dtype] * prod(free_shape)
