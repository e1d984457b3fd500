"""Append DMA transfers: fetch, load, store, copies within HBM, gather and scatter."""

import numpy as np

from npuviz.base.errors import SimulationError
from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.builder.engines import Engines
from npuviz.targets.neuroncore.compiler.builder.hbm import Hbm
from npuviz.targets.neuroncore.compiler.builder.shown_tensors import ShownTensors
from npuviz.targets.neuroncore.compiler.builder.tiles import Tiles
from npuviz.targets.neuroncore.compiler.patterns.descriptors import (
    Side,
    descriptors,
    hbm_side,
    sbuf_side,
    transposition,
)
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.compiler.patterns.tile_view import DTYPE_CODES, View
from npuviz.targets.neuroncore.compiler.streams.emitter import Access, Emitter, immediates
from npuviz.targets.neuroncore.compiler.streams.queue_sets import QueuePlan
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu, Flag, Opcode, Space
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.strides import dense_steps
from npuviz.targets.neuroncore.tables import SBUF, Descriptor, DescriptorOp

Descriptors = tuple[Descriptor, ...]

_WIDE = {"int64": "int32", "uint64": "uint32"}
"""64-bit integer types in HBM, with the type of their low words, which the engines compute with."""
_DMA_FLOATS = frozenset(("float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float16", "float32", "bfloat16"))
_DMA_INTEGERS = frozenset(("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bool"))
_DMA_TYPES = _DMA_FLOATS | _DMA_INTEGERS
"""Types that DMA can cast. Ref: NEFFDOC; bool is moved as uint8."""


class Dma:
    """Appends transfers; element types that DMA does not cast are converted by the engines."""

    def __init__(
        self,
        spec: NeuronSpec,
        emitter: Emitter,
        queues: QueuePlan,
        hbm: Hbm,
        tiles: Tiles,
        engines: Engines,
        shown: ShownTensors,
    ) -> None:
        self._spec = spec
        self._emitter = emitter
        self._queues = queues
        self._hbm = hbm
        self._tiles = tiles
        self._engines = engines
        self._shown = shown
        self._relay_words: tuple[HbmView, HbmView] | None = None
        emitter.relay = self._relay

    def take_back(self, length: int) -> None:
        """Forget the variables from `length` on, which were removed."""
        if self._relay_words is not None and self._relay_words[1].variable >= length:
            self._relay_words = None

    def _relay(self) -> tuple[int, tuple[Descriptor, ...]]:
        """Return a transfer of core 0 that moves one unused word."""
        if self._relay_words is None:
            hbm = self._hbm
            self._relay_words = hbm.scratch((1,), "float32"), hbm.constant(np.zeros(1, np.float32), "relay")
        to, source = self._relay_words
        return self._queues.queue(0, "Loads"), descriptors(hbm_side(to), hbm_side(source))

    def queue(self, purpose: str) -> int:
        """Return the index of the queue set for a purpose on the core of the next instructions."""
        return self._queues.queue(self._emitter.core, purpose)

    # HBM to SBUF ---------------------------------------------------------------------------------

    def fetch(self, src: HbmView, dtype: str | None = None) -> View:
        """Return an SBUF copy of `src` (partitions, *free), loaded or still there; it must not be written.

        dtype  element type of the copy; None: as in HBM, except that 64-bit integers come as the int32
               (uint32)
        view of their low words
        """
        if not src.shape:
            src = src.reshape(1)
        wanted = dtype or _WIDE.get(src.dtype, src.dtype)
        if wanted not in DTYPE_CODES:
            raise CannotLower(f"{wanted} values do not go to the engines")
        partitions, free = src.shape[0], src.shape[1:]
        if not 1 <= partitions <= NUM_PARTITIONS or 0 in free:
            raise SimulationError(f"fetch of {src!r}: the first dimension is the partition, 1..128")
        cache = self._tiles.cache
        found = cache.find(src, wanted)
        if found is not None:
            self._tiles.hold(found.tile)
            return found
        if src.dtype in _WIDE and dtype in (None, _WIDE[src.dtype]):
            view = self._load_wide(src)
        else:
            view = self._tiles.sbuf(partitions, free, wanted)
            self.load(view, src)
        cache.add(src, view, self._hbm.draft(src).box(src))
        return view

    def _load_wide(self, src: HbmView) -> View:
        tile = self._tiles.sbuf(src.shape[0], (*src.shape[1:], 2), _WIDE[src.dtype])
        self._load(tile, _wide_side(tile, self._spec.sbuf_partition_bytes, src), src, "copy")
        return tile[(slice(None), ..., 0)]

    def load(self, dst: View, src: HbmView) -> None:
        """Load HBM into an SBUF tile, with a cast; `src` has or reshapes to `dst`'s (partitions, *free)."""
        src = _shaped(src, dst)
        if _same(dst.dtype, src.dtype):
            self._load(dst, self._sbuf_side(dst), src, "copy")
        elif src.dtype in _WIDE and dst.dtype in ("int32", "uint32"):
            self._engines.convert(dst.bitcast(_WIDE[src.dtype]), self._load_wide(src))
        elif self._spec.has_dma_compute and src.dtype in _DMA_TYPES and dst.dtype in _DMA_TYPES:
            self._load(dst, self._sbuf_side(dst), src, "cast")
        else:
            self._engines.convert(dst, self.fetch(src))

    def load_transposed(self, dst: View, src: HbmView) -> None:
        """Load `dst` [columns, rows] = transpose of `src` [rows, columns] in HBM, by the DMA engines."""
        self._move(dst, (transposition(self._sbuf_side(dst), hbm_side(src)),), src)

    def _load(self, dst: View, side: Side, src: HbmView, op: DescriptorOp) -> None:
        self._move(dst, descriptors(side, hbm_side(src), op), src)

    def _move(self, dst: View, moves: tuple[Descriptor, ...], src: HbmView) -> None:
        draft = self._hbm.draft(src)
        purpose = "Weights" if draft.variable.kind == "constant" else "Loads"
        reads = self._reads_of(src)
        dst.tile.forget(dst.box())
        self._emitter.transfer(
            self._queues.queue(self._emitter.core, purpose),
            moves,
            reads,
            [(dst.tile, dst.box())],
            (dst.tile,),
        )
        if dst.tile.tensor < 0:
            dst.tile.tensor = draft.variable.tensor

    def _sbuf_side(self, view: View) -> Side:
        return sbuf_side(view, self._spec.sbuf_partition_bytes)

    def _reads_of(self, src: HbmView) -> list[Access]:
        """Return the accesses of reading a pattern; [] if the program never writes the variable."""
        draft = self._hbm.draft(src)
        if draft.variable.kind in ("constant", "input") and not draft.is_mutable:
            return []
        region = draft.region
        if not region.writes and not region.prior and draft.variable.kind != "input":
            raise SimulationError(f"{draft.variable.name} is read before anything writes it")
        return [(region, draft.box(src))]

    # SBUF to HBM ---------------------------------------------------------------------------------

    def store(self, dst: HbmView, src: View) -> None:
        """Store an SBUF (or PSUM) tile in HBM, with a cast; `dst` has the shape of `src` or reshapes to it.

        A fetch of the same pattern finds `src` as long as its tile is not written or reused.
        """
        dst = _shaped(dst, src)
        if src.space == Space.PSUM:
            with self._tiles.scope():
                kind = dst.dtype if dst.dtype in DTYPE_CODES else src.dtype
                staged = self._tiles.sbuf(src.partitions, src.shape, kind)
                self._engines.convert(staged, src)
                self.store(dst, staged)
            return
        if _same(dst.dtype, src.dtype):
            self._store(dst, src, self._sbuf_side(src), "copy")
        elif self._spec.has_dma_compute and src.dtype in _DMA_TYPES and dst.dtype in _DMA_TYPES:
            self._store(dst, src, self._sbuf_side(src), "cast")
        elif dst.dtype in _WIDE:
            self._store_wide(dst, src)
            return
        elif dst.dtype in DTYPE_CODES:
            with self._tiles.scope():
                staged = self._tiles.sbuf(src.partitions, src.shape, dst.dtype)
                self._engines.convert(staged, src)
                self.store(dst, staged)
            return
        else:
            raise CannotLower(f"{src.dtype} is not stored as {dst.dtype}")
        if src.dtype == _WIDE.get(dst.dtype, dst.dtype):
            self._remember(dst, src)

    def _remember(self, dst: HbmView, src: View) -> None:
        if src.partition == 0:
            src.tile.chance = True
            self._tiles.cache.add(dst, src, self._hbm.draft(dst).box(dst))

    def _store_wide(self, dst: HbmView, src: View) -> None:
        """Store 64-bit integers: low words, and high words made by the engines that repeat the sign."""
        with self._tiles.scope():
            word = _WIDE[dst.dtype]
            pair = self._tiles.sbuf(src.partitions, (*src.shape, 2), word)
            low, high = pair[(slice(None), ..., 0)], pair[(slice(None), ..., 1)]
            self._engines.convert(low, src)
            if word == "int32" and src.dtype not in ("uint8", "bool", "uint16", "uint32"):
                self._engines.run(
                    Opcode.TENSOR_SCALAR,
                    (high, low),
                    op0=Alu.ARITHMETIC_RIGHT_SHIFT,
                    flags=Flag.INTEGER,
                    imm=immediates((31, 0, 0), True),
                )
            else:
                self._engines.run(Opcode.MEMSET, (high,))
            self._store(dst, pair, _wide_side(pair, self._spec.sbuf_partition_bytes, dst), "copy")

    def _store(self, dst: HbmView, src: View, side: Side, op: DescriptorOp) -> None:
        made = descriptors(hbm_side(dst), side, op)
        self._transfer_out("Stores", dst, made, [(src.tile, src.box())], (src.tile,))
        tensor = self._hbm.draft(dst).variable.tensor
        if src.tile.tensor < 0:
            src.tile.tensor = tensor
        if tensor >= 0:
            self._shown.stored(tensor, dst, src)

    def _transfer_out(
        self, purpose: str, dst: HbmView, made: Descriptors, reads: list[Access], tiles: tuple[Tile, ...] = ()
    ) -> None:
        draft = self._hbm.draft(dst)
        box = draft.box(dst)
        self._tiles.forget(dst.variable, box)
        self._emitter.transfer(
            self._queues.queue(self._emitter.core, purpose),
            made,
            reads,
            [(draft.region, box)],
            tiles,
        )

    # Within SBUF ---------------------------------------------------------------------------------

    def move_within(self, dst: View, src: View) -> None:
        """Move an SBUF tile to another one of its shape, at other partitions too, with a cast."""
        op: DescriptorOp = "copy"
        if not _same(dst.dtype, src.dtype):
            if not (self._spec.has_dma_compute and src.dtype in _DMA_TYPES and dst.dtype in _DMA_TYPES):
                with self._tiles.scope():
                    staged = self._tiles.sbuf(src.partitions, src.shape, dst.dtype)
                    self._engines.convert(staged, src)
                    self.move_within(dst, staged)
                return
            op = "cast"
        self._emitter.transfer(
            self._queues.queue(self._emitter.core, "Copies"),
            descriptors(self._sbuf_side(dst), self._sbuf_side(src), op),
            [(src.tile, src.box())],
            [(dst.tile, dst.box())],
            (dst.tile, src.tile),
        )

    # Within HBM ----------------------------------------------------------------------------------

    def copy(self, dst: HbmView, src: HbmView) -> None:
        """Copy HBM to HBM: shapes of any rank with equally many elements; equal types, or a cast that DMA
        does.
        """
        if dst.shape != src.shape:
            src = src.reshape(*dst.shape)
        if 0 in dst.shape:
            return
        made = descriptors(hbm_side(dst), hbm_side(src), self._moving(src.dtype, dst.dtype))
        self._transfer_out("Copies", dst, made, self._reads_of(src))

    def _moving(self, given: str, wanted: str) -> DescriptorOp:
        """Return the descriptor's operation, "copy" or "cast". Raises CannotLower if DMA cannot cast the
        types.
        """
        if _same(given, wanted):
            return "copy"
        if not (self._spec.has_dma_compute and {given, wanted} <= _DMA_TYPES):
            raise CannotLower(f"DMA does not cast {given} to {wanted} on {self._spec.arch}")
        return "cast"

    # By index ------------------------------------------------------------------------------------

    def gather(self, dst: View, src: HbmView, index: View, skips: bool = False) -> None:
        """Move row index[p] of `src` (rows, *row) to partition p of `dst` (P, *row), cast; index [P,1] int32.

        skips  whether an index beyond the source moves nothing; else it is a hazard
        """
        self._require_gather(index)
        row = src[0:1].broadcast_to((dst.partitions, *src.shape[1:]))
        row = _shaped(row, dst)
        reads = [(index.tile, index.box()), *self._reads_of(src)]
        dst.tile.forget(dst.box())
        self._gather_transfer(
            descriptors(self._sbuf_side(dst), hbm_side(row), self._moving(src.dtype, dst.dtype)),
            reads,
            [(dst.tile, dst.box())],
            Flag.GATHER_SOURCE | Flag.SKIP_OUT_OF_BOUNDS * skips,
            src.steps[0],
            index,
            (index.tile, dst.tile),
        )

    def scatter(self, dst: HbmView, index: View, src: View, skips: bool = False) -> None:
        """Move partition p of `src` (P, *row) to row index[p] of `dst` (rows, *row), cast; index [P,1] int32.

        With equal indices the last partition wins. skips  as in `gather`
        """
        self._require_gather(index)
        row = _shaped(dst[0:1].broadcast_to((src.partitions, *dst.shape[1:])), src)
        draft = self._hbm.draft(dst)
        box = draft.box(dst)
        self._tiles.forget(dst.variable, box)
        self._gather_transfer(
            descriptors(hbm_side(row), self._sbuf_side(src), self._moving(src.dtype, dst.dtype)),
            [(index.tile, index.box()), (src.tile, src.box())],
            [(draft.region, box)],
            Flag.SCATTER_TARGET | Flag.SKIP_OUT_OF_BOUNDS * skips,
            dst.steps[0],
            index,
            (index.tile, src.tile),
        )

    def _require_gather(self, index: View) -> None:
        if not self._spec.has_pool:
            raise CannotLower(f"gathering by DMA needs GpSimd, which {self._spec.arch} does not have")
        if index.dtype not in ("int32", "uint32") or index.free_size != 1:
            raise SimulationError(f"{index!r}: an index has one int32 a partition")

    def _gather_transfer(
        self,
        made: Descriptors,
        reads: list[Access],
        writes: list[Access],
        flags: int,
        row_bytes: int,
        index: View,
        tiles: tuple[Tile, ...],
    ) -> None:
        self._emitter.transfer(
            self._queues.queue(self._emitter.core, "Gathers"),
            made,
            reads,
            writes,
            tiles,
            "software DGE",
            int(flags | Flag.INTEGER),
            immediates((row_bytes, 0, 0), True),
            index,
        )


def _same(first: str, second: str) -> bool:
    """Return whether two types have the same bytes for the same values."""
    return first == second or {first, second} == {"bool", "uint8"}


def _shaped(hbm: HbmView, view: View) -> HbmView:
    """Return the HBM pattern in the shape of a tile."""
    wanted = (view.partitions, *view.shape)
    if hbm.shape == wanted:
        return hbm
    try:
        return hbm.reshape(*wanted)
    except ValueError as error:
        raise SimulationError(f"{hbm!r} and {view!r} differ in shape: {error}") from None


def _wide_side(pair: View, partition_bytes: int, like: HbmView) -> Side:
    """Return a tile (partitions, *free, 2) of words as a pattern of 64-bit elements."""
    shape = (pair.partitions, *pair.shape[:-1])
    steps = (partition_bytes, *dense_steps(pair.shape[:-1], 8))
    offset = pair.partition * partition_bytes + pair.address
    return Side(SBUF, offset, like.dtype, 8, shape, steps)
