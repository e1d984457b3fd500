"""Results that are the same in each turn of a loop are computed, or loaded, in its first turn only.

The vendor's compiler of generation 1 keeps loops, and takes out of one what does not change in it. Here loops
are unrolled: of tiles that the turns of a loop fill in the same way only the first one is filled, and lives
for as long as all of them are read.
# Assumed, from counters of trn1 (BENCH): bmm turns each left operand once (2.15 Gflop are 512 transposes),
# and its loop over columns does it four times; mamba computes delta x u once, and reads u once, in 16 turns;
# rmsnorm_matmul reads w once in four. What does not fit stays: matmul turns its left operand in each of 12
# turns (655 KiB of a partition); mamba loads delta, b and c each time, as SBUF is full. Rows repeated over
# partitions stay too (mamba loads b twice): the compiler makes those later, for the operand that is one.
# From trn2 on (KDA, a later compiler) bmm turns its left operand four times, and mamba is quicker when its
# author takes delta x u out of the loop: nothing is.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from npuviz.targets.neuroncore.nki.record.call_stacks import Moment
from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import HBM, SBUF, Site, Storage, Tensor

REPEATS = "repeats"
"""Name of the value that marks the steps that repeat a row over partitions."""
_KEPT_LOOPS = frozenset(("affine_range", "sequential_range", "range"))
_PURE = frozenset(
    (
        *("load", "memset", "tensor_copy", "transpose", "matmul", "activation", "tensor_tensor"),
        *("tensor_scalar", "scalar_tensor_tensor", "scan", "tensor_reduce", "reciprocal", "bn_stats"),
        *("bn_aggr", "iota", "affine_select"),
    )
)
_Turn = tuple[tuple[object, ...], int]
"""A loop, with all that is under way around it, and which of its values it is at."""


def hoisted(recording: Recording, steps: Sequence[Step], capacity: int) -> tuple[list[Step], tuple[str, ...]]:
    """The steps without those that repeat a turn before; second: names of the tiles that are kept.

    capacity  bytes of a partition: so much may be kept of what engines compute; what is loaded is kept only
              where it fits beside everything else
    """
    found = list(steps)
    groups = _groups(recording, found)
    storages = {each.id: each for each in recording.storages}
    sites: dict[Site, list[tuple[int, ...]]] = defaultdict(list)
    for group in groups:
        site = storages[group[0]].site
        if site is not None:
            sites[site].append(group)
    names: dict[str, None] = {}
    kept: set[int] = set()
    computed = _computed(found)
    for site in reversed(sites):
        trial, first = _without(found, sites[site])
        if not first:
            continue
        only = kept | first if computed >= first else None
        if fullest(trial, bytes_of, SBUF, only) > capacity:
            continue
        found, kept = trial, kept | first
        for number in first:
            storages[number].site = (site[0], "")
            names[storages[number].name.partition("[")[0] or "a tile"] = None
    return found, tuple(names)


def _computed(steps: Sequence[Step]) -> set[int]:
    """Tiles that something else than a load writes."""
    return {step.target.storage.id for step in steps if step.target is not None and step.op != "load"}


# --- which tiles are equal ---------------------------------------------------------------------------


@dataclass
class _Use:
    """Steps that write and that read a tile on the chip.

    is_plain  whether nothing but whole instructions touches it: no index of rows, no accumulators
    """

    writes: list[int]
    reads: list[int]
    is_plain: bool = True

    @property
    def is_filled_first(self) -> bool:
        """Whether it is read, and not written after that."""
        return bool(self.is_plain and self.writes and self.reads and self.writes[-1] < self.reads[0])


def uses_of(steps: Sequence[Step]) -> dict[int, _Use]:
    """Who writes and reads each tile on the chip, by its number."""
    found: dict[int, _Use] = defaultdict(lambda: _Use([], []))
    for number, step in enumerate(steps):
        plain = [each for each in (step.target, *step.sources) if each is not None]
        is_plain = step.op in _PURE and not (step.more or step.is_fixed or step.values.get("cmd"))
        for each in step.sources:
            if each is not None and each.storage.space != HBM:
                use = found[each.storage.id]
                use.reads.append(number)
                use.is_plain = use.is_plain and each.picks is None
        if step.target is not None and step.target.storage.space != HBM:
            use = found[step.target.storage.id]
            use.writes.append(number)
            use.is_plain = use.is_plain and is_plain
        named = {id(each.storage) for each in plain}
        for storage in storages_of(step):
            if id(storage) not in named:
                found[storage.id].is_plain = False
    return found


def _groups(recording: Recording, steps: Sequence[Step]) -> list[tuple[int, ...]]:
    """Tiles in SBUF that hold the same in every turn of a loop, by the order of their first instruction."""
    uses = uses_of(steps)
    order = [number for number, use in uses.items() if use.is_filled_first]
    order.sort(key=lambda number: uses[number].writes[-1])
    classes: dict[object, list[int]] = {}
    first_of: dict[int, int] = {}
    for number in order:
        key = tuple(_content(steps[write], first_of) for write in uses[number].writes)
        members = classes.setdefault(key if None not in key else number, [])
        members.append(number)
        first_of[number] = members[0]
    turns = _Turns(recording.moments)
    found: list[tuple[int, ...]] = []
    for members in classes.values():
        written = [steps[uses[number].writes[0]] for number in members]
        made = written[0].target
        if len(members) > 1 and made is not None and made.storage.space == SBUF:
            repeats = any(steps[write].values.get(REPEATS) for write in uses[members[0]].writes)
            if not repeats and turns.are_all([step.moment for step in written]):
                found.append(tuple(members))
    found.sort(key=lambda members: uses[members[0]].writes[0])
    return found


def _content(step: Step, first_of: Mapping[int, int]) -> object:
    """What a step writes where, None if it is not known to be the same in another turn."""
    assert step.target is not None
    sources: list[object] = []
    for each in step.sources:
        if each is None:
            sources.append(None)
            continue
        storage = each.storage
        if each.row_index is not None or (storage.space == HBM and storage.is_written):
            return None
        if storage.space != HBM and storage.id not in first_of:
            return None
        sources.append((first_of.get(storage.id, storage.id), each.dtype.str, each.key))
    values = tuple(sorted((name, repr(value)) for name, value in step.values.items()))
    return step.op, step.place, values, tuple(sources), step.target.key, step.target.dtype.str, step.box


class _Turns:
    """Which loops are around moments, and how many turns those have."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._paths = [_path(moment) for moment in moments]
        self._values: dict[object, set[int]] = defaultdict(set)
        for path in self._paths:
            for loop, value in path[0]:
                self._values[loop].add(value)

    def are_all(self, moments: Sequence[int]) -> bool:
        """Whether moments are one in each turn of loops that the compiler keeps, the same in others."""
        if min(moments) < 0:
            return False
        paths = [self._paths[moment] for moment in moments]
        lines = {path[1] for path in paths}
        if len(lines) > 1 or len({path[0] for path in paths}) < len(paths):
            return False
        count = 1
        for depth, (loop, _) in enumerate(paths[0][0]):
            if len({path[0][depth][1] for path in paths}) > 1:
                if loop[-1] not in _KEPT_LOOPS:
                    return False
                count *= len(self._values[loop])
        return count == len(paths)


def loops_of(moment: Moment) -> tuple[_Turn, ...]:
    """The loops around a moment, outermost first, each with what is under way around it, and its value."""
    return _path(moment)[0]


def _path(moment: Moment) -> tuple[tuple[_Turn, ...], object]:
    """The loops around a moment, outermost first, with their values; and the lines under way."""
    around: list[object] = [moment.program]
    found: list[_Turn] = []
    lines: list[object] = [moment.program]
    for call in reversed(moment.calls):
        lines.append((call.file, call.line))
        for loop in call.loops:
            found.append(((*around, call.file, loop.line, loop.over), loop.value))
            around.append((loop.line, loop.value))
            lines.append(loop.line)
        around.append((call.file, call.line))
    return tuple(found), tuple(lines)


# --- what becomes of the steps -----------------------------------------------------------------------


def _without(steps: Sequence[Step], groups: Iterable[tuple[int, ...]]) -> tuple[list[Step], set[int]]:
    """The steps with the first tile of each group in place of the others; the tiles that are kept.

    Steps whose result nothing reads any more are left out with those that fill the others.
    """
    alive = {storage.id for step in steps for storage in storages_of(step)}
    first_of = {
        number: group[0] for group in groups if group[0] in alive for number in group[1:] if number in alive
    }
    found = [
        redirected(step, first_of)
        for step in steps
        if step.target is None or step.target.storage.id not in first_of
    ]
    before = _read(steps)
    while True:
        read = _read(found)
        rest = [step for step in found if not _is_unread(step, before, read)]
        if len(rest) == len(found):
            return found, {*first_of.values()}
        found = rest


def _read(steps: Iterable[Step]) -> set[int]:
    return {each.storage.id for step in steps for each in step.sources if each is not None}


def _is_unread(step: Step, before: Collection[int], read: Collection[int]) -> bool:
    """Whether a step fills a tile that was read and is not any more."""
    target = step.target
    return (
        step.op in _PURE
        and target is not None
        and not step.more
        and target.storage.space != HBM
        and target.storage.id in before
        and target.storage.id not in read
    )


def redirected(step: Step, first_of: Mapping[int, int]) -> Step:
    """A step that reads other tiles, as `first_of` says by number of those that it read."""
    if not any(each is not None and each.storage.id in first_of for each in step.sources):
        return step
    sources: list[Tensor | None] = []
    for each in step.sources:
        number = first_of.get(each.storage.id) if each is not None else None
        if each is None or number is None:
            sources.append(each)
            continue
        storage = each.recording.storages[number]
        sources.append(
            Tensor(each.recording, storage, each.dtype, each.shape, each.steps, each.offset, each.start)
        )
    return replace(step, sources=tuple(sources))


def fullest(
    steps: Sequence[Step],
    size_of: Callable[[Storage], int],
    space: str = SBUF,
    only: Collection[int] | None = None,
) -> int:
    """The most of a memory that is in use at a step, by all tiles or by some."""
    spans: dict[int, tuple[int, int]] = {}
    sizes: dict[int, int] = {}
    for number, step in enumerate(steps):
        for storage in storages_of(step):
            if storage.space == space and (only is None or storage.id in only):
                spans[storage.id] = (spans.get(storage.id, (number, 0))[0], number)
                sizes[storage.id] = size_of(storage)
    change = [0] * (len(steps) + 1)
    for number, (first, last) in spans.items():
        change[first] += sizes[number]
        change[last + 1] -= sizes[number]
    return max(accumulate(change))


def bytes_of(storage: Storage) -> int:
    """Bytes of a partition that a tile takes."""
    return storage.shape[1] * storage.dtype.itemsize
