"""List what memories hold under a name while a unit runs a line of a kernel, with first values."""

from dataclasses import dataclass, replace

from npuviz.debug import translate
from npuviz.debug.loop_turns import loops_around
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.instruction import Instruction, Listing
from npuviz.program.variables import HasVariables
from npuviz.sim.description import MachineDescription, Memory
from npuviz.sim.frames import FrameVariable
from npuviz.sim.machine import HasStillMemories, Machine, StillMemories
from npuviz.ui.source.state import ElementPlace

MOST_TILES = 60
"""Most tiles that are listed: those that the line uses, then the newest."""
SHOWN_VALUES = 4


@dataclass(frozen=True, slots=True)
class TileRequest:
    """What a machine at rest has to be asked for, in another thread."""

    still: StillMemories
    description: MachineDescription
    listing: Listing
    instruction: Instruction
    place: ElementPlace


def request_of(machine: Machine, place: ElementPlace | None) -> TileRequest | None:
    """Return what is to be asked about the tiles at a place; None for a machine that has none."""
    listing = machine.program.listing
    if not isinstance(machine, HasStillMemories) or not isinstance(listing, HasVariables):
        return None
    if place is None or place.element >= 0 or not place.frames:
        return None
    instruction = listing.describe(place.frames[0][0].instruction)
    return TileRequest(machine.still_memories(), machine.description, listing, instruction, place)


def with_tiles(request: TileRequest) -> ElementPlace:
    """Return the place with the tiles that its innermost line uses, and all others that are held now."""
    still, stopped = request.still, request.instruction
    used: list[tuple[int, FrameVariable]] = []
    others: list[tuple[int, FrameVariable]] = []
    for memory in request.description.memories:
        touched = [each.address for each in (*stopped.writes, *stopped.reads) if each.memory == memory.id]
        for region in still.regions(memory.id):
            name = ", ".join((region.label, *region.aliases)) + _turns_of(request.listing, region.instruction)
            shape = "x".join(map(str, region.shape))
            where = f"{memory.name.rpartition('.')[2]} {region.address:#x}"
            made = FrameVariable(
                name,
                f"{region.dtype} {shape}",
                "",
                region.address,
                region.size_bytes,
                memory.id,
                where,
                region.banks,
            )
            is_used = any(region.holds(at, memory.bank_bytes) for at in touched)
            (used if is_used else others).append((region.since, made))
    used.sort(key=lambda each: -each[0])
    others.sort(key=lambda each: -each[0])
    memories = {memory.id: memory for memory in request.description.memories}
    shown = [_with_value(still, memories[each.memory], each) for _, each in (*used, *others)[:MOST_TILES]]
    (frame, place), *callers = request.place.frames
    inner = replace(frame, variables=tuple(shown[: len(used)]))
    return replace(
        request.place,
        frames=((inner, place), *callers),
        variables=tuple(shown[len(used) :]),
        title="other tiles now",
    )


def _turns_of(listing: Listing, instruction: int) -> str:
    """Return the iterations in which a tile is made, which tell those of one name apart."""
    turns = [f"{loop.variable} {loop.value}" for loop in loops_around(listing, instruction)]
    return f" ({', '.join(turns)})" if turns else ""


def _with_value(still: StillMemories, memory: Memory, tile: FrameVariable) -> FrameVariable:
    dtype = tile.type.partition(" ")[0]
    item = numpy_dtype(dtype).itemsize
    size = min(SHOWN_VALUES * item, tile.size_bytes // item * item, memory.size_bytes - tile.address)
    numbers = translate.numbers(still.read_memory(memory.id, tile.address, size), dtype)
    more = " ..." if tile.size_bytes > size else ""
    return replace(tile, value=" ".join(f"{float(each):.4g}" for each in numbers) + more)
