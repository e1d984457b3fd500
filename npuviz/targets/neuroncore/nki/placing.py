"""Where tensors of a recording are while it becomes a program: tiles, variables in HBM, and their views."""

from collections.abc import Sequence
from typing import Any

from npuviz.base.errors import DoesNotFit
from npuviz.program.dtypes import dtype_name
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor as GraphTensor
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.nki.buffers import Buffers, Limits, is_buffered
from npuviz.targets.neuroncore.nki.calls.language import COMPILER_BYTES
from npuviz.targets.neuroncore.nki.flows import flows_of
from npuviz.targets.neuroncore.nki.hoisting import hoisted
from npuviz.targets.neuroncore.nki.loads.near_uses import moved_near_uses
from npuviz.targets.neuroncore.nki.loads.reloading import reloaded_at_use
from npuviz.targets.neuroncore.nki.loads.repeated_loads import without_repeated_loads
from npuviz.targets.neuroncore.nki.partitions import with_copies
from npuviz.targets.neuroncore.nki.psum_results import move_results_to_psum
from npuviz.targets.neuroncore.nki.psum_zeros import without_overwritten_zeros
from npuviz.targets.neuroncore.nki.record.element_types import carrier, name_of
from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import HBM, PSUM, SBUF, Storage, Tensor
from npuviz.targets.neuroncore.nki.reordering import as_asked, reordered
from npuviz.targets.neuroncore.nki.repeated_rows import rows_in_psum
from npuviz.targets.neuroncore.nki.spilling import Spilling
from npuviz.targets.neuroncore.spec import NeuronSpec

MAX_SHOWN = 5
"""Live tiles that a capacity error names."""


class Placing:
    """Where tensors of a recording are: tiles on the chip for as long as they live, variables in HBM."""

    def __init__(
        self, recording: Recording, inputs: Sequence[Storage], outputs: Sequence[Tensor], spec: NeuronSpec
    ) -> None:
        self._recording = recording
        self._spec = spec
        self._steps = as_asked(recording, without_overwritten_zeros(with_copies(recording)))
        if recording.version == 1 and spec.kernel_buffers:
            self._steps = _as_compiled(recording, self._steps, spec)
        elif spec.kernel_buffers and spec.kernel_reorder:
            self._steps = reordered(recording, self._steps, spec, spec.sbuf_usable_bytes - COMPILER_BYTES)
            recording.note(
                f"each engine takes the oldest of the next {spec.kernel_lookahead} instructions whose data "
                "is there, but in no_reorder() (assumed: --set kernel_reorder=0 for the kernel's order)"
            )
        self._lines: list[int] = []
        self._nodes: dict[tuple[int, str], int] = {}
        self._graph, self._tensor_of = self._make_graph(inputs, outputs)
        self._builder = Builder(self._graph, spec)
        self._tiles: dict[int, Tile] = {}
        self._homes: dict[int, HbmView] = {}
        self._ends: dict[int, list[Storage]] = {}
        self._uses: dict[int, list[int]] = {}
        self._builder.tiles.make_room = self._make_room
        self._spilling = Spilling(self._builder, self._uses)
        self._buffers = Buffers(Limits.of(spec), bool(spec.kernel_turns_wait))
        self._storages = {each.id: each for each in recording.storages}
        self._finished: dict[int, dict[int, int]] = {}
        self._now = 0
        self._needed: set[int] = set()
        self._outputs = outputs

    def _make_graph(
        self, inputs: Sequence[Storage], outputs: Sequence[Tensor]
    ) -> tuple[Graph, dict[int, int]]:
        """A node for each instruction of each line; tensors for what comes in and goes out."""
        nodes: list[Node] = []
        for step in self._steps:
            key = (step.place, step.op)
            if key not in self._nodes:
                self._nodes[key] = len(nodes)
                self._lines.append(step.place)
                nodes.append(Node(len(nodes), self._recording.where(step.place), step.op, "nki", (), ()))
        tensors: list[GraphTensor] = []
        tensor_of: dict[int, int] = {}
        for storage in (*inputs, *(each.storage for each in outputs)):
            if storage.id in tensor_of:
                continue
            tensor_of[storage.id] = len(tensors)
            kind = "input" if storage.kind == "input" else "output"
            tensors.append(
                GraphTensor(
                    len(tensors), storage.name, storage.shape, dtype_name(carrier(storage.dtype)), kind
                )
            )
        graph = Graph(
            "kernel",
            tuple(nodes),
            tuple(tensors),
            tuple(tensor_of[each.id] for each in inputs),
            tuple(dict.fromkeys(tensor_of[each.storage.id] for each in outputs)),
            flows=flows_of([(self._nodes[step.place, step.op], step) for step in self._steps], tensor_of),
        )
        return graph, tensor_of

    def _spill_text(self) -> str:
        found = self._spilling
        return (
            f"tiles that do not fit on the chip are saved to HBM and loaded again: {found.saved_bytes} and "
            f"{found.loaded_bytes} bytes (which ones is assumed: those needed last)"
        )

    def _where(self, step: Step) -> str:
        return self._recording.where(step.place)

    def _find_lifetimes(self) -> None:
        for storage in self._recording.storages:
            storage.first = storage.last = -1
        for number, step in enumerate(self._steps):
            for storage in storages_of(step):
                storage.first = number if storage.first < 0 else storage.first
                storage.last = number
                self._uses.setdefault(storage.id, []).append(number)
        for storage in self._recording.storages:
            if storage.last >= 0 and storage.space != HBM:
                self._ends.setdefault(storage.last, []).append(storage)

    def _live(self, number: int) -> str:
        """The largest tiles alive at a step, for a message."""
        live = [
            storage
            for storage in self._recording.storages
            if storage.space != HBM and storage.id in self._tiles and storage.last >= number
        ]
        live.sort(key=lambda each: -self._tiles[each.id].size)
        shown = ", ".join(
            f"{each.name} {self._tiles[each.id].size} bytes ({self._recording.where(each.place)})"
            for each in live[:MAX_SHOWN]
        )
        more = f" and {len(live) - MAX_SHOWN} more" if len(live) > MAX_SHOWN else ""
        return f"; alive: {shown}{more}" if live else ""

    # --- operands ------------------------------------------------------------------------------

    def _tile(self, storage: Storage) -> Tile:
        tile = self._tiles.get(storage.id)
        if tile is None:
            tile = self._tiles[storage.id] = self._placed(storage)
            self._spilling.load(storage, tile)
        return tile

    def _make_room(self, space: str = SBUF) -> bool:
        """Free the place of another tile; False where nothing can go."""
        if space == SBUF and self._buffers.give_back():
            return True
        return self._spilling.make_room(self._tiles, self._storages, self._now, self._needed, space)

    def _placed(self, storage: Storage) -> Tile:
        """A place for a tile; others make room where SBUF has none. Raises DoesNotFit."""
        partitions, count = storage.shape
        tiles, dtype = self._builder.tiles, name_of(storage.dtype)
        again = self._buffers.place_for(storage, count * storage.dtype.itemsize)
        while True:
            try:
                if again is not None:
                    made = tiles.sbuf_again(again, partitions, (count,), dtype).tile
                elif storage.space == PSUM:
                    made = tiles.psum(partitions, (count,), dtype, is_wide=True).tile
                else:
                    made = tiles.sbuf(partitions, (count,), dtype).tile
                made.name = storage.name
                made.aliases = tuple(self._recording.other_names.names.get(storage.id, ()))
                for channel, count in self._buffers.before.items():
                    made.prior[channel] = max(count, made.prior.get(channel, 0))
                return made
            except DoesNotFit:
                if storage.space != PSUM or self._recording.version > 1 or not self._make_room(PSUM):
                    raise

    def _view(self, tensor: Tensor | None) -> View:
        assert tensor is not None
        tile = self._tile(tensor.storage)
        address = tile.address + tensor.offset * tensor.dtype.itemsize
        return View(
            tile,
            tensor.start,
            tensor.shape[0],
            address,
            name_of(tensor.dtype),
            tensor.shape[1:],
            tensor.steps[1:],
        )

    def _optional(self, tensor: Tensor | None, number: Any) -> Any:
        return number if tensor is None else self._view(tensor)

    def _home(self, storage: Storage) -> HbmView:
        home = self._homes.get(storage.id)
        if home is None:
            hbm = self._builder.hbm
            tensor = self._tensor_of.get(storage.id, -1)
            dtype = dtype_name(carrier(storage.dtype))
            kind: Any = storage.kind
            if tensor >= 0 and kind == "scratch":
                kind = "output"
            home = self._homes[storage.id] = hbm.add(
                storage.name, kind, dtype, storage.shape, storage.data, tensor
            )
            hbm.draft(home).is_mutable = storage.is_written
        return home

    def _hbm(self, tensor: Tensor | None) -> HbmView:
        assert tensor is not None
        home = self._home(tensor.storage)
        item = tensor.dtype.itemsize
        return HbmView(
            home.variable,
            tensor.offset * item,
            dtype_name(carrier(tensor.dtype)),
            tensor.shape,
            tuple(s * item for s in tensor.steps),
        )


def _as_compiled(recording: Recording, steps: list[Step], spec: NeuronSpec) -> list[Step]:
    """The steps of a kernel of generation 1 as the vendor's compiler changes them; says what it does."""
    count = spec.kernel_buffers
    capacity = spec.sbuf_usable_bytes - COMPILER_BYTES
    if spec.kernel_share_loads and not (recording.is_placed or recording.is_as_written):
        is_flat = spec.kernel_share_loads == 1
        steps, left_out = without_repeated_loads(recording, steps, capacity, is_flat)
        if left_out:
            recording.note(
                f"{left_out} loads of what a tile of the same turn holds already are left out "
                "(assumed: --set kernel_share_loads=0)"
            )
    if spec.kernel_hoist and not (recording.is_placed or recording.is_as_written):
        steps, names = hoisted(recording, steps, capacity)
        if names:
            recording.note(
                f"{', '.join(names)}: the same in each turn of a loop, so that the first turn makes what all "
                "of them read (assumed: --set kernel_hoist=0)"
            )
    if spec.kernel_rows_in_psum:
        steps, rows = rows_in_psum(recording, steps, spec)
        if rows:
            recording.note(
                f"{rows} rows repeated over partitions are read in PSUM, where the product leaves them "
                "(assumed: --set kernel_rows_in_psum=0)"
            )
    if spec.kernel_reorder and not (recording.is_placed or recording.is_as_written):
        steps, names = moved_near_uses(recording, steps, capacity)
        if names:
            recording.note(
                f"{', '.join(names)}: more blocks than fit into SBUF are filled and stored in other loops; "
                "each is filled right before its first use and stored right after its last one (assumed)"
            )
    found, names = reloaded_at_use(recording, steps, capacity, count)
    for name in names:
        recording.note(
            f"{name or 'a tensor'} does not fit into SBUF for as long as it is used: what an instruction "
            "reads of it is loaded right before (assumed)"
        )
    if spec.version <= 2 and (moved := move_results_to_psum(found, spec, count)):
        recording.note(
            f"{moved} results of Scalar that one TENSOR_TENSOR reads lie in PSUM, where that takes half "
            "the time (assumed)"
        )
    if spec.kernel_reorder:
        found = reordered(recording, found, spec, capacity)
    if any(is_buffered(each, Limits.of(spec)) for each in recording.storages):
        recording.note(
            f"a tile that a line makes in each turn of a loop has {count} places in SBUF, or one where turns "
            "depend on each other (assumed: --set kernel_buffers=N); whether those wait for each other is "
            f"kernel_turns_wait={spec.kernel_turns_wait} (assumed)"
        )
    return found
