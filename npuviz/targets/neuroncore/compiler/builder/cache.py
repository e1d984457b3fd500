"""Remember the HBM patterns that are still in SBUF, because they were loaded, or stored from there."""

from npuviz.targets.neuroncore.compiler.patterns.box_index import BoxIndex
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile import Box
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.strides import merged, merged_together

Key = tuple[int, int, str, str, int, int, tuple[tuple[int, int], ...]]

MAX_SEARCHED = 48
"""Newest copies of a variable that are searched for one that contains a pattern."""
SWEPT_EVERY = 128
"""New patterns of a variable after which those with lost tiles are removed, because a write checks all."""


def key_of(source: HbmView, dtype: str) -> Key:
    """Return the key of an SBUF copy of a pattern, the same for all free shapes.

    dtype  element type of the copy
    """
    free = merged(zip(source.shape[1:], source.steps[1:], strict=True))
    rows = source.shape[0]
    step = source.steps[0] if rows > 1 else 0
    return (source.variable, source.offset, source.dtype, dtype, rows, step, tuple(free))


class _Copy:
    """A view that holds a copy of a pattern.

    dims  free dimensions (size, step in HBM, step in the view), largest HBM step first; None if parts of
    the pattern cannot be found in it
    """

    __slots__ = ("dims", "view")

    def __init__(self, source: HbmView, view: View) -> None:
        self.view = view
        dims = merged_together(source.shape[1:], (source.steps[1:], view.steps))
        dims.sort(key=lambda dim: -dim[1])
        reach = source.itemsize
        self.dims: list[tuple[int, ...]] | None = dims
        for size, step, _ in reversed(dims):
            if step < reach:
                self.dims = None
                break
            reach = size * step


class _Copies(dict[Key, _Copy]):
    """The copies of one variable, the newest last, with the bytes of the variable that each holds."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes: BoxIndex[Key] = BoxIndex()

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        self.boxes.remove(key)


class TileCache:
    """Finds the view that holds an HBM pattern; a copy ends with its tile, or when either side is written."""

    def __init__(self) -> None:
        self._of_variable: dict[int, _Copies] = {}
        self._swept_at: dict[int, int] = {}

    def __len__(self) -> int:
        """Number of patterns, including those of lost tiles."""
        return sum(map(len, self._of_variable.values()))

    def find(self, source: HbmView, dtype: str) -> View | None:
        """Return a view (partitions, *free) from partition 0 that holds `source`, or None."""
        copies = self._of_variable.get(source.variable)
        if not copies:
            return None
        key = key_of(source, dtype)
        copy = copies.get(key)
        if copy is not None:
            if key not in copy.view.tile.keys:
                del copies[key]
            else:
                try:
                    return copy.view.reshape(*source.shape[1:])
                except ValueError:
                    return None
        return self._inside(copies, key, source.shape[1:])

    def _inside(self, copies: dict[Key, _Copy], key: Key, free: tuple[int, ...]) -> View | None:
        dead: list[Key] = []
        found: View | None = None
        for count, other in enumerate(reversed(copies)):
            if count >= MAX_SEARCHED:
                break
            copy = copies[other]
            if other not in copy.view.tile.keys:
                dead.append(other)
            elif copy.dims is not None and other[2:4] == key[2:4]:
                found = _part(copy, other, key, free)
                if found is not None:
                    break
        for other in dead:
            del copies[other]
        return found

    def add(self, source: HbmView, view: View, box: Box) -> None:
        """Remember that `view` holds the pattern, which lies in `box` of its variable."""
        key = key_of(source, view.dtype)
        copies = self._of_variable.setdefault(source.variable, _Copies())
        copies.pop(key, None)
        copies[key] = _Copy(source, view)
        copies.boxes.add(key, box)
        view.tile.keys[key] = view.box()
        if len(copies) > self._swept_at.get(source.variable, 0) + SWEPT_EVERY:
            for old in [old for old, copy in copies.items() if old not in copy.view.tile.keys]:
                del copies[old]
            self._swept_at[source.variable] = len(copies)

    def forget_range(self, variable: int, box: Box) -> None:
        """Forget the copies of bytes of a variable, which change."""
        copies = self._of_variable.get(variable)
        if not copies:
            return
        for key in copies.boxes.meeting(box):
            copies[key].view.tile.keys.pop(key, None)
            del copies[key]

    def clear(self) -> None:
        """Forget everything."""
        self._of_variable.clear()
        self._swept_at.clear()


def _part(copy: _Copy, held: Key, wanted: Key, free: tuple[int, ...]) -> View | None:
    """Return the part of a copy that holds the wanted pattern, in the free shape; None if it does not."""
    rows, row_step = wanted[4], wanted[5]
    if rows > held[4] or (rows > 1 and row_step != held[5]):
        return None
    rest = wanted[1] - held[1]
    dims = copy.dims or []
    if rest < 0:
        return None
    room: list[int] = []
    offset = 0
    for size, step, own in dims:
        index = min(rest // step, size - 1)
        rest -= index * step
        offset += index * own
        room.append(size - 1 - index)
    if rest:
        return None
    steps: list[int] = []
    for size, step in wanted[6]:
        for at, (_, unit, own) in enumerate(dims):
            if step >= unit and step % unit == 0 and room[at] >= (size - 1) * (step // unit):
                room[at] -= (size - 1) * (step // unit)
                steps.append(step // unit * own)
                break
        else:
            return None
    view = copy.view
    shape = tuple(size for size, _ in wanted[6])
    address = view.address + offset * view.itemsize
    part = View(view.tile, view.partition, rows, address, view.dtype, shape, tuple(steps))
    try:
        return part.reshape(*free)
    except ValueError:
        return None
