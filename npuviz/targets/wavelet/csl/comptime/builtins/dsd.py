"""Evaluate builtins that make and derive descriptors and FIFOs, with all fields known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from npuviz.targets.wavelet.csl.comptime import memory
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.ids import (
    CHOICES,
    choice_of,
    queue_of,
    routable,
    settings_of,
)
from npuviz.targets.wavelet.csl.comptime.builtins.table import builtin, registry
from npuviz.targets.wavelet.csl.comptime.builtins.values import check_range
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import FifoSetting, FunctionValue, Global, RuntimeLocal, Scope
from npuviz.targets.wavelet.csl.comptime.values import (
    DsdValue,
    FifoValue,
    PointerValue,
    Scalar,
    StructValue,
    Value,
    boolean_of,
    integer_of,
)
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime, similar
from npuviz.targets.wavelet.csl.syntax.tree import BuiltinCall, Expression, Name, Span

DSD_FIELDS: dict[t.Type, tuple[str, ...]] = {
    t.MEM1D: ("base_address", "extent", "stride", "offset", "tensor_access", "wavelet_index_offset"),
    t.MEM4D: ("base_address", "extent", "stride", "offset", "tensor_access", "wavelet_index_offset"),
    t.CIRCBUF: ("base_address", "extent", "wraparound"),
    t.FABIN: ("input_queue", "fabric_color", "extent", "priority", "control_transform", "simd_mode"),
    t.FABOUT: (
        *("output_queue", "fabric_color", "extent", "priority", "control_transform", "simd_mode"),
        *("control", "wavelet_index_offset", "advance_switch", "zero"),
    ),
}
"""DSD type -> fields of `@get_dsd` [DSD]."""

SIMD_MODES = {"simd_off": 0, "simd_32": 1, "simd_64": 2, "simd_32_or_64": 3, "simd_max": 3}
ZERO_SOURCES = {"first_source": 1, "second_source": 2}
ACTIONS = {"test_or_suspend": 0, "terminate": 1, "suspend": 2, "fault": 3}
_ACCESS_FIELDS = ("base_address", "offset", "stride", "extent")
_FLAGS = ("control", "control_transform", "advance_switch", "wavelet_index_offset")
STEP_TYPES: tuple[t.Type, ...] = (t.U16, t.I16, t.U32, t.I32, t.F16, t.F32, t.BF16, t.CB16)
"""Element types of `@increment_dsd_offset`."""


def check_fields(kind: t.Type, names: tuple[str, ...], arch: str, at: Span) -> None:
    """Raise CslError for fields that a DSD of this type does not have, or that are missing."""
    allowed = DSD_FIELDS.get(kind)
    if allowed is None:
        raise CslError(at, f"@get_dsd makes mem1d, mem4d, circbuf, fabin and fabout DSDs, found {kind}")
    for name in names:
        if name not in allowed:
            raise CslError(at, f"a {kind} has no field .{name}", similar(name, allowed))
    if "priority" in names and arch != "wse3":
        raise CslError(at, ".priority of a DSD exists on WSE-3 only", "give it in the operation or the queue")
    if "tensor_access" in names:
        twice = [name for name in _ACCESS_FIELDS if name in names]
        if twice:
            raise CslError(at, f".{twice[0]} is given besides .tensor_access", "give one of them")
    elif "extent" not in names:
        raise CslError(at, f"a {kind} needs an .extent")
    elif kind in (t.MEM1D, t.MEM4D, t.CIRCBUF) and "base_address" not in names:
        raise CslError(at, f"a {kind} needs a .base_address")
    if kind in (t.FABIN, t.FABOUT):
        queue = "input_queue" if kind is t.FABIN else "output_queue"
        if queue not in names and (arch == "wse3" or "fabric_color" not in names):
            raise CslError(at, f"a {kind} needs an .{queue} on {arch}")


@builtin("get_dsd", 2)
def _get_dsd(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    kind = comptime.type_expression(node.arguments[0], scope)
    value = comptime.evaluate(node.arguments[1], scope)
    if not isinstance(value, StructValue):
        raise CslError(node.arguments[1].at, f"expected the fields as .{{..}}, found {value.type}")
    for queue in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        if (given := value.fields.get(str(queue))) is not None:
            found = queue_of(comptime.session, given, queue, node.at)
            value = StructValue(value.kind, {**value.fields, str(queue): found})
    dsd = make_dsd(comptime.session.arch, kind, value, node.at)
    pe = scope.instance.pe
    if pe is not None and kind in (t.FABIN, t.FABOUT) and 0 in dsd.extent:
        warning = (node.at, f"a {kind} of extent 0 moves nothing")
        if warning not in pe.warnings:
            pe.warnings.append(warning)
    return dsd


def make_dsd(arch: str, kind: t.Type, value: StructValue, at: Span) -> DsdValue:
    """Return the descriptor of `@get_dsd(kind, value)`. Raises CslError."""
    check_fields(kind, tuple(value.fields), arch, at)
    fields = dict(value.fields)
    access = fields.pop("tensor_access", None)
    if access is not None:
        if not isinstance(access, StructValue):
            raise CslError(at, ".tensor_access needs a tensor access, as in |i|{4} -> A[i]")
        for name in access.fields:
            if name not in _ACCESS_FIELDS:
                raise CslError(at, f"a tensor access has no field .{name}")
        fields.update(access.fields)
    if kind in (t.FABIN, t.FABOUT):
        return _fabric_dsd(kind, fields, at)
    return _memory_dsd(kind, fields, at)


def _numbers(value: Value, what: str, low: int, high: int, at: Span) -> tuple[int, ...]:
    """Return one integer or a tuple of integers, each low..high."""
    items = list(value.fields.values()) if isinstance(value, StructValue) else [value]
    return tuple(check_range(integer_of(item, at), low, high, what, at) for item in items)


def _memory_dsd(kind: t.Type, fields: dict[str, Value], at: Span) -> DsdValue:
    base = fields.get("base_address")
    if not isinstance(base, PointerValue):
        found = base.type if base is not None else "nothing"
        raise CslError(at, f".base_address needs a pointer, found {found}", "write &A")
    extent = _numbers(fields["extent"], "extent", 0, 0xFFFF, at)
    if kind is t.MEM1D and len(extent) != 1:
        raise CslError(at, f"a mem1d_dsd has one extent, found {len(extent)}", "use a mem4d_dsd")
    if not 1 <= len(extent) <= 4:
        raise CslError(at, f"a mem4d_dsd has 1 to 4 extents, found {len(extent)}")
    stride = (1,) * len(extent)
    if "stride" in fields:
        stride = _numbers(fields["stride"], "stride", -0x8000, 0x7FFF, at)
    if len(stride) != len(extent):
        raise CslError(at, f"{len(extent)} extents, but {len(stride)} strides")
    offset = integer_of(fields["offset"], at) if "offset" in fields else 0
    element = _element(base)
    return DsdValue(
        kind,
        base=base,
        offset=offset * element.size,
        extent=extent,
        stride=stride,
        wraparound=_wraparound(base, fields, at) if kind is t.CIRCBUF else 0,
        index_offset="wavelet_index_offset" in fields and boolean_of(fields["wavelet_index_offset"], at),
    )


def _element(base: PointerValue) -> t.Type:
    """Return the element type in which strides and offsets are counted."""
    element = base.kind.element
    return element.element if isinstance(element, t.ArrayType) else element


def _wraparound(base: PointerValue, fields: dict[str, Value], at: Span) -> int:
    pointee = base.kind.pointee
    size = pointee.count if isinstance(pointee, t.ArrayType) else 0
    if "wraparound" not in fields:
        if not size:
            raise CslError(at, "a circbuf_dsd on a scalar or [*] pointer needs a .wraparound")
        return size
    given = check_range(integer_of(fields["wraparound"], at), 1, 0xFFFF, "wraparound", at)
    if size and given > size:
        raise CslError(at, f"wraparound {given} is larger than the tensor of {size} elements")
    return given


def _fabric_dsd(kind: t.Type, fields: dict[str, Value], at: Span) -> DsdValue:
    extent = _numbers(fields["extent"], "extent", 0, 0xFFFF, at)
    if len(extent) != 1:
        raise CslError(at, f"a {kind} has one extent, found {len(extent)}")
    queue, color = -1, -1
    queue_type = t.INPUT_QUEUE if kind is t.FABIN else t.OUTPUT_QUEUE
    for name, wanted in ((str(queue_type), queue_type), ("fabric_color", t.COLOR)):
        given = fields.get(name)
        if given is None:
            continue
        if not isinstance(given, Scalar) or given.kind is not wanted:
            raise CslError(at, f".{name} takes {wanted} values, found {given.type}")
        if wanted is t.COLOR:
            color = routable(given, ".fabric_color", at)
        else:
            queue = given.integer
    flags = {name: boolean_of(fields[name], at) for name in _FLAGS if name in fields}
    simd = choice_of(fields["simd_mode"], SIMD_MODES, ".simd_mode", at) if "simd_mode" in fields else 0
    zero = choice_of(fields["zero"], ZERO_SOURCES, ".zero", at) if "zero" in fields else 0
    priority = choice_of(fields["priority"], CHOICES, "a priority", at) if "priority" in fields else -1
    return DsdValue(
        kind,
        extent=extent,
        queue=queue,
        color=color,
        index_offset=flags.get("wavelet_index_offset", False),
        control=flags.get("control", False),
        control_transform=flags.get("control_transform", False),
        advance_switch=flags.get("advance_switch", False),
        simd=simd,
        priority=priority,
        zero=zero,
    )


# ---- derived descriptors ----


def _dsd(comptime: Comptime, node: BuiltinCall, scope: Scope, kinds: tuple[t.Type, ...]) -> DsdValue:
    value = comptime.evaluate(node.arguments[0], scope)
    if isinstance(value, DsdValue) and value.kind in kinds:
        return value
    raise CslError(node.at, f"@{node.name} takes {' or '.join(map(str, kinds))}, found {value.type}")


def tensor_pointer(comptime: Comptime, node: Expression, scope: Scope) -> PointerValue:
    """Return a pointer to a tensor given by name or as a pointer. Raises NotComptime."""
    if isinstance(node, Name):
        entry = comptime.lookup(node.text, scope, node.at)
        if isinstance(entry, RuntimeLocal):
            raise NotComptime(node.at, "this is only known at run time")
        if isinstance(entry, Global):
            pointer = memory.place(comptime, node, scope)
            if not isinstance(pointer.kind.pointee, t.PointerType):
                return pointer
    value = comptime.evaluate(node, scope)
    if isinstance(value, PointerValue):
        return value
    raise CslError(node.at, f"expected a tensor or a pointer to one, found {value.type}")


@builtin("set_dsd_base_addr", 2)
def _set_dsd_base_addr(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    dsd = _dsd(comptime, node, scope, (t.MEM1D, t.MEM4D))
    return replace(dsd, base=tensor_pointer(comptime, node.arguments[1], scope), offset=0)


@builtin("increment_dsd_offset", 3)
def _increment_dsd_offset(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    dsd = _dsd(comptime, node, scope, (t.MEM1D, t.MEM4D))
    steps = comptime.evaluate(node.arguments[1], scope, t.I16)
    kind = comptime.type_expression(node.arguments[2], scope)
    if kind not in STEP_TYPES:
        raise CslError(
            node.arguments[2].at, f"@increment_dsd_offset counts 16- or 32-bit elements, found {kind}"
        )
    return replace(dsd, offset=dsd.offset + integer_of(steps, node.at) * kind.size)


@builtin("set_dsd_length", 2)
def _set_dsd_length(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    dsd = _dsd(comptime, node, scope, (t.MEM1D, t.CIRCBUF, t.FABIN, t.FABOUT))
    length = comptime.evaluate(node.arguments[1], scope, t.U16)
    return replace(dsd, extent=(integer_of(length, node.at),))


@builtin("set_dsd_stride", 2)
def _set_dsd_stride(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    dsd = _dsd(comptime, node, scope, (t.MEM1D,))
    stride = comptime.evaluate(node.arguments[1], scope, t.I8)
    return replace(dsd, stride=(integer_of(stride, node.at),))


# ---- FIFOs ----

_FIFO_SETTINGS = (
    *("empty_action", "full_action", "activate_pop", "activate_push", "priority", "simd_mode"),
    *("dest", "src", "xdsr"),
)
_ONLY_WSE3 = ("full_action", "priority")


@builtin("allocate_fifo", 1, 2, effect=True)
def _allocate_fifo(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    pe = registry(node, scope)
    buffer = tensor_pointer(comptime, node.arguments[0], scope)
    array = buffer.kind.pointee
    if not isinstance(array, t.ArrayType) or not isinstance(buffer.target, Global):
        raise CslError(node.arguments[0].at, f"a FIFO needs a global array, found {array}")
    element = array.element
    if element not in STEP_TYPES:
        raise CslError(node.arguments[0].at, f"a FIFO holds 16- or 32-bit numbers, found {element}")
    if not buffer.target.is_var:
        raise CslError(node.arguments[0].at, "the buffer of a FIFO must be a var")
    settings = settings_of(comptime, node, 1, scope, _FIFO_SETTINGS)
    arch = comptime.session.arch
    for name in settings:
        if (name in _ONLY_WSE3) != (arch == "wse3") and name in (*_ONLY_WSE3, "simd_mode"):
            raise CslError(node.at, f".{name} of a FIFO does not exist on {arch}")
    actions = [
        choice_of(settings[name], ACTIONS, f".{name}", node.at) if name in settings else 0
        for name in ("empty_action", "full_action")
    ]
    if arch == "wse2" and actions[0] > 1:
        raise CslError(node.at, "WSE-2 knows test_or_suspend and terminate only")
    pe.fifos.append(
        FifoSetting(
            buffer.target.storage_name,
            buffer,
            element,
            array.count,
            actions[0],
            actions[1],
            _activation(settings.get("activate_pop"), node.at),
            _activation(settings.get("activate_push"), node.at),
            choice_of(settings["priority"], CHOICES, "a priority", node.at) if "priority" in settings else 0,
            choice_of(settings["simd_mode"], SIMD_MODES, ".simd_mode", node.at)
            if "simd_mode" in settings
            else 0,
            _registers(settings, node.at),
            node.at,
        )
    )
    return FifoValue(len(pe.fifos) - 1, element)


def _activation(value: Value | None, at: Span) -> int | FunctionValue:
    if value is None:
        return -1
    if isinstance(value, FunctionValue) and value.is_task:
        return value
    if isinstance(value, Scalar) and value.kind is t.LOCAL_TASK_ID:
        return value.integer
    raise CslError(at, f"expected a local_task_id or a task, found {value.type}")


def _registers(settings: Mapping[str, Value], at: Span) -> tuple[int, int, int] | None:
    given = [name in settings for name in ("dest", "src", "xdsr")]
    if not any(given):
        return None
    if not all(given):
        raise CslError(at, "give all three of .dest, .src and .xdsr or none")
    numbers = [
        value.integer for name in ("dest", "src", "xdsr") if isinstance(value := settings[name], Scalar)
    ]
    if len(numbers) != 3 or numbers[0] != numbers[1]:
        raise CslError(at, ".dest and .src of a FIFO need equal ids")
    return numbers[0], numbers[1], numbers[2]
