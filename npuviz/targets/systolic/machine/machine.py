"""The systolic machine behind the contract: engine, observation and contents put together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from npuviz.program.instruction import DetailTable, Listing
from npuviz.program.program import Program
from npuviz.sim.access_order import NEVER_DONE, AccessTable
from npuviz.sim.machine import Peak
from npuviz.sim.parts.memory_machine import CheckedMachine
from npuviz.sim.stop import StopKind, StopReason
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.access_order import access_order, access_table
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.machine.latencies import varied_spec, varied_tables
from npuviz.targets.systolic.machine.payload import Payload
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.values.engine import ValueEngine
from npuviz.targets.systolic.view.contents import Contents, Image
from npuviz.targets.systolic.view.description import describe
from npuviz.targets.systolic.view.observe import Observer
from npuviz.targets.systolic.view.probes import make_probes
from npuviz.targets.systolic.view.reports import Reports
from npuviz.trace.reader import TraceReader

_FAULTS = {
    sk.FAULT_SPAD_FULL: "the scratchpad half is full; the tile is larger than half of the scratchpad",
    sk.FAULT_ACC_FULL: "the accumulator half is full; the tile is larger than half of the accumulator",
    sk.FAULT_ENTRY_EXISTS: "a load would overwrite data of the same tile that is still in its half",
    sk.FAULT_HANG: "nothing can happen any more, but the program has not ended (deadlock)",
    sk.FAULT_QUEUE: "the store queue is full",
}


class SystolicMachine(CheckedMachine[Contents]):
    """One chip with one program; see npuviz.sim.machine.Machine for the contract."""

    def __init__(self, spec: SystolicSpec, program: Program) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        tables = payload.tables
        engine = Engine(varied_spec(spec), varied_tables(spec, tables))
        end = max((a.address + a.size_bytes for a in program.memory_map.allocations), default=1)
        description = describe(spec, end)
        observer = Observer(engine, program.listing)
        values = None
        if tables.values is not None:
            values = ValueEngine(tables, program.graph, spec, payload.inputs)
        super().__init__(
            program,
            description,
            engine,
            observer,
            make_probes(engine, observer),
            Image(values),
        )
        self._engine = engine
        self._contents = Contents(engine, observer, program, description)
        self._reports = Reports(engine, program.graph, payload.requests)
        self._layers = tables.layers

    def host_cycles(self) -> Mapping[int, int]:
        """Return the Host cycles of each node that has layers on the Host."""
        found = Counter[int]()
        for row in self._layers[self._layers[:, tk.LAYER.host_cycles] > 0]:
            found[int(row[tk.LAYER.node])] += int(row[tk.LAYER.host_cycles])
        return found

    @property
    def values(self) -> ValueEngine | None:
        """The values engine of the present image, None in programs without values."""
        return self._image.values

    def reports(self) -> Sequence[DetailTable]:
        """Return latency by request, roofline by operator, and energy by part, up to now."""
        return self._reports.tables()

    def peaks(self) -> Sequence[Peak]:
        """Return the peak use of array, vector lanes and DRAM by operator, and of DRAM in the whole run."""
        return self._reports.peaks()

    @property
    def listing(self) -> Listing:
        """The program's instructions."""
        return self._program.listing

    def _broken(self, result: int) -> StopReason:
        s = self._engine.state
        core, index = int(s[sk.CHIP.fault_core]), int(s[sk.CHIP.fault_instruction])
        detail = _FAULTS[int(s[sk.CHIP.fault])]
        if index >= 0:
            detail = f"{self._program.listing.describe(index).text}: {detail}"
        return StopReason(
            StopKind.FAULT, self.cycle, unit=f"Core[{core}]" if core >= 0 else "", detail=detail
        )

    # --- races -----------------------------------------------------------------------------------------

    @cached_property
    def _accesses(self) -> AccessTable:
        return access_table(self._engine.tables, self._program, 2 * self._engine.spec.num_cores)

    def access_table(self) -> AccessTable:
        """Return the DRAM ranges of each load, store and Host call."""
        return self._accesses

    def access_order(self, trace: TraceReader | None) -> np.ndarray:
        """Return the recorded starts of reads and ends of writes."""
        return NEVER_DONE if trace is None else access_order(self._accesses, trace)

    def values_at(self, position: int) -> bytes | None:
        """Return None: contents follow from the state at a cycle, so that the machine must first go there."""
        return None
