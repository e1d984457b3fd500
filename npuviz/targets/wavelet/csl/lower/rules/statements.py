"""Lower statements: variables, assignments, branches, return, break and continue."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import Cell
from npuviz.targets.wavelet.csl.comptime.values import Scalar, VoidValue
from npuviz.targets.wavelet.csl.lower import free_names
from npuviz.targets.wavelet.csl.lower.dispatch import (
    lower,
    lower_as,
    lower_held,
    lower_statement,
    statement,
    type_of,
)
from npuviz.targets.wavelet.csl.lower.emitter import Label
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, Target, is_aggregate
from npuviz.targets.wavelet.csl.lower.operands import Bits, Held, Known, Local, Operand, Place
from npuviz.targets.wavelet.csl.lower.operation_forms import OPERATIONS
from npuviz.targets.wavelet.csl.lower.rules.access import base_of
from npuviz.targets.wavelet.csl.lower.rules.expressions import (
    branch,
    decided,
    give,
    known_prong,
    operate,
    settled,
    switch,
)
from npuviz.targets.wavelet.csl.lower.rules.negations import without_negation
from npuviz.targets.wavelet.csl.lower.rules.operations import lower_operation
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa


@statement(tree.Block)
def _block(f: FunctionLowering, node: tree.Block) -> None:
    if not node.label:
        with f.block():
            for inner in node.statements:
                lower_statement(f, inner)
        return
    target = Target(node.label, Label())
    with f.inside(target):
        for inner in node.statements:
            lower_statement(f, inner)
    f.emitter.set_label(target.end)


@statement(tree.ComptimeBlock)
def _comptime_block(f: FunctionLowering, node: tree.ComptimeBlock) -> None:
    f.can_share = False
    f.types_found.clear()
    f.comptime.execute(node.body, f.scope.child(runtime=False))


@statement(tree.ExpressionStatement)
def _expression(f: FunctionLowering, node: tree.ExpressionStatement) -> None:
    inner = node.expression
    if isinstance(inner, tree.BuiltinCall) and inner.name in OPERATIONS:
        lower_operation(f, inner, -1)
        return
    lower(f, inner)


# ---- variables ----


@statement(tree.Variable)
def _variable(f: FunctionLowering, node: tree.Variable) -> None:
    kind = None if node.type is None else type_of(f, node.type)
    if node.kind == "param":
        raise CslError(node.at, "a param cannot be declared in a function")
    if f.scope.names.get(node.name) is not None:
        raise CslError(node.at, f"{node.name} is declared twice in this block")
    if node.comptime:
        value = None if node.value is None else f.require_known(node.value, "a comptime variable", kind)
        cell = Cell(node.name, kind or (value.type if value else t.VOID), value, node.kind == "var")
        f.scope.declare(node.name, cell)
        f.cell_depths[cell] = f.control_depth
        return
    if node.value is None:
        if kind is None:
            raise CslError(node.at, f"{node.name} needs a type or a value")
        f.declare(node.name, _storage(f, node, kind), mutable=True)
        return
    if node.kind == "const":
        _constant(f, node, kind)
    else:
        _mutable(f, node, node.value, kind)


def _constant(f: FunctionLowering, node: tree.Variable, kind: t.Type | None) -> None:
    assert node.value is not None
    is_addressed = node.name in free_names.address_taken(_body(f))
    if is_addressed:
        value = f.known(node.value, kind)
        if value is None or not (t.is_comptime_only(value.type) or isinstance(value, VoidValue)):
            _mutable(f, node, node.value, kind, is_const=True)
            return
    register = f.take()
    operand = lower(f, node.value, kind, register)
    if kind is not None:
        operand = f.coerce(operand, kind, node.value.at, register)
    operand = settled(f, operand, node.value.at)
    f.declare(node.name, operand, mutable=False)


def _mutable(
    f: FunctionLowering,
    node: tree.Variable,
    source: tree.Expression,
    kind: t.Type | None,
    is_const: bool = False,
) -> None:
    value = f.known(source, kind)
    wanted = kind
    operand: Operand
    if value is not None:
        operand = Known(value)
    elif wanted is not None and not is_aggregate(wanted) and not _needs_memory(f, node):
        # Evaluate straight into the register of the variable.
        register = f.take()
        held = lower_held(f, source, wanted, register)
        f.registers.release(register + 1)
        f.declare(node.name, Held(wanted, held.register, is_local=True), mutable=not is_const)
        return
    else:
        operand = lower(f, source, wanted)
    if wanted is None:
        wanted = operand.type
    if t.is_comptime_only(wanted):
        hint = f"give {node.name} a type, as in `var {node.name}: i16`" if wanted is t.COMPTIME_INT else ""
        raise CslError(node.at, f"{node.name} has type {wanted}, which does not exist at run time", hint)
    operand = f.coerce(operand, wanted, source.at)
    place = _storage(f, node, wanted)
    if isinstance(place, Held):
        f.hold(operand, source.at, place.register)
    else:
        f.store(place, operand, source.at)
    f.declare(node.name, place, mutable=not is_const)


def _storage(f: FunctionLowering, node: tree.Variable, kind: t.Type) -> Held | Place:
    """Return where a variable lives: a register, or frame memory for aggregates and if its address is
    taken."""
    if t.is_comptime_only(kind) or kind is t.VOID:
        raise CslError(node.at, f"a variable of type {kind} cannot exist at run time")
    if kind.value_type >= 0 and not _needs_memory(f, node):
        return Held(kind, f.take(), is_local=True)
    align = 0
    if node.align is not None:
        value = f.require_known(node.align, "an alignment")
        align = value.integer if isinstance(value, Scalar) else 0
    return f.frame_place(kind, align)


def _needs_memory(f: FunctionLowering, node: tree.Variable) -> bool:
    return node.name in free_names.address_taken(_body(f))


def _body(f: FunctionLowering) -> tree.Node:
    return f.function.node.body or f.function.node


# ---- assignments ----


@statement(tree.Assignment)
def _assignment(f: FunctionLowering, node: tree.Assignment) -> None:
    if isinstance(node.target, tree.Name) and node.target.text == "_" and not node.operator:
        f.hold_if_runtime(lower(f, node.value), node.at)
        return
    if _assign_comptime(f, node):
        return
    target = _target(f, node.target)
    if isinstance(target, Held):
        _assign_register(f, node, target)
        return
    kind = target.kind
    if node.operator:
        old = f.hold(target, node.target.at)
        operand = _combined(f, node, old)
    elif is_aggregate(kind):
        operand = lower_as(f, node.value, kind)
    else:
        operand = lower_held(f, node.value, kind)
    f.at(node)
    f.store(target, operand, node.at)


def _combined(f: FunctionLowering, node: tree.Assignment, old: Held) -> Operand:
    """Return the operand that `old op= value` stores; a choice of untyped numbers takes the type of `old`."""
    want = old.kind if node.operator not in ("<<", ">>") else None
    mark = f.registers.next
    symbol, right = without_negation(f, node.operator, lower(f, node.value, want), mark)
    operand = operate(f, symbol, old, right, node.at, f.take())
    return f.coerce(operand, old.kind, node.at)


def _assign_register(f: FunctionLowering, node: tree.Assignment, target: Held) -> None:
    if node.operator:
        operand = _combined(f, node, target)
        _retarget(f, operand, target, node)
    else:
        lower_held(f, node.value, target.kind, target.register)


def _retarget(f: FunctionLowering, operand: Operand, target: Held, node: tree.Assignment) -> None:
    """Let the last instruction write directly into the variable."""
    held = f.hold(operand, node.at)
    rows = f.emitter.rows
    last = rows[-1] if rows else None
    if (
        last is not None
        and f.emitter.is_reachable
        and f.emitter.last_label != len(rows)
        and isa.OP_ADD <= last[isa.C_OP] <= isa.OP_MAX
        and last[isa.C_A] == held.register
    ):
        last[isa.C_A] = target.register
    else:
        f.hold(held, node.at, target.register)


def _target(f: FunctionLowering, node: tree.Expression) -> Held | Place | Bits:
    """Return the register or memory that an assignment changes."""
    if isinstance(node, tree.Name):
        entry = f.lookup(node.text, node.at)
        if isinstance(entry, Local) and not entry.mutable:
            raise CslError(node.at, f"{node.text} is constant", "parameters and const cannot be assigned")
    operand = base_of(f, node) if isinstance(node, tree.Member) else lower(f, node)
    if isinstance(operand, Place | Bits):
        if not (operand.base if isinstance(operand, Bits) else operand).is_mutable:
            raise CslError(node.at, "this is constant and cannot be assigned")
        return operand
    if isinstance(operand, Held) and operand.is_local and operand.register >= 0:
        return operand
    raise CslError(node.at, "this cannot be assigned")


def _assign_comptime(f: FunctionLowering, node: tree.Assignment) -> bool:
    """Execute an assignment to a `comptime var` now; return False for other targets."""
    root = node.target
    while isinstance(root, tree.Member | tree.Index):
        root = root.base
    entry = f.scope.find(root.text) if isinstance(root, tree.Name) else None
    if not isinstance(entry, Cell):
        return False
    if f.cell_depths.get(entry, f.control_depth) < f.control_depth:
        raise CslError(
            node.at, f"{entry.name} is a comptime var: it cannot change under a run-time condition"
        )
    f.require_known(node.value, "the value of a comptime var")
    f.types_found.clear()
    f.comptime.execute(node, f.scope.child(runtime=False))
    return True


# ---- branches ----


@statement(tree.IfStatement)
def _if(f: FunctionLowering, node: tree.IfStatement) -> None:
    value = decided(f, node.condition)
    if value is not None:
        chosen = node.then if value else node.otherwise
        if chosen is not None:
            with f.block():
                lower_statement(f, chosen)
        return
    otherwise, end = Label(), Label()
    branch(f, node.condition, otherwise, when=False)
    f.control_depth += 1
    with f.block():
        lower_statement(f, node.then)
    if node.otherwise is None:
        f.emitter.set_label(otherwise)
    else:
        f.emitter.jump(end)
        f.emitter.set_label(otherwise)
        with f.block():
            lower_statement(f, node.otherwise)
        f.emitter.set_label(end)
    f.control_depth -= 1


@statement(tree.SwitchStatement)
def _switch(f: FunctionLowering, node: tree.SwitchStatement) -> None:
    value = f.known(node.subject)
    if value is not None:
        chosen = known_prong(f, node.prongs, value, node.at)
        with f.block():
            _arm(f, chosen)
        return
    switch(f, node.subject, node.prongs, node.at, lambda prong: _arm(f, prong))


def _arm(f: FunctionLowering, prong: tree.Prong) -> None:
    if isinstance(prong.body, tree.Expression):
        lower(f, prong.body)
    else:
        lower_statement(f, prong.body)


# ---- leaving ----


@statement(tree.Return)
def _return(f: FunctionLowering, node: tree.Return) -> None:
    if node.value is None:
        if f.result is not t.VOID:
            raise CslError(node.at, f"this function gives a {f.result}: return needs a value")
        f.emitter.emit(isa.OP_RET, -1)
        return
    if f.result is t.VOID:
        operand = lower(f, node.value)
        if operand.type is not t.VOID:
            raise CslError(node.at, "this function gives no value")
        f.emitter.emit(isa.OP_RET, -1)
        return
    if is_aggregate(f.result):
        operand = lower_as(f, node.value, f.result)
        f.store(Place(f.result, f.result_address), operand, node.at)
        f.emitter.emit(isa.OP_RET, -1)
        return
    held = lower_held(f, node.value, f.result)
    f.at(node)
    f.emitter.emit(isa.OP_RET, held.register)


@statement(tree.Break)
def _break(f: FunctionLowering, node: tree.Break) -> None:
    for target in reversed(f.targets):
        if node.label == target.label if node.label else target.is_loop:
            break
    else:
        name = f"block or loop {node.label}" if node.label else "loop"
        raise CslError(node.at, f"there is no {name} around this break")
    if node.value is not None:
        if target.operand is None:
            operand = lower(f, node.value, target.want)
            if target.is_loop or target.want is not None:
                raise CslError(node.at, "this block gives no value")
            target.operand = operand  # trial lowering: only the type counts
        elif target.want is not None:
            give(f, node.value, target.want, target.operand)
    f.emitter.jump(target.end)


@statement(tree.Continue)
def _continue(f: FunctionLowering, node: tree.Continue) -> None:
    for target in reversed(f.targets):
        if target.again is not None and (not node.label or node.label == target.label):
            f.emitter.jump(target.again)
            return
    raise CslError(node.at, "there is no loop around this continue")
