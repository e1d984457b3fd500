"""Lower the body of one function: parameters, statements, its entry in the function table."""

from __future__ import annotations

from dataclasses import replace

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue, Scope
from npuviz.targets.wavelet.csl.lower import free_names
from npuviz.targets.wavelet.csl.lower.dispatch import lower, lower_statement
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, is_aggregate
from npuviz.targets.wavelet.csl.lower.memo import Read
from npuviz.targets.wavelet.csl.lower.operands import Held, Known, Operand, Parts, Place
from npuviz.targets.wavelet.csl.lower.pe import PeLowering
from npuviz.targets.wavelet.csl.lower.rules import (
    access,
    builtins,
    calls,
    dsd,
    expressions,
    loops,
    operations,
    statements,
)
from npuviz.targets.wavelet.csl.lower.rules import map as mapping
from npuviz.targets.wavelet.csl.lower.specialisation import Binding, Fixed, Passed, Pieces, Specialisation
from npuviz.targets.wavelet.csl.lower.trial import probe_type
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.wafer import Function

REGISTERED = (access, builtins, calls, dsd, expressions, loops, mapping, operations, statements)
"""Modules whose import enters rules into the tables of dispatch.py."""


class Bodies:
    """Lower the bodies of functions; a function waits for the functions that it calls."""

    def __init__(self) -> None:
        self._under_way: list[FunctionLowering] = []

    def lower(
        self, pe: PeLowering, function: FunctionValue, special: Specialisation, result: t.Type, index: int
    ) -> list[tuple[Read, object]] | None:
        """Append the code of a function to the tables; return its reads, None if other PEs cannot share the
        code."""
        node = function.node
        if node.body is None:
            hint = f"declare it `export fn {node.name}` in a module of this PE, with a body"
            raise CslError(node.at, f"{function.name} has no body", hint)
        if t.is_comptime_only(result):
            raise CslError(
                node.at, f"{function.name} gives a {result}, so it can only be called at compile time"
            )
        scope = Scope(function.instance, function.instance.scope, runtime=True)
        f = FunctionLowering(pe, function, scope, result)
        if is_aggregate(result):
            f.result_address = f.take()
        operands = [_parameter(f, binding) for binding in special]
        f.frame_register = f.take()
        self._under_way.append(f)
        try:
            f.at(node)
            addressed = free_names.address_taken(node.body)
            for parameter, operand in zip(node.parameters, operands, strict=True):
                _declare(f, parameter.name, operand, parameter.name in addressed, node.at)
            for inner in node.body.statements:
                lower_statement(f, inner)
            f.emitter.line = pe.tables.place(_end(node.body))
            if f.emitter.is_reachable and result is not t.VOID:
                raise CslError(node.at, f"{function.name} can end without giving a {result}")
            f.emitter.emit(isa.OP_RET, -1)
        finally:
            self._under_way.pop()
        _finish(f, node, index)
        return f.reads if f.can_share else None

    def type_of(self, node: tree.Expression, scope: Scope) -> t.Type:
        """Return the type of an expression of the function under way whose value is only known at run
        time."""
        if not self._under_way:
            raise NotComptime(node.at)
        f = self._under_way[-1]
        outer, f.scope = f.scope, scope
        try:
            return probe_type(f, lambda: lower(f, node)) or t.VOID
        finally:
            f.scope = outer


def _end(body: tree.Block) -> tree.Span:
    return tree.Span(body.at.file, body.at.end_line, max(1, body.at.end_column - 1), body.at.end_line, 1)


def _parameter(f: FunctionLowering, binding: Binding) -> Operand:
    if isinstance(binding, Fixed):
        return Known(binding.value)
    if isinstance(binding, Pieces):
        parts = [_parameter(f, part) for part in binding.parts]
        return Parts(binding.kind, dict(zip(binding.kind.names, parts, strict=True)))
    assert isinstance(binding, Passed)
    if binding.kind is t.VOID:
        return Held(binding.kind, -1)
    if is_aggregate(binding.kind):
        return Place(binding.kind, f.take(), is_mutable=False, is_stable=True)
    return Held(binding.kind, f.take())


def _declare(f: FunctionLowering, name: str, operand: Operand, is_addressed: bool, at: tree.Span) -> None:
    if isinstance(operand, Held) and is_addressed:
        place = f.frame_place(operand.kind)
        f.store(place, operand, at)
        operand = replace(place, is_mutable=False, is_stable=True)
    f.declare(name, operand, mutable=False)


def _finish(f: FunctionLowering, node: tree.Function, index: int) -> None:
    tables = f.pe.tables
    entry = len(tables.code)
    start = entry
    if f.frame.most:
        tables.code.append([isa.OP_LEA, f.frame_register, 0, 0, 0, 0, 0, tables.place(node.at)])
        start += 1
    tables.code.extend(f.emitter.finish(start))
    tables.lengths[index] = len(tables.code) - entry
    variables = f.variable_table(start)
    frame_bytes = -(-f.frame.most // 4) * 4
    if frame_bytes > f.pe.memory.room:
        text = f"the local variables of {f.function.name} need {frame_bytes:,} bytes"
        raise CslError(node.at, text, f"a PE has {f.pe.memory.room:,} in all")
    tables.functions[index] = Function(
        f.function.name, entry, max(f.registers.most, 1), frame_bytes, tables.source_place(node.at), variables
    )
