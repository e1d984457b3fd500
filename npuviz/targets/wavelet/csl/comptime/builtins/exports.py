"""Evaluate builtins of comptime blocks for what the host sees and for registers with initial contents."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import memory
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.ids import number_of
from npuviz.targets.wavelet.csl.comptime.builtins.table import builtin, registry
from npuviz.targets.wavelet.csl.comptime.builtins.values import check_range, truth
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import DsrSetting, ExportSymbol, FunctionValue, Global, Scope
from npuviz.targets.wavelet.csl.comptime.values import VOID, DsdValue, Scalar, StructValue, Value
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import BuiltinCall, Expression
from npuviz.targets.wavelet.wafer import TIMER, TIMER_CONTROL


@builtin("export_symbol", 1, 2, effect=True)
def _export_symbol(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    expression = node.arguments[0]
    subject = _symbol(comptime, expression, scope)
    if len(node.arguments) > 1:
        value = comptime.evaluate(node.arguments[1], scope, t.COMPTIME_STRING)
        name = getattr(value, "text", b"").decode(errors="replace")
    else:
        name = expression.text if isinstance(expression, tree.Name) else subject.node.name
    pe = registry(node, scope)
    if any(export.name == name for export in pe.exports):
        raise CslError(node.at, f"{name} is exported twice")
    pe.exports.append(ExportSymbol(name, subject, node.at))
    return VOID


@builtin("has_exported_tensors", 0)
def _has_exported_tensors(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    if not scope.runtime:
        raise CslError(node.at, "@has_exported_tensors is for functions and tasks")
    comptime.memo.effects += 1
    subjects = [export.subject for export in registry(node, scope).exports]
    kinds = [comptime.global_type(one) for one in subjects if isinstance(one, Global)]
    return truth(any(isinstance(kind, t.PointerType) for kind in kinds))


def _symbol(comptime: Comptime, node: Expression, scope: Scope) -> Global | FunctionValue:
    if isinstance(node, tree.Name):
        entry = comptime.lookup(node.text, scope, node.at)
        if isinstance(entry, Global):
            value = None if entry.is_var else comptime.global_value(entry)
            return value if isinstance(value, FunctionValue) else entry
        if isinstance(entry, FunctionValue):
            return entry
    elif isinstance(node, tree.Member):
        value = comptime.evaluate(node, scope)
        if isinstance(value, FunctionValue):
            return value
        target = memory.place(comptime, node, scope).target
        if isinstance(target, Global):
            return target
    raise CslError(node.at, "only a global variable or a function can be exported")


@builtin("load_to_dsr", 2, 3, effect=True)
def _load_to_dsr(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return _load(comptime, node, scope, ())


@builtin("load_to_dsr_xdsr", 3, 4, effect=True)
def _load_circular(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return _load(comptime, node, scope, (t.XDSR,))


@builtin("load_to_dsr_xdsr_sr", 4, 5, effect=True)
def _load_tensor(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return _load(comptime, node, scope, (t.XDSR, None))


def _load(comptime: Comptime, node: BuiltinCall, scope: Scope, between: tuple[t.Type | None, ...]) -> Value:
    """Load a DSD into a DSR before the start.

    between  types of the registers that stand between the two arguments; None: a tuple of registers
    """
    dsr = comptime.evaluate(node.arguments[0], scope)
    for kind, argument in zip(between, node.arguments[1:], strict=False):
        found = comptime.evaluate(argument, scope)
        if kind is not None and found.type is not kind:
            raise CslError(argument.at, f"expected an {kind}, found {found.type}")
    dsd_node, rest = node.arguments[1 + len(between)], node.arguments[2 + len(between) :]
    dsd = comptime.evaluate(dsd_node, scope)
    if not isinstance(dsr, Scalar) or dsr.kind not in t.DSR_FILES:
        raise CslError(node.arguments[0].at, f"expected a DSR, found {dsr.type}")
    if not isinstance(dsd, DsdValue):
        raise CslError(dsd_node.at, f"expected a DSD, found {dsd.type}")
    if not between and dsd.kind in (t.MEM4D, t.CIRCBUF):
        raise CslError(dsd_node.at, f"a {dsd.kind} needs @load_to_dsr_xdsr or @load_to_dsr_xdsr_sr")
    settings: StructValue | None = None
    if rest:
        value = comptime.evaluate(rest[0], scope)
        if not isinstance(value, StructValue):
            raise CslError(rest[0].at, f"expected settings as .{{..}}, found {value.type}")
        settings = value
    registry(node, scope).dsr_loads.append(DsrSetting(dsr.kind, dsr.integer, dsd, settings, node.at))
    return VOID


@builtin("get_symbol_id", 1)
def _get_symbol_id(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    """Return the number by which the host knows an exported symbol."""
    subject = _symbol(comptime, node.arguments[0], scope)
    names = [export.name for export in registry(node, scope).exports if export.subject is subject]
    comptime.memo.effects += 1
    if not names:
        hint = "call @export_symbol in a comptime block"
        raise CslError(node.arguments[0].at, "this is not exported", hint)
    layout = comptime.session.layout
    declared = list(layout.exported) if layout is not None else []
    if names[0] not in declared:
        raise CslError(node.arguments[0].at, f"the layout does not export {names[0]}", "call @export_name")
    return Scalar(t.U16, declared.index(names[0]))


@builtin("set_config", 2, 3, effect=True)
def _set_config(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    address = _address(comptime, node, scope)
    value = check_range(comptime.constant_integer(node.arguments[1], scope), 0, 0xFFFF, "value", node.at)
    registry(node, scope).config[address] = value
    return VOID


@builtin("get_config", 1, 2, effect=True)
def _get_config(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    address = _address(comptime, node, scope)
    return Scalar(t.U16, registry(node, scope).config.get(address, 0))


def _address(comptime: Comptime, node: BuiltinCall, scope: Scope) -> int:
    """Return the word address of a register that code may set before the start."""
    at = node.arguments[0].at
    address = check_range(comptime.constant_integer(node.arguments[0], scope), 0, 0xFFFF, "address", at)
    if TIMER <= address <= TIMER_CONTROL:
        return address
    hint = "routes, switches, queues, filters, tasks and DSRs have builtins of their own"
    raise CslError(at, f"the configuration register {address:#x} is not simulated before the start", hint)


@builtin("get_filter_id", 1)
def _get_filter_id(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    color = number_of(comptime.evaluate(node.arguments[0], scope), t.COLOR, "@get_filter_id", node.at)
    comptime.memo.effects += 1
    pe = registry(node, scope)
    filters = sorted(channel.color for channel in pe.channels if channel.filter is not None)
    if color not in filters:
        raise CslError(node.at, f"color {color} has no filter that this PE's code configures")
    return Scalar(t.U16, filters.index(color))
