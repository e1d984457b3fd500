"""Lower descriptors built and changed at run time: `@get_dsd`, `@set_dsd_length`, `@increment_dsd_offset`,
..."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.csl.comptime import tensor
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.dsd import DSD_FIELDS, SIMD_MODES, STEP_TYPES, ZERO_SOURCES
from npuviz.targets.wavelet.csl.comptime.builtins.ids import CHOICES, queue_of
from npuviz.targets.wavelet.csl.comptime.values import PointerValue, Scalar, StructValue, tuple_of
from npuviz.targets.wavelet.csl.lower import dispatch
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering
from npuviz.targets.wavelet.csl.lower.operands import Held, Known, Operand, Parts, Place
from npuviz.targets.wavelet.csl.lower.rules.access import base_of
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa as k

_FABRIC_FIELDS = frozenset((*DSD_FIELDS[t.FABIN], *DSD_FIELDS[t.FABOUT]))
_MEMORY_FIELDS = frozenset(DSD_FIELDS[t.MEM1D])
_ACCESS_FIELDS = frozenset(("base_address", "offset", "stride", "extent"))
PRIORITIES = CHOICES


def struct_fields(operand: Operand, at: tree.Span) -> dict[str, Operand]:
    """Return the fields of an anonymous struct, known or in pieces."""
    if isinstance(operand, Parts):
        return dict(operand.fields)
    if isinstance(operand, Known) and isinstance(operand.value, StructValue):
        return {name: Known(value) for name, value in operand.value.fields.items()}
    raise CslError(at, f"expected a struct, as in .{{ .extent = 4 }}, found {operand.type}")


def known_choice(operand: Operand | None, names: Mapping[str, int], at: tree.Span, what: str) -> int:
    """Return the number of the name that is true in a struct such as `.{ .high = true }`; -1 if the field is
    absent."""
    if operand is None:
        return -1
    for name, part in struct_fields(operand, at).items():
        if name not in names:
            raise CslError(at, f"{what} has no value {name}", f"known: {', '.join(names)}")
        if isinstance(part, Known) and isinstance(part.value, Scalar) and part.value.number:
            return names[name]
    return -1


def known_flag(operand: Operand | None, at: tree.Span, what: str) -> bool:
    """Return a bool that must be known; False if the field is absent."""
    if operand is None:
        return False
    if isinstance(operand, Known) and isinstance(operand.value, Scalar) and operand.value.kind is t.BOOL:
        return bool(operand.value.number)
    raise CslError(at, f"{what} must be a bool that is known at compile time")


@dispatch.expression(tree.TensorAccess)
def _tensor_access(f: FunctionLowering, node: tree.TensorAccess, want: t.Type | None, into: int) -> Operand:
    base, offset, strides, extents = tensor.lowered(f.comptime, node, f.scope)
    f.can_share = False
    kind = t.I8 if len(strides) == 1 else t.I16
    fields: dict[str, Operand] = {
        "base_address": address_of(f, base),
        "offset": Known(Scalar(t.I16, offset)),
        "stride": Known(tuple_of([Scalar(kind, stride) for stride in strides])),
        "extent": Known(tuple_of([Scalar(t.U16, extent) for extent in extents])),
    }
    return Parts(t.anonymous_struct(tuple(fields), tuple(part.type for part in fields.values())), fields)


def address_of(f: FunctionLowering, node: tree.Expression) -> Held:
    """Return the address of a tensor: of an array itself, or the contents of a pointer."""
    operand = base_of(f, node)
    if isinstance(operand, Place) and isinstance(operand.kind, t.ArrayType):
        return Held(t.pointer(operand.kind, False, not operand.is_mutable), f.address(operand))
    held = f.hold(operand, node.at)
    if not isinstance(held.kind, t.PointerType):
        raise CslError(node.at, f"expected a tensor or a pointer, found {held.kind}")
    return held


@dispatch.builtin("get_dsd")
def _get_dsd(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    kind_node, fields_node = dispatch.arguments(node, 2)
    kind = dispatch.type_of(f, kind_node)
    fields = struct_fields(dispatch.lower(f, fields_node), fields_node.at)
    if kind in (t.FABIN, t.FABOUT):
        return _fabric_dsd(f, kind, fields, node, into)
    if kind is t.MEM1D:
        return _memory_dsd(f, fields, node, into)
    if kind is t.MEM4D:
        return _tensor_dsd(f, fields, node, into)
    if kind is t.CIRCBUF:
        raise CslError(node.at, "a circbuf_dsd must be known at compile time")
    raise CslError(kind_node.at, f"{kind} is not a DSD type")


def _check_fields(
    fields: dict[str, Operand], allowed: frozenset[str], node: tree.BuiltinCall, kind: str
) -> None:
    for name in fields:
        if name not in allowed:
            raise CslError(node.at, f"{kind} has no field {name}", f"known: {', '.join(sorted(allowed))}")


def _spread_access(fields: dict[str, Operand], node: tree.BuiltinCall) -> dict[str, Operand]:
    """Replace `tensor_access` by the fields it stands for."""
    access = fields.pop("tensor_access", None)
    if access is None:
        return fields
    given = struct_fields(access, node.at)
    for name in _ACCESS_FIELDS & fields.keys():
        raise CslError(node.at, f"{name} is given twice, by tensor_access and by itself")
    return {**fields, **given}


def _first(operand: Operand) -> Operand:
    """Return the only element of a 1-tuple, or the operand itself."""
    if (
        isinstance(operand, Known)
        and isinstance(operand.value, StructValue)
        and len(operand.value.fields) == 1
    ):
        return Known(next(iter(operand.value.fields.values())))
    if isinstance(operand, Parts) and len(operand.fields) == 1:
        return next(iter(operand.fields.values()))
    return operand


def _numbers(operand: Operand | None, kind: t.Type, f: FunctionLowering, at: tree.Span) -> list[int] | None:
    """Return the numbers of a known tuple."""
    if operand is None:
        return None
    if isinstance(operand, Known):
        values = operand.value.fields.values() if isinstance(operand.value, StructValue) else [operand.value]
        numbers = [f.comptime.coerce(value, kind, at) for value in values]
        return [number.integer for number in numbers if isinstance(number, Scalar)]
    raise CslError(at, "extents and strides of a mem4d_dsd must be known at compile time")


class _Word:
    """A descriptor word under construction: a known part, and fields that are set at run time."""

    def __init__(self, f: FunctionLowering, at: tree.Span, kind: t.Type, into: int) -> None:
        self.f, self.at, self.kind, self.into = f, at, kind, into
        self.known: dict[str, int] = {}
        self.later: list[tuple[int, int]] = []

    def put(self, name: str, operand: Operand | None, kind: t.Type | None) -> None:
        """Set a field of the word from an operand of type `kind` (None: as it is)."""
        if operand is None:
            return
        if kind is not None:
            operand = self.f.coerce(operand, kind, self.at)
        if isinstance(operand, Known) and isinstance(operand.value, Scalar):
            self.known[name] = operand.value.integer
        else:
            self.set(name, self.f.hold(operand, self.at).register)

    def set(self, name: str, register: int) -> None:
        """Set a field from a register, at run time."""
        self.later.append((getattr(k, f"F_{name.upper()}"), register))

    def finish(self) -> Held:
        """Emit the word into a register."""
        register = self.f.target(self.into)
        if any(register == source for _, source in self.later):
            register = self.f.take()
        self.f.load_word(isa.pack(t.DSD_KINDS[self.kind], **self.known), self.kind, register)
        for number, source in self.later:
            self.f.emitter.emit(k.OP_DSD_SET, register, register, source, number)
        return Held(self.kind, register)


def _fabric_dsd(
    f: FunctionLowering, kind: t.Type, fields: dict[str, Operand], node: tree.BuiltinCall, into: int
) -> Operand:
    at = node.at
    _check_fields(fields, _FABRIC_FIELDS, node, str(kind))
    word = _Word(f, at, kind, into)
    queue_name, queue_type = (
        ("input_queue", t.INPUT_QUEUE) if kind is t.FABIN else ("output_queue", t.OUTPUT_QUEUE)
    )
    word.known |= {"queue": isa.NO_QUEUE, "color": isa.NO_COLOR}
    if "extent" not in fields:
        raise CslError(at, f"{kind} needs an extent")
    if queue_name not in fields and (f.pe.arch != "wse2" or "fabric_color" not in fields):
        raise CslError(at, f"{kind} needs {queue_name}")
    queue = fields.get(queue_name)
    if isinstance(queue, Known):
        queue = Known(queue_of(f.comptime.session, queue.value, queue_type, at))
    word.put("queue", queue, queue_type)
    word.put("color", fields.get("fabric_color"), t.COLOR)
    word.put("extent", _first(fields["extent"]), t.U16)
    for name in ("control", "control_transform", "wavelet_index_offset", "advance_switch"):
        if name in fields and kind is t.FABIN and name != "control_transform":
            raise CslError(at, f"{kind} has no field {name}")
        target = "index_offset" if name == "wavelet_index_offset" else name
        word.known[target] = int(known_flag(fields.get(name), at, name))
    word.known["priority"] = max(0, known_choice(fields.get("priority"), PRIORITIES, at, "priority"))
    word.known["simd"] = max(0, known_choice(fields.get("simd_mode"), SIMD_MODES, at, "simd_mode"))
    word.known["zero"] = max(0, known_choice(fields.get("zero"), ZERO_SOURCES, at, "zero"))
    return word.finish()


def _base(f: FunctionLowering, fields: dict[str, Operand], node: tree.BuiltinCall, word: _Word) -> t.Type:
    """Put the base address and offset into the word; return the element type."""
    base = fields.get("base_address")
    if base is None:
        raise CslError(node.at, "base_address is missing")
    kind = base.type
    if not isinstance(kind, t.PointerType):
        raise CslError(node.at, f"base_address must be a pointer, found {kind}")
    size = kind.element.size
    offset = fields.get("offset")
    offset = Known(Scalar(t.I16, 0)) if offset is None else f.coerce(offset, t.I16, node.at)
    is_known = isinstance(offset, Known) and isinstance(offset.value, Scalar)
    shift = offset.value.integer * size if is_known else 0  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(base, Known) and isinstance(base.value, PointerValue):
        word.known["base"] = f.pe.pointer_address(base.value) + shift
        if is_known:
            return kind.element
        address = f.integer(word.known.pop("base"))
    else:
        address = f.hold(base, node.at).register
    if shift:
        moved = f.take()
        f.emitter.emit(k.OP_ADD, moved, address, -1, shift, 0, k.T_I32)
        address = moved
    if not is_known:
        scaled = f.take()
        f.emitter.emit(k.OP_MUL, scaled, f.hold(offset, node.at).register, -1, size, 0, k.T_I32)
        f.emitter.emit(k.OP_ADD, scaled, scaled, address, 0, 0, k.T_I32)
        address = scaled
    word.set("base", address)
    return kind.element


def _memory_dsd(
    f: FunctionLowering, fields: dict[str, Operand], node: tree.BuiltinCall, into: int
) -> Operand:
    _check_fields(fields, _MEMORY_FIELDS, node, "mem1d_dsd")
    fields = _spread_access(fields, node)
    word = _Word(f, node.at, t.MEM1D, into)
    if "extent" not in fields:
        raise CslError(node.at, "mem1d_dsd needs an extent")
    _base(f, fields, node, word)
    word.put("extent", _first(fields["extent"]), t.U16)
    word.known["stride"] = 1
    stride = fields.get("stride")
    word.put("stride", None if stride is None else _first(stride), t.I8)
    flag = known_flag(fields.get("wavelet_index_offset"), node.at, "wavelet_index_offset")
    word.known["index_offset"] = int(flag)
    return word.finish()


def _tensor_dsd(
    f: FunctionLowering, fields: dict[str, Operand], node: tree.BuiltinCall, into: int
) -> Operand:
    _check_fields(fields, _MEMORY_FIELDS, node, "mem4d_dsd")
    fields = _spread_access(fields, node)
    word = _Word(f, node.at, t.MEM4D, into)
    extents = _numbers(fields.get("extent"), t.U16, f, node.at)
    if not extents or len(extents) > 4:
        raise CslError(node.at, "mem4d_dsd needs an extent with up to four numbers")
    strides = _numbers(fields.get("stride"), t.I16, f, node.at) or [1] * len(extents)
    if len(strides) != len(extents):
        raise CslError(node.at, f"mem4d_dsd has {len(extents)} extents but {len(strides)} strides")
    _base(f, fields, node, word)
    total = prod(extents)
    word.known["extent"] = total
    word.known["stride"] = f.pe.tables.tensor_shape(extents, strides)
    flag = known_flag(fields.get("wavelet_index_offset"), node.at, "wavelet_index_offset")
    word.known["index_offset"] = int(flag)
    return word.finish()


# ---- changes: the input stays as it is, the result is a new word ----


def _changed(f: FunctionLowering, dsd: Held, field: int, register: int, into: int) -> Held:
    result = f.target(into)
    f.emitter.emit(k.OP_DSD_SET, result, dsd.register, register, field)
    return Held(dsd.kind, result)


def _dsd(f: FunctionLowering, node: tree.Expression, allowed: tuple[t.Type, ...], name: str) -> Held:
    held = f.hold(dispatch.lower(f, node), node.at)
    if held.kind not in allowed:
        raise CslError(node.at, f"@{name} takes {', '.join(map(str, allowed))}, found {held.kind}")
    return held


@dispatch.builtin("set_dsd_base_addr")
def _set_base(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    dsd, base = dispatch.arguments(node, 2)
    held = _dsd(f, dsd, (t.MEM1D, t.MEM4D), node.name)
    return _changed(f, held, k.F_BASE, address_of(f, base).register, into)


@dispatch.builtin("set_dsd_length")
def _set_length(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    dsd, length = dispatch.arguments(node, 2)
    held = _dsd(f, dsd, (t.MEM1D, t.FABIN, t.FABOUT, t.CIRCBUF), node.name)
    return _changed(f, held, k.F_EXTENT, dispatch.lower_held(f, length, t.U16).register, into)


@dispatch.builtin("set_dsd_stride")
def _set_stride(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    dsd, stride = dispatch.arguments(node, 2)
    held = _dsd(f, dsd, (t.MEM1D,), node.name)
    return _changed(f, held, k.F_STRIDE, dispatch.lower_held(f, stride, t.I8).register, into)


@dispatch.builtin("increment_dsd_offset")
def _increment(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    dsd, count, kind_node = dispatch.arguments(node, 3)
    kind = dispatch.type_of(f, kind_node)
    if kind not in STEP_TYPES:
        raise CslError(kind_node.at, f"the element type is one of u16 i16 u32 i32 f16 f32, found {kind}")
    held = _dsd(f, dsd, (t.MEM1D, t.MEM4D), node.name)
    register = dispatch.lower_held(f, count, t.I16).register
    result = f.target(into)
    f.emitter.emit(k.OP_DSD_MOVE, result, held.register, register, kind.size)
    return Held(held.kind, result)
