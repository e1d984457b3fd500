"""Plan Vector's instructions that use accumulators: selections, reductions and running results."""

import numpy as np

from npuviz.targets.neuroncore.isa import ARG0, ARG1, DST, RES, SRC0, SRC1, Alu, Dtype, Flag, ReduceCmd
from npuviz.targets.neuroncore.kernels import values as vk
from npuviz.targets.neuroncore.values import alu
from npuviz.targets.neuroncore.values.element_types import convert_into, round_tf32
from npuviz.targets.neuroncore.values.memory import Operand, ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Plan, Step
from npuviz.targets.neuroncore.values.vector import operator_of

FP32_MIN = np.finfo(np.float32).min
_IDENTITY = {
    Alu.ADD: 0.0,
    Alu.SUBTRACT: 0.0,
    Alu.MULTIPLY: 1.0,
    Alu.MAXIMUM: -np.inf,
    Alu.MINIMUM: np.inf,
}
"""Value of the accumulators after a reset. Ref: SDK isa."""
_SCANS = {
    Alu.ADD: vk.SCAN_ADD,
    Alu.SUBTRACT: vk.SCAN_SUBTRACT,
    Alu.MULTIPLY: vk.SCAN_MULTIPLY,
    Alu.MAXIMUM: vk.SCAN_MAXIMUM,
    Alu.MINIMUM: vk.SCAN_MINIMUM,
}


class _Accumulators:
    """The accumulators of the partitions that an instruction works on."""

    def __init__(self, build: Build, source: Operand, like: np.ndarray, op: int) -> None:
        """Prepare accumulators that combine by `op`; a load command takes ARG1 or imm1."""
        if op not in _IDENTITY:
            raise ValueFault(f"operator {op} does not accumulate")
        core = len(build.chip.sbuf) + build.ins.core
        first, rows = source.partition, source.partitions
        self.lanes = build.chip.accumulators[core][first : first + rows]
        self.command = build.ins.cmd
        self.op = op
        self._initial = build.argument(ARG1, 1, like, rows) if self.command == ReduceCmd.LOAD_REDUCE else None
        self._identity = _IDENTITY[Alu(op)]
        self._result = build.target(RES) if build.has(RES) else None
        self._negates = build.ins.has(Flag.NEGATE)
        if self._result is not None and (self._result.count != 1 or self._result.partitions != rows):
            raise ValueFault("the accumulators go to one element in each partition")
        build.accumulates = core

    def prepare(self) -> bool:
        """Reset or load the accumulators by the command; return whether results are to be reduced into them.

        Without a command their state is undefined afterwards, here NaN. Ref: SDK isa.
        """
        if self.command == ReduceCmd.IDLE:
            self.lanes.fill(np.nan)
        if self.command in (ReduceCmd.RESET, ReduceCmd.RESET_REDUCE):
            self.lanes.fill(self._identity)
        elif self.command == ReduceCmd.LOAD_REDUCE:
            self.lanes[:] = np.asarray(self._initial, np.float32).reshape(-1)
        return self.command in (ReduceCmd.REDUCE, ReduceCmd.RESET_REDUCE, ReduceCmd.LOAD_REDUCE)

    def take(self, made: np.ndarray) -> None:
        """Reduce results into the accumulators if the command says so, and write RES."""
        if self.prepare():
            flat = made.reshape(made.shape[0], -1)
            alu.FLOAT_OPERATORS[self.op](self.lanes, alu.reduce_values(self.op, flat, (1,)), self.lanes)
        self.read_out()

    def read_out(self) -> None:
        """Write the accumulators to RES if it is present."""
        if self._result is None:
            return
        found = -self.lanes if self._negates else self.lanes
        found = round_tf32(np.array(found)) if self._result.dtype == Dtype.TFLOAT32 else found
        convert_into(self._result.view, found.reshape(self._result.view.shape))


def _finished(build: Build, compute: Step, made: np.ndarray, accumulators: _Accumulators) -> Plan:
    def run() -> None:
        compute()
        accumulators.take(made)

    return build.finish(run)


def tensor_scalar_reduce(build: Build) -> Plan:
    """Plan DST = SRC0 op0 ARG0; the accumulators take op1 over the free dimensions."""
    ins = build.ins
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    f = operator_of(alu.FLOAT_OPERATORS, ins.op0)
    x, y, made = build.floats(a), build.argument(ARG0, 0, a, source.partitions), build.sink(out, target.dtype)
    is_reversed = ins.has(Flag.REVERSE0)
    accumulators = _Accumulators(build, source, a, ins.op1)
    return _finished(build, lambda: f(y, x, made) if is_reversed else f(x, y, made), made, accumulators)


def exponential(build: Build) -> Plan:
    """Plan DST = exp(SRC0 - ARG0); the accumulators take the sum."""
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    x, y, made = build.floats(a), build.argument(ARG0, 0, a, source.partitions), build.sink(out, target.dtype)
    accumulators = _Accumulators(build, source, a, Alu.ADD)

    def compute() -> None:
        np.subtract(x, y, out=made)
        np.exp(made, out=made)

    return _finished(build, compute, made, accumulators)


def select_reduce(build: Build) -> Plan:
    """Plan DST = SRC0 where SRC1 is not 0 (REVERSE0: is 0), else ARG0; the accumulators take the maximum."""
    source, predicate, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    a, p, out = build.arrange(source, predicate, target)
    x, other = build.floats(a), build.argument(ARG0, 0, a, source.partitions)
    made, kept = build.sink(out, target.dtype), build.ins.has(Flag.REVERSE0)
    accumulators = _Accumulators(build, source, a, Alu.MAXIMUM)

    def compute() -> None:
        chosen = (p == 0) if kept else (p != 0)
        np.copyto(made, np.where(chosen, x, np.float32(other) if isinstance(other, float) else other))

    return _finished(build, compute, made, accumulators)


def range_select(build: Build) -> Plan:
    """Plan DST = SRC0 where imm2 + its column passes op0 ARG0 and op1 ARG1, else FP32_MIN; then the
    maximum.
    """
    ins = build.ins
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    x, made = build.floats(a), build.sink(out, target.dtype)
    rows = source.partitions
    bounds = [build.argument(position, position - ARG0, a, rows) for position in (ARG0, ARG1)]
    tests = [operator_of(alu.FLOAT_OPERATORS, op) for op in (ins.op0, ins.op1)]
    columns = (np.float32(ins.imm[2]) + np.arange(source.count, dtype=np.float32)).reshape(a.shape[1:])
    accumulators = _Accumulators(build, source, a, Alu.MAXIMUM)

    def compute() -> None:
        kept = np.ones(a.shape, np.bool_)
        found = np.empty(a.shape, np.float32)
        for test, bound in zip(tests, bounds, strict=True):
            test(np.broadcast_to(columns, a.shape), bound, found)
            kept &= found != 0
        np.copyto(made, np.where(kept, x, FP32_MIN))

    return _finished(build, compute, made, accumulators)


def tensor_scalar_cumulative(build: Build) -> Plan:
    """Plan DST[i] = accumulator = op1 of SRC0[i] op0 ARG0 and the accumulator."""
    ins = build.ins
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    rows, count = source.partitions, source.count
    f = operator_of(alu.FLOAT_OPERATORS, ins.op0)
    x, y = build.floats(a), build.argument(ARG0, 0, a, rows)
    if ins.op1 not in _SCANS:
        raise ValueFault(f"operator {ins.op1} does not accumulate")
    step = _SCANS[Alu(ins.op1)]
    accumulators = _Accumulators(build, source, a, ins.op1)
    single, made = build.scratch(a.shape), build.scratch(out.shape)
    is_reversed, tf32 = ins.has(Flag.REVERSE0), target.dtype == Dtype.TFLOAT32

    def run() -> None:
        if is_reversed:
            f(y, x, single)
        else:
            f(x, y, single)
        accumulators.prepare()
        left, results = single.reshape(rows, count), made.reshape(rows, count)
        vk.scan(left, left, accumulators.lanes, (step, False, 0, False), results)
        accumulators.lanes[:] = results[:, -1]
        accumulators.read_out()
        convert_into(out, round_tf32(made) if tf32 else made)

    return build.finish(run)
