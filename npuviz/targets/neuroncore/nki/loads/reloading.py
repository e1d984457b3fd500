"""Tensors that only loads fill are loaded again at each use where SBUF does not hold them until then.

A kernel of generation 1 may keep more blocks than fit. What the vendor's compiler can load again it does not
save: it loads the part that an instruction reads right before it.
The new tiles lie wherever there is room.
# Assumed, from counters: the profile of matmul on trn1 (BENCH, 12 x 40 blocks of 512 KiB kept over a loop of
# 32) reads 9,059,762,176 bytes of HBM and spills none, which is that tensor once for each use, to the byte.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Site, Storage, Tensor
from npuviz.targets.neuroncore.strides import dense_steps

Spans = dict[int, tuple[int, int]]
"""Number of a storage -> first and last step that touch it."""


def reloaded_at_use(
    recording: Recording, steps: Sequence[Step], capacity: int, per_tile: int
) -> tuple[list[Step], tuple[str, ...]]:
    """The steps with loads moved to uses until what lives fits into `capacity` bytes of a partition.

    Second: names of the tensors that this was done to. `per_tile`: so many tiles of a line are no reason.
    """
    found, names, refused = list(steps), list[str](), set[Site]()
    while True:
        storages, spans = {each.id: each for each in recording.storages}, _spans(found)
        site = _fullest_site(storages, spans, _loaded_once(found), capacity, per_tile, refused)
        if site is None:
            return found, tuple(names)
        refused.add(site)
        group = {number for number in spans if storages[number].site == site}
        moved = _moved(recording, found, group)
        if moved is not None:
            names.append(storages[min(group)].name.partition("[")[0])
            found = moved


def _spans(steps: Sequence[Step]) -> Spans:
    found: Spans = {}
    for number, step in enumerate(steps):
        for storage in storages_of(step):
            if storage.space == SBUF:
                found[storage.id] = (found.get(storage.id, (number, 0))[0], number)
    return found


def _loaded_once(steps: Sequence[Step]) -> set[int]:
    """Storages that one load fills, wholly, from memory that nobody writes, and nothing else writes."""
    writers: dict[int, list[Step]] = {}
    for step in steps:
        for each in (step.target, *step.more):
            if each is not None:
                writers.setdefault(each.storage.id, []).append(step)
    return {
        number
        for number, each in writers.items()
        if len(each) == 1 and _is_plain_load(each[0]) and each[0].sources[0].storage.id not in writers  # pyright: ignore[reportOptionalMemberAccess]
    }


def _is_plain_load(step: Step) -> bool:
    """Whether a step loads a whole tile of two dimensions as it lies there."""
    target, source = step.target, step.sources[0] if step.sources else None
    return (
        step.op == "load"
        and target is not None
        and source is not None
        and source.row_index is None
        and source.shape == target.shape == target.storage.shape
        and target.key == Tensor(target.recording, target.storage, target.storage.dtype, target.shape).key
    )


def _fullest_site(
    storages: dict[int, Storage],
    spans: Spans,
    loaded: Collection[int],
    capacity: int,
    per_tile: int,
    refused: Collection[Site],
) -> Site | None:
    """What loads most of what is alive where SBUF is fullest; None where all fits, or nothing can be done."""
    length = max((last for _, last in spans.values()), default=0) + 2
    change = [0] * length
    for number, (first, last) in spans.items():
        change[first] += _bytes(storages[number])
        change[last + 1] -= _bytes(storages[number])
    now = most = at = 0
    for step, each in enumerate(change):
        now += each
        if now > most:
            most, at = now, step
    if most <= capacity:
        return None
    sizes: dict[Site, list[int]] = {}
    for number, (first, last) in spans.items():
        site = storages[number].site
        if site is not None and site not in refused and first <= at <= last:
            sizes.setdefault(site, []).append(_bytes(storages[number]) if number in loaded else 0)
    held = [site for site, each in sizes.items() if all(each) and len(each) > max(1, per_tile)]
    return max(held, key=lambda site: sum(sizes[site]), default=None)


def _bytes(storage: Storage) -> int:
    return storage.shape[1] * storage.dtype.itemsize


def _moved(recording: Recording, steps: Sequence[Step], group: Collection[int]) -> list[Step] | None:
    """The steps without the loads of these tiles: what an instruction reads of them is loaded before it.

    None where an instruction reads no run of columns.
    """
    loads: dict[int, Step] = {}
    found: list[Step] = []
    for step in steps:
        if step.target is not None and step.target.storage.id in group:
            loads[step.target.storage.id] = step
            continue
        sources = list(step.sources)
        for at, each in enumerate(step.sources):
            if each is not None and each.storage.id in group:
                made = _part(recording, loads[each.storage.id], each, step)
                if made is None:
                    return None
                found.append(made[0])
                sources[at] = made[1]
        found.append(replace(step, sources=tuple(sources)))
    return found


def _part(recording: Recording, load: Step, read: Tensor, reader: Step) -> tuple[Step, Tensor] | None:
    """A load of the columns that are read of a tile, and the new tile as the reader sees it."""
    source = load.sources[0]
    assert source is not None
    if read.steps[1:] != dense_steps(read.shape[1:]) or read.dtype != read.storage.dtype or read.pending:
        return None
    count = read.size // read.shape[0]
    made = Storage(
        len(recording.storages), SBUF, (read.storage.shape[0], count), read.dtype, read.name, load.place
    )
    recording.storages.append(made)
    rows, columns = source.steps
    piece = source.viewed(
        (read.shape[0], count), source.steps, source.offset + read.start * rows + read.offset * columns
    )
    target = Tensor(recording, made, made.dtype, (read.shape[0], count), start=read.start)
    part = Tensor(recording, made, made.dtype, read.shape, read.steps, start=read.start)
    return Step("load", target, (piece,), {}, load.place, moment=reader.moment), part
