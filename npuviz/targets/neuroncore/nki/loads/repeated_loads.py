"""Loads of what a tile holds already: the instructions that read them read that tile.

The vendor's compiler of generation 1 keeps no second load of the same part of a tensor that nothing writes,
in the same turn of the loops around the first load; on trn1 only where what reads the two is in that turn
too, and in no loop inside of it.
# Assumed, from counters. On trn1 (BENCH), rope's version that a search found loads each of its operands twice
# in a turn, and 268.4 MB are read, which is once; rmsnorm_matmul loads x twice, each time for a loop of its
# own, and 27 of 32 tiles are read twice. On trn2 (KDA), rmsnorm_matmul_probe_loadtranspose loads x by rows,
# then turned in a loop, and 25 MB are read, which is x and w once. How far apart such loads may be is not
# known: here as far as SBUF allows.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from npuviz.targets.neuroncore.nki.hoisting import bytes_of, fullest, loops_of, uses_of
from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Storage, Tensor


@dataclass(frozen=True, slots=True)
class _Kept:
    """The tile that is read instead of another one, and the elements by which it begins earlier."""

    storage: Storage
    shift: int


@dataclass(frozen=True, slots=True)
class _Load:
    """A load that alone fills a tile. dims: (size, step in HBM, step on the chip), partitions first"""

    step: Step
    target: Tensor
    source: Tensor
    dims: tuple[tuple[int, int, int], ...]


def without_repeated_loads(
    recording: Recording, steps: Sequence[Step], capacity: int, is_flat: bool
) -> tuple[list[Step], int]:
    """The steps without loads of what lies in SBUF already, and how many those are.

    is_flat   only loads whose readers are in the same turn, and in no loop inside of it
    capacity  bytes of a partition: where tiles that are read for longer do not fit, nothing is changed
    """
    kept = _kept(recording, steps, is_flat)
    if not kept:
        return list(steps), 0
    found = [_redirected(step, kept) for step in steps if not _fills(step, kept)]
    most = fullest(found, bytes_of, SBUF)
    if most > capacity and most > fullest(steps, bytes_of, SBUF):
        return list(steps), 0
    return found, len(kept)


def _kept(recording: Recording, steps: Sequence[Step], is_flat: bool) -> dict[int, _Kept]:
    """Tiles that are not loaded, by number -> the ones that are read instead."""
    uses = uses_of(steps)
    turns = [(moment.program, loops_of(moment)) for moment in recording.moments]
    known: dict[object, list[_Load]] = defaultdict(list)
    found: dict[int, _Kept] = {}
    for step in steps:
        load = _load_of(step)
        if load is None or not (use := uses[load.target.storage.id]).is_filled_first or len(use.writes) > 1:
            continue
        program, loops = turns[step.moment]
        if is_flat and any(turns[steps[reader].moment] != (program, loops) for reader in use.reads):
            continue
        for depth in range(len(loops) if is_flat else 0, len(loops) + 1):
            earlier = known.get((program, loops[:depth], load.source.storage.id), ())
            kept = next((made for each in earlier if (made := _part(load, each)) is not None), None)
            if kept is not None and all(_is_plain(steps[reader], load) for reader in use.reads):
                found[load.target.storage.id] = kept
                break
        else:
            known[program, loops, load.source.storage.id].append(load)
    return found


def _load_of(step: Step) -> _Load | None:
    """A load that fills its whole tile from a tensor that nothing writes."""
    target, source = step.target, step.sources[0] if step.sources else None
    if step.op != "load" or target is None or source is None or step.values.get("turns"):
        return None
    is_plain = step.moment >= 0 and not step.is_fixed and step.box is None and not step.more
    is_same = target.shape == source.shape and target.row_index is None and source.row_index is None
    tile = target.storage
    is_whole = target.shape[0] > 1 and target.size == tile.shape[0] * tile.shape[1]
    if not (is_plain and is_same and is_whole and tile.space == SBUF) or source.storage.is_written:
        return None
    dims = zip(target.shape, source.steps, target.steps, strict=True)
    return _Load(step, target, source, tuple(each for each in dims if each[0] > 1))


def _part(load: _Load, earlier: _Load) -> _Kept | None:
    """Where the tile of an earlier load has the same as that of a load; None if it has not."""
    mine, others = load.target, earlier.target
    is_alike = (
        mine.dtype == others.dtype
        and mine.start == others.start
        and load.source.dtype == (earlier.source.dtype)
    )
    if not is_alike or [each[1:] for each in load.dims] != [each[1:] for each in earlier.dims]:
        return None
    left, shift = load.source.offset - earlier.source.offset, others.offset - mine.offset
    by_step = zip(load.dims, earlier.dims, range(len(load.dims)), strict=True)
    for (size, step, on_chip), (most, _, _), place in sorted(by_step, key=lambda each: -each[0][1]):
        ahead, left = divmod(left, step) if step else (0, left)
        if not 0 <= ahead <= most - size or (place == 0 and ahead):
            return None
        shift += ahead * on_chip
    return None if left else _Kept(others.storage, shift)


def _is_plain(step: Step, load: _Load) -> bool:
    """Whether a step reads the tile of a load by whole elements of its type."""
    return not step.is_fixed and all(
        each.dtype == load.target.dtype and each.row_index is None and not each.pending
        for each in step.sources
        if each is not None and each.storage is load.target.storage
    )


def _fills(step: Step, kept: Mapping[int, _Kept]) -> bool:
    return step.target is not None and step.target.storage.id in kept


def _redirected(step: Step, kept: Mapping[int, _Kept]) -> Step:
    """A step that reads the tiles that are kept."""
    if not any(each is not None and each.storage.id in kept for each in step.sources):
        return step
    return replace(step, sources=tuple(_moved(each, kept) for each in step.sources))


def _moved(each: Tensor | None, kept: Mapping[int, _Kept]) -> Tensor | None:
    place = kept.get(each.storage.id) if each is not None else None
    if each is None or place is None:
        return each
    offset = each.offset + place.shift
    return Tensor(each.recording, place.storage, each.dtype, each.shape, each.steps, offset, each.start)
