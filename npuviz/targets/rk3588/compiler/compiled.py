"""Hold what the compiler and the loader hand to the target."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from npuviz.program.graph import Graph
from npuviz.program.memory import MemoryMap
from npuviz.program.program import Note
from npuviz.targets.rk3588.compiler.partition.share import Found
from npuviz.targets.rk3588.tables import Tables


@dataclass(frozen=True)
class Compiled:
    """Tables, and what people need to read them.

    memory_map  places of the graph's tensors in DDR
    placement   graph node id -> "Core" or "Host"
    weighed     the partition that was found, None if there was nothing to choose
    """

    graph: Graph
    tables: Tables
    memory_map: MemoryMap = field(default_factory=MemoryMap)
    notes: tuple[Note, ...] = ()
    placement: Mapping[int, str] = field(default_factory=dict[int, str])
    weighed: Found | None = None
