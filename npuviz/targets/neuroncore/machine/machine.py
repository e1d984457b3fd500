"""The NeuronCore machine: implements the contract of machines with engine, observer and contents."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.sim.access_order import AccessTable
from npuviz.sim.bounds import Bound
from npuviz.sim.machine import Peak, SemaphoreState
from npuviz.sim.parts.memory_machine import HazardMachine
from npuviz.sim.replay.contents import Edit, EditImage
from npuviz.sim.stop import StopKind, StopReason
from npuviz.targets.neuroncore.costs.instructions import host_cycles
from npuviz.targets.neuroncore.isa import Opcode
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.access_order import access_order, access_table
from npuviz.targets.neuroncore.machine.engine import Engine
from npuviz.targets.neuroncore.machine.payload import Payload
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.view.contents import Contents
from npuviz.targets.neuroncore.view.description import describe, numbering, used_semaphores
from npuviz.targets.neuroncore.view.observe import Observer
from npuviz.targets.neuroncore.view.probes import make_probes
from npuviz.targets.neuroncore.view.reports import Reports
from npuviz.trace.reader import TraceReader

if TYPE_CHECKING:
    from npuviz.targets.neuroncore.values.engine import ValueEngine

_FAULTS = {
    sk.FAULT_SEMAPHORE_OVERFLOW: "counts past 32 bits",
    sk.FAULT_SEMAPHORE_UNDERFLOW: "would become negative",
    sk.FAULT_EVENT_SET_TWICE: "is set although it is set already",
    sk.FAULT_EVENT_CLEARED_TWICE: "is cleared although it is clear already",
}


class NeuronMachine(HazardMachine[Contents]):
    """One logical core with one program; see npuviz.sim.machine.Machine for the contract."""

    def __init__(self, spec: NeuronSpec, program: Program) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        tables = payload.tables
        used = used_semaphores(spec, tables)
        engine = Engine(spec, tables, program.graph, numbering(spec, tables, used))
        observer = Observer(engine, program.listing, used)
        super().__init__(
            program,
            describe(spec, tables, used, payload.is_estimated),
            engine,
            observer,
            make_probes(engine, observer, used, self._accumulators),
            EditImage(),
        )
        self._engine = engine
        self._observer = observer
        values = None
        if not payload.is_estimated:
            # Imported late: it takes a tenth of a second, which files without values need not wait for.
            from npuviz.targets.neuroncore.values.engine import ValueEngine

            values = ValueEngine(tables, program.graph, spec, payload.inputs)
        self._contents = Contents(engine, program, values)

    def host_cycles(self) -> Mapping[int, int]:
        """Return {node: cycles of its Host call}."""
        payload = self._program.payload
        assert isinstance(payload, Payload)
        code, graph = payload.tables.instructions, self._program.graph
        called = code["id"][code["opcode"] == Opcode.HOST_CALL].tolist()
        return {node: host_cycles(self._engine.spec, graph, graph.nodes[node]) for node in called}

    @cached_property
    def _reports(self) -> Reports:
        return Reports(self._engine, self._observer, self._program.listing)

    def reports(self) -> Sequence[DetailTable]:
        """Return report tables: bounds of the run, use of the DMA engines, accumulation in PSUM."""
        return self._reports.tables()

    def empty_reports(self) -> Sequence[DetailTable]:
        """Return the report tables that have no rows at this cycle."""
        return self._reports.empty_tables()

    def bounds(self) -> Sequence[Bound]:
        """Return the least times of engines, PE array and DMA."""
        return self._reports.bounds()

    def peaks(self) -> Sequence[Peak]:
        """Return the peak rates: DMA at full rate, PE with one MAC per array element and cycle."""
        return self._observer.peaks()

    def values(self) -> "ValueEngine | None":
        """Return the values engine moved to the present contents, None for programs without values."""
        return self._contents.values(self._image)

    def unmoved_values(self) -> "ValueEngine | None":
        """Return the values engine with its present contents, for callers that move it themselves."""
        return self._contents.engine

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Bytes that the user wrote, by position in the log."""
        return self._image.edits

    def _broken(self, result: int) -> StopReason:
        if result == sk.RESULT_DEADLOCK:
            unit, detail = self._observer.deadlock()
            return StopReason(StopKind.DEADLOCK, self.cycle, unit=unit, detail=detail)
        return self._fault()

    def _fault(self) -> StopReason:
        s = self._engine.state
        code, index, subject = (
            int(s[word]) for word in (sk.CHIP.fault, sk.CHIP.fault_instruction, sk.CHIP.fault_subject)
        )
        instruction = self._program.listing.describe(index)
        unit = self._description.units[instruction.unit].name
        if code == sk.FAULT_BRANCH:
            detail = f"{instruction.text}: branches out of its program, to instruction {subject}"
        else:
            detail = f"{instruction.text}: {self._observer.subject_name(subject)} {_FAULTS[code]}"
        return StopReason(StopKind.FAULT, self.cycle, unit=unit, detail=detail)

    def _accumulators(self, core: int) -> np.ndarray:
        return self._contents.accumulators(core, self._image)

    # --- observation -----------------------------------------------------------------------------------

    def semaphores(self) -> Sequence[SemaphoreState]:
        """Return the states of the semaphores and events that the program uses."""
        return self._observer.semaphores()

    def log(self) -> np.ndarray:
        """Return a copy of the completions so far, (n, 2) int64: instruction or -1 - trigger, and the
        time.
        """
        return self._engine.log().copy()

    # --- races -----------------------------------------------------------------------------------------

    @cached_property
    def _accesses(self) -> AccessTable:
        engine = self._engine
        return access_table(
            engine.spec, engine.tables, self._contents.accesses, has_values=self._contents.has_values
        )

    def access_table(self) -> AccessTable:
        """Return the table of what each instruction and transfer touches."""
        return self._accesses

    def access_order(self, trace: TraceReader | None) -> np.ndarray:
        """Return the order of accesses so far: all accesses of work count at its end, as for values."""
        return access_order(self._engine.log(), len(self._engine.tables.instructions))

    def values_at(self, position: int) -> bytes | None:
        """Return what the completion at this position of the log wrote."""
        return self._contents.written_at(position, self._image)
