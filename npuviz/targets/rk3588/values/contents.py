"""Keep DDR as a log changes it: tasks and host calls applied, bytes written by hand, whole states kept."""

from collections.abc import Mapping

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.machine import HOST_OPERATOR
from npuviz.sim.replay.contents import Edit, Report
from npuviz.targets.rk3588.tables import Buffer, HostCall, Tables
from npuviz.targets.rk3588.values.buffers import decoded, encoded, from_graph, holds_numbers, to_graph
from npuviz.targets.rk3588.values.host import run_host_node
from npuviz.targets.rk3588.values.memory import Kept, Memory, ValueFault
from npuviz.targets.rk3588.values.task import Tasks


class DdrContents:
    """The DDR of a program. A log entry is a task's index, or -1 - i for host call i.

    inputs  graph input name -> array; an absent one is 0
    ddr     id of the memory whose edits count: CBUFs hold nothing that flows into results
    """

    def __init__(
        self, tables: Tables, graph: Graph, inputs: Mapping[str, np.ndarray], ddr: int, report: Report
    ) -> None:
        self.memory = Memory(tables.buffers)
        self.tasks = Tasks(tables.tasks)
        self._tables = tables
        self._graph = graph
        self._inputs = inputs
        self._ddr = ddr
        self._report = report
        self._homes: dict[int, list[int]] = {}
        for number, buffer in enumerate(tables.buffers):
            if buffer.tensor >= 0:
                self._homes.setdefault(buffer.tensor, []).append(number)

    def apply(self, entry: int, undoable: bool) -> None:
        """Execute a log entry; it can be undone only by restoring a kept state."""
        try:
            if entry < 0:
                self._run_host(self._tables.hosts[-1 - entry])
            else:
                self.tasks.run(self.memory, entry)
        except (ValueFault, FormatError) as fault:
            if entry < 0:
                self._report(HOST_OPERATOR, f"host call {-1 - entry} failed: {fault}")
            else:
                self._report("fault", f"task {entry} is not executed: {fault}")

    def apply_edit(self, edit: Edit, undoable: bool) -> None:
        """Write bytes by hand."""
        if edit.memory == self._ddr:
            self.memory.write_by_hand(edit.address, edit.data)

    def keep(self) -> Kept:
        """Return the present state."""
        return self.memory.keep()

    def restore(self, kept: Kept | None) -> None:
        """Return to a state; None: the beginning."""
        self.memory.restore(kept)

    # Host calls ---------------------------------------------------------------------------------

    def _run_host(self, call: HostCall) -> None:
        if call.node >= 0:
            results = run_host_node(self._graph, call.node, lambda tensor: self.held(tensor, call.reads))
            for number in call.writes:
                buffer = self._tables.buffers[number]
                if buffer.tensor in results and holds_numbers(buffer):
                    self._store(buffer, from_graph(buffer, results[buffer.tensor]))
            return
        for place, number in enumerate(call.writes):
            buffer = self._tables.buffers[number]
            if not holds_numbers(buffer):
                continue
            source = self._source(call, place)
            if source >= 0:
                self._store(buffer, self._converted(self._tables.buffers[source], buffer))
            elif buffer.tensor in self._graph.inputs:
                self._store(buffer, from_graph(buffer, self.input_of(buffer.tensor)))
            else:
                raise ValueFault(f"nothing says what {buffer.name} is converted from")

    def _source(self, call: HostCall, place: int) -> int:
        """Return the buffer that is converted into a written one: of the same tensor, else in the same
        position."""
        tensor = self._tables.buffers[call.writes[place]].tensor
        for number in call.reads:
            if tensor >= 0 and self._tables.buffers[number].tensor == tensor:
                return number
        if tensor in self._graph.inputs:
            return -1
        return call.reads[place] if place < len(call.reads) else -1

    def _converted(self, source: Buffer, target: Buffer) -> np.ndarray:
        values = self._elements(source)
        same = (source.dtype, source.scale, source.zero_point)
        if same == (target.dtype, target.scale, target.zero_point) and values.size == np.prod(target.shape):
            return values.reshape(target.shape)
        if target.tensor >= 0:
            kind = numpy_dtype(self._graph.tensors[target.tensor].dtype)
        else:
            kind = np.dtype(np.float64)
        return from_graph(target, to_graph(source, values, kind))

    def _store(self, buffer: Buffer, values: np.ndarray) -> None:
        data = encoded(buffer, values)
        self.memory.target(buffer.address, len(data), buffer.name)[:] = data

    # Tensors ------------------------------------------------------------------------------------

    def home_of(self, tensor: int) -> int:
        """Return the buffer that shows a tensor, -1 if there is none; of several, the one in NC1HWC2."""
        found = self._homes.get(tensor, [])
        for number in found:
            if self._tables.buffers[number].layout == "feature":
                return number
        return found[0] if found else -1

    def input_of(self, tensor: int) -> np.ndarray:
        """Return the values given for a graph input, zeros if none."""
        held = self._graph.tensors[tensor]
        values = self._inputs.get(held.name)
        return np.zeros(held.shape, numpy_dtype(held.dtype)) if values is None else np.asarray(values)

    def _elements(self, buffer: Buffer) -> np.ndarray:
        return decoded(buffer, np.array(self.memory.view(buffer.address, buffer.size_bytes, buffer.name)))

    def held(self, tensor: int, preferred: tuple[int, ...] = ()) -> np.ndarray | None:
        """Return a tensor in the graph's shape and type, None if no buffer has it. Raises ValueFault.

        preferred  buffers to search first; inputs need none
        """
        number = next(
            (n for n in preferred if self._tables.buffers[n].tensor == tensor), self.home_of(tensor)
        )
        if number < 0:
            return self.input_of(tensor) if tensor in self._graph.inputs else None
        buffer = self._tables.buffers[number]
        if not holds_numbers(buffer):
            return self.input_of(tensor) if tensor in self._graph.inputs else None
        return None if buffer.layout == "weight" else self.held_in(number)

    def held_in(self, number: int) -> np.ndarray:
        """Return a buffer's tensor in the graph's shape and type. Raises ValueFault."""
        buffer = self._tables.buffers[number]
        kind = self._graph.tensors[buffer.tensor]
        return to_graph(buffer, self._elements(buffer), numpy_dtype(kind.dtype)).reshape(kind.shape)
