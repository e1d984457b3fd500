"""Check that the machine and its views can take a wafer or a recording that was read from a file.

Everything behind the loader trusts these tables: kernels that check nothing, templates, explanations. So each
index, id, count and size is checked here, once; tables that programs share are checked once for all of them.
"""

from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.load.code_check import MOST_REGISTERS, Wrong, wrong_code, wrong_operation
from npuviz.targets.wavelet.wafer import (
    HOST_COPY_IN,
    HOST_PORT_OUT,
    MAX_SIDE,
    STREAMS_IN,
    TIMER,
    TIMER_CONTROL,
    Channel,
    Export,
    Fifo,
    Function,
    HostCommand,
    PeProgram,
    QueueBinding,
    SourcePlace,
    Task,
    Wafer,
)

NUM_COLORS = 24
NUM_QUEUES = 8
MOST_MEMORY = 1 << 16
"""Bytes of a PE's memory: addresses have 16 bits."""
MOST_PLACES = 1 << 22
"""Most PEs of a rectangle."""
LONGEST_NAME = 4000
"""Most letters of a name or of a type."""
MOST_COMMAND_WORDS = 1 << 26
"""Most words that the commands of a recording move in all."""
HINT = "compile the program again"
_HALVES = (isa.T_F16, isa.T_BF16, isa.T_CB16)
_CELL = 1 << 20
"""Bound of lines, columns and places in a text, and of extents and strides of shapes in any program."""


def check_wafer(wafer: Wafer, path: Path) -> None:
    """Check every table of a wafer. Raises FormatError that names the first wrong field."""
    _WaferCheck(path, wafer).all()


def check_commands(commands: Sequence[HostCommand], path: Path) -> None:
    """Check the commands of a recorded run. Raises FormatError."""
    _CommandCheck(path).all(commands)


class _Check:
    def __init__(self, path: Path) -> None:
        self._path = path

    def _demand(self, is_right: bool, field: str, expected: str, found: object = "") -> None:
        if not is_right:
            raise FormatError(self._path, field=field, expected=expected, found=str(found)[:60], hint=HINT)

    def _between(self, value: int, least: int, most: int, field: str) -> None:
        self._demand(least <= value <= most, field, f"{least} to {most}", value)

    def _names(self, names: Iterable[str], field: str) -> None:
        for name in names:
            self._demand(len(name) <= LONGEST_NAME, field, f"at most {LONGEST_NAME} letters", len(name))

    def _array(self, array: np.ndarray, dtype: type, columns: int, field: str) -> None:
        """Check that an array has shape (n, columns), or (n,) if columns is 0, and an element type."""
        is_right = array.dtype == dtype and array.shape[1:] == ((columns,) if columns else ())
        expected = f"{np.dtype(dtype).name} numbers{f' in rows of {columns}' if columns else ''}"
        self._demand(is_right and array.ndim > 0, field, expected, f"{array.dtype} {array.shape}"[:40])


class _WaferCheck(_Check):
    def __init__(self, path: Path, wafer: Wafer) -> None:
        super().__init__(path)
        self._wafer = wafer
        self._seen: set[tuple[int, ...]] = set()

    def all(self) -> None:
        """Check the wafer, then its programs."""
        wafer = self._wafer
        self._demand(wafer.arch in ("wse2", "wse3"), "arch", "wse2 or wse3", wafer.arch)
        self._between(wafer.columns, 1, MAX_SIDE, "columns")
        self._between(wafer.rows, 1, MAX_SIDE, "rows")
        self._between(wafer.columns * wafer.rows, 1, MOST_PLACES, "PEs")
        for value in (*wafer.fabric, *wafer.offset):
            self._between(value, 0, 2 * MAX_SIDE, "fabric, offset")
        shape = (wafer.rows, wafer.columns)
        is_grid = wafer.program_of.shape == shape and wafer.program_of.dtype == np.int32
        self._demand(is_grid, "program_of", f"int32 numbers {shape}", wafer.program_of.shape)
        least, most = int(wafer.program_of.min()), int(wafer.program_of.max())
        self._between(least, -1, len(wafer.programs) - 1, "program_of")
        self._between(most, -1, len(wafer.programs) - 1, "program_of")
        self._demand(len(wafer.files) == len(wafer.texts), "texts", "one for each file", len(wafer.texts))
        self._names(
            (wafer.name, *wafer.files, *wafer.exported, *wafer.params, *wafer.params.values()), "names"
        )
        self._names((kind for kind, _ in wafer.exported.values()), "exported")
        for (column, row), channels in wafer.channels.items():
            self._between(column, 0, wafer.columns - 1, "channels, column")
            self._between(row, 0, wafer.rows - 1, "channels, row")
            self._channels(channels, "channels")
        for number, program in enumerate(wafer.programs):
            self._program(program, f"programs[{number}]")

    def _is_new(self, *parts: object) -> bool:
        """Return whether these objects, which programs may share, have not been checked together before."""
        key = tuple(map(id, parts))
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _program(self, program: PeProgram, at: str) -> None:
        self._memory(program, at)
        for field, array, columns in (
            ("code", program.code, isa.CODE_WORDS),
            ("operations", program.operations, isa.OPERATION_WORDS),
            ("shapes", program.shapes, 8),
        ):
            self._array(array, np.int64, columns, f"{at}.{field}")
        self._demand(program.half in _HALVES, f"{at}.half", "a 16-bit float type", program.half)
        if self._is_new(program.places):
            self._places(program.places, f"{at}.places")
        if self._is_new(program.code, program.functions, program.operations):
            self._code(program, at)
        if self._is_new(program.shapes):
            is_small = bool((np.abs(program.shapes) < _CELL).all())
            self._demand(is_small, f"{at}.shapes", "extents and strides of a PE's memory")
        self._ids(program, at)
        self._handlers(program, at)
        self._symbols(program, at)
        self._channels(program.channels, f"{at}.channels")
        if self._is_new(program.messages):
            self._names(program.messages, f"{at}.messages")
        self._names((program.name, *program.trace_buffers), f"{at}.name")

    def _memory(self, program: PeProgram, at: str) -> None:
        self._between(program.memory_bytes, 0, MOST_MEMORY, f"{at}.memory_bytes")
        self._between(program.stack_base, 0, program.memory_bytes, f"{at}.stack_base")
        self._between(program.code_bytes, 0, 1 << 40, f"{at}.code_bytes")
        self._array(program.image, np.uint8, 0, f"{at}.image")
        self._between(len(program.image), 0, program.memory_bytes, f"{at}.image")

    def _places(self, places: Sequence[SourcePlace], at: str) -> None:
        for place in places:
            self._place(place, at)

    def _place(self, place: SourcePlace, at: str) -> None:
        self._between(place.file, -1, len(self._wafer.files) - 1, f"{at}, file")
        self._between(place.line, 0, 1 << 31, f"{at}, line")
        self._between(place.column, 0, 1 << 31, f"{at}, column")

    def _code(self, program: PeProgram, at: str) -> None:
        for number, function in enumerate(program.functions):
            self._function(function, program, f"{at}.functions[{number}]")
        wrong = wrong_operation(program.operations)
        if wrong is None and program.functions:
            wrong = wrong_code(program.code, program.functions, program.operations, program.memory_bytes)
        self._refuse(wrong, at)
        if len(program.code):
            self._demand(
                bool((program.code[:, isa.C_LINE] < len(program.places)).all()), f"{at}.code", "a place"
            )

    def _refuse(self, wrong: Wrong | None, at: str) -> None:
        if wrong is not None:
            self._demand(False, f"{at}.{wrong.table}[{wrong.row}]", wrong.expected)

    def _function(self, function: Function, program: PeProgram, at: str) -> None:
        self._between(function.entry, 0, len(program.code) - 1, f"{at}.entry")
        self._between(function.num_regs, 0, MOST_REGISTERS, f"{at}.num_regs")
        self._between(function.frame_bytes, 0, program.memory_bytes, f"{at}.frame_bytes")
        self._place(function.place, f"{at}.place")
        self._names((function.name,), f"{at}.name")
        for variable in function.variables:
            self._between(variable.register, -1, function.num_regs - 1, f"{at}.variables, register")
            self._between(variable.offset, -MOST_MEMORY, MOST_MEMORY, f"{at}.variables, offset")
            self._between(variable.first, 0, len(program.code), f"{at}.variables, first")
            self._between(variable.last, 0, len(program.code), f"{at}.variables, last")
            self._names((variable.name, variable.type), f"{at}.variables")

    # --- tasks, queues, FIFOs, registers of descriptors -------------------------------------------------

    def _ids(self, program: PeProgram, at: str) -> None:
        for task in program.tasks:
            self._task(task, program, f"{at}.tasks")
        local = {task.id for task in program.tasks if task.kind == isa.ID_LOCAL}
        for number in program.activated:
            self._demand(number in local, f"{at}.activated", "the id of a local task", number)
        for kind, number in (*program.blocked, *program.unblocked):
            self._between(kind, isa.ID_NONE, isa.ID_UT, f"{at}.blocked")
            self._between(number, 0, NUM_QUEUES - 1 if kind == isa.ID_UT else 63, f"{at}.blocked")
        for kind, number, priority in program.priorities:
            self._between(kind, isa.ID_NONE, isa.ID_UT, f"{at}.priorities")
            self._between(number, 0, 63, f"{at}.priorities")
            self._between(priority, 0, 7, f"{at}.priorities")
        for word, value in program.config:
            self._between(word, TIMER, TIMER_CONTROL, f"{at}.config")
            self._between(value, 0, 0xFFFF, f"{at}.config")
        for binding in program.queues:
            self._queue(binding, f"{at}.queues")
        for fifo in program.fifos:
            self._fifo(fifo, program, f"{at}.fifos")
        for load in program.dsrs:
            self._between(load.file, 0, 2, f"{at}.dsrs, file")
            self._between(load.id, 0, 31, f"{at}.dsrs, id")
            self._between(load.settings, -1, len(program.operations) - 1, f"{at}.dsrs, settings")

    def _task(self, task: Task, program: PeProgram, at: str) -> None:
        self._between(task.kind, isa.ID_LOCAL, isa.ID_CONTROL, f"{at}, kind")
        self._between(task.id, 0, 63, f"{at}, id")
        self._takes(program, task.function, task.arguments, f"{at}, function")
        self._names((task.name,), f"{at}, name")

    def _takes(self, program: PeProgram, function: int, arguments: Sequence[int], at: str) -> None:
        """Check a function that is started with arguments, which become its first registers."""
        self._between(function, 0, len(program.functions) - 1, at)
        # A control task's first argument is its id.
        self._between(len(arguments), 0, program.functions[function].num_regs, f"{at}, arguments")
        for kind in arguments:
            self._between(kind, isa.T_U8, isa.T_WORD, f"{at}, arguments")

    def _queue(self, binding: QueueBinding, at: str) -> None:
        self._between(binding.queue, 0, NUM_QUEUES - 1, f"{at}, queue")
        self._between(binding.color, -1, NUM_COLORS - 1, f"{at}, color")
        self._between(binding.priority, -1, 7, f"{at}, priority")

    def _fifo(self, fifo: Fifo, program: PeProgram, at: str) -> None:
        self._between(fifo.address, 0, program.memory_bytes, f"{at}, address")
        self._between(fifo.size_bytes, 0, program.memory_bytes - fifo.address, f"{at}, size_bytes")
        self._between(fifo.empty_action, 0, 3, f"{at}, empty_action")
        self._between(fifo.full_action, 0, 3, f"{at}, full_action")
        self._between(fifo.activate_pop, -1, 63, f"{at}, activate_pop")
        self._between(fifo.activate_push, -1, 63, f"{at}, activate_push")
        self._between(fifo.priority, -1, 7, f"{at}, priority")
        self._names((fifo.name,), f"{at}, name")

    def _handlers(self, program: PeProgram, at: str) -> None:
        last = len(program.functions) - 1
        for color, function in program.teardown_handlers.items():
            self._between(color, 0, NUM_COLORS - 1, f"{at}.teardown_handlers")
            self._between(function, 0, last, f"{at}.teardown_handlers")
        for (queue, _), function in program.empty_handlers.items():
            self._between(queue, 0, NUM_QUEUES - 1, f"{at}.empty_handlers")
            self._between(function, 0, last, f"{at}.empty_handlers")
        arguments = {task.id: task.arguments for task in program.tasks if task.kind == isa.ID_DATA}
        for task, function, other, limit, start in program.rotations:
            for either in (function, other):
                self._takes(program, either, arguments.get(task, ()), f"{at}.rotations")
            self._between(min(limit, start), 0, 1 << 32, f"{at}.rotations")

    # --- what the host sees, routes ---------------------------------------------------------------------

    def _symbols(self, program: PeProgram, at: str) -> None:
        for symbol in program.symbols:
            self._between(symbol.address, 0, program.memory_bytes, f"{at}.symbols, address")
            most = program.memory_bytes - symbol.address
            self._between(symbol.size_bytes, 0, most, f"{at}.symbols, size_bytes")
            self._names((symbol.name, symbol.type), f"{at}.symbols")
            self._between(min(symbol.shape, default=0), 0, MOST_MEMORY, f"{at}.symbols, shape")
            self._between(len(symbol.shape), 0, 32, f"{at}.symbols, shape")
            self._between(prod(symbol.shape), 0, MOST_MEMORY, f"{at}.symbols, shape")
            self._demand(_is_dtype(symbol.dtype), f"{at}.symbols, dtype", "a type of numbers", symbol.dtype)
        for export in program.exports:
            self._export(export, program, f"{at}.exports")

    def _export(self, export: Export, program: PeProgram, at: str) -> None:
        self._names((export.name,), f"{at}, name")
        self._between(export.symbol, -1, len(program.symbols) - 1, f"{at}, symbol")
        self._between(export.function, -1, len(program.functions) - 1, f"{at}, function")
        if export.function >= 0:
            self._takes(program, export.function, export.arguments, f"{at}, function")

    def _channels(self, channels: Sequence[Channel], at: str) -> None:
        if not self._is_new(channels):
            return
        self._between(len(channels), 0, 2 * NUM_COLORS, at)
        for channel in channels:
            self._channel(channel, at)

    def _channel(self, channel: Channel, at: str) -> None:
        self._between(channel.color, 0, NUM_COLORS - 1, f"{at}, color")
        self._between(len(channel.positions), 0, 4, f"{at}, positions")
        for position in filter(None, channel.positions):
            for mask in position:
                self._between(mask, 0, (1 << isa.NUM_PORTS) - 1, f"{at}, positions")
        self._between(channel.position, 0, 3, f"{at}, position")
        self._between(channel.pop, isa.POP_NEVER, isa.POP_ON_ADVANCE_NOP, f"{at}, pop")
        self._between(channel.swap, 0, 3, f"{at}, swap")
        rule = channel.filter or {}
        self._between(rule.get("kind", 0), isa.FILTER_COUNTER, isa.FILTER_RANGE, f"{at}, filter")
        for value in rule.values():
            self._between(value, -1, 1 << 32, f"{at}, filter")
        if channel.place is not None:
            self._place(channel.place, f"{at}, place")


class _CommandCheck(_Check):
    def all(self, commands: Sequence[HostCommand]) -> None:
        """Check every command, and how many words all of them move; the engine checks whether the wafer takes
        them."""
        total = 0
        for number, command in enumerate(commands):
            at = f"commands[{number}]"
            self._command(command, at)
            given = 0 if command.data is None else command.data.size
            total += max(prod((*command.region[2:], command.words)), given)
            self._between(total, 0, MOST_COMMAND_WORDS, f"{at}, words of all commands")

    def _command(self, command: HostCommand, at: str) -> None:
        self._between(command.kind, HOST_COPY_IN, HOST_PORT_OUT, f"{at}, kind")
        self._between(command.words, 0, MOST_COMMAND_WORDS, f"{at}, words")
        for value in command.region:
            self._between(value, 0, MAX_SIDE, f"{at}, region")
        _, _, width, height = command.region
        if isinstance(command.subject, str):
            self._names((command.subject,), f"{at}, subject")
        if command.data is not None:
            is_words = command.data.dtype == np.uint32
            self._demand(is_words, f"{at}, data", "uint32 words", command.data.dtype)
            if command.kind in (HOST_COPY_IN, *STREAMS_IN):
                size = width * height * command.words
                self._demand(command.data.size == size, f"{at}, data", f"{size} words", command.data.size)


def _is_dtype(name: str) -> bool:
    try:
        return numpy_dtype(name).kind in "biuf"
    except ValueError:
        return False
