"""How many places in SBUF the tiles have that one line makes in the turns of a loop.

The vendor's compiler keeps the loops of generation 1 and gives what their bodies make a few buffers where
turns are independent (`affine_range`), so that a load goes into one while another is computed with: two on
trn1, three from trn2 on; one where turns may depend on each other (`sequential_range`, and `range` in the
kernel itself). Loops of `static_range` are unrolled: on trn1 their tiles lie wherever there is room, as those
of generation 2; from trn2 on they take turns in as many places as those of `affine_range`.
# Assumed: the number is not public. Profiles of trn1 (BENCH) show silu waiting for loads about as long as two
# buffers make it wait. Turns of a sequential loop overlap: on trn1 a kernel of mamba with one over its states
# (autocomp) takes 0.362 ms, 0.363 here, 0.50 if each waited for the one before. On trn2 (KDA, later) rope's
# first kernel takes 1.2 times what the quickest of independent turns takes, and mamba's turns of 256 columns
# no longer than those of 512; adamw is bound by DMA in columns of 576 to 912, whose turns are shorter than a
# DMA's latency: more than two buffers.
# Both kernels of mamba that are unrolled (v2a, v4_s4unroll) take as long there as three places make them take
# (1.62 and 1.49 ms, measured 1.67 and 1.43); as many as fit make it 2.13 and 1.55.
# SDK226's performance guide advises to declare tiles inside of the body: they get several buffers.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.nki.record.call_stacks import Moment
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Site, Storage
from npuviz.targets.neuroncore.spec import NeuronSpec

GROUP_BYTES = 2048
"""Bytes of a partition up to which the tiles of successive turns are one buffer together.

# Assumed: loads are merged up to the size where DMA comes near its peak (DMA-B: 2 KiB a partition).
"""
SEQUENTIAL = frozenset(("sequential_range", "range"))
INDEPENDENT = "affine_range"
UNROLLED = "static_range"


class Limits(NamedTuple):
    """How many places tiles of a line have.

    per_tile   in each turn of an independent loop, 0: as many as fit
    unrolled   whether tiles of unrolled loops have no more than that
    """

    per_tile: int
    unrolled: bool

    @classmethod
    def of(cls, spec: NeuronSpec) -> "Limits":
        """Those of a machine."""
        return cls(spec.kernel_buffers, bool(spec.kernel_unrolled_places))


@dataclass
class _Ring:
    """Places of one site: how many there are, and those whose tile is dead, the oldest first."""

    count: int = 0
    dead: deque[Tile] = field(default_factory=deque[Tile])


def is_buffered(storage: Storage, limits: Limits) -> bool:
    """Whether the number of places of a tile is limited."""
    over = storage.site[1] if storage.site is not None and storage.space == SBUF else ""
    is_loop = over in SEQUENTIAL or over == INDEPENDENT or (limits.unrolled and over == UNROLLED)
    return limits.per_tile > 0 and is_loop


def num_places(storage: Storage, limits: Limits) -> int:
    """How many places the tiles of a line take in turn; 0: no limit."""
    if storage.site is None or not is_buffered(storage, limits):
        return 0
    count = 1 if storage.site[1] in SEQUENTIAL else limits.per_tile
    return count * max(1, GROUP_BYTES // (storage.shape[1] * storage.dtype.itemsize))


class Buffers:
    """Keeps the places of dead tiles for the next turn of their loop.

    before  channel -> instructions for which whatever writes a new tile waits: those of the turn before
    """

    def __init__(self, limits: Limits, turns_wait: bool) -> None:
        self._limits = limits
        self._turns_wait = turns_wait
        self._rings: dict[Site, _Ring] = {}
        self._turn: tuple[object, ...] = ()
        self._turn_keys: dict[Moment, tuple[object, ...]] = {}
        self.before: dict[int, int] = {}

    def place_for(self, storage: Storage, size: int) -> Tile | None:
        """The place that a new tile takes over, which is closed; None if it gets one of its own."""
        limit = num_places(storage, self._limits)
        if not limit or storage.site is None:
            return None
        ring = self._rings.setdefault(storage.site, _Ring())
        if ring.count < limit or not ring.dead or ring.dead[0].size < size:
            ring.count += 1
            return None
        tile = ring.dead.popleft()
        tile.users -= 1
        return tile

    def released(self, storage: Storage, tile: Tile) -> None:
        """A tile is dead: its place is kept, or closed."""
        if num_places(storage, self._limits) and storage.site in self._rings:
            self._rings[storage.site].dead.append(tile)
        else:
            tile.users -= 1

    def give_back(self) -> bool:
        """Close all places that are kept; whether there were any."""
        found = False
        for ring in self._rings.values():
            ring.count -= len(ring.dead)
            for tile in ring.dead:
                tile.users -= 1
                found = True
            ring.dead.clear()
        return found

    def turn(self, moment: Moment, done: Mapping[int, int]) -> None:
        """The next step belongs to this moment; engines have `done` (channel -> instructions) so far.

        Where turns of a sequential loop wait, what a later one makes waits for those before.
        """
        key = self._turn_keys.get(moment)
        if key is None:
            key = self._turn_keys[moment] = sequential_turn(moment)
        if key == self._turn:
            return
        is_next = self._turns_wait and self._limits.per_tile > 0 and bool(key) and key[:-1] == self._turn[:-1]
        self._turn = key
        self.before = dict(done) if is_next else {}


def sequential_turn(moment: Moment) -> tuple[object, ...]:
    """What is under way up to the innermost sequential loop, its turn last; () outside of them."""
    path: list[object] = [moment.program]
    found: tuple[object, ...] = ()
    for call in reversed(moment.calls):
        for loop in call.loops:
            path.append((call.file, loop.line))
            path.append(loop.value)
            if loop.over in SEQUENTIAL:
                found = tuple(path)
        path.append((call.file, call.line))
    return found
