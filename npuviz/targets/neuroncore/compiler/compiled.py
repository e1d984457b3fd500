"""The result of the compiler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from npuviz.program.graph import Graph
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import Note
from npuviz.program.source import CallSite, Place, SourceFile
from npuviz.targets.neuroncore.check.reference_call import ReferenceCall
from npuviz.targets.neuroncore.ids import hbm_memory
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables, Variable


@dataclass(frozen=True)
class Compiled:
    """Tables of a program, and the texts and names that explain them.

    graph       the graph that `Tables.nodes` and `Variable.tensor` refer to, with the bodies of expanded
    operators in their place
    memory_map  places of the graph's tensors in HBM
    placement   graph node id -> "Core" or "Host"
    sources, lines  program texts, and the place of each graph node in them; empty for models
    moments     calls and loops under way, by the tile number of an instruction; empty for models
    reference   call that computes a kernel's expected results, None if there is none
    """

    graph: Graph
    tables: Tables
    memory_map: MemoryMap = field(default_factory=MemoryMap)
    notes: tuple[Note, ...] = ()
    placement: Mapping[int, str] = field(default_factory=dict[int, str])
    sources: tuple[SourceFile, ...] = ()
    lines: tuple[Place | None, ...] = ()
    moments: tuple[tuple[CallSite, ...], ...] = ()
    reference: ReferenceCall | None = None


def places_of(spec: NeuronSpec, variables: Sequence[Variable]) -> MemoryMap:
    """Return the places of the graph's tensors in HBM."""
    memory = hbm_memory(spec)
    return MemoryMap(
        tuple(
            Allocation(each.tensor, memory, each.address, each.size_bytes)
            for each in variables
            if each.tensor >= 0 and each.size_bytes
        )
    )
