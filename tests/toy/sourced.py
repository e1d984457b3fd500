"""The toy fabric with a program text: instructions come from lines, elements have calls and variables."""

from collections.abc import Sequence

from npuviz.program.program import Program
from npuviz.program.source import Entry, Place, SourceFile
from npuviz.sim.frames import Frame, FrameVariable
from tests.toy.fabric import WATCHED, ToyFabric
from tests.toy.program import PER_TILE, ToyListing, ToySpec
from tests.toy.program import make_program as make_plain
from tests.toy.target import ToyTarget

TEXT = """// Tiles come in, are multiplied or added, and go out.
param tiles: u16;
var tile: u16 = 0;
var sum = @zeros([4]f32);

fn fetch(part: u16) void {
  @load(spad, dram, part); // one operand
  @load(spad, dram, part + 1);
}

task work() void {
  fetch(tile * 2);
  @compute("mul", sum, 0x10);
  const twice: f32 = 2.0 * sum[0];
  @store(dram, spad);
  tile += 1;
}
"""
LIBRARY = "fn load(a: u16) void {}\n"
LINES = (7, 8, 13, 15)
"""Lines of the four instructions of a tile."""
CALL = 12


class SourcedListing(ToyListing):
    """Every tile runs the same lines."""

    def __init__(self, spec: ToySpec) -> None:
        super().__init__(spec)
        self._num_tiles = spec.num_tiles
        self._sources = (
            SourceFile("work.csl", TEXT, language="csl"),
            SourceFile("lib/load.csl", LIBRARY, language="csl", library=True),
        )

    @property
    def sources(self) -> Sequence[SourceFile]:
        return self._sources

    def place_of(self, index: int) -> Place | None:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return Place(0, LINES[index % PER_TILE], 3)

    def ranges_of_line(self, file: int, line: int) -> list[tuple[int, int]]:
        if file != 0 or line not in LINES:
            return []
        part = LINES.index(line)
        return [(t * PER_TILE + part, t * PER_TILE + part + 1) for t in range(self._num_tiles)]

    def lines_with_code(self, file: int) -> Sequence[int]:
        return LINES if file == 0 else ()

    @property
    def entries(self) -> Sequence[Entry]:
        starts = tuple(tile * PER_TILE for tile in range(self._num_tiles))
        computes = tuple(tile * PER_TILE + 2 for tile in range(self._num_tiles))
        return (
            Entry("fetch", "function", starts, Place(0, 6)),
            Entry("work", "task", computes, Place(0, 11)),
        )


class SourcedFabric(ToyFabric):
    """The first watched element is what the pipeline does; the loads are calls of `fetch`."""

    def frames(self, element: int) -> Sequence[Frame]:
        row, column = divmod(element, self.fabric.columns)
        held = self.next_instructions()
        if (column, row) not in WATCHED[:2] or WATCHED.index((column, row)) not in held:
            return ()
        index = held[WATCHED.index((column, row))]
        tile, part = divmod(index, PER_TILE)
        work = Frame(
            "work", "task", tile * PER_TILE + 2, (FrameVariable("twice", "f32", f"{tile * 0.5:g}", 0x80, 4),)
        )
        if part >= 2:
            return (work,)
        return (Frame("fetch", "function", index, (FrameVariable("part", "u16", f"{tile * 2}"),)), work)

    def globals_of(self, element: int) -> Sequence[FrameVariable]:
        tile = self.cycle // 20
        return (
            FrameVariable("sum", "[4]f32", f"[{tile} {tile + 1} 0 0]", 0x20, 16),
            FrameVariable("tile", "u16", f"{tile}", 0x10, 2),
        )


def make_sourced(columns: int = 40, rows: int = 30) -> SourcedFabric:
    """The machine at cycle 0."""
    spec = ToySpec(blocks=16)
    plain = make_plain(spec, {}, ToyTarget.id)
    return SourcedFabric(spec, with_source(plain, spec), columns, rows)


def with_source(program: Program, spec: ToySpec) -> Program:
    """A toy program whose listing knows its text."""
    from dataclasses import replace

    return replace(program, listing=SourcedListing(spec))
