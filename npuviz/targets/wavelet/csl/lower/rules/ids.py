"""Task names and ids in run-time code: which number, of which kind."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue
from npuviz.targets.wavelet.csl.lower.dispatch import lower
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering
from npuviz.targets.wavelet.csl.lower.memo import Read
from npuviz.targets.wavelet.csl.lower.operands import Known, Operand
from npuviz.targets.wavelet.csl.lower.rules.calls import callee_of
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa


def id_operand(f: FunctionLowering, node: tree.Expression) -> tuple[int, int]:
    """(register with the number, isa.ID_...) of a color, queue or id, or of a task that is named."""
    entry = callee_of(f, node)
    if isinstance(entry, FunctionValue):
        number, kind = f.pe.task_id(entry, node.at)
        read = Read.of_task(node, f.scope) if f.can_share else None
        if read is None:
            f.can_share = False
        else:
            f.reads.append((read, ("task", number, kind)))
        return f.load_number(t.U16, number).register, kind
    return id_of(f, lower(f, node), node.at)


def id_of(f: FunctionLowering, operand: Operand, at: tree.Span) -> tuple[int, int]:
    """The same for an operand."""
    if isinstance(operand, Known) and isinstance(operand.value, FunctionValue):
        number, kind = f.pe.task_id(operand.value, at)
        return f.load_number(t.U16, number).register, kind
    kind = t.ID_KINDS.get(operand.type, isa.ID_NONE)
    if kind == isa.ID_NONE:
        raise CslError(at, f"expected a color, queue, id or task, found {operand.type}")
    return f.hold(operand, at).register, kind
