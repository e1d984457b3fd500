"""Buffers in HBM under construction, and the boxes of their bytes that patterns touch."""

from dataclasses import dataclass, field

import numpy as np

from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes
from npuviz.targets.neuroncore.compiler.patterns.strides import extent
from npuviz.targets.neuroncore.compiler.streams.dependencies import Box, Region
from npuviz.targets.neuroncore.tables import Variable, VariableKind

ALIGNMENT = 64


@dataclass(slots=True)
class Draft:
    """A variable to be.

    pitch  bytes of a row: its accesses are boxes of (rows) x (bytes in a row); 0 until the first access
    """

    variable: Variable
    region: Region = field(default_factory=Region)
    pitch: int = 0

    def box(self, view: HbmView) -> Box:
        """Rows and bytes of a row that lie around a pattern. The first pattern asked for sets the pitch."""
        low, high = extent(view.shape, view.steps)
        first, end = view.offset + low, view.offset + high + view.itemsize
        if self.pitch == 0:
            steps = [abs(step) for size, step in zip(view.shape, view.steps, strict=True) if size > 1]
            largest = max(steps, default=0)
            self.pitch = largest if largest > view.itemsize else max(1, self.variable.size_bytes)
        pitch = self.pitch
        inner = view.itemsize
        for size, step in zip(view.shape, view.steps, strict=True):
            if step % pitch:
                inner += (size - 1) * abs(step)
        column = self._first_column(view) % pitch
        if column + inner > pitch:
            return (first // pitch, -(-end // pitch), 0, pitch)
        return (first // pitch, (end - 1) // pitch + 1, column, column + inner)

    def _first_column(self, view: HbmView) -> int:
        offset = view.offset
        for size, step in zip(view.shape, view.steps, strict=True):
            if step < 0 and step % self.pitch:
                offset += (size - 1) * step
        return offset


class Variables:
    """All variables, one behind the other in HBM."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._end = 0

    def add(
        self,
        name: str,
        kind: VariableKind,
        dtype: str,
        shape: tuple[int, ...],
        data: np.ndarray | None = None,
        tensor: int = -1,
    ) -> int:
        """Index of a new variable."""
        count = 1
        for size in shape:
            count *= size
        size_bytes = count * item_bytes(dtype)
        index = len(self.drafts)
        self.drafts.append(
            Draft(Variable(index, name, kind, self._end, size_bytes, dtype, shape, data, tensor))
        )
        self._end += -(-max(1, size_bytes) // ALIGNMENT) * ALIGNMENT
        return index

    def view(self, index: int) -> HbmView:
        """The whole variable."""
        variable = self.drafts[index].variable
        return HbmView(index, 0, variable.dtype, variable.shape)

    def take_back(self, length: int, done: dict[int, int]) -> None:
        """Remove the variables from `length` on; the others wait for everything in `done`."""
        if length < len(self.drafts):
            self._end = self.drafts[length].variable.address
        del self.drafts[length:]
        for draft in self.drafts:
            region = draft.region
            if region.writes or region.reads or region.prior:
                draft.region = Region()
                draft.region.prior = dict(done)
