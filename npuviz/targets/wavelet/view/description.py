"""Describe a wafer machine for people: units, memories, queues and tracks of its watched PEs."""

from dataclasses import dataclass
from typing import Any

from npuviz.sim.description import Box, ClockDomain, MachineDescription, Memory, Queue, Unit
from npuviz.sim.fabric import PORT_NAMES
from npuviz.targets.wavelet.costs import operation_names
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.causes import (
    KIND_ACTIVATION,
    KIND_ISSUE,
    KIND_OPERATION,
    KIND_SCALAR,
    KIND_TASK_END,
)
from npuviz.targets.wavelet.kernels.origins import KIND_BUFFERS, KIND_HOST, KIND_LINK_BUSY, KIND_WAIT
from npuviz.targets.wavelet.kernels.router.link import KIND_LINK
from npuviz.targets.wavelet.machine.program_words import ProgramWords
from npuviz.targets.wavelet.spec import WaveletSpec
from npuviz.targets.wavelet.view.watched import WatchedPe
from npuviz.targets.wavelet.wafer import Wafer
from npuviz.trace.schema import Kind, Role, Track

HOST_UNIT = 0


@dataclass(frozen=True)
class Numbering:
    """Ids of everything that is watched.

    unit_pe    unit -> position in `watched`, -1 for the host
    unit_part  unit -> -1 main thread, 0..7 microthread, 8 router
    track_of   (position, field of TRACKS) -> track
    memory_of  position -> memory
    queues     (position, queue number) of each queue
    """

    watched: tuple[WatchedPe, ...]
    unit_pe: tuple[int, ...]
    unit_part: tuple[int, ...]
    track_of: dict[tuple[int, int], int]
    memory_of: dict[int, int]
    queues: tuple[tuple[int, int], ...]


ROUTER = 8


def number(watched: tuple[WatchedPe, ...]) -> Numbering:
    """Give ids to the parts of watched places, in their order."""
    unit_pe, unit_part = [-1], [-1]
    track_of: dict[tuple[int, int], int] = {}
    memory_of: dict[int, int] = {}
    queues: list[tuple[int, int]] = []
    for position, pe in enumerate(watched):
        if pe.program >= 0:
            unit_pe.append(position)
            unit_part.append(-1)
            track_of[position, pk.TRACKS.main] = len(track_of)
            memory_of[position] = len(memory_of)
            queues += [(position, queue) for queue in pe.queues]
        for thread in pe.threads:
            unit_pe.append(position)
            unit_part.append(thread)
            track_of[position, pk.TRACKS.thread + thread] = len(track_of)
        unit_pe.append(position)
        unit_part.append(ROUTER)
        for port in pe.ports:
            track_of[position, pk.TRACKS.link + port] = len(track_of)
    return Numbering(watched, tuple(unit_pe), tuple(unit_part), track_of, memory_of, tuple(queues))


def write_tracks(words: ProgramWords, numbering: Numbering) -> None:
    """Write the tracks, memories and queues of the watched places into the program words, for kernels."""

    def tracks_of(position: int) -> Any:
        first = int(pk.PROGRAM(words.words).tracks)
        return pk.TRACKS(words.words, first, numbering.watched[position].node)

    for (position, part), track in numbering.track_of.items():
        tracks_of(position)[part] = track
    for position, memory in numbering.memory_of.items():
        tracks_of(position).memory = memory
    for queue, (position, _) in reversed(list(enumerate(numbering.queues))):
        tracks_of(position).queues = queue


def unit_name(pe: WatchedPe, part: int) -> str:
    """Return the name of a unit."""
    if part == ROUTER:
        return f"{pe.name}.router"
    return f"{pe.name}.task" if part < 0 else f"{pe.name}.ut{part}"


def queue_name(number: int) -> str:
    """Return the name of an input queue: one of the eight, or the one of a color (WSE-2)."""
    return f"in{number}" if number < 8 else f"color{number - 8}"


def describe(
    spec: WaveletSpec, wafer: Wafer, words: ProgramWords, numbering: Numbering
) -> MachineDescription:
    """Return the description of a machine."""
    units = _units(numbering)
    unit_of = {
        (pe, part): n for n, (pe, part) in enumerate(zip(numbering.unit_pe, numbering.unit_part, strict=True))
    }
    return MachineDescription(
        target="wavelet",
        title=f"{spec.arch.upper()[:3]}-{spec.arch[-1]}, {wafer.columns} x {wafer.rows} PEs",
        clocks=(ClockDomain("PE", float(spec.clock_hz)),),
        units=units,
        memories=_memories(words, numbering),
        queues=_queues(words, numbering, unit_of),
        links=(),
        tracks=_tracks(numbering, unit_of),
        kinds=_kinds(),
        floorplan=_floorplan(numbering, units),
        features={"routed fabric": {}},
        limits=(
            "Host transfers reach memories and queues of PEs directly; the columns beside the program are "
            "not modelled.",
            "Bank conflicts cost nothing.",
            "Code lies outside the 48 KB of a PE: the vendor's instruction encoding is not public.",
        ),
    )


def _units(numbering: Numbering) -> tuple[Unit, ...]:
    docs = {-1: "tasks and synchronous operations", ROUTER: "routes words"}
    found = [Unit(HOST_UNIT, "host", "", "gives commands and moves data", estimated=True)]
    for unit, (position, part) in enumerate(zip(numbering.unit_pe, numbering.unit_part, strict=True)):
        if position >= 0:
            pe = numbering.watched[position]
            doc = docs.get(part, "asynchronous operations of this microthread")
            found.append(Unit(unit, unit_name(pe, part), pe.name, doc))
    return tuple(found)


def _memories(words: ProgramWords, numbering: Numbering) -> tuple[Memory, ...]:
    found: list[Memory] = []
    for position, memory in numbering.memory_of.items():
        pe = numbering.watched[position]
        template = words.templates[int(words.nodes.class_of[pe.node])]
        size = int(sk.BLOCK(template.words).bytes)
        found.append(
            Memory(memory, f"{pe.name}.memory", "scratchpad", size, 1, "float32", "data and stack in use")
        )
    return tuple(found)


def _queues(
    words: ProgramWords, numbering: Numbering, unit_of: dict[tuple[int, int], int]
) -> tuple[Queue, ...]:
    found: list[Queue] = []
    for queue, (position, number) in enumerate(numbering.queues):
        pe = numbering.watched[position]
        template = words.templates[int(words.nodes.class_of[pe.node])]
        room = int(sk.QUEUE(template.words, template.queues[number]).limit)
        name = f"{pe.name}.{queue_name(number)}"
        found.append(Queue(queue, name, unit_of[position, ROUTER], room, f"{name}.occupancy",
                           "input queue, words on the ramp included"))  # fmt: skip
    return tuple(found)


def _tracks(numbering: Numbering, unit_of: dict[tuple[int, int], int]) -> tuple[Track, ...]:
    found: list[Track] = []
    for (position, part), track in numbering.track_of.items():
        pe = numbering.watched[position]
        if part == pk.TRACKS.main:
            found.append(
                Track(track, f"{pe.name}.task", "interval", unit_of[position, -1], doc="main thread")
            )
        elif part < pk.TRACKS.link:
            thread = part - pk.TRACKS.thread
            found.append(Track(track, f"{pe.name}.ut{thread}", "interval", unit_of[position, thread]))
        else:
            name = PORT_NAMES[part - pk.TRACKS.link].lower()
            unit = unit_of[position, ROUTER]
            found.append(Track(track, f"{pe.name}.{name}", "interval", unit, doc="words on this link"))
    return tuple(found)


def _kinds() -> tuple[Kind, ...]:
    found = [Kind(KIND_SCALAR, "task", "control", "instructions of a task")]
    for name, number in sorted(operation_names().items(), key=lambda item: item[1]):
        role: Role = "move-in" if "mov" in name or number == isa.D_DFILT else "compute"
        found.append(
            Kind(KIND_OPERATION + number, name, role, "a DSD operation, from its issue to its last step")
        )
    found += [
        Kind(KIND_LINK + color, f"color {color}", "move-out", "words of this color") for color in range(24)
    ]
    return (*found, *_WAITS, *_CAUSES)


_WAITS = (
    Kind(
        KIND_WAIT + sk.WAIT_INPUT, "words", "wait-dependency", "waits for words, and takes them as they come"
    ),
    Kind(
        KIND_WAIT + sk.WAIT_OUTPUT,
        "room",
        "wait-queue",
        "waits for room in its output, and sends as there is some",
    ),
    Kind(KIND_WAIT + sk.WAIT_FIFO_EMPTY, "FIFO empty", "wait-dependency", "waits for elements in a FIFO"),
    Kind(KIND_WAIT + sk.WAIT_FIFO_FULL, "FIFO full", "wait-queue", "waits for room in a FIFO"),
    Kind(KIND_WAIT + sk.WAIT_BLOCKED, "blocked", "wait-dependency", "waits until somebody unblocks it"),
    Kind(
        KIND_WAIT + sk.WAIT_SLOT, "microthread busy", "wait-conflict", "waits for a microthread that is busy"
    ),
    Kind(KIND_WAIT + sk.WAIT_TURN, "datapath busy", "wait-conflict", "waits for its turn at the datapath"),
)
_CAUSES = (
    Kind(KIND_HOST, "host", "host", "the host moves data or starts a function"),
    Kind(KIND_ISSUE, "issue", "control", "the main thread gives a microthread an operation"),
    Kind(KIND_ACTIVATION, "activation", "wait-dependency", "a task was activated or unblocked"),
    Kind(KIND_TASK_END, "end of a task", "control", "a task ends and the next one can start"),
    Kind(KIND_LINK_BUSY, "link busy", "wait-bandwidth", "a word was held because links were in use"),
    Kind(KIND_BUFFERS, "buffers full", "wait-queue", "a word was held because buffers on its way were full"),
)
"""Kinds of causes, not of intervals."""


def _floorplan(numbering: Numbering, units: tuple[Unit, ...]) -> tuple[Box, ...]:
    found = [Box(0, -2, 3, 1, "host", HOST_UNIT)]
    place: dict[int, int] = {}
    for unit, position in enumerate(numbering.unit_pe):
        if position < 0:
            continue
        pe = numbering.watched[position]
        row = place[position] = place.get(position, -1) + 1
        found.append(Box(pe.x * 4, pe.y * 12 + row, 3, 0.9, units[unit].name, unit))
    for position, memory in numbering.memory_of.items():
        pe = numbering.watched[position]
        found.append(
            Box(pe.x * 4, pe.y * 12 + place[position] + 1, 3, 0.9, f"{pe.name}.memory", memory=memory)
        )
    return tuple(found)


COUNTERS = {
    "hops": (sk.BAND.hops, "words moved over links", "words"),
    "taken": (sk.BAND.taken, "words taken by processors", "words"),
    "dropped": (sk.BAND.dropped, "words dropped by filters or for nobody", "words"),
    "instructions": (sk.BAND.instructions, "scalar instructions", "instructions"),
    "elements": (sk.BAND.elements, "elements of DSD operations", "elements"),
    "flops": (sk.BAND.flops, "floating-point operations of DSD operations", "FLOP"),
    "tasks": (sk.BAND.tasks, "tasks started", "tasks"),
}
"""Totals of the wafer: name -> (word of a BAND, title, unit of measure)."""
COMMANDS_TITLE = "host commands done"
