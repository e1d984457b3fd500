"""Lay out HBM of a program under construction: variables of tensors, constants and buffers."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from npuviz.program.dtypes import dtype_name, numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes
from npuviz.targets.neuroncore.compiler.patterns.tile import Box, Region
from npuviz.targets.neuroncore.strides import extent
from npuviz.targets.neuroncore.tables import Variable, VariableKind

ALIGNMENT = 64


@dataclass(slots=True)
class Draft:
    """A variable under construction.

    pitch  bytes of a row, for accesses as boxes of (rows) x (bytes in a row); 0 until the first access
    is_mutable  whether it is an input that instructions write
    """

    variable: Variable
    region: Region = field(default_factory=Region)
    pitch: int = 0
    is_mutable: bool = False

    def box(self, view: HbmView) -> Box:
        """Return the box of rows and bytes around a pattern; the first call sets the pitch."""
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


class Hbm:
    """All variables at consecutive addresses; hbm[tensor] is the home (view of the variable) of a tensor.

    compute_dtype  type of intermediate float tensors ("float32", ...)
    kept           tensors that keep the model's type
    aliases        tensors that share the bytes of another
    """

    def __init__(self, graph: Graph, compute_dtype: str, kept: Collection[int] = ()) -> None:
        self.drafts: list[Draft] = []
        self.compute_dtype = compute_dtype
        self._kept = kept
        self.aliases: set[int] = set()
        self._graph = graph
        self._homes: dict[int, HbmView] = {}
        self._made: dict[Hashable, HbmView] = {}
        self._end = 0

    def __getitem__(self, tensor: int) -> HbmView:
        """Return the home of a graph tensor, made on first use."""
        home = self._homes.get(tensor)
        if home is None:
            home = self._homes[tensor] = self._make_home(tensor)
        return home

    def _make_home(self, index: int) -> HbmView:
        graph = self._graph
        tensor = graph.tensors[index]
        data = graph.constants.get(index)
        kind: VariableKind = "scratch"
        if data is not None:
            kind = "constant"
        elif index in graph.inputs:
            kind = "input"
        elif index in graph.outputs:
            kind = "output"
        is_held = kind == "scratch" or (kind == "constant" and index not in graph.outputs)
        dtype = self.held_dtype(tensor.dtype) if is_held and index not in self._kept else tensor.dtype
        if data is not None and dtype != tensor.dtype:
            data = recast(data, dtype)
        return self.add(tensor.name, kind, dtype, tensor.shape, data, index)

    def held_dtype(self, dtype: str) -> str:
        """Return the type that holds intermediate tensors of a model type: the compute type for fp32."""
        return self.compute_dtype if dtype == "float32" else dtype

    def alias(self, tensor: int, home: HbmView) -> None:
        """Make `home` the place of a tensor that has the same elements in the same order."""
        self._homes[tensor] = home
        self.aliases.add(tensor)

    def own(self, tensor: int) -> HbmView:
        """Make a separate home, of the same type, for a tensor that shared another's."""
        described, dtype = self._graph.tensors[tensor], self[tensor].dtype
        home = self._homes[tensor] = self.add(described.name, "scratch", dtype, described.shape, None, tensor)
        self.aliases.discard(tensor)
        return home

    def constant(self, array: np.ndarray, name: str = "") -> HbmView:
        """Add a constant of the array's type; an array of zero strides stays one value in memory."""
        if any(array.strides):
            array = np.ascontiguousarray(array)
        name = name or f"constant.{len(self.drafts)}"
        return self.add(name, "constant", dtype_name(array.dtype), tuple(array.shape), array)

    def made_once(self, key: Hashable, make: Callable[[], np.ndarray], name: str) -> HbmView:
        """Return the constant of a key, which several operators share; made at the first call."""
        if key not in self._made:
            self._made[key] = self.constant(make(), name)
        return self._made[key]

    def scratch(self, shape: tuple[int, ...], dtype: str) -> HbmView:
        """Add a buffer."""
        return self.add(f"scratch.{len(self.drafts)}", "scratch", dtype, tuple(shape))

    def add(
        self,
        name: str,
        kind: VariableKind,
        dtype: str,
        shape: tuple[int, ...],
        data: np.ndarray | None = None,
        tensor: int = -1,
    ) -> HbmView:
        """Add a variable, and return a view of all of it."""
        count = prod(shape)
        size_bytes = count * item_bytes(dtype)
        index = len(self.drafts)
        self.drafts.append(
            Draft(Variable(index, name, kind, self._end, size_bytes, dtype, shape, data, tensor))
        )
        self._end += -(-max(1, size_bytes) // ALIGNMENT) * ALIGNMENT
        return HbmView(index, 0, dtype, shape)

    def kept_regions(self) -> set[int]:
        """Return the `id`s of the regions that may be read after the end: outputs, mutable inputs,
        tensors.
        """
        return {
            id(each.region)
            for each in self.drafts
            if each.is_mutable or each.variable.kind == "output" or each.variable.tensor >= 0
        }

    def draft(self, view: HbmView) -> Draft:
        """Return the variable that a pattern lies in."""
        return self.drafts[view.variable]

    def take_back(self, length: int, done: dict[int, int]) -> None:
        """Remove the variables from `length` on; accesses to the others wait for `done`."""
        if length < len(self.drafts):
            self._end = self.drafts[length].variable.address
        del self.drafts[length:]
        self._homes = {tensor: home for tensor, home in self._homes.items() if home.variable < length}
        self.aliases &= self._homes.keys()
        for draft in self.drafts:
            region = draft.region
            if region.writes or region.reads or region.prior:
                region.restart(done)


def recast(array: np.ndarray, dtype: str) -> np.ndarray:
    """Convert an array to another type; an array of zero strides stays one value in memory."""
    wanted = numpy_dtype(dtype)
    if array.dtype == wanted:
        return array
    if array.size and not any(array.strides):
        return np.broadcast_to(array[(0,) * array.ndim].astype(wanted), array.shape)
    return array.astype(wanted)
