"""What a compiler hands to the target."""

from dataclasses import dataclass, field

from npuviz.program.graph import Graph
from npuviz.program.memory import MemoryMap
from npuviz.program.program import Note
from npuviz.targets.systolic.tables import SystolicTables


@dataclass(frozen=True)
class Compiled:
    """Tables and what people need to read them.

    graph       the operators that L_NODE and C_TENSOR refer to
    memory_map  places in DRAM, memory id 0 standing for DRAM; the target puts the right id in
    """

    tables: SystolicTables
    graph: Graph
    memory_map: MemoryMap = field(default_factory=MemoryMap)
    notes: tuple[Note, ...] = ()
