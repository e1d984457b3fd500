"""Implement the machine contract for a wafer: engine, observation and contents put together."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.sim.access_order import RecordedAccesses
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Findings, Hazard, Peak, Region, WaitLink
from npuviz.sim.parts.kernel_machine import KernelMachine
from npuviz.sim.stop import (
    NO_STOPS,
    PART_HOST,
    PART_ROUTER,
    STOP_INSTRUCTION,
    STOP_PART,
    StopKind,
    StopReason,
    stop_table,
)
from npuviz.targets.wavelet.explain.explainer import Explainer
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.log_numbers import LOG_PRINT
from npuviz.targets.wavelet.machine.accesses import Source, accesses_of
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.machine.payload import WaferPayload
from npuviz.targets.wavelet.spec import WaveletSpec
from npuviz.targets.wavelet.view.description import ROUTER, describe, number, write_tracks
from npuviz.targets.wavelet.view.fabric import FabricViews
from npuviz.targets.wavelet.view.frames import FrameViews
from npuviz.targets.wavelet.view.hits import Hit, read_hit
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.view.observe import Observer
from npuviz.targets.wavelet.view.probes import make_probes
from npuviz.targets.wavelet.view.watched import watched_places
from npuviz.targets.wavelet.wafer import HOST_COPY_OUT, STREAMS_OUT, HostCommand, Symbol, Wafer


@dataclass(frozen=True, slots=True)
class Printed:
    """A line that a PE printed: column and row in the rectangle, cycle of its newline."""

    cycle: int
    column: int
    row: int
    text: str


NOT_CHECKED = (
    "memory of elements: what operands in several dimensions, circular buffers, FIFOs and @map read, "
    "and what they and others write at once; local variables that nobody wrote",
)


class _NoImage:
    """An empty image: all contents of a wafer lie in the state."""

    def digest(self) -> str:
        """Return the digest of nothing."""
        return hashlib.blake2b(b"", digest_size=16).hexdigest()


class WaveletMachine(KernelMachine, FabricViews, FrameViews):
    """One wafer with one program; see npuviz.sim.machine.Machine for the contract."""

    def __init__(self, spec: WaveletSpec, program: Program) -> None:
        payload = program.payload
        assert isinstance(payload, WaferPayload)
        listing = program.listing
        assert isinstance(listing, WaveletListing)
        engine = Engine(spec, payload.wafer)
        numbering = number(watched_places(spec, payload.wafer, engine.program))
        write_tracks(engine.program, numbering)
        engine.event_margin = 24 * len(numbering.watched) + 64
        observer = Observer(engine, listing, numbering)
        description = describe(spec, payload.wafer, engine.program, numbering)
        super().__init__(
            program, description, engine, observer, make_probes(engine, observer, numbering), _NoImage()
        )
        self.engine = engine
        self.observer = observer
        self.numbering = numbering
        self.listing = listing
        self.explainer = Explainer(engine, observer, listing)
        if payload.commands:
            engine.add_commands(payload.commands)
        if payload.is_closed:
            engine.close()

    @property
    def wafer(self) -> Wafer:
        """The program that the machine runs."""
        return self.engine.wafer

    def _broken(self, result: int) -> StopReason:
        if result == sk.RESULT_COMMAND:
            return StopReason(StopKind.UNTIL, self.cycle, detail="the command is done")
        is_fault = result == sk.RESULT_FAULT
        unit, detail = self.explainer.fault() if is_fault else self.explainer.deadlock()
        kind = StopKind.FAULT if is_fault else StopKind.DEADLOCK
        known = self._description.unit_named(f"{unit}.task")
        return StopReason(kind, self.cycle, unit=known.name if known else unit, detail=detail)

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        """Run, at most to the cycle at which a run counts as endless; see the contract."""
        limit = self.engine.spec.limit
        if self.is_finished or until <= limit or not int(sk.WAFER(self.engine.state).closed):
            return super().advance(until, stops, events)
        reason = super().advance(limit, stops, events)
        if reason.kind is not StopKind.UNTIL or self.cycle < limit:
            return reason
        unit, detail = self.explainer.endless(limit)
        return StopReason(StopKind.HANG, self.cycle, unit=unit, detail=detail)

    def _hit_reason(self, ids: tuple[int, ...], hits: np.ndarray) -> StopReason:
        found = read_hit(hits)
        unit = ""
        if found.element >= 0:
            unit = self.fabric.label(*divmod(found.element, self.fabric.columns)[::-1])
        elif found.command >= 0:
            unit = "host"
        detail = self._hit_text(found)
        return StopReason(StopKind.BREAKPOINT, self.cycle, ids, unit, detail, found.instruction)

    def _hit_text(self, found: Hit) -> str:
        if found.command >= 0:
            return f"host command {found.command}: {self.observer.command_text(found.command)}"
        if found.instruction >= 0:
            return self.listing.where(found.instruction)
        if found.color < 0:
            return ""
        column, row = found.element % self.fabric.columns, found.element // self.fabric.columns
        return self.wavelet_text(self._node(column, row), found)

    def unit_stops(self, unit: int) -> np.ndarray:
        """Return stop rows that hit when a unit starts an instruction, operation or command, or passes a word
        on."""
        place = self.element_of_unit(unit)
        if place is None:
            return stop_table([(STOP_PART, 0, PART_HOST, 0, 0, 0)])
        element, part = 1 + place[1] * self.fabric.columns + place[0], self.numbering.unit_part[unit]
        if part < 0:
            return stop_table([(STOP_INSTRUCTION, element, 0, len(self.listing), 0, 0)])
        return stop_table([(STOP_PART, element, PART_ROUTER if part == ROUTER else part, 0, 0, 0)])

    def wait_chain(self, unit: int) -> Sequence[WaitLink]:
        """Follow what a unit waits for now, through colors and PEs, to a source line that has not run."""
        return self.explainer.chain(self.numbering, unit)

    # --- the host --------------------------------------------------------------------------------------

    def host_command(self, command: HostCommand) -> int:
        """Append a command and return its index. Raises UsageError if the wafer cannot take it."""
        self.engine.add_commands([command])
        return len(self.engine.commands) - 1

    def run_until_done(self, index: int, limit: int) -> StopReason:
        """Run until a command is done, for at most `limit` cycles.

        Returns UNTIL when it is done, HANG at the limit; FAULT, DEADLOCK or FINISHED if the machine stopped
        before.
        """
        end = self.cycle + limit
        while not self.is_done(index):
            result, _ = self.engine.run(end, NO_STOPS, None, index)
            if result in (sk.RESULT_FAULT, sk.RESULT_DEADLOCK):
                return self._broken(result)
            if self.is_done(index):
                break
            if result == sk.RESULT_FINISHED:
                return StopReason(StopKind.FINISHED, self.cycle, detail="the program has ended")
            if self.cycle >= end:
                detail = f"host command {index} is not done after {limit} cycles"
                return StopReason(StopKind.HANG, self.cycle, detail=detail)
        return StopReason(StopKind.UNTIL, self.cycle, detail="the command is done")

    def is_done(self, index: int) -> bool:
        """Return whether a command has ended."""
        return self.engine.command_state(index)[0] == 2

    def result(self, index: int) -> np.ndarray | None:
        """Return (height, width, words) uint32 that a transfer to the host brought; None before it is
        done."""
        return self.engine.result(index) if self.is_done(index) else None

    def close(self) -> None:
        """Declare that no more commands will come: the machine finishes when all are done."""
        self.engine.close()

    def printed(self) -> list[Printed]:
        """Return the lines that PEs have printed so far, by cycle; lines without a newline yet are left
        out."""
        nodes = self.engine.program.nodes
        open_lines: dict[int, list[str]] = {}
        found: list[Printed] = []
        for cycle, node, kind, value, _ in self.engine.log_rows():
            if kind != LOG_PRINT:
                continue
            line = open_lines.setdefault(node, [])
            if value == 10:
                found.append(Printed(cycle, int(nodes.x[node]), int(nodes.y[node]), "".join(line)))
                line.clear()
            else:
                line.append(chr(value))
        return found

    @property
    def logs_hazards(self) -> bool:
        """Whether a run notes hazards: always, the kernels log them."""
        return True

    def hazards(self) -> Sequence[Hazard]:
        """Return the hazards so far: what the hardware leaves to the programmer and went wrong."""
        return self.explainer.hazards()

    def memory_hazards(self) -> Findings:
        """Return no findings beyond `hazards`, which covers the threads of a PE, and a list of what is not
        checked."""
        return Findings((), NOT_CHECKED)

    def reports(self) -> Sequence[DetailTable]:
        """Return a table of the waits of a deadlocked machine; nothing for other machines."""
        is_stuck = int(sk.WAFER(self.engine.state).status) == sk.STATUS_DEADLOCK
        return (self.explainer.waits(),) if is_stuck else ()

    def peaks(self) -> Sequence[Peak]:
        """Return the words that went over all links, and the most that could have."""
        return self.observer.peaks()

    # --- memories --------------------------------------------------------------------------------------

    def node_at(self, column: int, row: int) -> int:
        """Return the node at a place of the rectangle, -1 if nothing is there."""
        grid = self.engine.program.nodes.grid
        if not (0 <= row < grid.shape[0] and 0 <= column < grid.shape[1]):
            return -1
        return int(grid[row, column])

    def read_pe(self, column: int, row: int, address: int, size_bytes: int) -> bytes:
        """Return bytes of the memory of a PE of the rectangle. Raises ValueError outside it."""
        node = self.node_at(column, row)
        data = self.observer.memory_words(node).view(np.uint8) if node >= 0 else np.zeros(0, np.uint8)
        if address < 0 or size_bytes < 0 or address + size_bytes > len(data):
            raise ValueError(f"PE({column},{row}): bytes {address}..{address + size_bytes} of {len(data)}")
        return data[address : address + size_bytes].tobytes()

    def read_symbol(self, column: int, row: int, symbol: Symbol) -> bytes:
        """Return the bytes of a variable of a PE, in coordinates of the rectangle."""
        return self.read_pe(column, row, symbol.address, symbol.size_bytes)

    def _place(self, memory: int, address: int, size: int) -> tuple[int, int]:
        """Return (column, row) of the PE that has a memory. Raises ValueError for a range outside the
        memory."""
        if not 0 <= memory < len(self._description.memories):
            raise ValueError(f"there is no memory {memory}")
        room = self._description.memories[memory].size_bytes
        if address < 0 or size < 0 or address + size > room:
            raise ValueError(f"memory {memory}: bytes {address}..{address + size} of {room}")
        position = next(p for p, number in self.numbering.memory_of.items() if number == memory)
        pe = self.numbering.watched[position]
        return pe.x, pe.y

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Return bytes of a memory now. Raises ValueError outside the memory."""
        column, row = self._place(memory, address, size_bytes)
        return self.read_pe(column, row, address, size_bytes)

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory from now on. Raises ValueError outside the memory."""
        column, row = self._place(memory, address, len(data))
        node = self.node_at(column, row)
        self.engine.make_block(node)
        target = self.observer.memory_words(node).view(np.uint8)
        target[address : address + len(data)] = np.frombuffer(data, np.uint8)
        self.observer.note_written(node, address, address + len(data))

    def work_so_far(self) -> int:
        """Return the instructions and the elements of operations that have run up to now."""
        return self.engine.counter(sk.BAND.instructions) + self.engine.counter(sk.BAND.elements)

    def results(self) -> np.ndarray:
        """Return (n, 4) int64 rows of (command, part, number, word): what finished commands brought from PEs.

        Part is the number of the PE in the region of the command, number that of the word.
        """
        parts = [np.zeros((0, 4), np.int64)]
        for index, command in enumerate(self.engine.commands):
            if command.kind in (HOST_COPY_OUT, *STREAMS_OUT) and self.is_done(index):
                words = self.engine.result(index).reshape(-1, command.words)
                part, number = np.divmod(np.arange(words.size), max(command.words, 1))
                parts.append(np.column_stack([np.full(words.size, index), part, number, words.reshape(-1)]))
        return np.concatenate(parts)

    def record_accesses(self, until: int) -> RecordedAccesses:
        """Run from now to a cycle, and return what every PE read and wrote."""
        watched = self.numbering.watched
        memories = {watched[place].node: memory for place, memory in self.numbering.memory_of.items()}
        return accesses_of(Source(self.engine, self.observer, self.listing), memories, (self.cycle, until))

    def regions(self, memory: int) -> Sequence[Region]:
        """Return the variables of a PE, sorted by address."""
        column, row = self._place(memory, 0, 0)
        program = self.wafer.programs[self.observer.program_of(self.node_at(column, row))]
        found: list[Region] = []
        end = 0
        for symbol in sorted(program.symbols, key=lambda s: (s.address, -s.size_bytes)):
            if symbol.address < end or symbol.size_bytes <= 0:
                continue
            end = symbol.address + symbol.size_bytes
            shape = symbol.shape or (1,)
            fits = int(np.prod(shape)) * _item_size(symbol.dtype) <= symbol.size_bytes
            shape, dtype = (shape, symbol.dtype) if fits else ((symbol.size_bytes,), "uint8")
            found.append(Region(symbol.address, symbol.size_bytes, -1, symbol.name, shape, dtype, True, 0))
        return found

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Return None: programs of a wafer have variables, no tensors."""
        return None


def _item_size(dtype: str) -> int:
    from npuviz.program.dtypes import numpy_dtype

    try:
        return numpy_dtype(dtype).itemsize
    except ValueError:
        return 1 << 30
