"""Which HBM patterns are still in SBUF: what was loaded, and what was stored and still lies there."""

from npuviz.targets.neuroncore.compiler.dependencies import Box
from npuviz.targets.neuroncore.compiler.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.strides import merged
from npuviz.targets.neuroncore.compiler.view import View

Key = tuple[int, int, str, str, int, int, tuple[tuple[int, int], ...]]


def key_of(source: HbmView, dtype: str) -> Key:
    """What an SBUF copy of a pattern is known by: the same for all its free shapes.

    dtype  of the copy
    """
    free = merged(zip(source.shape[1:], source.steps[1:], strict=True))
    rows = source.shape[0]
    step = source.steps[0] if rows > 1 else 0
    return (source.variable, source.offset, source.dtype, dtype, rows, step, tuple(free))


class TileCache:
    """HBM pattern -> the view that holds it; an entry dies with its tile or when either side is written."""

    def __init__(self) -> None:
        self._views: dict[Key, View] = {}
        self._of_variable: dict[int, dict[Key, Box]] = {}

    def find(self, key: Key) -> View | None:
        """The copy, or None."""
        view = self._views.get(key)
        if view is None:
            return None
        if key not in view.tile.keys:
            del self._views[key]
            return None
        return view

    def add(self, key: Key, view: View, box: Box) -> None:
        """Remember that `view` holds the pattern, which lies in `box` of its variable."""
        self._views[key] = view
        view.tile.keys.append(key)
        self._of_variable.setdefault(key[0], {})[key] = box

    def forget_range(self, variable: int, box: Box) -> None:
        """The bytes of a variable change: copies of them are none any more."""
        keys = self._of_variable.get(variable)
        if not keys:
            return
        for key in [
            key
            for key, other in keys.items()
            if other[2] < box[3] and box[2] < other[3] and other[0] < box[1] and box[0] < other[1]
        ]:
            del keys[key]
            self._views.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._views.clear()
        self._of_variable.clear()
