"""List a program whose instructions come from lines of a program text."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from npuviz.program.graph import Graph
from npuviz.program.instruction import DetailTable, Instruction
from npuviz.program.source import CallSite, Entry, Place, SourceFile
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.view.called_functions import called_functions, calls_of_lines
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
        moments: Sequence[Sequence[CallSite]] = (),
    ) -> None:
        """`lines` has the place of each graph node, `moments` the calls under way, indexed by tile number."""
        super().__init__(tables, spec, graph)
        self._nodes_of_instructions = tables.nodes
        self._sources = tuple(sources)
        self._lines = tuple(lines)
        self._moments = tuple(moments)
        self._moment_of = tables.tiles

    @property
    def sources(self) -> Sequence[SourceFile]:
        """The texts that the program comes from."""
        return self._sources

    def place_of(self, index: int) -> Place | None:
        """Return the place of an instruction in the texts, or None. Raises IndexError outside the listing."""
        if not 0 <= index < len(self):
            raise IndexError(f"instruction {index} of {len(self)}")
        node = int(self._nodes_of_instructions[index])
        return self._lines[node] if 0 <= node < len(self._lines) else None

    def describe(self, index: int) -> Instruction:
        """Describe an instruction without a tile number, which is an index of `moments` here."""
        return replace(super().describe(index), tile=-1)

    def calls_of(self, index: int) -> Sequence[CallSite]:
        """Return the calls under way at an instruction, innermost first. Raises IndexError outside the
        listing.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"instruction {index} of {len(self)}")
        moment = int(self._moment_of[index])
        return self._moments[moment] if 0 <= moment < len(self._moments) else ()

    def details_of(self, index: int) -> tuple[DetailTable, ...]:
        """Return a table of its calls and loops, then the tables of every instruction. Raises IndexError."""
        rows: list[tuple[str, str, str]] = []
        for depth, call in enumerate(self.calls_of(index)):
            name = self._sources[call.place.file].name
            rows.append(("called at" if depth else "line", f"{name}:{call.place.line}", call.function))
            for loop in reversed(call.loops):
                turn = f"iteration {loop.turn} of {loop.count}"
                rows.append((f"loop {loop.variable}", f"{name}:{loop.place.line}", f"{loop.value}, {turn}"))
        own = (DetailTable("Calls and loops", ("what", "where", "value"), tuple(rows)),) if rows else ()
        return own + super().details_of(index)

    @cached_property
    def _by_line(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for node, place in enumerate(self._lines):
            if place is not None:
                found.setdefault((place.file, place.line), []).append(node)
        return found

    @cached_property
    def _by_call(self) -> dict[tuple[int, int], list[int]]:
        """The first instruction of each call that a line made, by file and line."""
        return calls_of_lines(self._moments, self._moment_of)

    def ranges_of_line(self, file: int, line: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a line, rising, one for each time it ran; of a line that
        only calls, the first instruction of each call.
        """
        nodes = self._by_line.get((file, line))
        if not nodes:
            return [(first, first + 1) for first in self._by_call.get((file, line), ())]
        mine = np.isin(self._nodes_of_instructions, np.array(nodes))
        # Iterations of a loop may follow each other on an engine: each of them runs the line anew.
        moments = np.where(mine, self._moment_of, -2)
        before, behind = np.concatenate(([-2], moments[:-1])), np.concatenate((moments[1:], [-2]))
        starts, ends = np.flatnonzero(mine & (moments != before)), np.flatnonzero(mine & (moments != behind))
        return list(zip(starts.tolist(), (ends + 1).tolist(), strict=True))

    def lines_with_code(self, file: int) -> Sequence[int]:
        """Return the lines of a file that have instructions, their own or of what they call, rising."""
        return sorted(
            {line for found in (self._by_line, self._by_call) for number, line in found if number == file}
        )

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """The functions that the kernel ran, with the first instruction of each of their calls."""
        return called_functions(self._moments, self._moment_of, self._sources)
