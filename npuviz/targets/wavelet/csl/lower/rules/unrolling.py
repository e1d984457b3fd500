"""Unroll loops with few rounds of known number, as the vendor's compiler does.

The compiler is LLVM at -O2 (FAB section 12), which unrolls a loop with a known number of rounds if that takes
fewer instructions than `LARGEST` (FAB, rule M4: loops of 8 and 16 rounds).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import Scalar
from npuviz.targets.wavelet.csl.lower import free_names
from npuviz.targets.wavelet.csl.lower.dispatch import lower_statement
from npuviz.targets.wavelet.csl.lower.emitter import Label
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, Target
from npuviz.targets.wavelet.csl.lower.operands import Held, Known, Local
from npuviz.targets.wavelet.csl.lower.trial import Mark
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa

LARGEST = 150
"""Instructions below which a loop is unrolled. Ref: LLVM, LoopUnrollPass.cpp, `unroll-threshold-default` (all
levels but -O3)."""
_BACK_EDGE = 2
"""Comparison and branch, which an unrolled loop has once. Ref: LLVM, TargetTransformInfo, BEInsns."""
_SIZES = {
    **dict.fromkeys((isa.OP_LI, isa.OP_MOV, isa.OP_NOP), 0),
    **dict.fromkeys((isa.OP_LDX, isa.OP_STX), 2),
    **dict.fromkeys((isa.OP_DSD, isa.OP_DSD_SET, isa.OP_DSD_MOVE), 4),
}
"""LLVM instructions that one instruction here stands for, 1 if not named: an element is an address and an
access, a DSD operation three loads of descriptors and itself (FAB section 10i), a changed descriptor as many
(assumed)."""
_STAYS = (tree.Break, tree.Continue, tree.Return, tree.Call, tree.ComptimeBlock)
"""Nodes that leave a loop or call: loops with them are not unrolled."""
_CALLS = (isa.OP_CALL, isa.OP_CALLI, isa.OP_MAP_OPEN)
_READS_A = (isa.OP_ST, isa.OP_STX, isa.OP_JZ, isa.OP_JNZ, isa.OP_ASSERT)
_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Counter:
    """The variable that counts the rounds of a loop.

    held    its register
    values  its value in each round
    last    its value after the last round
    """

    name: str
    held: Held
    values: Sequence[int]
    last: int


def lower_loop(
    f: FunctionLowering,
    body: tree.Statement,
    counter: Counter | None,
    lower_rolled: Callable[[], int],
    label: str = "",
) -> None:
    """Lower a loop by `lower_rolled`, or unrolled if that is small and its counter is known.

    A loop of one round becomes its body, however large. `lower_rolled` returns where the body begins, behind
    the test whether there is a first round; `label` is the loop's label.
    """
    if counter is None or not counter.values:
        lower_rolled()
        return
    mark = Mark(f)
    if len(counter.values) == 1:
        try:
            _write_once(f, body, counter, label)
        except CslError:
            mark.undo()
            lower_rolled()
        return
    if not _can_be_written_out(body):
        lower_rolled()
        return
    rows = f.emitter.rows[lower_rolled() :]
    size = sum(_SIZES.get(row[isa.C_OP], 1) for row in rows)
    has_call = any(row[isa.C_OP] in _CALLS for row in rows)
    if has_call or (size - _BACK_EDGE) * len(counter.values) + _BACK_EDGE >= LARGEST:
        return
    mark.undo()
    try:
        _write_out(f, body, counter)
    except CslError:  # what is known at compile time may not wrap, or leave its array
        mark.undo()
        lower_rolled()


def _can_be_written_out(body: tree.Statement) -> bool:
    stack: list[tree.Node] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, _STAYS):
            return False
        stack.extend(free_names.children(node))
    return True


def _write_once(f: FunctionLowering, body: tree.Statement, counter: Counter, label: str) -> None:
    """Lower a loop of one round. Ref: LLVM, LoopDeletion.cpp, `breakBackedgeIfNotTaken` (from -O1 on)."""
    end, again = Label(), Label()
    f.control_depth += 1
    f.types_found.clear()
    with f.inside(Target(label, end, again, is_loop=True)):
        _round(f, body, counter, counter.values[0])
    f.emitter.set_label(again)
    f.control_depth -= 1
    f.types_found.clear()
    f.load_number(counter.held.kind, counter.last, counter.held.register)
    f.emitter.set_label(end)


def _round(f: FunctionLowering, body: tree.Statement, counter: Counter, number: int) -> None:
    kind, register = counter.held.kind, counter.held.register
    f.load_number(kind, number, register)  # takes no cycle: it lets a debugger show the variable
    local = Local(counter.name, kind, False, counter.held)
    f.variables.append((local, register, -1, f.emitter.position, -1))
    f.declare(counter.name, Known(Scalar(kind, number)), mutable=False)
    lower_statement(f, body)


def _write_out(f: FunctionLowering, body: tree.Statement, counter: Counter) -> None:
    kind, register = counter.held.kind, counter.held.register
    f.control_depth += 1
    for number in counter.values:
        f.types_found.clear()
        with f.block():
            _round(f, body, counter, number)
    f.control_depth -= 1
    f.types_found.clear()
    f.load_number(kind, counter.last, register)


def counter_of(f: FunctionLowering, node: tree.While) -> Counter | None:
    """Return the counter of `while (i < n) : (i += step)` if its first value, n and step are known."""
    condition, step = node.condition, node.step
    if not isinstance(condition, tree.Binary) or not isinstance(condition.left, tree.Name):
        return None
    name = condition.left.text
    entry = f.scope.find(name)
    if not isinstance(entry, Local) or not isinstance(entry.operand, Held) or name in _assigned(node.body):
        return None
    kind = entry.type
    if not isinstance(step, tree.Assignment) or not isinstance(step.target, tree.Name):
        return None
    if step.target.text != name or step.operator not in ("+", "-") or condition.operator not in _HOLDS:
        return None
    begin = _value_in(f, entry.operand)
    stop, change = _number(f, condition.right, kind), _number(f, step.value, kind)
    if begin is None or stop is None or not change:
        return None
    return _rounds(entry, condition.operator, begin, stop, change if step.operator == "+" else -change)


def _rounds(local: Local, symbol: str, begin: int, stop: int, change: int) -> Counter | None:
    kind, held = local.type, local.operand
    assert isinstance(held, Held)
    values: list[int] = []
    while _HOLDS[symbol](begin, stop):
        values.append(begin)
        begin += change
        if len(values) > LARGEST or not isinstance(kind, t.IntegerType) or not kind.low <= begin <= kind.high:
            return None
    return Counter(local.name, held, values, begin)


def _assigned(body: tree.Statement) -> set[str]:
    names: set[str] = set()
    stack: list[tree.Node] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, tree.Assignment) and isinstance(node.target, tree.Name):
            names.add(node.target.text)
        stack.extend(free_names.children(node))
    return names


def _number(f: FunctionLowering, node: tree.Expression, kind: t.Type) -> int | None:
    value = f.known(node, kind)
    return value.integer if isinstance(value, Scalar) and isinstance(value.number, int) else None


def _value_in(f: FunctionLowering, held: Held) -> int | None:
    """Return the number that a register certainly holds here, None if that is not visible."""
    emitter, kind = f.emitter, held.kind
    if not emitter.is_reachable or not isinstance(kind, t.IntegerType):
        return None
    for row in reversed(emitter.rows[max(emitter.last_label, 0) :]):
        if row[isa.C_OP] == isa.OP_LI and row[isa.C_A] == held.register:
            number = row[isa.C_IMM] & ((1 << kind.bits) - 1)
            return number if number <= kind.high else number - (1 << kind.bits)
        if row[isa.C_OP] in _CALLS or (row[isa.C_A] == held.register and row[isa.C_OP] not in _READS_A):
            return None
    return None
