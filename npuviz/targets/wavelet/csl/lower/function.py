"""Hold the state while one function is lowered, with the basic operations: registers, memory, conversions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.coercion import converts, is_matrix, mismatch, widens
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import Cell, FunctionValue, Global, Scope
from npuviz.targets.wavelet.csl.comptime.values import ArrayValue, StructValue, Value, VoidValue
from npuviz.targets.wavelet.csl.lower import free_names
from npuviz.targets.wavelet.csl.lower.data_memory import scalar_bits
from npuviz.targets.wavelet.csl.lower.emitter import Emitter, Label, Stack
from npuviz.targets.wavelet.csl.lower.memo import CONSTANT, GLOBAL, VALUE, Read, needs_read
from npuviz.targets.wavelet.csl.lower.operands import (
    VOID_HELD,
    Bits,
    Held,
    Known,
    Local,
    Operand,
    Parts,
    Place,
    field_of,
)
from npuviz.targets.wavelet.csl.lower.pe import PeLowering
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.wafer import Variable


@dataclass
class Target:
    """A block or loop that `break` and `continue` can name.

    type, register  of the value that `break :label value` gives; None for statements
    """

    label: str
    end: Label
    again: Label | None = None
    operand: Operand | None = None
    want: t.Type | None = None
    is_loop: bool = False


@dataclass
class FunctionLowering:
    """Lower one function for one PE program; `reads` collects what its code depends on.

    instance       module whose names it sees
    result         result type; an aggregate is written to the address in register 0
    control_depth  number of run-time branches and loops around the current statement
    """

    pe: PeLowering
    function: FunctionValue
    scope: Scope
    result: t.Type
    emitter: Emitter = field(default_factory=Emitter)
    registers: Stack = field(default_factory=Stack)
    frame: Stack = field(default_factory=Stack)
    targets: list[Target] = field(default_factory=list[Target])
    variables: list[tuple[Local, int, int, int, int]] = field(
        default_factory=list[tuple[Local, int, int, int, int]]
    )
    reads: list[tuple[Read, object]] = field(default_factory=list[tuple[Read, object]])
    names_read: set[str] = field(default_factory=set[str])
    can_share: bool = True
    control_depth: int = 0
    frame_register: int = -1
    result_address: int = -1
    types_found: dict[tree.Node, t.Type | None] = field(default_factory=dict[tree.Node, "t.Type | None"])
    """Types of choices found by trial, until a compile-time variable changes."""
    cell_depths: dict[Cell, int] = field(default_factory=dict[Cell, int])

    @property
    def comptime(self) -> Comptime:
        """The evaluator of compile-time expressions."""
        return self.pe.comptime

    # ---- places in the text, scopes ----

    def at(self, node: tree.Node) -> None:
        """Mark the instructions from here on as those of `node`."""
        self.emitter.line = self.pe.tables.place(node.at)

    @contextmanager
    def block(self) -> Generator[None]:
        """Open a scope: its names, registers and frame bytes end with it."""
        outer, mark, bytes_mark = self.scope, self.registers.next, self.frame.next
        self.scope = outer.child()
        first = len(self.variables)
        try:
            yield
        finally:
            self.scope = outer
            self.registers.release(mark)
            self.frame.release(bytes_mark)
        for number in range(first, len(self.variables)):
            local, register, offset, start, end = self.variables[number]
            if end < 0:
                self.variables[number] = (local, register, offset, start, self.emitter.position)

    @contextmanager
    def inside(self, target: Target) -> Generator[None]:
        """Open a scope that `break` and `continue` can name."""
        self.targets.append(target)
        with self.block():
            yield
        self.targets.pop()

    def declare(self, name: str, operand: Operand, mutable: bool) -> None:
        """Let `name` stand for an operand until the block ends."""
        if isinstance(operand, Known) and not mutable:
            self.scope.declare(name, operand.value)
            return
        local = Local(name, operand.type, mutable, operand)
        self.scope.declare(name, local)
        register = operand.register if isinstance(operand, Held) else -1
        offset = operand.offset if isinstance(operand, Place) and operand.base == self.frame_register else -1
        if name != "_" and (register >= 0 or offset >= 0):
            self.variables.append((local, register, offset, self.emitter.position, -1))

    def variable_table(self, entry: int) -> tuple[Variable, ...]:
        """Return the variables with code indices of the whole wafer."""
        end = self.emitter.position
        return tuple(
            Variable(
                local.name,
                str(local.type),
                register,
                offset,
                entry + first,
                entry + (end if last < 0 else last),
            )
            for local, register, offset, first, last in self.variables
        )

    # ---- compile-time evaluation, with a note of what was read ----

    def known(self, node: tree.Expression, expected: t.Type | None = None) -> Value | None:
        """Return the value of an expression if it is known at compile time, else None."""
        if not free_names.may_be_known(node, self.scope):
            return None
        try:
            value = self.comptime.evaluate(node, self.scope, expected)
        except NotComptime:
            return None
        self.note_value(node, expected, value)
        return value

    def require_known(self, node: tree.Expression, what: str, expected: t.Type | None = None) -> Value:
        """Return the value of an expression that must be known at compile time. Raises CslError."""
        try:
            value = self.comptime.evaluate(node, self.scope, expected)
        except NotComptime as error:
            raise CslError(error.at or node.at, f"{what} must be known at compile time") from error
        self.note_value(node, expected, value)
        return value

    def note_value(self, node: tree.Expression, expected: t.Type | None, value: Value) -> None:
        """Remember that the code depends on the value of `node`."""
        if not self.can_share or isinstance(node, free_names.LITERALS) or not needs_read(node, self.scope):
            return
        if isinstance(node, tree.Name) and expected is None:
            if node.text in self.names_read:
                return
            self.names_read.add(node.text)
        read = Read.of(VALUE, node, self.scope, expected=expected)
        self.note_read(read, None if read is None else self.pe.key(value))

    def note_read(self, read: Read | None, key: object) -> None:
        """Remember that the code depends on a read; None means that no other PE can share the code."""
        if read is None:
            self.can_share = False
        elif self.can_share:
            self.reads.append((read, key))

    def fold(
        self, make: Callable[[list[tree.Expression]], tree.Expression], at: tree.Span, *values: Value
    ) -> Value:
        """Evaluate an expression over values: `make` builds it from names that stand for them."""
        scope = self.scope.child()
        names: list[tree.Expression] = []
        for number, value in enumerate(values):
            scope.declare(f"value {number}", value)
            names.append(tree.Name(at, f"value {number}"))
        return self.comptime.evaluate(make(names), scope)

    # ---- registers ----

    def take(self) -> int:
        """Return a fresh register."""
        return self.registers.take()

    def target(self, into: int) -> int:
        """Return the wanted register, or a fresh one for -1."""
        return into if into >= 0 else self.registers.take()

    def load_number(self, kind: t.Type, number: int | float, into: int = -1) -> Held:
        """Load a number into a register."""
        return Held(kind, self.load_word(scalar_bits(kind, number), kind, into))

    def integer(self, number: int, into: int = -1) -> int:
        """Return a register that holds an integer (an address, an id)."""
        return self.load_number(t.I32, number, into).register

    def hold(self, operand: Operand, at: tree.Span, into: int = -1) -> Held:
        """Bring an operand into a register: `into` if given, else wherever it is or a fresh one."""
        if isinstance(operand, Held):
            if into >= 0 and operand.register != into:
                self.emitter.emit(isa.OP_MOV, a=into, b=operand.register)
                return Held(operand.kind, into)
            return operand
        if isinstance(operand, Known):
            return self._hold_value(operand.value, at, into)
        if isinstance(operand, Place):
            return self._load(operand, at, into)
        if isinstance(operand, Bits) and operand.kind.value_type >= 0:
            return self._load_bits(operand, at, into)
        raise CslError(at, f"a value of type {operand.type} cannot be used here")

    def _hold_value(self, value: Value, at: tree.Span, into: int) -> Held:
        if isinstance(value, VoidValue):
            return VOID_HELD
        return Held(value.type, self.load_word(self.pe.word_of(value, at), value.type, into))

    def _load(self, place: Place, at: tree.Span, into: int) -> Held:
        word = place.kind.value_type
        if word < 0:
            raise CslError(at, f"a value of type {place.kind} does not fit a register")
        register = self.target(into)
        if place.index >= 0:
            self.emitter.emit(isa.OP_LDX, register, place.base, place.index, place.offset, place.scale, word)
        else:
            self.emitter.emit(isa.OP_LD, register, place.base, 0, place.offset, 0, word)
        return Held(place.kind, register)

    def _load_bits(self, field: Bits, at: tree.Span, into: int = -1) -> Held:
        """Load the bits of a packed field into a register; those of a packed type as an integer."""
        word, shift = field.word()
        register = self.target(into)
        self._load(word, at, register)
        if shift:
            self.emitter.emit(isa.OP_SHR, register, register, -1, shift, 0, word.kind.value_type)
        number = field.kind.backing if isinstance(field.kind, t.EnumType) else field.kind
        signed = isinstance(number, t.IntegerType) and number.signed
        if signed or shift + field.width < 8 * word.kind.size:
            self.wrap(register, t.integer(field.width, signed))
        return Held(field.kind if field.kind.value_type >= 0 else t.integer(field.width, False), register)

    def read_bits(self, field: Bits, at: tree.Span, into: int = -1) -> Operand:
        """Return the value of a packed field: in a register, or a copy of a packed type in memory."""
        if field.kind.value_type >= 0:
            return self._load_bits(field, at, into)
        place = self.frame_place(field.kind)
        self.store(place.at(0, t.integer(8 * field.kind.size, False)), self._load_bits(field, at), at)
        return replace(place, is_stable=True)

    def _store_bits(self, field: Bits, operand: Operand, at: tree.Span) -> None:
        """Write a packed field and keep the other bits of its word."""
        mark = self.registers.next
        if field.kind.value_type < 0:
            place = self.frame_place(field.kind)
            self.store(place, operand, at)
            operand = place.at(0, t.integer(8 * field.kind.size, False))
        held = self.hold(operand, at)
        if not field.width:
            return
        word, shift = field.word()
        kind = word.kind.value_type
        value, old = self.take(), self.take()
        self.emitter.emit(isa.OP_WRAP, value, held.register, imm=field.width)
        if shift:
            self.emitter.emit(isa.OP_SHL, value, value, -1, shift, 0, kind)
        self._load(word, at, old)
        others = ~(((1 << field.width) - 1) << shift) & ((1 << 8 * word.kind.size) - 1)
        self.emitter.emit(isa.OP_AND, old, old, -1, scalar_bits(word.kind, others), 0, kind)
        self.emitter.emit(isa.OP_OR, old, old, value, 0, 0, kind)
        self._store_register(word, old)
        self.registers.release(mark)

    def hold_if_runtime(self, operand: Operand, at: tree.Span) -> None:
        """Evaluate an operand only for its effects."""
        if isinstance(operand, Place) and operand.kind.value_type >= 0:
            self.hold(operand, at)

    # ---- memory ----

    def frame_place(self, kind: t.Type, align: int = 0) -> Place:
        """Return fresh frame memory for a value."""
        offset = self.frame.take(max(kind.size, 1), max(align, kind.alignment))
        return Place(kind, self.frame_base(), offset)

    def frame_base(self) -> int:
        """Return the register with the address of the frame memory."""
        if self.frame_register < 0:
            raise CslError(self.function.node.at, "internal: frame register missing")
        return self.frame_register

    def address(self, place: Place, into: int = -1) -> int:
        """Return a register that holds the address of a place."""
        if place.index < 0 and place.offset == 0 and place.base >= 0 and into in (-1, place.base):
            return place.base
        register = self.target(into)
        if place.index >= 0:
            self.emitter.emit(isa.OP_MUL, register, place.index, -1, place.scale, 0, isa.T_I32)
            if place.base >= 0:
                self.emitter.emit(isa.OP_ADD, register, register, place.base, 0, 0, isa.T_I32)
            if place.offset:
                self.emitter.emit(isa.OP_ADD, register, register, -1, place.offset, 0, isa.T_I32)
            self.emitter.emit(isa.OP_WRAP, register, register, imm=16)
        elif place.base < 0:
            self.integer(place.offset, register)
        elif place.base == self.frame_register:
            self.emitter.emit(isa.OP_LEA, register, imm=place.offset)
        else:
            self.emitter.emit(isa.OP_ADD, register, place.base, -1, place.offset, 0, isa.T_U16)
        return register

    def simple(self, place: Place) -> Place:
        """Return the same place without an index register."""
        if place.index < 0:
            return place
        return replace(place, base=self.address(place), offset=0, index=-1, scale=0)

    def store(self, place: Place | Bits, operand: Operand, at: tree.Span) -> None:
        """Write an operand, already of the place's type, to memory."""
        if isinstance(place, Bits):
            self._store_bits(place, operand, at)
        elif isinstance(operand, Known):
            self._store_value(place, operand.value, at)
        elif isinstance(operand, Parts):
            place = self.simple(place)
            for name, part in operand.fields.items():
                self.store(field_of(place, operand.kind, name, part.type), part, at)
        elif place.kind.value_type >= 0:
            mark = self.registers.next
            held = self.hold(operand, at)
            self._store_register(place, held.register)
            self.registers.release(mark)
        elif isinstance(operand, Place):
            self.copy(place, operand)
        else:
            raise CslError(at, f"a value of type {operand.type} cannot be stored")

    def _store_register(self, place: Place, register: int) -> None:
        word = place.kind.value_type
        if place.index >= 0:
            self.emitter.emit(isa.OP_STX, register, place.base, place.index, place.offset, place.scale, word)
        else:
            self.emitter.emit(isa.OP_ST, register, place.base, 0, place.offset, 0, word)

    def copy(self, place: Place, source: Place) -> None:
        """Copy the bytes of an aggregate."""
        if place.kind.size == 0:
            return
        mark = self.registers.next
        source = self.simple(source)
        base = source.base
        offset = source.offset
        if base < 0:
            base, offset = self.integer(offset), 0
        self.emitter.emit(isa.OP_COPY, self.address(place), base, imm=offset, aux=place.kind.size)
        self.registers.release(mark)

    def _store_value(self, place: Place, value: Value, at: tree.Span) -> None:
        mark = self.registers.next
        if isinstance(value, StructValue) and value.kind.bits:
            self.copy(place, self.constant(value.kind, self.pe.bytes_of(value, at), at))
        elif isinstance(value, StructValue):
            place = self.simple(place)
            for name, part in value.fields.items():
                self._store_value(place.at(value.kind.field_offset(name), part.type), part, at)
        elif isinstance(value, ArrayValue):
            self._store_array(place, value, at)
        elif not isinstance(value, VoidValue):
            self._store_register(place, self._hold_value(value, at, -1).register)
        self.registers.release(mark)

    def _store_array(self, place: Place, value: ArrayValue, at: tree.Span) -> None:
        count = value.kind.count
        data = self.pe.bytes_of(value, at)
        element = value.kind.element
        size = element.size
        if count and element.value_type >= 0 and data == data[:size] * count:
            word = self.pe.word_of(value.element(0), at)
            register = self.load_word(word, element)
            self.emitter.emit(
                isa.OP_FILL, self.address(place), register, imm=0, aux=count, kind=element.value_type
            )
        elif count:
            self.copy(place, self.constant(value.kind, data, at))

    def load_word(self, word: int, kind: t.Type, into: int = -1) -> int:
        """Return a register with a word as it is."""
        register = self.target(into)
        self.emitter.emit(isa.OP_LI, a=register, imm=word, kind=max(kind.value_type, 0))
        return register

    def constant(self, kind: t.Type, data: bytes, at: tree.Span) -> Place:
        """Return constant bytes in the memory of the PE, and of every PE that shares this code."""
        address = self.pe.memory.constant(kind, data)
        self.note_read(Read(CONSTANT, tree.VoidLiteral(at), (), kind, (), data), ("constant", address))
        return Place(kind, -1, address, is_mutable=False, is_stable=True)

    # ---- conversions ----

    def coerce(self, operand: Operand, kind: t.Type, at: tree.Span, into: int = -1) -> Operand:
        """Convert an operand to `kind` implicitly. Raises CslError where CSL does not allow it."""
        have = operand.type
        if isinstance(operand, Known):
            return Known(self.comptime.coerce(operand.value, kind, at))
        if have is kind or kind is t.ANYTYPE:
            return operand
        if isinstance(operand, Parts):
            return self._coerce_parts(operand, kind, at)
        if converts(have, kind) and not is_matrix(have, kind):
            if isinstance(have, t.FloatType):
                return self.convert(self.hold(operand, at), kind, into)
            held = self.hold(operand, at, into)
            return Held(kind, held.register, held.is_local)
        hint = f"convert with @as({kind}, ..)" if t.is_number(have) and t.is_number(kind) else ""
        raise mismatch(kind, have, at, hint)

    def _coerce_parts(self, operand: Parts, kind: t.Type, at: tree.Span) -> Operand:
        if kind is t.COMPTIME_STRUCT:
            return operand
        if not isinstance(kind, t.StructType):
            raise CslError(at, f"expected {kind}, found {operand.kind}")
        fields: dict[str, Operand] = {}
        for name in operand.fields:
            if name not in kind.names:
                raise CslError(at, f"{kind} has no field {name}")
        if kind.is_union:
            return self._union(operand, kind, at)
        for name, part in zip(kind.names, kind.types, strict=True):
            given = operand.fields.get(name)
            if given is None:
                default = kind.defaults.get(name)
                if not isinstance(default, Value):
                    raise CslError(at, f"field {name} of {kind} is missing")
                given = Known(default)
            fields[name] = self.coerce(given, part, at)
        return Parts(kind, fields)

    def _union(self, operand: Parts, kind: t.StructType, at: tree.Span) -> Place:
        """Return a union in memory, so that each of its fields can be read."""
        if len(operand.fields) != 1:
            raise CslError(at, f"{kind} takes one field, found {len(operand.fields)}")
        place = self.frame_place(kind)
        for name, given in operand.fields.items():
            part = kind.field_type(name) or t.VOID
            self.store(place.at(0, part), self.coerce(given, part, at), at)
        return replace(place, is_stable=True)

    def convert(self, held: Held, kind: t.Type, into: int = -1) -> Held:
        """Convert a number to another numeric type (as `@as`); integers are wrapped to the width."""
        have = held.kind
        if have is kind:
            return held
        source, wanted = have.value_type, kind.value_type
        if isinstance(have, t.IntegerType) and isinstance(kind, t.IntegerType) and widens(have, kind):
            return Held(kind, held.register, held.is_local)
        register = self.target(into)
        self.emitter.emit(isa.OP_CVT, register, held.register, aux=wanted, kind=source)
        if isinstance(kind, t.IntegerType) and kind.bits != kind.size * 8:
            self.wrap(register, kind)
        return Held(kind, register)

    def wrap(self, register: int, kind: t.IntegerType) -> None:
        """Reduce a register to the width of an integer type that the instructions do not know."""
        if kind.bits:
            self.emitter.emit(isa.OP_WRAP, register, register, imm=kind.bits, aux=int(kind.signed))
        else:
            self.load_number(kind, 0, register)

    # ---- names ----

    def lookup(self, name: str, at: tree.Span) -> object:
        """Return what a name stands for: Value, Cell, Global, FunctionValue or Local."""
        return self.comptime.lookup(name, self.scope, at)

    def global_place(self, variable: Global, node: tree.Expression) -> Place:
        """Return the memory of a global."""
        kind = self.comptime.global_type(variable)
        address = self.pe.address_of(variable)
        if self.can_share:
            self.note_read(Read.of(GLOBAL, node, self.scope), ("global", address, kind))
        return Place(kind, -1, address, is_mutable=variable.is_var, is_stable=not variable.is_var)


def is_aggregate(kind: t.Type) -> bool:
    """Return whether values of a type live in memory and are passed by address."""
    return isinstance(kind, t.ArrayType | t.StructType)
