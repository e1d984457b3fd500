"""Record where tensors that never reach HBM lie on chip right after they were computed, to show them."""

from dataclasses import dataclass

from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.compiler.streams.emitter import Emitter
from npuviz.targets.neuroncore.isa import DST
from npuviz.targets.neuroncore.strides import merged, merged_together
from npuviz.targets.neuroncore.tables import Piece

_OPERAND_BYTES = 32


@dataclass(slots=True)
class _Shown:
    """Elements of a tensor in `view`, after `channel`'s instruction at `position` has written them.

    result  view of the corresponding elements of the tensor that is stored; None if not known yet
    """

    tensor: int
    view: View
    channel: int
    position: int
    result: View | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A piece (tables.Piece) whose instruction is not numbered yet."""

    channel: int
    position: int
    tensor: int
    base: int
    partition_step: int
    steps: tuple[int, int, int, int]
    count: int


class ShownTensors:
    """Collects pieces (tables.Piece): views get their place in the tensor when the node's result is
    stored.
    """

    def __init__(self, graph: Graph, emitter: Emitter) -> None:
        self._graph = graph
        self._emitter = emitter
        self._waiting: list[_Shown] = []
        self._found: list[_Found] = []

    def __len__(self) -> int:
        return len(self._found)

    def show(self, tensor: int, view: View) -> None:
        """Record that `view`, written by the last instruction, holds elements of a tensor not stored in HBM.

        `belong_to` tells which elements. For display and --check; inexpressible views are left out.
        """
        last = view.tile.last
        if last is None or self._emitter.is_skipped:
            return
        operands = self._emitter.streams[last[0]].operands[last[1]]
        if operands[:_OPERAND_BYTES] == view.packed():
            self._waiting.append(_Shown(tensor, view, *last))

    def belong_to(self, result: View) -> None:
        """Relate the views shown since the last call to `result`: they hold the same elements of their
        tensors
        as `result` of the tensor it will be stored to (of the same shape)."""
        for each in self._waiting:
            if each.result is None:
                each.result = result

    def stored(self, tensor: int, target: HbmView, source: View) -> None:
        """Place the shown views of a tile that is stored: `source` goes to `target`, part of a tensor's
        home.
        """
        if not self._waiting:
            return
        rest: list[_Shown] = []
        for each in self._waiting:
            if each.result is None or each.result.tile is not source.tile:
                rest.append(each)
            elif self._graph.tensors[each.tensor].shape == self._graph.tensors[tensor].shape:
                self._place(each, each.result, target, source)
        self._waiting = rest

    def end_node(self) -> None:
        """Drop the views whose results were not stored."""
        self._waiting.clear()

    def take_back(self, length: int) -> None:
        """Forget the pieces from `length` on."""
        del self._found[length:]
        self._waiting.clear()

    def places(self) -> set[tuple[int, int]]:
        """Return (channel, position) of the instructions whose results are shown."""
        return {(each.channel, each.position) for each in self._found}

    def pieces(self, final_index: dict[int, list[int]]) -> tuple[Piece, ...]:
        """Return the pieces of tensors whose elements are all shown.

        final_index  channel -> index of the instruction at each position
        """
        missing = {each.tensor: self._graph.tensors[each.tensor].num_elements for each in self._found}
        for each in self._found:
            missing[each.tensor] -= each.count
        return tuple(
            Piece(
                each.tensor,
                final_index[each.channel][each.position],
                DST,
                each.base,
                each.partition_step,
                each.steps,
            )
            for each in self._found
            if missing[each.tensor] == 0
        )

    def _place(self, shown: _Shown, result: View, target: HbmView, source: View) -> None:
        """Add a piece for the elements of a shown view, if strides of an operand can express them."""
        inside = _part_of(source, target, result)
        if inside is None:
            return
        base, partition_step, dims = inside
        item = target.itemsize
        try:
            placed = HbmView(0, 0, "uint8", tuple(s for s, _ in dims), tuple(t // item for _, t in dims))
            steps = placed.reshape(*shown.view.shape).steps
        except ValueError:
            return
        joint = merged_together(shown.view.shape, (shown.view.steps, steps))
        if len(joint) > 4:
            return
        if len(joint) != len(merged(zip(shown.view.shape, shown.view.steps, strict=True))):
            stream = self._emitter.streams[shown.channel]
            packed = shown.view.packed_as([(dim[0], dim[1]) for dim in joint])
            stream.operands[shown.position] = packed + stream.operands[shown.position][_OPERAND_BYTES:]
        padded = [0] * (4 - len(joint)) + [dim[2] for dim in joint]
        four = (padded[0], padded[1], padded[2], padded[3])
        count = shown.view.partitions * shown.view.free_size
        where = base // item, partition_step // item
        self._found.append(_Found(shown.channel, shown.position, shown.tensor, *where, four, count))


def _part_of(source: View, target: HbmView, part: View) -> tuple[int, int, list[tuple[int, int]]] | None:
    """Return (offset, partition step, free dimensions (size, step)), in bytes of the variable, of `part` of
    `source`, which is stored to `target` (partitions, *free); None if strides cannot express it."""
    item = source.itemsize
    rest, odd = divmod(part.address - source.address, item)
    if odd or rest < 0 or part.itemsize != item:
        return None
    row_step = target.steps[0]
    offset = target.offset + (part.partition - source.partition) * row_step
    dims = sorted(merged_together(source.shape, (source.steps, target.steps[1:])), key=lambda dim: -dim[1])
    if any(dim[1] <= 0 for dim in dims):
        return None
    for size, own, there in dims:
        index = min(rest // own, size - 1)
        rest -= index * own
        offset += index * there
    if rest:
        return None
    made: list[tuple[int, int]] = []
    for size, step in merged(zip(part.shape, part.steps, strict=True)):
        split = _split(size, step, dims)
        if split is None:
            return None
        made += split
    return offset, row_step, made


def _split(size: int, step: int, dims: list[tuple[int, ...]]) -> list[tuple[int, int]] | None:
    """Split a dimension of the part into dimensions of the whole, as it may run through several."""
    made: list[tuple[int, int]] = []
    for count, own, there in reversed(dims):
        if size == 1:
            break
        if step % own or step // own >= count:
            continue
        stride = step // own
        if size * stride <= count:
            made.append((size, there * stride))
            size = 1
        elif count % stride == 0 and size % (count // stride) == 0:
            made.append((count // stride, there * stride))
            size //= count // stride
            step = own * count
        else:
            return None
    return made[::-1] if size == 1 else None
