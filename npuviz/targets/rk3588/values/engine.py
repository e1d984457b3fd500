"""Compute what DDR holds after any prefix of the machine's log."""

from collections.abc import Mapping

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.program.graph import Graph
from npuviz.sim.replay.contents import Edit
from npuviz.sim.replay.engine import Replay
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables
from npuviz.targets.rk3588.values.contents import DdrContents
from npuviz.targets.rk3588.values.memory import ValueFault


class ValueEngine(Replay[DdrContents]):
    """The contents of DDR. Any thread may ask; one at a time is served.

    inputs  graph input name -> array; an absent one is 0
    Arrays returned are the caller's.
    """

    def __init__(
        self, tables: Tables, graph: Graph, spec: RknnSpec, inputs: Mapping[str, np.ndarray]
    ) -> None:
        self.tables = tables
        self.graph = graph
        self.spec = spec
        self.inputs = inputs
        super().__init__(lambda report: DdrContents(tables, graph, self.inputs, spec.cores, report))

    def home_of(self, tensor: int) -> int:
        """Return the buffer that shows a tensor, -1 if there is none."""
        return self.contents.home_of(tensor)

    def input_of(self, tensor: int) -> np.ndarray:
        """Return the values given for a graph input, zeros if none."""
        return self.contents.input_of(tensor)

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of DDR at the present position; those that do not exist are 0."""
        with self.lock:
            return self.contents.memory.read(address, size).tobytes()

    def read_at(self, log: np.ndarray, edits: tuple[Edit, ...], address: int, size: int) -> bytes:
        """Run `advance_to` and `read` as one."""
        with self.at(log, edits):
            return self.read(address, size)

    def operand_at(self, log: np.ndarray, edits: tuple[Edit, ...], task: int, kind: str) -> np.ndarray:
        """Return the bytes (uint8) that CNA of a task fetches, in the order of CBUF: "features" or "weights".

        Empty if the task has no convolution, or its addresses lead nowhere.
        """
        with self.at(log, edits):
            contents = self.contents
            try:
                return contents.tasks.operand(contents.memory, task, kind)
            except (ValueFault, FormatError):
                return np.zeros(0, np.uint8)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Return a copy of a graph tensor in the graph's shape and type; None if no buffer holds it."""
        with self.lock:
            found = self.held(tensor) if self.home_of(tensor) >= 0 else None
            if found is None and tensor in self.graph.constants:
                return np.array(self.graph.constants[tensor])
            return found

    def held(self, tensor: int) -> np.ndarray | None:
        """Return a tensor as `tensor` does, or a graph input that no buffer holds."""
        with self.lock:
            try:
                return self.contents.held(tensor)
            except (ValueFault, FormatError):
                return None

    def held_in(self, buffer: int) -> np.ndarray | None:
        """Return a buffer's tensor in the graph's shape and type; None if it cannot be read."""
        with self.lock:
            try:
                return self.contents.held_in(buffer)
            except (ValueFault, FormatError):
                return None
