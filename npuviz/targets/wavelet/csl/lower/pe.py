"""Lower one PE program: its functions, its memory, and what its comptime code registered."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from math import prod

from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import (
    Cell,
    Entry,
    FunctionValue,
    Global,
    ModuleInstance,
    ModuleValue,
    PeRegistry,
    RuntimeLocal,
    Scope,
)
from npuviz.targets.wavelet.csl.comptime.values import (
    ArrayValue,
    DsdValue,
    FifoValue,
    PointerValue,
    Scalar,
    Storage,
    StringValue,
    StructValue,
    TypeValue,
    Value,
    VoidValue,
)
from npuviz.targets.wavelet.csl.lower.data_memory import DataMemory, scalar_bits, scalar_bytes
from npuviz.targets.wavelet.csl.lower.memo import CALL, CONSTANT, GLOBAL, TASK, VALUE, FunctionMemo, Read
from npuviz.targets.wavelet.csl.lower.specialisation import Fixed, Passed, Specialisation
from npuviz.targets.wavelet.csl.lower.wafer_tables import WaferTables
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa as k

MAX_NESTED = 250
"""Most functions that are being lowered at once, each because of a call in the one before."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A function that has (or will have) code: its index in the wafer's table and its result type."""

    index: int
    result: t.Type


@dataclass
class PeLowering:
    """Lower the program of one PE.

    tables, memo  shared by all PE programs of the wafer
    lower_body    appends the code of a function to the tables: (this, function, specialisation, result,
                  index) -> its reads, None if another PE cannot share it
    functions     functions lowered or taken over so far
    under_way     indices of functions that are being lowered (they may call themselves)
    compared      functions whose reads are being compared with those of other PEs
    """

    comptime: Comptime
    tables: WaferTables
    memo: FunctionMemo
    arch: str
    root: ModuleInstance
    registry: PeRegistry
    files: list[tree.SourceFile]
    lower_body: Callable[
        [PeLowering, FunctionValue, Specialisation, t.Type, int], list[tuple[Read, object]] | None
    ]
    half: t.Type = t.F16
    memory: DataMemory = field(default_factory=DataMemory)
    functions: dict[tuple[FunctionValue, Specialisation], Lowered] = field(
        default_factory=dict[tuple[FunctionValue, Specialisation], Lowered]
    )
    compared: set[tuple[FunctionValue, Specialisation]] = field(
        default_factory=set[tuple[FunctionValue, Specialisation]]
    )
    under_way: set[int] = field(default_factory=set[int])
    used_fifos: set[int] = field(default_factory=set[int])
    pending: list[Global] = field(default_factory=list[Global])
    _names: dict[tuple[ModuleInstance, str], Hashable] = field(
        default_factory=dict[tuple[ModuleInstance, str], Hashable]
    )

    # ---- functions ----

    def function(self, function: FunctionValue, special: Specialisation | None = None) -> Lowered:
        """Return a lowered function; lower it, or take it over from another PE, on first use."""
        if special is None:
            special = self.plain_call(function)
        found = self.function_if_known(function, special)
        if found is not None:
            return found
        result = self.result_type(function, special)
        if len(self.under_way) >= MAX_NESTED:
            raise CslError(
                function.node.at,
                f"calls of {function.name} nest {MAX_NESTED} deep, each for other compile-time arguments",
                "does it call itself with a new compile-time argument each time?",
            )
        index = self.tables.reserve_function()
        found = self.functions[function, special] = Lowered(index, result)
        self.under_way.add(index)
        try:
            reads = self.lower_body(self, function, special, result, index)
        finally:
            self.under_way.discard(index)
        if reads is not None:
            self.memo.add((function.node, special, result), reads, index)
        return found

    def function_if_known(self, function: FunctionValue, special: Specialisation) -> Lowered | None:
        """Return a function if it was lowered for this PE, or for another one with the same code."""
        key = (function, special)
        found = self.functions.get(key)
        if found is not None or key in self.compared:
            # A function that calls itself is looked up while its reads are compared: then no version fits.
            return found
        result = self.result_type(function, special)
        self.compared.add(key)
        index = self.memo.find(
            (function.node, special, result), lambda read: self.key_of_read(read, function.instance)
        )
        self.compared.discard(key)
        if index >= 0:
            found = self.functions[key] = Lowered(index, result)
        return found

    def result_type(self, function: FunctionValue, special: Specialisation) -> t.Type:
        """Return the result type of a function for the given arguments."""
        scope = Scope(function.instance, function.instance.scope, runtime=True)
        for parameter, binding in zip(function.node.parameters, special, strict=True):
            if isinstance(binding, Fixed):
                scope.declare(parameter.name, binding.value)
            else:
                scope.declare(parameter.name, RuntimeLocal(parameter.name, binding.kind, mutable=False))
        return self.comptime.type_expression(function.node.result, scope)

    def plain_call(self, function: FunctionValue) -> Specialisation:
        """Return how a task, an exported function or a function pointer is called."""
        signature = self.comptime.signature(function)
        if signature is None or any(t.is_comptime_only(kind) for kind in signature.parameters):
            raise CslError(
                function.node.at,
                f"{function.name} has compile-time parameters, so it cannot be a task or pointer",
            )
        return tuple(Passed(kind) for kind in signature.parameters)

    def task_id(self, function: FunctionValue, at: tree.Span) -> tuple[int, int]:
        """Return (number, isa.ID_...) to which a task is bound."""
        for binding in self.registry.tasks:
            if binding.function is function:
                return binding.id, binding.kind
        what = "task" if function.is_task else "function, not a task:"
        raise CslError(
            at, f"{what} {function.node.name} is not bound to an id", "bind it with @bind_local_task"
        )

    # ---- names ----

    def resolve(self, node: tree.Expression, scope: Scope) -> Entry:
        """Return what a name or a member path through modules stands for; a plain value for other
        expressions."""
        if isinstance(node, tree.Name):
            entry = self.comptime.lookup(node.text, scope, node.at)
            return entry
        if isinstance(node, tree.Member):
            base = self.resolve(node.base, scope)
            value = base
            if isinstance(base, Global) and not base.is_var:
                value = self.comptime.global_value(base) or base
            if isinstance(value, ModuleValue):
                member = value.instance.member(node.name)
                if member is None:
                    raise CslError(
                        node.at, f"module {value.instance.name or 'root'} has no member {node.name}"
                    )
                return member
            if isinstance(value, StructValue):
                part = value.fields.get(node.name)
                if part is not None:
                    return part
        return self.comptime.evaluate(node, scope)

    def key_of_name(self, instance: ModuleInstance, node: tree.Name) -> Hashable:
        """Return the key of the value of a module's global or function, remembered."""
        key = self._names.get((instance, node.text))
        if key is None:
            scope = Scope(instance, instance.scope, runtime=True)
            key = self._names[instance, node.text] = self.key(self.comptime.evaluate(node, scope))
        return key

    # ---- memory ----

    def address_of(self, storage: Storage) -> int:
        """Return the address of a global in PE memory, assigned on first use."""
        address = self.memory.addresses.get(storage)
        if address is None:
            if not isinstance(storage, Global):
                raise CslError(
                    None, f"the address of compile-time variable {storage.storage_name} cannot exist"
                )
            if storage.node.linkage == "extern":
                address = self.memory.addresses[storage] = self.address_of(self._exported(storage))
                return address
            kind = self.comptime.global_type(storage)
            if t.is_comptime_only(kind):
                raise CslError(storage.node.at, f"a variable of type {kind} cannot exist at run time")
            align = max(storage.align, kind.alignment)
            address = self.memory.take(storage.storage_name, kind.size, align, storage.node.at)
            self.memory.addresses[storage] = address
            self.pending.append(storage)
        return address

    def _exported(self, entry: Global) -> Global:
        found = self.comptime.linked(entry)
        if found is entry:
            name = entry.node.name
            raise CslError(
                entry.node.at,
                f"extern {name}: nothing that runs on this PE exports {name}",
                f"declare it `export var {name}` in one of its modules",
            )
        return found

    def fill_memory(self) -> None:
        """Write the initial values of all globals that have an address."""
        while self.pending:
            storage = self.pending.pop()
            value = self.comptime.global_value(storage)
            if value is None or isinstance(value, VoidValue):
                continue
            data = self.bytes_of(value, storage.node.at)
            if data.strip(b"\0"):
                self.memory.contents.append((self.memory.addresses[storage], data))

    def word_of(self, value: Value, at: tree.Span) -> int:
        """Return the register word of a value."""
        if isinstance(value, Scalar):
            if value.kind in t.DSR_FILES:
                return isa.pack(k.KIND_DSR, dsr_file=t.DSR_FILES[value.kind], dsr_id=value.integer)
            if value.kind is t.COMPTIME_INT:
                if not -(1 << 31) <= value.integer < 1 << 32:
                    raise CslError(at, f"{value.integer} needs a type (fits neither i32 nor u32)")
            elif value.kind is t.COMPTIME_FLOAT:
                return scalar_bits(t.F32, value.number)
            return scalar_bits(value.kind, value.number)
        if isinstance(value, PointerValue):
            return self.pointer_address(value)
        if isinstance(value, DsdValue):
            return self.dsd_word(value)
        if isinstance(value, FifoValue):
            self.used_fifos.add(value.index)
            return isa.pack(k.KIND_FIFO, base=value.index)
        if isinstance(value, FunctionValue):
            return self.function(value).index
        raise CslError(at, f"a value of type {value.type} exists only at compile time")

    def pointer_address(self, value: PointerValue) -> int:
        """Return the address that a pointer holds."""
        return value.offset if value.target is None else self.address_of(value.target) + value.offset

    def dsd_word(self, value: DsdValue) -> int:
        """Return the word of a descriptor."""
        kind = t.DSD_KINDS[value.kind]
        if kind in (k.KIND_FABIN, k.KIND_FABOUT):
            return isa.pack(
                kind,
                queue=isa.NO_QUEUE if value.queue < 0 else value.queue,
                color=isa.NO_COLOR if value.color < 0 else value.color,
                extent=value.extent[0],
                index_offset=int(value.index_offset),
                control=int(value.control),
                control_transform=int(value.control_transform),
                simd=value.simd,
                priority=max(value.priority, 0),
                advance_switch=int(value.advance_switch),
                zero=value.zero,
            )
        base = 0 if value.base is None else self.pointer_address(value.base)
        address = base + value.offset
        stride = value.stride[0] if value.stride else 1
        extent = value.extent[0] if value.extent else 0
        if kind == k.KIND_MEM4D:
            stride = self.tables.tensor_shape(value.extent, value.stride)
            extent = prod(value.extent)
        elif kind == k.KIND_CIRCBUF:
            stride = self.tables.shape(base, value.wraparound)
        return isa.pack(
            kind, base=address, extent=extent, stride=stride, index_offset=int(value.index_offset)
        )

    def bytes_of(self, value: Value, at: tree.Span) -> bytes:
        """Return the bytes of a value in PE memory."""
        kind = value.type
        if isinstance(value, ArrayValue):
            element = value.kind.element
            if value.data.dtype != object and not isinstance(element, t.FloatType):
                return value.data.tobytes()
            if element in (t.F16, t.F32):
                return value.data.tobytes()
            return b"".join(self.bytes_of(value.element(i), at) for i in range(value.kind.count))
        if isinstance(value, StructValue) and value.kind.bits:
            number = 0
            for name, part in value.fields.items():
                first, width = value.kind.bits[value.kind.names.index(name)]
                content = int.from_bytes(self.bytes_of(part, at), "little")
                number |= (content & (1 << width) - 1) << first
            return number.to_bytes(value.kind.size, "little")
        if isinstance(value, StructValue):
            data = bytearray(value.kind.size)
            for name, part in value.fields.items():
                content = self.bytes_of(part, at)
                offset = value.kind.field_offset(name)
                data[offset : offset + len(content)] = content
            return bytes(data)
        if isinstance(value, Scalar) and value.kind not in t.DSR_FILES:
            return scalar_bytes(kind, value.number)
        if isinstance(value, VoidValue):
            return b""
        word = self.word_of(value, at)
        return (word & (1 << 8 * kind.size) - 1).to_bytes(kind.size, "little")

    # ---- keys ----

    def key(self, value: Value) -> Hashable:
        """Return a key that is equal on two PEs if code that uses the value is the same there."""
        if isinstance(value, Scalar):
            number = value.number
            return (value.kind, number if number == number else "nan", str(number) if number == 0 else "")
        if isinstance(value, StringValue | TypeValue | VoidValue):
            return value
        if isinstance(value, PointerValue):
            if isinstance(value.target, Cell):
                return ("cell", id(value.target))
            return (value.kind, self.pointer_address(value))
        if isinstance(value, DsdValue):
            return (value.kind, self.dsd_word(value))
        if isinstance(value, FifoValue):
            self.used_fifos.add(value.index)
            return ("fifo", value.index)
        if isinstance(value, StructValue):
            names = tuple(value.fields) if value.kind.is_union else ()
            return (value.kind, names, *(self.key(part) for part in value.fields.values()))
        if isinstance(value, ArrayValue):
            if value.data.dtype != object:
                return (value.kind, value.data.tobytes())
            return (value.kind, *(self.key(value.element(i)) for i in range(value.kind.count)))
        if isinstance(value, FunctionValue):
            if value.is_task:
                # A task is never called: code uses it only for the id to which it is bound.
                ids = [(task.id, task.kind) for task in self.registry.tasks if task.function is value]
                return ("task", *ids) if ids else ("task", id(value))
            signature = self.comptime.signature(value)
            if signature is None or any(t.is_comptime_only(kind) for kind in signature.parameters):
                return ("function", id(value))
            return ("function", self.function(value).index)
        if isinstance(value, ModuleValue):
            return ("module", id(value.instance))
        return value

    def key_of_read(self, read: Read, instance: ModuleInstance) -> Hashable:
        """Return the key that a read made on another PE has on this PE."""
        if read.kind == CONSTANT and read.expected is not None:
            # Asking for the place also puts the bytes into the memory of that PE.
            return ("constant", self.memory.constant(read.expected, read.data))
        if (
            read.kind == VALUE
            and not read.names
            and isinstance(read.node, tree.Name)
            and read.expected is None
        ):
            return self.key_of_name(instance, read.node)
        scope = Scope(instance, instance.scope, runtime=True)
        for name, entry in read.names:
            scope.names[name] = entry
        if read.kind == VALUE:
            return self.key(self.comptime.evaluate(read.node, scope, read.expected))
        entry = self.resolve(read.node, scope)
        if read.kind != GLOBAL and isinstance(entry, Global) and not entry.is_var:
            entry = self.comptime.global_value(entry) or entry
        if read.kind == TASK and isinstance(entry, FunctionValue):
            return ("task", *self.task_id(entry, read.node.at))
        if read.kind == GLOBAL and isinstance(entry, Global):
            return ("global", self.address_of(entry), self.comptime.global_type(entry))
        if read.kind == CALL and isinstance(entry, FunctionValue):
            lowered = self.function_if_known(entry, read.special)
            return None if lowered is None else ("call", lowered.index, lowered.result)
        return ("other", id(entry))
