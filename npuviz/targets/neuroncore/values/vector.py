"""Plan copies and the element-wise instructions."""

import numpy as np

from npuviz.targets.neuroncore.isa import ARG0, ARG1, BITVEC, DST, RES, SRC0, SRC1, Alu, Dtype, Flag
from npuviz.targets.neuroncore.values import alu
from npuviz.targets.neuroncore.values.element_types import (
    NUMPY_DTYPES,
    as_int32,
    bits_of,
    convert_into,
    converted,
    loader,
    round_tf32,
    signed_bits_of,
    store_bits,
)
from npuviz.targets.neuroncore.values.memory import Operand, ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Plan

FLOAT, INTEGER, PATTERN = range(3)
"""Domains: an instruction computes in fp32, in integers, or on bit patterns."""


def domain_of(build: Build, *ops: int) -> int:
    """Return the domain of an instruction: FLOAT, INTEGER or PATTERN."""
    used = [op for op in ops if op != Alu.BYPASS]
    bitvec = [op in BITVEC for op in used]
    if used and all(bitvec):
        return PATTERN
    if build.ins.has(Flag.INTEGER):
        return INTEGER
    if any(bitvec):
        raise ValueFault("bit operators and arithmetic operators in one instruction")
    return FLOAT


def operator_of(table: dict[int, alu.Binary], op: int) -> alu.Binary:
    """Return an operator of a table. Raises ValueFault if there is none."""
    found = table.get(op)
    if found is None:
        name = Alu(op).name.lower() if op in alu.ALL_OPERATORS else str(op)
        raise ValueFault(f"operator {name} does not exist here")
    return found


def _integer_operator(op: int) -> alu.Binary:
    return operator_of(alu.INTEGER_OPERATORS if op not in BITVEC else alu.PATTERN_OPERATORS, op)


def integer_type(*operands: Operand) -> str:
    """Return "uint32" if all operands are uint32, so that comparisons and quotients are right, else
    "int32".
    """
    return "uint32" if all(operand.dtype == Dtype.UINT32 for operand in operands) else "int32"


def _bits_operand(view: np.ndarray, op: int) -> np.ndarray:
    return signed_bits_of(view) if op == Alu.ARITHMETIC_RIGHT_SHIFT else bits_of(view)


# Copies -----------------------------------------------------------------------------------------


def copy_values(build: Build, source: np.ndarray, target: np.ndarray, dtype: int) -> None:
    """Add the step that copies with a cast: equal types bit for bit, others through fp32."""
    if source.dtype == target.dtype and dtype != Dtype.TFLOAT32:
        kind = np.dtype(f"u{source.dtype.itemsize}")
        a, b = source.view(kind), target.view(kind)
        build.before.append(lambda: np.copyto(b, a))
    elif build.ins.has(Flag.INTEGER):
        build.before.append(lambda: convert_into(target, as_int32(source)))
    elif dtype == Dtype.FLOAT32:
        build.before.append(loader(source, target))
    else:
        values, out = build.floats(source), build.sink(target, dtype)
        build.before.append(lambda: np.copyto(out, values))


def tensor_copy(build: Build) -> Plan:
    """Plan DST = SRC0."""
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    copy_values(build, a, out, target.dtype)
    return build.finish(_nothing)


def _nothing() -> None:
    return None


def tensor_copy_predicated(build: Build) -> Plan:
    """Plan DST = SRC0 where SRC1 is not 0."""
    source, predicate, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    a, p, out = build.arrange(source, predicate, target)
    if out.base is None:  # A staged copy: elements that are not written must keep their values.
        view = target.view
        build.before.append(lambda: np.copyto(out.reshape(view.shape), view))
    if source.dtype == target.dtype:
        kind = np.dtype(f"u{a.dtype.itemsize}")
        a, b = a.view(kind), out.view(kind)
        return build.finish(lambda: np.copyto(b, a, where=p != 0))
    values = build.floats(a)
    made = np.empty(values.shape, out.dtype)

    def run() -> None:
        convert_into(made, round_tf32(values) if target.dtype == Dtype.TFLOAT32 else values)
        np.copyto(out, made, where=p != 0)

    return build.finish(run)


def memset(build: Build) -> Plan:
    """Plan DST = imm0."""
    target = build.target(DST)
    is_whole = build.ins.has(Flag.INTEGER)
    number = np.array([build.ins.number(0)], np.int32 if is_whole else np.float32)
    kind = NUMPY_DTYPES[target.dtype]
    value = converted(round_tf32(number) if target.dtype == Dtype.TFLOAT32 else number, kind)
    width = np.dtype(f"u{kind.itemsize}")
    bits, view = value.view(width)[0], target.view.view(width)
    return build.finish(lambda: view.fill(bits))


def reciprocal(build: Build) -> Plan:
    """Plan DST = 1 / SRC0."""
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    values, made = build.floats(a), build.sink(out, target.dtype)
    return build.finish(lambda: np.divide(1.0, values, out=made))


# Element-wise -----------------------------------------------------------------------------------


def tensor_tensor(build: Build) -> Plan:
    """Plan DST = SRC0 op0 SRC1."""
    first, second, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    a, b, out = build.arrange(first, second, target)
    op = build.ins.op0
    domain = domain_of(build, op)
    if domain == FLOAT:
        f = operator_of(alu.FLOAT_OPERATORS, op)
        x, y, made = build.floats(a), build.floats(b), build.sink(out, target.dtype)
        build.watch_integers(made, out.dtype, a, b)
        if op in _UFUNCS:
            function = _UFUNCS[op]
            return build.finish(lambda: function(x, y, out=made))
        return build.finish(lambda: f(x, y, made))
    if domain == INTEGER:
        f = operator_of(alu.INTEGER_OPERATORS, op)
        kind = integer_type(first, second)
        x, y, made = build.integers(a, kind), build.integers(b, kind), build.integer_sink(out, kind)
        build.watch_wrapping(op, x, y, made)
        return build.finish(lambda: f(x, y, made))
    f = operator_of(alu.PATTERN_OPERATORS, op)
    made = build.scratch(out.shape, "uint32")

    def run() -> None:
        f(_bits_operand(a, op), bits_of(b), made)
        store_bits(out, made)

    return build.finish(run)


_UFUNCS: dict[int, np.ufunc] = {
    Alu.ADD: np.add,
    Alu.SUBTRACT: np.subtract,
    Alu.MULTIPLY: np.multiply,
    Alu.DIVIDE: np.divide,
    Alu.MAXIMUM: np.maximum,
    Alu.MINIMUM: np.minimum,
}


def tensor_scalar(build: Build) -> Plan:
    """Plan DST = (SRC0 op0 ARG0) op1 ARG1; RES = the result reduced by `cmd` over the free dimensions."""
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    return _two_stages(build, source, a, target, out, None)


def scalar_tensor_tensor(build: Build) -> Plan:
    """Plan DST = (SRC0 op0 ARG0) op1 SRC1."""
    source, second, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    a, b, out = build.arrange(source, second, target)
    return _two_stages(build, source, a, target, out, b)


def _two_stages(
    build: Build,
    source: Operand,
    a: np.ndarray,
    target: Operand,
    out: np.ndarray,
    second: np.ndarray | None,
) -> Plan:
    ins, partitions = build.ins, source.partitions
    domain = domain_of(build, ins.op0, ins.op1)
    reverse0, reverse1 = ins.has(Flag.REVERSE0), ins.has(Flag.REVERSE1)
    x: alu.Values
    y0: alu.Values
    y1: alu.Values
    if domain == FLOAT:
        f, g = operator_of(alu.FLOAT_OPERATORS, ins.op0), operator_of(alu.FLOAT_OPERATORS, ins.op1)
        x, y0 = build.floats(a), build.argument(ARG0, 0, a, partitions)
        y1 = build.floats(second) if second is not None else build.argument(ARG1, 1, a, partitions)
        made, inner = build.sink(out, target.dtype), build.scratch(out.shape)
        if not (build.has(ARG0) or build.has(ARG1)):
            numbers = [float(build.ins.number(n)) for n in ((0, 1) if second is None else (0,))]
            build.watch_integers(made, out.dtype, a, *([] if second is None else [second]), *numbers)
    else:
        kind = "uint32" if domain == PATTERN else integer_type(source)
        f, g = _integer_operator(ins.op0), _integer_operator(ins.op1)
        if domain == PATTERN:
            return _pattern_stages(build, a, out, second, partitions)
        x, y0 = build.integers(a, kind), build.integer_argument(ARG0, 0, a, partitions, kind)
        y1 = (
            build.integers(second, kind)
            if second is not None
            else build.integer_argument(ARG1, 1, a, partitions, kind)
        )
        made, inner = build.integer_sink(out, kind), build.scratch(out.shape, kind)
    if ins.op1 == Alu.BYPASS and not reverse1:
        return _finish_stages(build, lambda: f(y0, x, made) if reverse0 else f(x, y0, made), made)

    def run() -> None:
        if reverse0:
            f(y0, x, inner)
        else:
            f(x, y0, inner)
        if reverse1:
            g(y1, inner, made)
        else:
            g(inner, y1, made)

    return _finish_stages(build, run, made)


def _finish_stages(build: Build, run: object, made: np.ndarray) -> Plan:
    assert callable(run)
    if build.has(RES):
        _add_reduction(build, made)
    return build.finish(run)


def _add_reduction(build: Build, made: np.ndarray) -> None:
    """Add the step that reduces the result, before its output cast, into RES."""
    result = build.target(RES)
    if result.count != 1 or result.partitions != made.shape[0]:
        raise ValueFault("the reduction result needs one element in each partition")
    axes, op, view = tuple(range(1, made.ndim)), build.ins.cmd, result.view
    if op not in alu.ALL_OPERATORS:
        raise ValueFault(f"operator {op} is no reduction")
    tf32 = result.dtype == Dtype.TFLOAT32

    def reduce() -> None:
        found = alu.reduce_values(op, made, axes) if axes else made
        convert_into(view, round_tf32(np.ascontiguousarray(found)) if tf32 else found)

    build.after.insert(0, reduce)


def _pattern_stages(
    build: Build, a: np.ndarray, out: np.ndarray, second: np.ndarray | None, partitions: int
) -> Plan:
    ins = build.ins
    y0 = build.integer_argument(ARG0, 0, a, partitions, "uint32")
    y1 = build.integer_argument(ARG1, 1, a, partitions, "uint32") if second is None else second
    made = build.scratch(out.shape, "uint32")
    kind = np.dtype(f"u{a.dtype.itemsize}")
    stages = ((ins.op0, y0, ins.has(Flag.REVERSE0)), (ins.op1, y1, ins.has(Flag.REVERSE1)))

    def run() -> None:
        value: np.ndarray = bits_of(a)
        for stage, (op, other, reverse) in enumerate(stages):
            amount: alu.Values = bits_of(other) if stage and second is not None else other
            if op == Alu.BYPASS:
                value = np.broadcast_to(amount, value.shape).astype(np.uint32) if reverse else value
                continue
            left: alu.Values = amount if reverse else value
            right: alu.Values = value if reverse else amount
            if op == Alu.ARITHMETIC_RIGHT_SHIFT:
                left = signed_bits_of(np.asarray(left).astype(kind))
            alu.PATTERN_OPERATORS[op](left, right, made)
            # Bits that do not fit the element type are lost between the operators, too.
            value = made.astype(kind).astype(np.uint32)
        store_bits(out, value)

    if build.has(RES):
        raise ValueFault("bit operators cannot be reduced into a result operand")
    return build.finish(run)
