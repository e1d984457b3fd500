"""The values engine: the contents of all memories after any prefix of the machine's log."""

from collections.abc import Mapping

import numpy as np

from npuviz.program.graph import Graph
from npuviz.sim.replay.contents import Edit, Report
from npuviz.sim.replay.engine import Replay, ReplayLimits
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.values.chip import Chip
from npuviz.targets.neuroncore.values.contents import ChipContents
from npuviz.targets.neuroncore.values.memory import GRANULE, ValueFault
from npuviz.targets.neuroncore.values.planner import Planner
from npuviz.targets.neuroncore.values.spans import spans_of
from npuviz.targets.neuroncore.values.transfer import TRANSPOSE_ORDER


class ValueEngine(Replay[ChipContents]):
    """Computes the contents of SBUF, PSUM, HBM and accumulators. Thread-safe; calls are served one at a time.

    inputs  graph input name -> array; an absent one is 0

    Returned arrays belong to the caller.
    """

    limits = ReplayLimits(keep_seconds=1.0, kept_states=8, undone_entries=1024)

    def __init__(
        self,
        tables: Tables,
        graph: Graph,
        spec: NeuronSpec,
        inputs: Mapping[str, np.ndarray],
        transpose_order: tuple[int, ...] = TRANSPOSE_ORDER,
    ) -> None:
        super().__init__(self._made)
        self.tables = tables
        self.graph = graph
        self.spec = spec
        self.inputs = inputs
        self._order = transpose_order

    def _made(self, report: Report) -> ChipContents:
        chip = Chip(self.tables, self.graph, self.spec, self.inputs)
        planner = Planner(self.tables, self.graph, chip, report, self._order)
        return ChipContents(chip, planner, report)

    @property
    def _chip(self) -> Chip:
        return self.contents.chip

    # Reading ------------------------------------------------------------------------------------

    def read(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Return bytes of a memory (id of the machine's description); unwritten bytes are 0.

        In SBUF and PSUM the address is partition * partition bytes + byte.
        """
        with self.lock:
            made = np.zeros(size_bytes, np.uint8)
            for span in spans_of(self._chip, memory, address, size_bytes):
                made[span.start : span.start + span.size] = span.view()
            return made.tobytes()

    def read_at(
        self, log: np.ndarray, edits: tuple[Edit, ...], memory: int, address: int, size_bytes: int
    ) -> bytes:
        """Move to a position of the log and `read`, without another thread in between."""
        with self.at(log, edits):
            return self.read(memory, address, size_bytes)

    def variable(self, number: int) -> np.ndarray:
        """Return a copy of a variable of the program, in its shape and type."""
        with self.lock:
            return self._chip.variables[number].array().copy()

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Return a copy of a graph tensor in its type in HBM; None if HBM does not hold it."""
        with self.lock:
            home = self.contents.planner.homes.get(tensor)
            return None if home is None else home.array().copy()

    def variable_of(self, tensor: int) -> int:
        """Return the variable that `tensor` returns, -1 if there is none."""
        home = self.contents.planner.homes.get(tensor)
        return -1 if home is None else home.variable.id

    def is_complete(self, number: int) -> bool:
        """Return whether all bytes of a variable have been written (in granules of 64 bytes)."""
        with self.lock:
            flags = self._chip.variables[number].written
            return flags is None or bool(flags.all())

    def written_elements(self, number: int) -> np.ndarray:
        """Return whether each element of a variable has been written: flat bool, in granules of 64 bytes."""
        with self.lock:
            array = self._chip.variables[number]
            item = max(1, array.dtype.itemsize)
            count = array.size // item
            if array.written is None:
                return np.ones(count, np.bool_)
            if GRANULE % item == 0:
                return np.repeat(array.written, GRANULE // item)[:count]
            return array.written[np.arange(count) * item // GRANULE]

    def operand(self, index: int, position: int) -> np.ndarray:
        """Return a copy of the elements of an instruction's operand: (partitions, *dims).

        Raises ValueError if the instruction has no such operand in a memory.
        """
        with self.lock:
            ins = self.contents.planner.instruction(index)
            space, dtype, partition, partitions, address, sizes, steps = ins.operands[position]
            try:
                sram = self._chip.sram(ins.core, space)
                found = sram.operand(dtype, partition, partitions, address, sizes, steps)
            except ValueFault as fault:
                raise ValueError(f"instruction {index}: {fault}") from None
            return found.view.copy()

    def written_by(self, entry: int) -> bytes:
        """Return the present bytes at the places that a log entry writes; b"" for one that is not
        executed.
        """
        with self.lock:
            try:
                plan = self.contents.planner.plan(entry)
            except ValueFault:
                return b""
            return b"".join(view.tobytes() for view in plan.writes)

    def accumulators(self, core: int) -> np.ndarray:
        """Return the accumulators of a core's Scalar (activation) engine, (128,) float32."""
        with self.lock:
            if not self.is_made:
                return np.zeros(NUM_PARTITIONS, np.float32)
            return self._chip.accumulators[core].copy()

    def table_set(self, core: int) -> int:
        """Return the activation table set that a core has loaded, -1 before the first."""
        with self.lock:
            return int(self._chip.table_sets[core]) if self.is_made else -1
