"""The RK3588 machine behind the contract: engine, observation and contents put together."""

from collections.abc import Sequence

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.sim.machine import Hazard, Region, StillMemories
from npuviz.sim.parts.kernel_machine import KernelMachine
from npuviz.sim.stop import StopKind, StopReason
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.payload import Payload
from npuviz.targets.rk3588.machine.state_words import numbering
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.values.engine import ValueEngine
from npuviz.targets.rk3588.view.contents import Contents, Image, StillContents
from npuviz.targets.rk3588.view.description import describe, make_probes
from npuviz.targets.rk3588.view.observe import Observer
from npuviz.targets.rk3588.view.probes import ProbeTable
from npuviz.targets.rk3588.view.reports import report_tables


class RknnMachine(KernelMachine):
    """One NPU with one program; see npuviz.sim.machine.Machine for the contract."""

    def __init__(self, spec: RknnSpec, program: Program) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        tables = payload.tables
        engine = Engine(spec, tables, len(program.graph.nodes), numbering(spec))
        observer = Observer(engine, program.listing)
        reader = ProbeTable(engine, observer)
        super().__init__(
            program, describe(spec, tables), engine, observer, make_probes(spec), reader, Image()
        )
        self._engine = engine
        self._measured = payload.measured
        values = ValueEngine(tables, program.graph, spec, payload.inputs)
        self._contents = Contents(engine, program, values)

    @property
    def engine(self) -> Engine:
        """State and loads, for the target's own reports."""
        return self._engine

    def values(self) -> ValueEngine:
        """The values engine with the contents of now."""
        return self._contents.values(self._image)

    def _broken(self, result: int) -> StopReason:
        number = int(self._engine.state[sk.H_HANG])
        task = self._engine.tables.tasks[number]
        detail = f"task {number} at {task.stream:#x}: {self._engine.loads[number].problem}"
        return StopReason(StopKind.HANG, self.cycle, unit=f"Core[{task.core}]", detail=detail)

    # --- contents --------------------------------------------------------------------------------------

    def regions(self, memory: int) -> Sequence[Region]:
        """What a memory holds now."""
        return self._contents.regions(memory)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Bytes of a memory now."""
        return self._contents.read(memory, address, size_bytes, self._image)

    def still_memories(self) -> StillMemories:
        """The memories as they are now, for another thread."""
        return StillContents(self._contents.still(), self._image)

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory from now on; those of DDR flow into results."""
        self._image = self._contents.write(memory, address, data, self._image)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Values of a tensor as DDR holds them now."""
        return self._contents.tensor(tensor, self._image)

    def hazards(self) -> Sequence[Hazard]:
        """Tasks up to now that could not be executed; values are computed first."""
        return self._contents.hazards(self._image)

    def reports(self) -> Sequence[DetailTable]:
        """Time and bottleneck of every operator that has finished."""
        return report_tables(self._engine, self._program.graph, self._measured)

    def log(self) -> np.ndarray:
        """(n, 2) int64 copy of the completions so far: task or -1 - host call, and the time."""
        return self._engine.log().copy()
