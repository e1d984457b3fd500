"""Finds the type of an expression by lowering it on trial and throwing the code away."""

from __future__ import annotations

from collections.abc import Callable

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering
from npuviz.targets.wavelet.csl.lower.operands import Operand


def probe_type(f: FunctionLowering, lower_it: Callable[[], Operand]) -> t.Type | None:
    """Type of what `lower_it` returns, None if its code never ends; nothing of its code remains."""
    emitter, scope = f.emitter, f.scope
    rows, jumps, label = len(emitter.rows), len(emitter.jumps), emitter.last_label
    reachable, line = emitter.is_reachable, emitter.line
    registers, bytes_mark = f.registers.next, f.frame.next
    variables, targets = len(f.variables), list(f.targets)
    users = [
        (target, list(target.end.users), list(target.again.users) if target.again else [])
        for target in targets
    ]
    depth = f.control_depth
    f.scope = scope.child()
    emitter.is_reachable = True
    try:
        operand = lower_it()
        kind = operand.type if emitter.is_reachable else None
    finally:
        del emitter.rows[rows:], emitter.jumps[jumps:], f.variables[variables:]
        emitter.last_label, emitter.is_reachable, emitter.line = label, reachable, line
        f.scope, f.targets, f.control_depth = scope, targets, depth
        f.registers.release(registers)
        f.frame.release(bytes_mark)
        for target, end, again in users:
            target.end.users[:] = end
            if target.again is not None:
                target.again.users[:] = again
    return kind
