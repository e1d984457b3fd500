"""The result of a compilation, for both modes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from npuviz.program.graph import Graph
from npuviz.program.memory import MemoryMap
from npuviz.program.program import Note
from npuviz.targets.systolic.tables import RequestPlan, SystolicTables


@dataclass(frozen=True)
class Compiled:
    """Tables, with the graph, places and notes to interpret them.

    graph       the operators that `LAYER.node` and `CODE.tensor` refer to
    memory_map  places in DRAM
    placement   graph node id -> "Core" or "Host"; "View" (true mode) or "Free" (parity mode) for nodes that
                cost nothing
    requests    the served requests; empty: one model from cycle 0 on
    """

    tables: SystolicTables
    graph: Graph
    memory_map: MemoryMap = field(default_factory=MemoryMap)
    notes: tuple[Note, ...] = ()
    placement: Mapping[int, str] = field(default_factory=dict[int, str])
    requests: tuple[RequestPlan, ...] = ()
