"""The listing of a program whose instructions come from lines of a program text."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from npuviz.program.graph import Graph
from npuviz.program.source import Entry, Place, SourceFile
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.view.listing import NeuronListing


class SourcedListing(NeuronListing):
    """A listing that is `npuviz.program.source.HasSource`: each graph node stands for a line."""

    def __init__(
        self,
        tables: Tables,
        spec: NeuronSpec,
        graph: Graph,
        sources: Sequence[SourceFile],
        lines: Sequence[Place | None],
    ) -> None:
        """`lines` has the place of each graph node."""
        super().__init__(tables, spec, graph)
        self._nodes_of_instructions = tables.nodes
        self._sources = tuple(sources)
        self._lines = tuple(lines)

    @property
    def sources(self) -> Sequence[SourceFile]:
        """The texts."""
        return self._sources

    def place_of(self, index: int) -> Place | None:
        """Place of an instruction, None if it has none. Raises IndexError outside the listing."""
        if not 0 <= index < len(self):
            raise IndexError(f"instruction {index} of {len(self)}")
        node = int(self._nodes_of_instructions[index])
        return self._lines[node] if 0 <= node < len(self._lines) else None

    @cached_property
    def _by_line(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for node, place in enumerate(self._lines):
            if place is not None:
                found.setdefault((place.file, place.line), []).append(node)
        return found

    def ranges_of_line(self, file: int, line: int) -> list[tuple[int, int]]:
        """Half-open instruction ranges of a line, rising; [] for a line without code."""
        nodes = self._by_line.get((file, line))
        if not nodes:
            return []
        mine = np.isin(self._nodes_of_instructions, np.array(nodes)).astype(np.int8)
        edges = np.diff(np.concatenate(([0], mine, [0])))
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def lines_with_code(self, file: int) -> Sequence[int]:
        """Lines of a file that instructions come from, rising."""
        return sorted(line for number, line in self._by_line if number == file)

    @property
    def entries(self) -> Sequence[Entry]:
        """Kernels have no tasks."""
        return ()
