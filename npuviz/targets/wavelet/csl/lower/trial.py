"""Lower on trial: find the type of an expression, or try a way to write a loop; the code can be dropped."""

from __future__ import annotations

from collections.abc import Callable

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering
from npuviz.targets.wavelet.csl.lower.operands import Operand


class Mark:
    """A point in the lowering of one function to which `undo` returns; nothing made since then remains."""

    def __init__(self, f: FunctionLowering) -> None:
        emitter = f.emitter
        self._f = f
        self._scope, self._targets, self._depth = f.scope, list(f.targets), f.control_depth
        self._rows, self._jumps, self._label = len(emitter.rows), len(emitter.jumps), emitter.last_label
        self._reachable, self._line = emitter.is_reachable, emitter.line
        self._registers, self._bytes, self._variables = f.registers.next, f.frame.next, len(f.variables)
        self._users = [
            (target, list(target.end.users), list(target.again.users) if target.again else [])
            for target in f.targets
        ]

    def undo(self) -> None:
        """Remove all code, names and registers made since the mark."""
        f, emitter = self._f, self._f.emitter
        del emitter.rows[self._rows :], emitter.jumps[self._jumps :], f.variables[self._variables :]
        emitter.last_label, emitter.is_reachable, emitter.line = self._label, self._reachable, self._line
        f.scope, f.targets, f.control_depth = self._scope, list(self._targets), self._depth
        f.registers.release(self._registers)
        f.frame.release(self._bytes)
        for target, end, again in self._users:
            target.end.users[:] = end
            if target.again is not None:
                target.again.users[:] = again


def probe_type(f: FunctionLowering, lower_it: Callable[[], Operand]) -> t.Type | None:
    """Return the type of what `lower_it` returns, None if its code never ends; drop the code."""
    mark = Mark(f)
    f.scope = f.scope.child()
    f.emitter.is_reachable = True
    try:
        operand = lower_it()
        return operand.type if f.emitter.is_reachable else None
    finally:
        mark.undo()
