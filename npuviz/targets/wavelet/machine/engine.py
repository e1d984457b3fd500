"""State and program words of one machine, host commands, and the one way to move them."""

from collections.abc import Sequence

import numpy as np

from npuviz.base.errors import TargetError, UsageError
from npuviz.sim.events import EventBuffer
from npuviz.sim.parts.kernel_call import KernelCall
from npuviz.sim.parts.words import zero_words
from npuviz.targets.wavelet.kernels import advance as kernels
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.bands import TEAM_WORDS
from npuviz.targets.wavelet.machine.program_words import FREE_WORDS, ProgramWords, build_state, log_room
from npuviz.targets.wavelet.machine.team import num_processors, run_together
from npuviz.targets.wavelet.spec import WaveletSpec
from npuviz.targets.wavelet.wafer import (
    HOST_COPY_IN,
    HOST_COPY_OUT,
    HOST_LAUNCH,
    HOST_STREAM_IN,
    HOST_STREAM_OUT,
    Export,
    HostCommand,
    PeProgram,
    Symbol,
    Wafer,
)

LAST_CYCLE = 1 << 58
LONG_RUN = 16
"""Cycles from which it pays to call other threads."""
MAX_COMMANDS = 1 << 20


class Engine:
    """The kernels' state and program words.

    state  (words,) int64 root state, owned
    team   (TEAM_WORDS,) int64, owned: what the threads of the last run shared
    most_threads  threads that may run it side by side; what comes out does not depend on it
    """

    def __init__(self, spec: WaveletSpec, wafer: Wafer) -> None:
        self.spec = spec
        self.wafer = wafer
        self.program = ProgramWords(spec, wafer)
        self.words = self.program.words
        self.state = build_state(spec, self.program)
        log, self._aside = log_room(len(self.program.nodes.x))
        self._free = FREE_WORDS + log + self._aside
        self.team = np.zeros(TEAM_WORDS, np.int64)
        self.most_threads = num_processors()
        self.event_margin = 64
        self.commands: list[HostCommand] = []
        self._rows = np.zeros(8 + 16 * sk.COMMAND_FIELDS, np.int64)
        self._data: list[np.ndarray] = []
        self._host = np.zeros(0, np.int64)
        self._host_used = 0
        self._base = 0
        self._filled = 0
        self._commands_room = 0

    # --- running -----------------------------------------------------------------------------------------

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> tuple[int, np.ndarray]:
        """Run the kernel; returns its RESULT_ code and a hit word per stop row."""
        return self.run(until, stops, events, -1)

    def run(
        self, until: int, stops: np.ndarray, events: EventBuffer | None, command: int
    ) -> tuple[int, np.ndarray]:
        """As `advance`, to the end of a host command at most (-1: of none)."""
        call = KernelCall(min(until, LAST_CYCLE), stops, events, self.event_margin)
        call.x[kernels.X_COMMAND] = command + 1
        # Hits and event rows have one order: one thread finds them.
        is_shared = events is None and not len(stops) and until - int(self.state[sk.H_CYCLE]) >= LONG_RUN
        while True:
            bands = max(1, int(self.state[sk.H_BANDS_FILLED])) if is_shared else 0
            call.x[kernels.X_ROOM] = len(self.state) - self._free
            call.x[kernels.X_ASIDE] = len(self.state) - self._aside
            words = (self.state, self.words, self._host, call.x, call.rows, self.event_margin)
            result = run_together(kernels.advance, words, self.team, bands, self.most_threads)
            if result == sk.RESULT_ROOM:
                self._grow(4 * FREE_WORDS)
            elif result != sk.RESULT_BANDS:
                break
        return result, call.finish()

    def _grow(self, words: int) -> None:
        """Make the heap larger; pages that are not in use stay untouched."""
        used = self.used_state()
        larger = zero_words(len(self.state) + words)
        larger[: len(used)] = used
        self.state = larger

    def used_state(self) -> np.ndarray:
        """The words in use (a view)."""
        return self.state[: int(self.state[sk.H_USED])]

    def copy_state(self) -> np.ndarray:
        """A copy of the words in use, for `restore_state`."""
        return self.used_state().copy()

    def restore_state(self, words: np.ndarray) -> None:
        """Take over words that `copy_state` made."""
        used = int(self.state[sk.H_USED])
        if len(words) + self._free > len(self.state):
            self.state = zero_words(len(words) + int(words[sk.H_DEMAND]) + FREE_WORDS + self._free)
        self.state[: len(words)] = words
        if used > len(words):
            self.state[len(words) : used] = 0

    def counter(self, word: int) -> int:
        """A counter of the whole wafer: the sum over bands of the word BAND_... ."""
        return int(self._band_words(word).sum())

    def trail(self) -> np.ndarray:
        """(rows, 4) int64: what the trails of all bands remember, by cycle; see `leave_trail`."""
        s, size = self.state, int(self.state[sk.H_TRAIL_ROWS])
        parts: list[np.ndarray] = []
        places = zip(self._band_words(sk.BAND_TRAIL), self._band_words(sk.BAND_TRAIL_COUNT), strict=True)
        for start, written in places:
            rows = s[start : start + 4 * size].reshape(size, 4)[: min(written, size)]
            parts.append(np.roll(rows, -(written % size), axis=0) if written > size else rows)
        found = np.concatenate(parts)
        return found[np.argsort(found[:, 1], kind="stable")]

    def _band_words(self, word: int) -> np.ndarray:
        s = self.state
        first = int(s[sk.H_BANDS]) + word
        return s[first : first + int(s[sk.H_BANDS_COUNT]) * sk.BAND_WORDS : sk.BAND_WORDS]

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
        s = self.state
        s[sk.H_GIVEN] = len(self.commands)
        at = max(int(s[sk.H_CYCLE]), int(s[sk.H_NOW]) + 1)
        s[sk.H_HOST_AT] = min(int(s[sk.H_HOST_AT]), at)

    def close(self) -> None:
        """No more commands will come."""
        s = self.state
        if s[sk.H_CLOSED]:
            return
        s[sk.H_CLOSED] = 1
        if len(self.commands) and s[sk.H_DONE] == s[sk.H_GIVEN]:
            s[sk.H_CLOSED_AT] = s[sk.H_CYCLE]

    def command_state(self, index: int) -> tuple[int, int, int, int]:
        """(state 0 given 1 under way 2 done, PEs left, start, end) of a command."""
        if index >= int(self.state[sk.H_GIVEN]):
            return 0, 0, 0, 0
        at = int(self.state[sk.H_COMMANDS]) + index * sk.COMMAND_WORDS
        state, left, start, end = self.state[at : at + sk.COMMAND_WORDS].tolist()
        return state, left, start, end

    def result(self, index: int) -> np.ndarray:
        """(height, width, words) uint32 that a transfer to the host brought."""
        command = self.commands[index]
        _, _, width, height = command.region
        row = self._rows[8 + index * sk.COMMAND_FIELDS :][: sk.COMMAND_FIELDS]
        start = self._data_at(int(row[sk.M_DATA]))
        words = self._host[start : start + width * height * command.words]
        return words.astype(np.uint32).reshape(height, width, command.words)

    def log_rows(self) -> list[tuple[int, int, int, int, int]]:
        """(cycle, node, kind, value, instruction) of everything logged so far, in order."""
        s = self.state
        left, chunk = int(s[sk.H_LOG_COUNT]), int(s[sk.H_LOG_FIRST])
        found: list[tuple[int, int, int, int, int]] = []
        while left > 0:
            count = min(left, sk.LOG_CHUNK_ROWS)
            rows = s[chunk + 1 : chunk + 1 + count * sk.LOG_ROW].reshape(count, sk.LOG_ROW).tolist()
            found += [(row[0], row[1], row[2], row[3], row[4]) for row in rows]
            chunk = int(s[chunk])
            left -= count
        return found

    def make_block(self, node: int) -> None:
        """Give a node its own words, as the kernels do when something first happens there."""
        kernels.make_block(self.state, self.words, node)

    def _row(self, command: HostCommand) -> tuple[list[int], np.ndarray, list[int]]:
        x, y, width, height = command.region
        if command.kind == HOST_LAUNCH and (width, height) == (0, 0):
            x, y, width, height = 0, 0, self.wafer.columns, self.wafer.rows
        if min(x, y, width, height) < 0 or x + width > self.wafer.columns or y + height > self.wafer.rows:
            raise UsageError(
                f"host command on region {command.region}: the rectangle has {self.wafer.columns} x "
                f"{self.wafer.rows} PEs"
            )
        size = width * height * command.words
        if command.kind in (HOST_COPY_IN, HOST_STREAM_IN):
            if command.data is None or command.data.size != size:
                found = 0 if command.data is None else command.data.size
                raise UsageError(f"transfer to {command.subject}: expected {size} words, found {found}")
            data = np.ascontiguousarray(command.data).reshape(-1).astype(np.uint32).astype(np.int64)
        elif command.kind in (HOST_COPY_OUT, HOST_STREAM_OUT):
            data = np.zeros(size, np.int64)
        elif command.kind == HOST_LAUNCH:
            data = self._arguments(command)
        else:
            raise TargetError("streams to ports at the edge are not modelled")
        symbols = [] if command.kind in (HOST_STREAM_IN, HOST_STREAM_OUT) else self._symbols(command)
        row = [0] * sk.COMMAND_FIELDS
        row[sk.M_KIND], row[sk.M_X], row[sk.M_Y] = command.kind, x, y
        row[sk.M_WIDTH], row[sk.M_HEIGHT], row[sk.M_WORDS] = width, height, command.words
        row[sk.M_IS_16BIT], row[sk.M_NONBLOCK] = int(command.is_16bit), int(command.nonblock)
        row[sk.M_ARGS] = len(data) if command.kind == HOST_LAUNCH else 0
        if command.kind in (HOST_STREAM_IN, HOST_STREAM_OUT):
            if not isinstance(command.subject, int) or not 0 <= command.subject < 24:
                raise UsageError(f"stream of color {command.subject}: expected a color from 0 to 23")
            row[sk.M_COLOR] = command.subject
        return row, data, symbols

    def _arguments(self, command: HostCommand) -> np.ndarray:
        """Launch arguments as register words: extended by their sign where the function says so."""
        given = command.data if command.data is not None else np.zeros(0, np.uint32)
        types: tuple[int, ...] = ()
        for program in self.wafer.programs:
            export = _export_of(program, command.subject)
            if export is not None:
                types = export.arguments
                break
        words = np.ascontiguousarray(given).reshape(-1).astype(np.uint32).astype(np.int64)
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

    def _append(self, rows: list[tuple[list[int], np.ndarray, list[int]]]) -> None:
        """Write command rows and their data behind those that are there; rows lie first, data behind."""
        count = len(self.commands) + len(rows)
        needed = 8 + count * sk.COMMAND_FIELDS
        while len(self._rows) < needed:
            # Eight words of head, then as many rows again.
            self._rows = np.concatenate((self._rows, np.zeros(len(self._rows) - 8, np.int64)))
        place = self._host_used
        for index, (row, data, symbols) in enumerate(rows, len(self.commands)):
            row[sk.M_SYMBOLS] = place
            row[sk.M_DATA] = place + len(symbols)
            self._data.append(np.array(symbols, np.int64))
            self._data.append(data)
            place += len(symbols) + len(data)
            self._rows[8 + index * sk.COMMAND_FIELDS :][: sk.COMMAND_FIELDS] = row
        self._host_used = place
        self._lay_out()

    def _lay_out(self) -> None:
        """Make the words `h` the kernels read: rows, then data. Results so far are kept."""
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
        rows = self._host[8:base].reshape(-1, sk.COMMAND_FIELDS)
        rows[:, sk.M_DATA] += base
        rows[:, sk.M_SYMBOLS] += base

    def _data_at(self, place: int) -> int:
        return self._base + place

    def _state_room(self, count: int) -> None:
        """Give the states of the commands a place in the heap."""
        s = self.state
        room = int(s[sk.H_COMMANDS_ROOM])
        if count <= room:
            return
        larger = max(16, 2 * room, count)
        used = int(s[sk.H_USED])
        size = larger * sk.COMMAND_WORDS
        if used + size + int(s[sk.H_DEMAND]) + self._free > len(s):
            self._grow(size + FREE_WORDS)
            s = self.state
        old = int(s[sk.H_COMMANDS])
        s[used : used + room * sk.COMMAND_WORDS] = s[old : old + room * sk.COMMAND_WORDS]
        s[sk.H_COMMANDS] = used
        s[sk.H_COMMANDS_ROOM] = larger
        s[sk.H_USED] = used + size


def _export_of(program: PeProgram, name: str | int) -> Export | None:
    return next((export for export in program.exports if export.name == name), None)


def _symbol_of(program: PeProgram, export: Export | None) -> Symbol | None:
    if export is None or export.symbol < 0:
        return None
    return program.symbols[export.symbol]
