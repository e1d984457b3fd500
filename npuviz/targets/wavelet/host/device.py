"""Simulate a chip that a host program drives while it runs."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import TargetError, UsageError
from npuviz.sim.stop import NO_STOPS, StopKind, StopReason
from npuviz.targets.wavelet import wafer as tables
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.wafer import HostCommand, Symbol, Wafer

CHUNK_CYCLES = 1 << 20
"""Cycles between two checks for Ctrl+C after the last command."""
FIRST_CHUNK_CYCLES = 1 << 12
CHUNK_SECONDS = 0.25
"""Time between two checks for Ctrl+C, and two reports of progress, while a command runs."""
SLOW_CYCLES = 1 << 20
NOTICE_SECONDS = 2.0
NOTICE_WIDTH = 78
IDLE_CYCLES = 1 << 22
"""Most cycles after the last command, for work that continues when the host is served."""


class DeviceError(TargetError):
    """The simulated chip cannot continue: a fault, a deadlock, or more cycles than allowed."""


@dataclass(frozen=True)
class Room:
    """The space that a copy finds: a variable, the bytes up to its end, and those up to the end of the memory
    in use."""

    symbol: Symbol
    size_bytes: int
    memory_bytes: int


class Notice:
    """Report on a terminal how far a long command is: one line on stderr that rewrites itself."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._is_shown = False

    def tell(self, text: str) -> None:
        """Show a text, but only if the command has taken a while."""
        seconds = time.monotonic() - self._begin
        if seconds < NOTICE_SECONDS or not sys.stderr.isatty():
            return
        self._is_shown = True
        sys.stderr.write("\r" + f"{text}, {seconds:.0f} s"[:NOTICE_WIDTH].ljust(NOTICE_WIDTH))
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line when the command is done."""
        if self._is_shown:
            sys.stderr.write("\r" + " " * NOTICE_WIDTH + "\r")
            sys.stderr.flush()
        self._begin, self._is_shown = time.monotonic(), False


class Device:
    """A machine that takes commands, runs until they are done, and lets PEs' memory be read."""

    def __init__(self, wafer: Wafer, settings: Mapping[str, str], limit: int) -> None:
        """Build the machine. Raises TargetError, UsageError.

        limit  most cycles that one command may take
        """
        spec, program = make_program(wafer, (), wafer.name, settings, is_closed=False)
        self.wafer = wafer
        self.machine = WaveletMachine(spec, program)
        self.commands: list[HostCommand] = []
        self.limit = limit
        self.on_slow: Callable[[], None] = _nothing
        """Called once when a command takes long, so that the commands so far can be saved."""
        self.notice = Notice()
        self._waiting: dict[int, Callable[[np.ndarray], None]] = {}
        self._ended: set[int] = set()

    def submit(self, command: HostCommand, on_result: Callable[[np.ndarray], None] | None = None) -> int:
        """Give a command to the chip; `on_result` receives the words of a transfer to the host later."""
        index = self.machine.host_command(command)
        self.commands.append(command)
        if on_result is not None:
            self._waiting[index] = on_result
        return index

    def wait(self, index: int) -> None:
        """Run until a command is done. Raises DeviceError."""
        deadline, chunk, is_slow = self.machine.cycle + self.limit, FIRST_CHUNK_CYCLES, False
        while not self.machine.is_done(index) and index not in self._ended:
            left = deadline - self.machine.cycle
            if left <= 0:
                text = f"{_of(self.commands[index])} is not done after {self.limit} cycles"
                _, who = self.machine.explainer.at_work()
                raise DeviceError(f"{text}; at cycle {self.machine.cycle}: {who}")
            if not is_slow and self.limit - left >= SLOW_CYCLES:
                is_slow = True
                self.on_slow()
            before, begin = self.machine.cycle, time.monotonic()
            reason = self.machine.run_until_done(index, min(chunk, left))
            seconds = time.monotonic() - begin
            chunk = (
                2 * chunk
                if seconds < CHUNK_SECONDS / 2
                else max(1, chunk // 2)
                if seconds > CHUNK_SECONDS
                else chunk
            )
            self.notice.tell(f"{_of(self.commands[index])}: cycle {self.machine.cycle:,}")
            is_stuck = self.machine.cycle == before or reason.kind in (StopKind.FAULT, StopKind.DEADLOCK)
            if is_stuck and not self.machine.is_done(index) and not self._has_ended(index, reason):
                raise DeviceError(f"{_of(self.commands[index])}: {_why(reason)}")
        self.notice.clear()
        self.deliver()

    def _has_ended(self, index: int, reason: StopReason) -> bool:
        """Return whether a launch can never be done because its function ended on all PEs without
        unblock_cmd_stream().

        Such a launch counts as ended, with a warning.
        """
        command = self.commands[index]
        # Commands after such a launch never begin.
        may_end = command.kind == tables.HOST_LAUNCH and reason.kind is StopKind.DEADLOCK and not self._ended
        if not may_end or not self.machine.explainer.has_only_ended_launches():
            return False
        self._ended.add(index)
        self.notice.clear()
        text = f"{_of(command)} has ended without unblock_cmd_stream(): a further command would wait for ever"
        print(f"cs_python: warning: {text}", file=sys.stderr)
        return True

    def deliver(self) -> None:
        """Hand over the results that have arrived."""
        for index in [index for index in self._waiting if self.machine.is_done(index)]:
            words = self.machine.result(index)
            assert words is not None
            self._waiting.pop(index)(words)

    def finish(self) -> None:
        """Run until every command is done and nothing moves any more. Raises DeviceError."""
        for index in range(len(self.commands)):
            self.wait(index)
        self.machine.close()
        deadline = self.machine.cycle + IDLE_CYCLES
        while self.machine.cycle < deadline:
            before = self.machine.cycle
            reason = self.machine.advance(min(before + CHUNK_CYCLES, deadline), NO_STOPS, None)
            if reason.kind is StopKind.FAULT:
                raise DeviceError(_why(reason))
            if reason.kind is not StopKind.UNTIL or self.machine.cycle == before:
                return

    def symbol(self, column: int, row: int, name: str) -> Symbol:
        """Return a variable of a PE by its exported name or its own. Raises UsageError."""
        return find_symbol(self.wafer, column, row, name)

    def read(self, column: int, row: int, symbol: Symbol) -> bytes:
        """Return the present bytes of a variable of a PE."""
        return self.machine.read_symbol(column, row, symbol)

    def room(self, column: int, row: int, name: object) -> Room | None:
        """Return the space that a copy by an exported name finds on a PE now.

        None if it is not known: commands are under way, the PE has no such export, or its pointer leads to no
        variable.
        """
        if self.commands and not self.machine.is_done(len(self.commands) - 1):
            return None
        program = self.wafer.programs[int(self.wafer.program_of[row, column])]
        symbols = [program.symbols[e.symbol] for e in program.exports if e.name == name and e.symbol >= 0]
        if not symbols:
            return None
        symbol, address = symbols[0], symbols[0].address
        if symbol.is_pointer:
            address = int.from_bytes(self.read(column, row, symbol)[:2], "little")
        for each in program.symbols:
            if each.address <= address < each.address + each.size_bytes:
                return Room(each, each.address + each.size_bytes - address, program.memory_bytes - address)
        return None

    def log_lines(self) -> list[str]:
        """Return the lines that PEs printed, as lines of sim.log."""
        return [f"@{line.cycle} {line.text}" for line in self.machine.printed()]


def find_symbol(wafer: Wafer, column: int, row: int, name: str) -> Symbol:
    """Return a variable of a PE by its exported name or its own. Raises UsageError."""
    if not (0 <= column < wafer.columns and 0 <= row < wafer.rows):
        raise UsageError(f"PE ({column}, {row}): outside the rectangle of {wafer.columns} x {wafer.rows}")
    index = int(wafer.program_of[row, column])
    if index < 0:
        raise UsageError(f"PE ({column}, {row}): has no code")
    program = wafer.programs[index]
    for symbol in program.symbols:
        if symbol.name == name:
            return symbol
    for export in program.exports:
        if export.name == name and export.symbol >= 0:
            return program.symbols[export.symbol]
    known = ", ".join(symbol.name for symbol in program.symbols)[:200]
    raise UsageError(f"{name[:60]}: no variable of PE ({column}, {row}) has this name; known: {known}")


def _nothing() -> None:
    """Do nothing."""


def _of(command: HostCommand) -> str:
    x, y, width, height = command.region
    where = f" of PEs ({x}, {y}) to ({x + width - 1}, {y + height - 1})" if width else ""
    return f"{KINDS.get(command.kind, 'command')} {command.subject}{where}"


def _why(reason: StopReason) -> str:
    where = f" at {reason.unit}" if reason.unit else ""
    return f"{reason.kind.value} at cycle {reason.cycle}{where}: {reason.detail}"


KINDS = {
    tables.HOST_COPY_IN: "copy to",
    tables.HOST_COPY_OUT: "copy from",
    tables.HOST_STREAM_IN: "stream to color",
    tables.HOST_STREAM_OUT: "stream from color",
    tables.HOST_LAUNCH: "launch of",
    tables.HOST_PORT_IN: "stream to the port of color",
    tables.HOST_PORT_OUT: "stream from the port of color",
}
