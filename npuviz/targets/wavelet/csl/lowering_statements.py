"""Statements: variables, assignments, branches, loops."""

from __future__ import annotations

from npuviz.targets.wavelet import isa_kernels as isa
from npuviz.targets.wavelet.csl import free_names, tree
from npuviz.targets.wavelet.csl import types as t
from npuviz.targets.wavelet.csl.dispatch import (
    lower,
    lower_as,
    lower_held,
    lower_statement,
    statement,
    type_of,
)
from npuviz.targets.wavelet.csl.emitter import Label
from npuviz.targets.wavelet.csl.errors import CslError
from npuviz.targets.wavelet.csl.lowering_expressions import (
    branch,
    give,
    known_prong,
    operate,
    settled,
    switch,
)
from npuviz.targets.wavelet.csl.lowering_functions import FunctionLowering, Target, is_aggregate
from npuviz.targets.wavelet.csl.lowering_operations import lower_operation
from npuviz.targets.wavelet.csl.operands import Held, Known, Local, Operand, Parts, Place, Span
from npuviz.targets.wavelet.csl.operations import OPERATIONS
from npuviz.targets.wavelet.csl.values import (
    ArrayValue,
    Cell,
    RangeValue,
    Scalar,
    StructValue,
    Value,
    VoidValue,
)

MAX_UNROLLED = 10_000
"""Rounds of a compile-time loop in a function body."""


@statement(tree.Block)
def _block(f: FunctionLowering, node: tree.Block) -> None:
    if not node.label:
        with f.block():
            for inner in node.statements:
                lower_statement(f, inner)
        return
    target = Target(node.label, Label())
    f.targets.append(target)
    with f.block():
        for inner in node.statements:
            lower_statement(f, inner)
    f.targets.pop()
    f.emitter.set_label(target.end)


@statement(tree.ComptimeBlock)
def _comptime_block(f: FunctionLowering, node: tree.ComptimeBlock) -> None:
    f.can_share = False
    f.comptime.execute(node.body, f.scope.child(runtime=False))


@statement(tree.ExpressionStatement)
def _expression(f: FunctionLowering, node: tree.ExpressionStatement) -> None:
    inner = node.expression
    if isinstance(inner, tree.BuiltinCall) and inner.name in OPERATIONS:
        lower_operation(f, inner, -1)
        return
    operand = lower(f, inner)
    if isinstance(inner, tree.Call) and operand.type is not t.VOID:
        raise CslError(node.at, f"the result ({operand.type}) of this call is not used", "write `_ = ..`")


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
    """Where a variable lives: a register, or frame memory for aggregates and if its address is taken."""
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
    assert isinstance(target, Place)
    kind = target.kind
    if node.operator:
        old = f.hold(target, node.target.at)
        operand = operate(f, node.operator, old, lower(f, node.value), node.at, f.take())
        operand = f.coerce(operand, kind, node.at)
    elif is_aggregate(kind):
        operand = lower_as(f, node.value, kind)
    else:
        operand = lower_held(f, node.value, kind)
    f.at(node)
    f.store(target, operand, node.at)


def _assign_register(f: FunctionLowering, node: tree.Assignment, target: Held) -> None:
    if node.operator:
        operand = operate(f, node.operator, target, lower(f, node.value), node.at, f.take())
        operand = f.coerce(operand, target.kind, node.at)
        _retarget(f, operand, target, node)
    else:
        lower_held(f, node.value, target.kind, target.register)


def _retarget(f: FunctionLowering, operand: Operand, target: Held, node: tree.Assignment) -> None:
    """Let the last instruction write straight into the variable."""
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


def _target(f: FunctionLowering, node: tree.Expression) -> Held | Place:
    """The register or memory that an assignment changes."""
    if isinstance(node, tree.Name):
        entry = f.lookup(node.text, node.at)
        if isinstance(entry, Local) and not entry.mutable:
            raise CslError(node.at, f"{node.text} is constant", "parameters and const cannot be assigned")
    operand = lower(f, node)
    if isinstance(operand, Place):
        if not operand.is_mutable:
            raise CslError(node.at, "this is constant and cannot be assigned")
        return operand
    if isinstance(operand, Held) and operand.is_local and operand.register >= 0:
        return operand
    raise CslError(node.at, "this cannot be assigned")


def _assign_comptime(f: FunctionLowering, node: tree.Assignment) -> bool:
    """Assignments to `comptime var`s happen now."""
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
    f.comptime.execute(node, f.scope.child(runtime=False))
    return True


# ---- branches ----


@statement(tree.IfStatement)
def _if(f: FunctionLowering, node: tree.IfStatement) -> None:
    value = f.known(node.condition, t.BOOL)
    if isinstance(value, Scalar):
        chosen = node.then if value.number else node.otherwise
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
    elif isinstance(prong.body, tree.Statement):
        lower_statement(f, prong.body)


# ---- loops ----


def _mentions_cell(f: FunctionLowering, node: tree.Expression) -> bool:
    return any(isinstance(f.scope.find(name), Cell) for name in free_names.all_names(node))


@statement(tree.While)
def _while(f: FunctionLowering, node: tree.While) -> None:
    if _mentions_cell(f, node.condition) and f.known(node.condition, t.BOOL) is not None:
        _unroll_while(f, node)
        return
    body, again, test = Label(), Label(), Label()
    target = Target(node.label, Label(), again, is_loop=True)
    f.control_depth += 1
    # The test stands at the end, so that a round costs one branch.
    branch(f, node.condition, target.end, when=False)
    f.emitter.set_label(body)
    f.targets.append(target)
    with f.block():
        lower_statement(f, node.body)
    f.targets.pop()
    f.emitter.set_label(again)
    if node.step is not None:
        lower_statement(f, node.step)
    f.emitter.set_label(test)
    f.at(node.condition)
    branch(f, node.condition, body, when=True)
    f.control_depth -= 1
    f.emitter.set_label(target.end)


def _unroll_while(f: FunctionLowering, node: tree.While) -> None:
    end = Label()
    for _ in range(MAX_UNROLLED):
        value = f.require_known(node.condition, "the condition", t.BOOL)
        if isinstance(value, Scalar) and not value.number:
            f.emitter.set_label(end)
            return
        again = Label()
        f.targets.append(Target(node.label, end, again, is_loop=True))
        with f.block():
            lower_statement(f, node.body)
        f.targets.pop()
        f.emitter.set_label(again)
        if node.step is not None:
            lower_statement(f, node.step)
    raise CslError(node.at, f"this compile-time loop runs more than {MAX_UNROLLED:,} times")


@statement(tree.For)
def _for(f: FunctionLowering, node: tree.For) -> None:
    with f.block():
        operand = lower(f, node.iterable)
        if isinstance(operand, Known) and isinstance(operand.value, RangeValue):
            value = operand.value
            kind = value.element
            if isinstance(kind, t.IntegerType) and kind.bits == 0:
                _unroll(
                    f, node, [Scalar(kind, number) for number in range(value.start, value.stop, value.step)]
                )
                return
            start, stop, step = (
                Known(Scalar(kind, number)) for number in (value.start, value.stop, value.step)
            )
            operand = Span(kind, start, stop, step)
        if isinstance(operand, Span):
            _for_range(f, node, operand)
        elif isinstance(operand, Known) and isinstance(operand.value, StructValue):
            _unroll(f, node, list(operand.value.fields.values()))
        elif isinstance(operand, Known) and isinstance(operand.value, ArrayValue):
            _for_known_array(f, node, operand.value)
        elif isinstance(operand, Place) and isinstance(operand.kind, t.ArrayType):
            _for_array(f, node, operand, operand.kind)
        elif isinstance(operand, Parts):
            raise CslError(node.iterable.at, "a loop over a tuple with run-time parts is not supported")
        else:
            raise CslError(node.iterable.at, f"a value of type {operand.type} cannot be looped over")


def _unroll(f: FunctionLowering, node: tree.For, values: list[Value]) -> None:
    if len(values) > MAX_UNROLLED:
        raise CslError(
            node.at, f"this compile-time loop runs {len(values):,} times, at most {MAX_UNROLLED:,}"
        )
    end = Label()
    for number, value in enumerate(values):
        again = Label()
        f.targets.append(Target(node.label, end, again, is_loop=True))
        with f.block():
            f.declare(node.element, Known(value), mutable=False)
            if node.index:
                f.declare(node.index, Known(Scalar(t.U16, number)), mutable=False)
            lower_statement(f, node.body)
        f.targets.pop()
        f.emitter.set_label(again)
    f.emitter.set_label(end)


def _for_range(f: FunctionLowering, node: tree.For, span: Span) -> None:
    kind = span.element
    if not isinstance(kind, t.IntegerType) or kind.bits == 0:
        raise CslError(node.iterable.at, f"a run-time @range needs a sized integer type, found {kind}")
    counter = Held(kind, f.take())
    f.hold(span.start, node.at, counter.register)
    stop = span.stop if isinstance(span.stop, Known) else f.hold(span.stop, node.at, f.take())
    step = span.step
    if not isinstance(step, Known) or not isinstance(step.value, Scalar):
        raise CslError(node.iterable.at, "the step of a loop must be known at compile time")
    index = -1
    if node.index:
        index = f.load_number(t.U16, 0, f.take()).register
    # The counter itself must not wrap where the range ends at the limit of its type: count in 64 bits.
    wide = t.I64
    compare = isa.OP_LT if step.value.integer > 0 else isa.OP_GT
    body, again = Label(), Label()
    target = Target(node.label, Label(), again, is_loop=True)
    test = f.take()
    limit, imm = (-1, 0)
    if isinstance(stop, Known) and isinstance(stop.value, Scalar):
        imm = stop.value.integer
    elif isinstance(stop, Held):
        limit = stop.register
    is_known_to_run = (
        isinstance(span.start, Known)
        and isinstance(span.start.value, Scalar)
        and limit < 0
        and (span.start.value.integer < imm if step.value.integer > 0 else span.start.value.integer > imm)
    )
    if not is_known_to_run:
        f.emitter.emit(compare, test, counter.register, limit, imm, 0, wide.value_type)
        f.emitter.jump(target.end, isa.OP_JZ, test)
    f.control_depth += 1
    f.emitter.set_label(body)
    f.targets.append(target)
    with f.block():
        f.declare(node.element, counter, mutable=False)
        if index >= 0:
            f.declare(node.index, Held(t.U16, index), mutable=False)
        lower_statement(f, node.body)
    f.targets.pop()
    f.emitter.set_label(again)
    f.at(node)
    f.emitter.emit(isa.OP_ADD, counter.register, counter.register, -1, step.value.integer, 0, wide.value_type)
    if index >= 0:
        f.emitter.emit(isa.OP_ADD, index, index, -1, 1, 0, t.U16.value_type)
    f.emitter.emit(compare, test, counter.register, limit, imm, 0, wide.value_type)
    f.emitter.jump(body, isa.OP_JNZ, test)
    f.control_depth -= 1
    f.emitter.set_label(target.end)


def _for_known_array(f: FunctionLowering, node: tree.For, value: ArrayValue) -> None:
    if t.is_comptime_only(value.kind):
        _unroll(f, node, [value.element(number) for number in range(value.kind.count)])
        return
    address = f.pe.memory.constant(value.kind, f.pe.bytes_of(value, node.at))
    f.can_share = False
    _for_array(f, node, Place(value.kind, -1, address, is_mutable=False), value.kind)


def _for_array(f: FunctionLowering, node: tree.For, place: Place, kind: t.ArrayType) -> None:
    """Elements one after another; the element is a copy."""
    if len(kind.dimensions) != 1:
        raise CslError(node.iterable.at, f"a loop needs an array with one dimension, found {kind}")
    if kind.count == 0:
        return
    place = f.simple(place)
    index = f.load_number(t.U16, 0, f.take()).register
    body, again = Label(), Label()
    target = Target(node.label, Label(), again, is_loop=True)
    test = f.take()
    f.control_depth += 1
    f.emitter.set_label(body)
    f.targets.append(target)
    with f.block():
        element = Place(kind.element, place.base, place.offset, index, kind.element.size, False)
        if is_aggregate(kind.element):
            f.declare(
                node.element, settled(f, Place(element.kind, f.address(element)), node.at), mutable=False
            )
        else:
            f.declare(node.element, f.hold(element, node.at, f.take()), mutable=False)
        if node.index:
            f.declare(node.index, Held(t.U16, index), mutable=False)
        lower_statement(f, node.body)
    f.targets.pop()
    f.emitter.set_label(again)
    f.at(node)
    f.emitter.emit(isa.OP_ADD, index, index, -1, 1, 0, t.U16.value_type)
    f.emitter.emit(isa.OP_LT, test, index, -1, kind.count, 0, t.U16.value_type)
    f.emitter.jump(body, isa.OP_JNZ, test)
    f.control_depth -= 1
    f.emitter.set_label(target.end)


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
