"""Hold the state, program words and host commands of one machine, and run its kernel."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.sim.events import EventBuffer
from npuviz.sim.parts.kernel_call import KernelCall
from npuviz.sim.parts.words import zero_words
from npuviz.targets.wavelet.kernels import advance as kernels
from npuviz.targets.wavelet.kernels import host_commands as hk
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.bands import TEAM, call_words, team_words
from npuviz.targets.wavelet.machine.program_words import FREE_WORDS, ProgramWords, build_state, log_room
from npuviz.targets.wavelet.machine.team import num_processors, run_together
from npuviz.targets.wavelet.spec import WaveletSpec
from npuviz.targets.wavelet.wafer import (
    HOST_COPY_IN,
    HOST_LAUNCH,
    HOST_PORT_IN,
    HOST_PORT_OUT,
    HOST_STREAM_IN,
    HOST_STREAM_OUT,
    STREAMS_IN,
    STREAMS_OUT,
    Export,
    HostCommand,
    PeProgram,
    Symbol,
    Wafer,
)

LAST_CYCLE = 1 << 58
LONG_RUN = 16
"""Cycles of a run from which it pays to call further threads."""
MOST_PLAIN_NODES = 1 << 12
"""Most nodes that the plain twins run: one cycle of a larger wafer would take seconds and cannot be cut."""
MAX_COMMANDS = 1 << 20
_KINDS_OF_PORTS = {HOST_PORT_IN: HOST_STREAM_IN, HOST_PORT_OUT: HOST_STREAM_OUT}
"""Kind of a port's stream -> the kind that the kernels know; a mark says that it goes through a port."""


class Engine:
    """The state and the program words that kernels work on, and the calls that move them on.

    state  (words,) int64 root state, owned
    team   (words,) int64, owned: what the threads of the last run shared, see kernels/bands.py
    most_threads  threads that may run the wafer side by side; results do not depend on it
    """

    def __init__(self, spec: WaveletSpec, wafer: Wafer) -> None:
        self.spec = spec
        self.wafer = wafer
        self.program = ProgramWords(spec, wafer)
        self.words = self.program.words
        self.state = build_state(spec, self.program)
        log, self._aside = log_room(len(self.program.nodes.x))
        self._free = FREE_WORDS + log + self._aside
        self.team = np.zeros(TEAM.num_words, np.int64)
        self.most_threads = num_processors()
        self.event_margin = 64
        self.commands: list[HostCommand] = []
        self._rows = np.zeros(hk.FIRST_COMMAND + 16 * hk.COMMAND.num_words, np.int64)
        self._data: list[np.ndarray] = []
        self._host = np.zeros(0, np.int64)
        self._host_used = 0
        self._base = 0
        self._filled = 0

    @property
    def _wafer(self) -> Any:
        return sk.WAFER(self.state)

    # --- running -----------------------------------------------------------------------------------------

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> tuple[int, np.ndarray]:
        """Run to a cycle at most; return the RESULT_ code of the kernel and a hit word per stop row."""
        return self.run(until, stops, events, -1)

    def run(
        self, until: int, stops: np.ndarray, events: EventBuffer | None, command: int
    ) -> tuple[int, np.ndarray]:
        """Run as `advance` does, but at most until a host command has ended (-1: no command)."""
        call = KernelCall(min(until, LAST_CYCLE), stops, events, self.event_margin)
        call.x[kernels.X_COMMAND] = command + 1
        is_shared = until - int(self._wafer.cycle) >= LONG_RUN
        if is_shared and (events is not None or len(stops)):
            self._make_team(len(stops), is_recorded=events is not None)
        while True:
            self.team[: TEAM.num_words] = 0
            bands = max(1, int(self._wafer.bands_filled)) if is_shared else 0
            call.x[kernels.X_ROOM] = len(self.state) - self._free
            call.x[kernels.X_ASIDE] = len(self.state) - self._aside
            words = (self.state, self.words, self._host, call.x, call.rows, self.event_margin)
            result = call.run(
                kernels.advance,
                *words,
                self.team,
                0,
                # A machine that waits for its host would go on from the end of a slice to that of the next.
                may_cut=until < kernels.LONGEST or bool(self._wafer.closed),
                may_be_plain=int(self._wafer.nodes_count) <= MOST_PLAIN_NODES,
                together=partial(
                    run_together, words, (self.team, call_words(len(stops))), bands, self.most_threads
                ),
            )
            if result == sk.RESULT_ROOM:
                self._grow(4 * FREE_WORDS)
            elif result != sk.RESULT_BANDS:
                break
        return result, call.finish()

    def _make_team(self, stops: int, *, is_recorded: bool) -> None:
        """Give every thread room for the events that it records and the stop rows that it hits."""
        words = team_words(self.event_margin if is_recorded else 0, stops)
        if len(self.team) < words:
            self.team = np.zeros(words, np.int64)

    def _grow(self, words: int) -> None:
        """Make the heap larger; pages that are not in use stay untouched."""
        used = self.used_state()
        larger = zero_words(len(self.state) + words)
        larger[: len(used)] = used
        self.state = larger

    def used_state(self) -> np.ndarray:
        """Return the words of the state that are in use (a view)."""
        return self.state[: int(self._wafer.used)]

    def restore_state(self, words: np.ndarray) -> None:
        """Replace the state by words that an earlier `used_state` returned."""
        used = int(self._wafer.used)
        if len(words) + self._free > len(self.state):
            self.state = zero_words(len(words) + int(sk.WAFER(words).demand) + FREE_WORDS + self._free)
        self.state[: len(words)] = words
        if used > len(words):
            self.state[len(words) : used] = 0

    def counter(self, word: int) -> int:
        """Return a counter of the whole wafer: the sum over all bands of one word of their BAND records."""
        return int(self._bands()[:, word].sum())

    def trail(self) -> np.ndarray:
        """Return (rows, STAGE.num_words) int64: the hops that the trails of all bands remember, by cycle."""
        s, size, width = self.state, int(self._wafer.trail_rows), sk.STAGE.num_words
        parts: list[np.ndarray] = []
        for start, written in self._bands()[:, [sk.BAND.trail, sk.BAND.trail_count]]:
            rows = s[start : start + width * size].reshape(size, width)[: min(written, size)]
            parts.append(np.roll(rows, -(written % size), axis=0) if written > size else rows)
        found = np.concatenate(parts)
        return found[np.argsort(found[:, sk.STAGE.cycle], kind="stable")]

    def _bands(self) -> np.ndarray:
        """Return (bands, BAND.num_words) int64: the records of the bands (a view)."""
        first, count = int(self._wafer.bands), int(self._wafer.bands_count)
        return self.state[first : first + count * sk.BAND.num_words].reshape(count, sk.BAND.num_words)

    # --- host commands -------------------------------------------------------------------------------------

    def add_commands(self, commands: Sequence[HostCommand]) -> None:
        """Append commands; they start in order from the present cycle on.

        Raises UsageError for a command that the wafer cannot take.
        """
        first = len(self.commands)
        if first + len(commands) > MAX_COMMANDS:
            raise UsageError(f"over {MAX_COMMANDS} host commands")
        rows = [self._row(command) for command in commands]
        self._append(rows)
        self.commands.extend(commands)
        self._state_room(len(self.commands))
        wafer = self._wafer
        wafer.given = len(self.commands)
        wafer.host_at = min(int(wafer.host_at), max(int(wafer.cycle), int(wafer.now) + 1))

    def close(self) -> None:
        """Declare that no more commands will come."""
        wafer = self._wafer
        if wafer.closed:
            return
        wafer.closed = 1
        if len(self.commands) and wafer.done == wafer.given:
            wafer.closed_at = wafer.cycle

    def command_state(self, index: int) -> tuple[int, int, int, int]:
        """Return (state, PEs left, start, end) of a command; its state is 0 given, 1 under way, 2 done."""
        if index >= int(self._wafer.given):
            return 0, 0, 0, 0
        row = sk.COMMAND_STATE(self.state, int(self._wafer.commands), index)
        return int(row.state), int(row.left), int(row.start), int(row.end)

    def data_places(self) -> list[int]:
        """Return where the words of each command begin in the data of all commands, rising."""
        count = len(self.commands)
        return [
            self._data_at(int(hk.COMMAND(self._rows, hk.FIRST_COMMAND, index).data)) for index in range(count)
        ]

    def result(self, index: int) -> np.ndarray:
        """Return the (height, width, words) uint32 that a transfer to the host brought."""
        command = self.commands[index]
        _, _, width, height = command.region
        start = self._data_at(int(hk.COMMAND(self._rows, hk.FIRST_COMMAND, index).data))
        words = self._host[start : start + width * height * command.words]
        return words.astype(np.uint32).reshape(height, width, command.words)

    def log_rows(self) -> list[tuple[int, int, int, int, int]]:
        """Return (cycle, node, kind, value, instruction) of everything logged so far, in order."""
        s, width = self.state, sk.LOG_ROW.num_words
        left, chunk = int(self._wafer.log_count), int(self._wafer.log_first)
        found: list[tuple[int, int, int, int, int]] = []
        while left > 0:
            count = min(left, sk.LOG_CHUNK_ROWS)
            rows = s[chunk + 1 : chunk + 1 + count * width].reshape(count, width).tolist()
            found += [(row[0], row[1], row[2], row[3], row[4]) for row in rows]
            chunk = int(s[chunk])
            left -= count
        return found

    def make_block(self, node: int, *, wakes: bool = False) -> None:
        """Give a node its own words of state, as kernels do when something first happens there.

        With `wakes` the node looks for work in the next cycle, because a setting of its queues has changed.
        """
        kernels.make_block(self.state, self.words, node, int(wakes))

    def _row(self, command: HostCommand) -> tuple[np.ndarray, np.ndarray, list[int]]:
        x, y, width, height = command.region
        if command.kind == HOST_LAUNCH and (width, height) == (0, 0):
            x, y, width, height = 0, 0, self.wafer.columns, self.wafer.rows
        if min(x, y, width, height) < 0 or x + width > self.wafer.columns or y + height > self.wafer.rows:
            raise UsageError(
                f"host command on region {command.region}: the rectangle has {self.wafer.columns} x "
                f"{self.wafer.rows} PEs"
            )
        size = width * height * command.words
        is_stream = command.kind in (*STREAMS_IN, *STREAMS_OUT)
        if command.kind in (HOST_COPY_IN, *STREAMS_IN):
            if command.data is None or command.data.size != size:
                found = 0 if command.data is None else command.data.size
                raise UsageError(f"transfer to {command.subject}: expected {size} words, found {found}")
            data = np.ascontiguousarray(command.data).reshape(-1).astype(np.uint32).astype(np.int64)
        elif command.kind == HOST_LAUNCH:
            data = self._arguments(command)
        else:
            data = np.zeros(size, np.int64)
        symbols = [] if is_stream else self._symbols(command)
        row = hk.COMMAND.make(
            kind=_KINDS_OF_PORTS.get(command.kind, command.kind),
            x=x,
            y=y,
            width=width,
            height=height,
            words=command.words,
            is_16bit=command.is_16bit,
            nonblock=command.nonblock,
            args=len(data) if command.kind == HOST_LAUNCH else 0,
            is_port=command.kind in _KINDS_OF_PORTS,
        )
        if is_stream:
            if not isinstance(command.subject, int) or not 0 <= command.subject < 24:
                raise UsageError(f"stream of color {command.subject}: expected a color from 0 to 23")
            hk.COMMAND(row).color = command.subject
        return row, data, symbols

    def _arguments(self, command: HostCommand) -> np.ndarray:
        """Return launch arguments as register words, extended by their sign if the function takes signed
        ones."""
        given = command.data if command.data is not None else np.zeros(0, np.uint32)
        exports = [_export_of(program, command.subject) for program in self.wafer.programs]
        taken = [export.arguments for export in exports if export is not None and export.function >= 0]
        types = min(taken, key=len, default=())
        words = np.ascontiguousarray(given).reshape(-1).astype(np.uint32).astype(np.int64)
        if len(words) > len(types):
            name = str(command.subject)[:60]
            raise UsageError(f"launch of {name}: expected {len(types)} arguments, found {len(words)}")
        for index, kind in enumerate(types[: len(words)]):
            if kind == isa.T_I16:
                words[index] = ((words[index] & 0xFFFF) ^ 0x8000) - 0x8000
            elif kind == isa.T_I32:
                words[index] = (words[index] ^ 0x8000_0000) - 0x8000_0000
            elif kind in (isa.T_U16, isa.T_F16, isa.T_BF16, isa.T_CB16):
                words[index] &= 0xFFFF
        return words

    def _symbols(self, command: HostCommand) -> list[int]:
        found: list[int] = []
        is_known = False
        for program in self.wafer.programs:
            export = _export_of(program, command.subject)
            is_known = is_known or export is not None
            symbol = _symbol_of(program, export)
            address = symbol.address if symbol is not None else -1
            is_pointer = int(symbol is not None and symbol.is_pointer)
            function = export.function if export is not None else -1
            found += [address, is_pointer, function]
        if not is_known:
            raise UsageError(f"host command on {str(command.subject)[:60]!r}: no program exports this name")
        return found

    def _append(self, rows: list[tuple[np.ndarray, np.ndarray, list[int]]]) -> None:
        """Append command rows and their data; all rows lie before all data."""
        count = len(self.commands) + len(rows)
        needed = hk.FIRST_COMMAND + count * hk.COMMAND.num_words
        while len(self._rows) < needed:
            again = len(self._rows) - hk.FIRST_COMMAND
            self._rows = np.concatenate((self._rows, np.zeros(again, np.int64)))
        place = self._host_used
        for index, (row, data, symbols) in enumerate(rows, len(self.commands)):
            written = hk.COMMAND(row)
            written.symbols = place
            written.data = place + len(symbols)
            self._data.append(np.array(symbols, np.int64))
            self._data.append(data)
            place += len(symbols) + len(data)
            self._rows[hk.FIRST_COMMAND + index * hk.COMMAND.num_words :][: hk.COMMAND.num_words] = row
        self._host_used = place
        self._lay_out()

    def _lay_out(self) -> None:
        """Rebuild the words `host` that kernels read: rows, then data. Results so far are kept."""
        old = self._host
        base = len(self._rows)
        capacity = base + 2 * self._host_used + 64
        if len(old) < base + self._host_used or self._base != base:
            fresh = np.zeros(capacity, np.int64)
            if len(old):
                kept = self._filled
                fresh[base : base + kept] = old[self._base : self._base + kept]
            self._host = fresh
        place = self._filled
        for data in self._data:
            self._host[base + place : base + place + len(data)] = data
            place += len(data)
        self._data.clear()
        self._filled = place
        self._base = base
        self._host[:base] = self._rows
        rows = self._host[hk.FIRST_COMMAND : base].reshape(-1, hk.COMMAND.num_words)
        rows[:, hk.COMMAND.data] += base
        rows[:, hk.COMMAND.symbols] += base

    def _data_at(self, place: int) -> int:
        return self._base + place

    def _state_room(self, count: int) -> None:
        """Make room in the heap for the states of `count` commands."""
        width, room = sk.COMMAND_STATE.num_words, int(self._wafer.commands_room)
        if count <= room:
            return
        larger = max(16, 2 * room, count)
        used = int(self._wafer.used)
        if used + larger * width + int(self._wafer.demand) + self._free > len(self.state):
            self._grow(larger * width + FREE_WORDS)
        wafer, s = self._wafer, self.state
        old = int(wafer.commands)
        s[used : used + room * width] = s[old : old + room * width]
        wafer.commands = used
        wafer.commands_room = larger
        wafer.used = used + larger * width


def _export_of(program: PeProgram, name: str | int) -> Export | None:
    return next((export for export in program.exports if export.name == name), None)


def _symbol_of(program: PeProgram, export: Export | None) -> Symbol | None:
    if export is None or export.symbol < 0:
        return None
    return program.symbols[export.symbol]
