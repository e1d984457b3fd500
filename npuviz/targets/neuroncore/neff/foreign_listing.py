"""List the instructions of a vendor's NEFF as its debug records name them, and say what the file lacks."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.neff.debug import NamedInstruction, ancestors, debug_records
from npuviz.formats.neff.model import Neff
from npuviz.program.graph import Graph
from npuviz.program.instruction import Dependency, DetailTable, Instruction
from npuviz.targets.neuroncore.isa import NUM_ENGINES, SLOT_BYTES
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.view.listing import NeuronListing

MAX_SLOTS = 64
"""Most slots of an instruction whose bytes are shown."""


@dataclass(frozen=True, slots=True)
class ForeignRow:
    """One instruction of the estimated program: name, assumed kind, and debug record if it has one."""

    name: str
    kind: str
    named: NamedInstruction | None = None


class ForeignListing(NeuronListing):
    """Lists a vendor's program with the names, sources and dependencies of the file."""

    def __init__(
        self,
        neff: Neff,
        tables: Tables,
        spec: NeuronSpec,
        rows: Sequence[ForeignRow],
        edges: Sequence[Dependency],
    ) -> None:
        super().__init__(tables, spec, Graph("", (), (), (), ()))
        self._neff, self._rows = neff, rows
        self._touching: defaultdict[int, list[Dependency]] = defaultdict(list)
        for edge in edges:
            self._touching[edge.source].append(edge)
            if edge.sink != edge.source:
                self._touching[edge.sink].append(edge)

    def describe(self, index: int) -> Instruction:
        """Describe an instruction as the debug records name it; its operands are not in the file."""
        found = super().describe(index)
        row = self._rows[index]
        text = row.name
        if row.named is not None:
            last = row.named.first_slot + row.named.slot_count - 1
            slots = f"slot {last}" if row.named.slot_count == 1 else f"slots {row.named.first_slot}..{last}"
            text = f"{row.name}  [{row.kind}, {slots}]"
            if row.named.source is not None:
                path, line = row.named.source
                text += f"  {PurePosixPath(path).name}:{line}"
        return Instruction(
            found.index, found.unit, row.kind, text, found.node, found.tile, found.reads, found.writes
        )

    def dependencies_of(self, index: int) -> tuple[Dependency, ...]:
        """Return the file's dependencies with this instruction as source or sink, by source then sink."""
        self._check(index)
        return tuple(sorted(self._touching.get(index, ()), key=lambda each: (each.source, each.sink)))

    def details_of(self, index: int) -> tuple[DetailTable, ...]:
        """Return tables of the debug record, the operations it comes from, and the undecoded slots."""
        named = self._rows[index].named if 0 <= index < len(self) else None
        if named is None:
            return super().details_of(index)
        tables = (self._record(index, named), self._origins(index, named), self._slots(index, named))
        return tuple(table for table in tables if table.rows)

    def _record(self, index: int, named: NamedInstruction) -> DetailTable:
        rows = [("taken for", f"{self._rows[index].kind} (assumed)"), ("duration", "assumed, not in file")]
        if named.record is not None:
            rows = [("name", named.record.name), ("id", str(named.record.id)), *rows]
            rows += [(key, value) for key, value in named.record.attributes.items()]
        if named.source is not None:
            rows.append(("source", f"{PurePosixPath(named.source[0]).name}:{named.source[1]}"))
        rows += [("opcode", "not in file"), ("operands", "not in file")]
        return DetailTable("Debug record", ("field", "value"), tuple(rows))

    def _origins(self, index: int, named: NamedInstruction) -> DetailTable:
        """Make the table of the operations above the instruction: tensor program, HLO, framework."""
        rows: list[tuple[str, ...]] = []
        columns = ("level", "id", "operation")
        if named.record is None:
            return DetailTable("Comes from", columns, ())
        try:
            level = debug_records(self._neff.subgraphs[self._core(index)], named.engine)
            for each, record in ancestors(self._neff, level, named.record):
                operator = record.attributes.get("op_type", "")
                rows.append((each.parent_file or "framework", str(record.id), record.name or operator))
        except FormatError as error:
            rows.append(("", "", str(error)))
        return DetailTable("Comes from", columns, tuple(rows))

    def _slots(self, index: int, named: NamedInstruction) -> DetailTable:
        unit = int(self.units_of(np.array([index]))[0])
        program = self._neff.subgraphs[unit // NUM_ENGINES].engines[named.engine].program
        rows: list[tuple[str, ...]] = []
        for slot in range(named.first_slot, named.first_slot + min(named.slot_count, MAX_SLOTS)):
            content = bytes(program[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES])
            rows.append((str(slot), content[:32].hex(" ", 4), content[32:].hex(" ", 4)))
        return DetailTable("Slots (not decoded)", ("slot", "bytes 0..31", "bytes 32..63"), tuple(rows))
