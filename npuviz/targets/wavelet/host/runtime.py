"""Stand in for SdkRuntime, the interface through which host programs drive the chip.

Written from the documented interface (names and order of arguments are the vendor's). The commands of the
host are recorded and left in the compiled folder, so that npuviz opens the same run.
"""

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.base.names import is_number
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet import wafer as tables
from npuviz.targets.wavelet.host.device import Device, DeviceError
from npuviz.targets.wavelet.host.finished import begin, remember, write_logs
from npuviz.targets.wavelet.host.shims import SETTINGS_VARIABLE
from npuviz.targets.wavelet.host.transfers import (
    MemcpyDataType,
    MemcpyOrder,
    argument_word,
    check_room,
    put_words,
    words_of,
)
from npuviz.targets.wavelet.load.compiled import load_wafer, save_run
from npuviz.targets.wavelet.wafer import Export, HostCommand, Symbol, Wafer

LIMIT_VARIABLE = "NPUVIZ_CSL_LIMIT"
"""Environment variable with the most cycles that one command of the host may take."""
SHOWN_WARNINGS = 8
"""Most warnings of one kind that are printed at the end of a run; further ones are only counted."""
DEFAULT_LIMIT = 200_000_000


@dataclass(frozen=True)
class Task:
    """A command that was given with nonblock=True."""

    index: int


@dataclass(frozen=True)
class TransferOptions:
    """Keyword arguments of every transfer: to stream wavelets of a color or copy a symbol, and how."""

    streaming: bool = False
    data_type: MemcpyDataType = MemcpyDataType.MEMCPY_32BIT
    order: MemcpyOrder = MemcpyOrder.ROW_MAJOR
    nonblock: bool = False


class SdkRuntime:
    """A program on the chip, from loading to the end of the run."""

    def __init__(
        self,
        artifacts: object,
        platform: object = None,
        *,
        cmaddr: str | None = None,
        **_: object,
    ) -> None:
        """Read a compiled folder, or what `SdkLayout.compile` returned; most other arguments have no effect
        here."""
        del platform
        if cmaddr:
            raise UsageError(f"cmaddr={cmaddr!r}: npuviz simulates; leave the address of a system out")
        self.folder = Path(str(getattr(artifacts, "folder", artifacts)))
        self._origin: tuple[int, int] = getattr(artifacts, "origin", (0, 0))
        self._ports: Mapping[str, tuple[int, tuple[int, int]]] = getattr(artifacts, "ports", {})
        self.wafer: Wafer = load_wafer(self.folder)
        self._names = list(self.wafer.exported)
        self._exports = _exports(self.wafer)
        self._device: Device | None = None
        self._is_stopped = False
        self._exit = self._leave_record

    # ---- life of a run

    def load(self) -> None:
        """Put the program on the chip."""
        if self._device is not None:
            raise UsageError("load: the program is loaded already")
        self._device = Device(self.wafer, settings_of_environment(), _limit())
        self._device.on_slow = self._save
        begin(self.folder)
        atexit.register(self._exit)

    def run(self) -> None:
        """Start the program: a check only, because commands of the host make the chip run."""
        self._running()

    def stop(self) -> None:
        """End the run when every command is done and the chip is idle."""
        device = self._running()
        try:
            device.finish()
        finally:
            self._leave_record()
        self._is_stopped = True

    def _running(self) -> Device:
        if self._device is None:
            raise UsageError("the program is not loaded; call load() and run() first")
        if self._is_stopped:
            raise UsageError("the run has been stopped")
        return self._device

    def _leave_record(self) -> None:
        """Write the commands so far and what PEs printed; also when the host program fails."""
        atexit.unregister(self._exit)
        device = self._device
        if device is None or self._is_stopped:
            return
        self._save()
        with suppress(OSError):
            write_logs(self.folder, device)
        remember(self.folder, device)
        lost = device.machine.explainer.lost()
        for hazard in lost[:SHOWN_WARNINGS]:
            print(f"cs_python: warning: {hazard.text}, first at cycle {hazard.cycle}", file=sys.stderr)
        if len(lost) > SHOWN_WARNINGS:
            more = f"{len(lost) - SHOWN_WARNINGS} more PEs, colors or directions"
            print(f"cs_python: warning: wavelets leave the rectangle on {more}", file=sys.stderr)

    def _save(self) -> None:
        if self._device is not None:
            script = Path(sys.argv[0]).name if sys.argv else ""
            with suppress(OSError):
                save_run(self.folder, self._device.commands, script)

    # ---- symbols

    def get_id(self, name: str) -> int | None:
        """Return the number of an exported symbol, None without one, which transfers refuse."""
        return self._names.index(name) if name in self.wafer.exported else None

    def read_symbol(self, x: int, y: int, name: str, dtype: str | np.dtype | None = None) -> np.ndarray:
        """Return the elements of a variable of a PE, in coordinates of the layout."""
        if self._device is None:
            raise UsageError("read_symbol: the program is not loaded")
        column, row = x + self._origin[0], y + self._origin[1]
        symbol = self._device.symbol(column, row, name)
        data = self._device.read(column, row, symbol)
        return as_elements(data, symbol, dtype)

    # ---- transfers

    def memcpy_h2d(
        self,
        dest: int | None,
        src: np.ndarray,
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        **options: Any,
    ) -> Task:
        """Copy to a symbol of the PEs of a region, or stream wavelets of a color to them."""
        return self._copy_in("memcpy_h2d", dest, src, (px, py, w, h), (h, w, elem_per_pe), options)

    def memcpy_d2h(
        self,
        dest: np.ndarray,
        src: int | None,
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        **options: Any,
    ) -> Task:
        """Copy from a symbol of the PEs of a region, or take wavelets of a color from them."""
        given = TransferOptions(**options)
        what = f"memcpy_d2h from {self._subject_text(src, given)}"
        region = self._region(px, py, w, h, what)
        check_room(dest, (h, w, elem_per_pe), what)
        subject, is_16bit = self._subject(src, given, what)
        kind = tables.HOST_STREAM_OUT if given.streaming else tables.HOST_COPY_OUT
        command = HostCommand(kind, subject, region, elem_per_pe, None, is_16bit, given.nonblock)
        if not given.streaming:
            self._check_extent(command, what)
        device = self._running()
        index = device.submit(command, lambda words: put_words(words, dest, given.order, what))
        return self._end(index, given.nonblock)

    def memcpy_h2d_rowbcast(
        self,
        dest: int | None,
        src: np.ndarray,
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        **options: Any,
    ) -> Task:
        """Copy one column of data [h][elements]: all PEs of a row get the same."""
        return self._copy_in("memcpy_h2d_rowbcast", dest, src, (px, py, w, h), (h, 1, elem_per_pe), options)

    def memcpy_h2d_colbcast(
        self,
        dest: int | None,
        src: np.ndarray,
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        **options: Any,
    ) -> Task:
        """Copy one row of data [w][elements]: all PEs of a column get the same."""
        return self._copy_in("memcpy_h2d_colbcast", dest, src, (px, py, w, h), (1, w, elem_per_pe), options)

    def memcpy_h2d_stride(
        self,
        dest: int | None,
        src: np.ndarray,
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        row_stride: int = 1,
        col_stride: int = 1,
        **options: Any,
    ) -> Task:
        """Copy to every row_stride-th row and col_stride-th column of a region, with one copy per PE."""
        given = TransferOptions(**options)
        what = f"memcpy_h2d_stride to {self._subject_text(dest, given)}"
        self._region(px, py, w, h, what)
        if row_stride < 1 or col_stride < 1:
            raise UsageError(f"{what}: strides must be at least 1")
        rows, columns = range(0, h, row_stride), range(0, w, col_stride)
        data = self._words(src, (len(rows), len(columns), elem_per_pe), given, what)
        task = Task(-1)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                region = (px + column, py + row, 1, 1)
                one = np.ascontiguousarray(data[i : i + 1, j : j + 1])
                task = self._transfer_in(dest, one, region, replace(given, nonblock=True), what)
        return self._end(task.index, given.nonblock)

    def _copy_in(
        self,
        name: str,
        dest: int | None,
        src: np.ndarray,
        area: tuple[int, int, int, int],
        shape: tuple[int, int, int],
        options: Mapping[str, Any],
    ) -> Task:
        """Send an array of a shape [rows][columns][elements]; a single row or column goes to all rows or
        columns."""
        given = TransferOptions(**options)
        what = f"{name} to {self._subject_text(dest, given)}"
        region = self._region(*area, what)
        part = self._words(src, shape, given, what)
        data = np.ascontiguousarray(np.broadcast_to(part, (area[3], area[2], shape[2])))
        return self._transfer_in(dest, data, region, given, what)

    def _words(
        self, src: np.ndarray, shape: tuple[int, int, int], given: TransferOptions, what: str
    ) -> np.ndarray:
        """Return the words to send.

        An array that is longer than needed is cut with a warning: a published program gives such arrays.
        """
        words = words_of(src, shape, given.order, what)
        if src.size > words.size:
            print(
                f"cs_python: warning: {what}: takes the first {words.size} of {src.size} elements",
                file=sys.stderr,
            )
        return words

    def _transfer_in(
        self,
        dest: int | None,
        data: np.ndarray,
        region: tuple[int, int, int, int],
        given: TransferOptions,
        what: str,
    ) -> Task:
        subject, is_16bit = self._subject(dest, given, what)
        kind = tables.HOST_STREAM_IN if given.streaming else tables.HOST_COPY_IN
        command = HostCommand(kind, subject, region, data.shape[2], data, is_16bit, given.nonblock)
        if not given.streaming:
            self._check_extent(command, what)
        return self._end(self._running().submit(command), given.nonblock)

    def _subject(self, symbol: int | None, given: TransferOptions, what: str) -> tuple[str | int, bool]:
        if given.streaming:
            if symbol is None or not 0 <= symbol < 24:
                raise UsageError(f"{what}: expected a color 0 to 23, found {symbol}")
            return int(symbol), False
        if symbol is None or not 0 <= symbol < len(self._names):
            known = ", ".join(self._names)[:200]
            raise UsageError(f"{what}: expected an id of get_id(), found {symbol}; exported: {known}")
        return self._names[symbol], given.data_type is MemcpyDataType.MEMCPY_16BIT

    def _check_extent(self, command: HostCommand, what: str) -> None:
        """Refuse a copy whose last element begins behind its variable: it would overwrite the next one.

        For a copy to the host that ends in the memory in use, only warn: a published program does that.
        """
        device, size = self._running(), 2 if command.is_16bit else 4
        x, y, width, height = command.region
        places = self.wafer.program_of[y : y + height, x : x + width]
        for program in np.unique(places[places >= 0]).tolist():
            row, column = (int(at[0]) for at in np.nonzero(places == program))
            room = device.room(x + column, y + row, command.subject)
            if room is None or (command.words - 1) * size < room.size_bytes:
                continue
            text = (
                f"{what}: {command.words} elements of {8 * size} bits go beyond {room.symbol.name} "
                f"({room.symbol.type}) of PE ({x + column}, {y + row}), which has room for "
                f"{-(-room.size_bytes // size)}"
            )
            if command.kind == tables.HOST_COPY_IN or command.words * size > room.memory_bytes:
                raise UsageError(text)
            print(f"cs_python: warning: {text}", file=sys.stderr)

    def _subject_text(self, symbol: Any, given: TransferOptions) -> str:
        if given.streaming:
            return f"color {symbol}"
        if symbol is None:
            return "a symbol that is not exported"
        if not isinstance(symbol, int | np.integer):
            raise UsageError(
                f"a copy takes the number that get_id gave for a symbol, found {type(symbol).__name__}"
            )
        return self._names[symbol] if 0 <= symbol < len(self._names) else f"symbol {symbol}"

    def _region(self, x: int, y: int, width: int, height: int, what: str) -> tuple[int, int, int, int]:
        columns, rows = self.wafer.columns, self.wafer.rows
        if x < 0 or y < 0 or width < 1 or height < 1 or x + width > columns or y + height > rows:
            raise UsageError(
                f"{what}: region of {width} x {height} PEs at ({x}, {y}) is not inside the rectangle of "
                f"{columns} x {rows}"
            )
        return int(x), int(y), int(width), int(height)

    # ---- launches

    def launch(self, name: str, *arguments: object, nonblock: bool = False) -> Task:
        """Start an exported function on all PEs."""
        export = self._function(name)
        if len(arguments) != len(export.arguments):
            raise UsageError(
                f"launch of {name}: expected {len(export.arguments)} arguments, found {len(arguments)}"
            )
        words = [
            argument_word(value, isa.name_of("T_", kind), f"launch of {name}, argument {index}")
            for index, (value, kind) in enumerate(zip(arguments, export.arguments, strict=True))
        ]
        return self._launch(name, words, nonblock)

    def call(self, name: str, arguments: Sequence[int] = (), nonblock: bool = False) -> Task:
        """Start an exported function with words as arguments, unchecked but for their number."""
        export = self._function(name)
        if len(arguments) != len(export.arguments):
            raise UsageError(
                f"call of {name}: expected {len(export.arguments)} arguments, found {len(arguments)}"
            )
        return self._launch(name, [int(word) & 0xFFFFFFFF for word in arguments], nonblock)

    def _function(self, name: str) -> Export:
        export = self._exports.get(name)
        if export is None or export.function < 0:
            known = ", ".join(name for name, found in self._exports.items() if found.function >= 0)
            raise UsageError(f"{name[:60]!r}: no exported function; exported: {known[:200]}")
        return export

    def _launch(self, name: str, words: list[int], nonblock: bool) -> Task:
        region = (0, 0, self.wafer.columns, self.wafer.rows)
        data = np.array(words, dtype=np.uint32)
        command = HostCommand(tables.HOST_LAUNCH, name, region, len(words), data, False, nonblock)
        return self._end(self._running().submit(command), nonblock)

    # ---- streams of SdkLayout

    def send(
        self, port: object, array: np.ndarray, count: int | None = None, *, nonblock: bool = False
    ) -> Task:
        """Stream elements to a port of the layout."""
        color, (x, y), name = self._stream(port)
        size = array.size if count is None else int(count)
        data = words_of(array.reshape(-1)[:size], (1, 1, size), MemcpyOrder.ROW_MAJOR, f"send to {name}")
        command = HostCommand(tables.HOST_PORT_IN, color, (x, y, 1, 1), size, data, False, nonblock)
        return self._end(self._running().submit(command), nonblock)

    def receive(self, port: object, array: np.ndarray, count: int, *, nonblock: bool = False) -> Task:
        """Take elements from a port of the layout."""
        color, (x, y), name = self._stream(port)
        what = f"receive from {name}"
        target = array.reshape(-1)[:count]
        check_room(target, (1, 1, int(count)), what)
        command = HostCommand(tables.HOST_PORT_OUT, color, (x, y, 1, 1), int(count), None, False, nonblock)
        index = self._running().submit(
            command, lambda words: put_words(words, target, MemcpyOrder.ROW_MAJOR, what)
        )
        return self._end(index, nonblock)

    def _stream(self, port: object) -> tuple[int, tuple[int, int], str]:
        name = str(getattr(port, "name", port))
        if name not in self._ports:
            raise UsageError(f"{name[:60]}: not a stream of this layout; known: {', '.join(self._ports)}")
        return (*self._ports[name], name)

    # ---- waiting

    def _end(self, index: int, nonblock: bool) -> Task:
        if not nonblock:
            self._wait(index)
        return Task(index)

    def _wait(self, index: int) -> None:
        try:
            self._running().wait(index)
        except DeviceError as error:
            raise DeviceError(f"{error}; `npuviz {self.folder}` opens this run") from None

    def task_wait(self, task: Task) -> None:
        """Wait for a command that was given with nonblock=True."""
        self._wait(task.index)

    def is_task_done(self, task: Task) -> bool:
        """Return whether a command that was given with nonblock=True is done."""
        return self._running().machine.is_done(task.index)

    def coord_logical_to_physical(self, coordinates: tuple[int, int]) -> tuple[int, int]:
        """Return the place on the fabric of a place in the rectangle."""
        return coordinates[0] + self.wafer.offset[0], coordinates[1] + self.wafer.offset[1]

    def dump_core(self, path: str = "") -> None:
        """Do nothing: the compiled folder opens in npuviz with everything in it."""


def as_elements(data: bytes, symbol: Symbol, dtype: str | np.dtype | type | None) -> np.ndarray:
    """Return the bytes of a variable as numbers of a type, its own by default. Raises UsageError."""
    kind = np.dtype(symbol.dtype if dtype is None else dtype)
    if len(data) % kind.itemsize:
        raise UsageError(f"{symbol.name}: {len(data)} bytes are no array of {kind}")
    return np.frombuffer(data, kind).copy()


def settings_of_environment() -> dict[str, str]:
    """Return the settings of the machine that NPUVIZ_CSL_SET gives. Raises UsageError."""
    found: dict[str, str] = {}
    for pair in filter(None, os.environ.get(SETTINGS_VARIABLE, "").split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{SETTINGS_VARIABLE}={pair[:60]!r}: expected KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _limit() -> int:
    text = os.environ.get(LIMIT_VARIABLE, str(DEFAULT_LIMIT))
    if not is_number(text) or not 0 < int(text) < 1 << 60:
        raise UsageError(f"{LIMIT_VARIABLE}={text[:40]!r}: expected a number of cycles")
    return int(text)


def _exports(wafer: Wafer) -> dict[str, Export]:
    found: dict[str, Export] = {}
    for program in wafer.programs:
        for export in program.exports:
            found.setdefault(export.name, export)
    return found


__all__ = ["MemcpyDataType", "MemcpyOrder", "NpuvizError", "SdkRuntime", "Task"]
