"""Implement the machine contract for an RK3588: engine, observation and contents put together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.sim.access_order import AccessTable
from npuviz.sim.machine import Peak
from npuviz.sim.parts.memory_machine import HazardMachine
from npuviz.sim.replay.contents import EditImage
from npuviz.sim.stop import StopKind, StopReason
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.access_order import access_order, access_table
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.payload import Payload
from npuviz.targets.rk3588.machine.state_words import numbering
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.host_cost import host_cycles
from npuviz.targets.rk3588.values.engine import ValueEngine
from npuviz.targets.rk3588.view.contents import Contents
from npuviz.targets.rk3588.view.description import describe
from npuviz.targets.rk3588.view.observe import Observer
from npuviz.targets.rk3588.view.probes import make_probes
from npuviz.targets.rk3588.view.reports import report_peaks, report_tables
from npuviz.trace.reader import TraceReader


class RknnMachine(HazardMachine[Contents]):
    """One NPU with one program; see npuviz.sim.machine.Machine for the contract."""

    def __init__(self, spec: RknnSpec, program: Program) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        tables = payload.tables
        hosts = host_cycles(spec, tables, program.graph)
        engine = Engine(spec, tables, len(program.graph.nodes), numbering(spec), hosts)
        observer = Observer(engine, program.listing)
        probes = make_probes(engine, observer)
        super().__init__(program, describe(spec, tables), engine, observer, probes, EditImage())
        self._engine = engine
        self._host_cycles = hosts
        self._measured = payload.measured
        values = ValueEngine(tables, program.graph, spec, payload.inputs)
        self._contents = Contents(engine, program, values)

    @property
    def engine(self) -> Engine:
        """The state and the costs, for the target's own reports."""
        return self._engine

    def values(self) -> ValueEngine:
        """Return the values engine at the present contents."""
        return self._contents.values(self._image)

    def _broken(self, result: int) -> StopReason:
        number = int(sk.CHIP(self._engine.state).hang)
        task = self._engine.tables.tasks[number]
        detail = f"task {number} at {task.stream:#x}: {self._engine.costs[number].problem}"
        return StopReason(StopKind.HANG, self.cycle, unit=f"Core[{task.core}]", detail=detail)

    def reports(self) -> Sequence[DetailTable]:
        """Return time and bottleneck of every operator that has finished."""
        return report_tables(self._engine, self._program.graph, self._measured)

    def host_cycles(self) -> Mapping[int, int]:
        """Return node -> cycles of its calls; -1: layout conversions that belong to no operator."""
        found = Counter[int]()
        for call, cycles in zip(self._engine.tables.hosts, self._host_cycles, strict=True):
            found[call.node] += cycles
        return found

    def peaks(self) -> Sequence[Peak]:
        """Return the use of DDR and the arrays, for the whole run and by operator."""
        return report_peaks(self._engine, self._program.graph)

    def log(self) -> np.ndarray:
        """Return a (n, 2) int64 copy of the completions so far: task or -1 - host call, and the time."""
        return self._engine.log().copy()

    # --- races -----------------------------------------------------------------------------------------

    @cached_property
    def _accesses(self) -> AccessTable:
        engine = self._engine
        return access_table(engine.tables, engine.costs, engine.spec.cores, self._contents.accesses)

    def access_table(self) -> AccessTable:
        """Return what each task and Host call touches."""
        return self._accesses

    def access_order(self, trace: TraceReader | None) -> np.ndarray:
        """Return the completions so far; work reads and writes when it ends, as values are computed."""
        return access_order(self._engine.log(), len(self._engine.tables.tasks))

    def values_at(self, position: int) -> bytes | None:
        """Return the bytes that the task or Host call that completed at this position read."""
        log = self._engine.log()[:position, 0]
        entry = int(self.access_order(None)[position, 0])
        edits = self._image.edits
        rows = self.access_table().rows_of(entry, is_write=False)
        return b"".join(
            self._contents.read_at(log, edits, low, high - low) for low, high in rows[:, 4:6].tolist()
        )
