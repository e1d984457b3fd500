"""Make the program of one PE from what its comptime code registered and what lowering produced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from npuviz.targets.wavelet import wafer as tables
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import (
    DsrSetting,
    FifoSetting,
    FunctionValue,
    Global,
    TaskBinding,
)
from npuviz.targets.wavelet.csl.comptime.values import Scalar, StructValue, Value
from npuviz.targets.wavelet.csl.lower.data_memory import PE_BYTES
from npuviz.targets.wavelet.csl.lower.pe import PeLowering
from npuviz.targets.wavelet.csl.lower.wafer_tables import FrozenTables
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa

_BYTES_PER_INSTRUCTION = 4
"""Bytes per instruction. Assumed: an estimate of the code size, which is only shown."""
_SMALL = 256
"""Bytes up to which a variable gets an address even if no code uses it."""
_LOW = 2
"""Priority `low` of queues."""


@dataclass(slots=True)
class Draft:
    """A PE program without the tables that it shares with other PEs; they are not complete yet."""

    lowering: PeLowering
    program: tables.PeProgram


def draft(lowering: PeLowering, name: str) -> Draft:
    """Lower everything that a PE can run, and give every global its place."""
    registry = lowering.registry
    _check_tasks(lowering)
    _place_globals(lowering)
    symbols = _Symbols(lowering)
    tasks = tuple(
        tables.Task(
            binding.function.name,
            binding.kind,
            binding.id,
            lowering.function(binding.function).index,
            _arguments(lowering, binding.function),
        )
        for binding in registry.tasks
    )
    exports = _exports(lowering, symbols)
    teardown = {
        color: lowering.function(function).index for color, function in registry.teardown_handlers.items()
    }
    empty = {queue: lowering.function(function).index for queue, function in registry.empty_handlers.items()}
    rotations = tuple(
        (number, lowering.function(main).index, lowering.function(other).index, limit, start)
        for number, main, other, limit, start in registry.rotations
    )
    dsrs = tuple(_dsr(lowering, load) for load in registry.dsr_loads)
    for number in sorted(lowering.used_fifos):
        lowering.pointer_address(registry.fifos[number].buffer)
    lowering.fill_memory()
    frames = (lowering.tables.functions[lowered.index] for lowered in lowering.functions.values())
    lowering.memory.check(name, max((frame.frame_bytes for frame in frames if frame is not None), default=0))
    _place_unused(lowering)
    lowering.fill_memory()
    fifos = tuple(_fifo(lowering, fifo) for fifo in registry.fifos)
    none = np.empty(0, np.int64)
    program = tables.PeProgram(
        *(name, none, (), (), tasks, none, none, lowering.memory.image()),
        stack_base=-(-lowering.memory.end // 4) * 4,
        memory_bytes=PE_BYTES,
        fifos=fifos,
        queues=tuple(_queues(lowering)),
        dsrs=dsrs,
        activated=tuple(number for number, _ in registry.activated),
        blocked=tuple((kind, number) for kind, number, _ in registry.blocked),
        unblocked=tuple((kind, number) for kind, number, _ in registry.unblocked),
        teardown_handlers=teardown,
        empty_handlers=empty,
        rotations=rotations,
        priorities=tuple(registry.priorities),
        config=tuple(registry.config.items()),
        symbols=symbols.table(),
        exports=exports,
        channels=tuple(registry.channels),
        half=lowering.half.value_type,
    )
    return Draft(lowering, program)


def finish(made: Draft, frozen: FrozenTables) -> tables.PeProgram:
    """Return the program of a draft, when the tables shared with other PEs are complete."""
    return replace(
        made.program,
        code=frozen.code,
        places=frozen.places,
        functions=frozen.functions,
        operations=frozen.operations,
        shapes=frozen.shapes,
        messages=frozen.messages,
        code_bytes=_code_bytes(made, frozen),
    )


def _check_tasks(lowering: PeLowering) -> None:
    """Raise CslError if tasks of different kinds have the same id.

    All kinds share one table of ids, unless control tasks have their own (WS3, hazard Q4).
    """
    registry = lowering.registry
    taken: dict[int, TaskBinding] = {}
    for binding in registry.tasks:
        if binding.kind == isa.ID_CONTROL and registry.control_table is not None:
            continue
        other = taken.setdefault(binding.id, binding)
        if other.kind != binding.kind and not (binding.is_old and other.function is binding.function):
            raise CslError(
                binding.at,
                f"{binding.function.node.name} and {other.function.node.name} are bound to id {binding.id}: "
                "data, local and control tasks share one table of ids",
                "choose another id",
                note=(other.at, "first bound"),
            )


def _code_bytes(made: Draft, frozen: FrozenTables) -> int:
    indices = {lowered.index for lowered in made.lowering.functions.values()}
    return sum(frozen.lengths[index] for index in indices) * _BYTES_PER_INSTRUCTION


def _place_globals(lowering: PeLowering) -> None:
    """Give small variables their addresses, in order of import and text: equal on PEs with equal code.

    Large ones get theirs when code first needs them, because variables that no code uses take no memory.
    """
    for member in _variables(lowering):
        if lowering.comptime.global_type(member).size <= _SMALL:
            lowering.address_of(member)


def _place_unused(lowering: PeLowering) -> None:
    """Give variables that no code uses the memory that is left, so that a debugger can show them."""
    for member in _variables(lowering):
        size = lowering.comptime.global_type(member).size
        if member not in lowering.memory.addresses and lowering.memory.end + size + 4 <= PE_BYTES:
            lowering.address_of(member)


def _variables(lowering: PeLowering) -> Iterator[Global]:
    for instance in lowering.registry.instances:
        for name in lowering.tables.variable_names(instance.file, instance.declarations):
            member = instance.member(name)
            if isinstance(member, Global) and _has_memory(lowering, member):
                yield member


def _has_memory(lowering: PeLowering, member: Global) -> bool:
    if member.node.linkage == "extern":
        return False
    try:
        return not t.is_comptime_only(lowering.comptime.global_type(member))
    except CslError:
        # Published programs have unused variables that cannot be evaluated.
        return False


def _arguments(lowering: PeLowering, function: FunctionValue) -> tuple[int, ...]:
    signature = lowering.comptime.signature(function)
    kinds = signature.parameters if signature else ()
    for kind in kinds:
        if kind.value_type < 0:
            raise CslError(function.node.at, f"{function.name}: an argument of type {kind} cannot be passed")
    return tuple(kind.value_type for kind in kinds)


def _exports(lowering: PeLowering, symbols: _Symbols) -> tuple[tables.Export, ...]:
    exports: list[tables.Export] = []
    for export in lowering.registry.exports:
        subject = export.subject
        if isinstance(subject, FunctionValue):
            index = lowering.function(subject).index
            exports.append(tables.Export(export.name, -1, index, _arguments(lowering, subject)))
            continue
        value = None if subject.is_var else lowering.comptime.global_value(subject)
        if isinstance(value, FunctionValue):
            index = lowering.function(value).index
            exports.append(tables.Export(export.name, -1, index, _arguments(lowering, value)))
            continue
        lowering.address_of(subject)
        exports.append(tables.Export(export.name, symbols.number(subject), is_mutable=subject.is_var))
    return tuple(exports)


class _Symbols:
    """Build the symbol table, in order of first mention."""

    def __init__(self, lowering: PeLowering) -> None:
        self._lowering = lowering
        self._numbers: dict[Global, int] = {}

    def number(self, subject: Global) -> int:
        """Return the index of a global in the table."""
        return self._numbers.setdefault(subject, len(self._numbers))

    def table(self) -> tuple[tables.Symbol, ...]:
        """Return all globals that lie in memory."""
        for storage in self._lowering.memory.addresses:
            if isinstance(storage, Global):
                self.number(storage)
        return tuple(map(self._symbol, self._numbers))

    def _symbol(self, subject: Global) -> tables.Symbol:
        kind = self._lowering.comptime.global_type(subject)
        is_unset = self._lowering.comptime.global_value(subject) is None
        key = (subject.storage_name, self._lowering.memory.addresses[subject], kind, subject.is_var, is_unset)
        cache = self._lowering.tables.symbols
        found = cache.get(key)
        if found is None:
            dtype, shape = dtype_of(kind)
            found = cache[key] = tables.Symbol(
                subject.storage_name,
                self._lowering.memory.addresses[subject],
                kind.size,
                str(kind),
                dtype,
                shape,
                subject.is_var,
                isinstance(kind, t.PointerType),
                is_unset,
            )
        return found


_DTYPES = {
    isa.T_U8: "uint8",
    isa.T_I8: "int8",
    isa.T_U16: "uint16",
    isa.T_I16: "int16",
    isa.T_U32: "uint32",
    isa.T_I32: "int32",
    isa.T_U64: "uint64",
    isa.T_I64: "int64",
    isa.T_F16: "float16",
    isa.T_F32: "float32",
    isa.T_BF16: "uint16",
    isa.T_CB16: "uint16",
    isa.T_WORD: "uint64",
}


def dtype_of(kind: t.Type) -> tuple[str, tuple[int, ...]]:
    """Return (dtype, shape) of a variable; for a pointer, the dtype of what it points to."""
    if isinstance(kind, t.PointerType):
        return dtype_of(kind.pointee)[0], ()
    if isinstance(kind, t.ArrayType):
        inner, shape = dtype_of(kind.element)
        return inner, kind.dimensions + shape
    return _DTYPES.get(kind.value_type, "uint8"), () if kind.value_type >= 0 else (kind.size,)


def _queues(lowering: PeLowering) -> list[tables.QueueBinding]:
    bindings: list[tables.QueueBinding] = []
    for setting in lowering.registry.queues.values():
        priority = setting.priority
        if priority < 0:
            priority = _LOW if lowering.arch == "wse2" else 0
        bindings.append(
            tables.QueueBinding(
                setting.queue, setting.is_output, setting.color, priority, setting.control_table
            )
        )
    return bindings


def _fifo(lowering: PeLowering, fifo: FifoSetting) -> tables.Fifo:
    def task(subject: int | FunctionValue) -> int:
        return subject if isinstance(subject, int) else lowering.task_id(subject, fifo.at)[0]

    # There may be no room for the buffer of a FIFO that no code uses.
    target = fifo.buffer.target
    has_room = target is None or target in lowering.memory.addresses
    return tables.Fifo(
        fifo.name,
        lowering.pointer_address(fifo.buffer) if has_room else 0,
        fifo.count * fifo.element.size if has_room else 0,
        fifo.empty_action,
        fifo.full_action,
        task(fifo.activate_pop),
        task(fifo.activate_push),
        max(fifo.priority, 0),
        fifo.simd,
    )


def _dsr(lowering: PeLowering, load: DsrSetting) -> tables.DsrLoad:
    settings = -1
    if load.settings is not None:
        settings = lowering.tables.operation(_settings_row(lowering, load))
    return tables.DsrLoad(t.DSR_FILES[load.kind], load.id, lowering.dsd_word(load.dsd), settings)


def _settings_row(lowering: PeLowering, load: DsrSetting) -> dict[int, int]:
    """Return the operation row of a DSR load before the start, which holds ids: there are no registers
    yet."""
    row = {isa.O_LINE: lowering.tables.place(load.at)}
    settings = load.settings
    assert settings is not None
    for name, value in settings.fields.items():
        if name == "async":
            row[isa.O_ASYNC] = int(_flag(value))
        elif name == "save_address":
            row[isa.O_SAVE_ADDRESS] = int(_flag(value))
        elif name == "single_step":
            row[isa.O_SINGLE_STEP] = int(_flag(value))
        elif name == "activate":
            row[isa.O_ACTIVATE] = _id(lowering, value, load)[0]
        elif name == "unblock":
            row[isa.O_UNBLOCK], row[isa.O_UNBLOCK_KIND] = _id(lowering, value, load)
        elif name == "ut_id" and isinstance(value, Scalar):
            row[isa.O_UT] = value.integer
        elif name == "on_control" and isinstance(value, StructValue):
            for action, subject in value.fields.items():
                row[isa.O_CONTROL] = {"terminate": 1, "activate": 2, "unblock": 3}.get(action, 0)
                if action != "terminate":
                    row[isa.O_CONTROL_ID], row[isa.O_CONTROL_KIND] = _id(lowering, subject, load)
        else:
            raise CslError(load.at, f"@load_to_dsr has no setting {name}")
    return row


def _flag(value: Value) -> bool:
    return isinstance(value, Scalar) and bool(value.number)


def _id(lowering: PeLowering, value: Value, load: DsrSetting) -> tuple[int, int]:
    if isinstance(value, FunctionValue):
        return lowering.task_id(value, load.at)
    kind = t.ID_KINDS.get(value.type, isa.ID_NONE)
    if not isinstance(value, Scalar) or kind == isa.ID_NONE:
        raise CslError(load.at, f"expected an id or a task, found {value.type}")
    return value.integer, kind
