"""What the element-wise, scanning and reducing instructions compute."""

import numpy as np

from npuviz.targets.neuroncore import values_kernels as vk
from npuviz.targets.neuroncore.isa import ARG0, ARG1, BITVEC, DST, RES, SRC0, SRC1, Alu, Dtype, Flag
from npuviz.targets.neuroncore.values_alu import (
    ALL_OPERATORS,
    FLOAT_OPERATORS,
    INTEGER_OPERATORS,
    PATTERN_OPERATORS,
    Binary,
    Values,
    reduce_values,
)
from npuviz.targets.neuroncore.values_memory import Operand, ValueFault
from npuviz.targets.neuroncore.values_plan import Build, Plan, split_trailing
from npuviz.targets.neuroncore.values_types import (
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

_FLOAT, _INTEGER, _PATTERN = range(3)


def _domain(build: Build, *ops: int) -> int:
    """In what an instruction computes: fp32, int32 or bit patterns."""
    used = [op for op in ops if op != Alu.BYPASS]
    bitvec = [op in BITVEC for op in used]
    if used and all(bitvec):
        return _PATTERN
    if build.ins.has(Flag.INTEGER):
        return _INTEGER
    if any(bitvec):
        raise ValueFault("bit operators and arithmetic operators in one instruction")
    return _FLOAT


def _operator(table: dict[int, Binary], op: int) -> Binary:
    found = table.get(op)
    if found is None:
        name = Alu(op).name.lower() if op in ALL_OPERATORS else str(op)
        raise ValueFault(f"operator {name} does not exist here")
    return found


def _integer_operator(op: int) -> Binary:
    return _operator(INTEGER_OPERATORS if op not in BITVEC else PATTERN_OPERATORS, op)


def _integer_type(*operands: Operand) -> str:
    """uint32 where all sources are, so that comparisons and quotients are right; else int32."""
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
    """DST = SRC0."""
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    copy_values(build, a, out, target.dtype)
    return build.finish(_nothing)


def _nothing() -> None:
    return None


def tensor_copy_predicated(build: Build) -> Plan:
    """DST = SRC0 where SRC1 is not 0."""
    source, predicate, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    a, p, out = build.arrange(source, predicate, target)
    if out.base is None:  # Staged: what is not copied must survive.
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
    """DST = imm0."""
    target = build.target(DST)
    is_whole = build.ins.has(Flag.INTEGER)
    number = np.array([build.ins.number(0)], np.int32 if is_whole else np.float32)
    kind = NUMPY_DTYPES[target.dtype]
    value = converted(round_tf32(number) if target.dtype == Dtype.TFLOAT32 else number, kind)
    width = np.dtype(f"u{kind.itemsize}")
    bits, view = value.view(width)[0], target.view.view(width)
    return build.finish(lambda: view.fill(bits))


def reciprocal(build: Build) -> Plan:
    """DST = 1 / SRC0."""
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    values, made = build.floats(a), build.sink(out, target.dtype)
    return build.finish(lambda: np.divide(1.0, values, out=made))


# Element-wise -----------------------------------------------------------------------------------


def tensor_tensor(build: Build) -> Plan:
    """DST = SRC0 op0 SRC1."""
    first, second, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    a, b, out = build.arrange(first, second, target)
    op = build.ins.op0
    domain = _domain(build, op)
    if domain == _FLOAT:
        f = _operator(FLOAT_OPERATORS, op)
        x, y, made = build.floats(a), build.floats(b), build.sink(out, target.dtype)
        if op in _UFUNCS:
            function = _UFUNCS[op]
            return build.finish(lambda: function(x, y, out=made))
        return build.finish(lambda: f(x, y, made))
    if domain == _INTEGER:
        f = _operator(INTEGER_OPERATORS, op)
        kind = _integer_type(first, second)
        x, y, made = build.integers(a, kind), build.integers(b, kind), build.integer_sink(out, kind)
        return build.finish(lambda: f(x, y, made))
    f = _operator(PATTERN_OPERATORS, op)
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
    """DST = (SRC0 op0 ARG0) op1 ARG1; RES: the result reduced by `cmd` over the free dimensions."""
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    return _two_stages(build, source, a, target, out, None)


def scalar_tensor_tensor(build: Build) -> Plan:
    """DST = (SRC0 op0 ARG0) op1 SRC1."""
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
    domain = _domain(build, ins.op0, ins.op1)
    reverse0, reverse1 = ins.has(Flag.REVERSE0), ins.has(Flag.REVERSE1)
    x: Values
    y0: Values
    y1: Values
    if domain == _FLOAT:
        f, g = _operator(FLOAT_OPERATORS, ins.op0), _operator(FLOAT_OPERATORS, ins.op1)
        x, y0 = build.floats(a), build.argument(ARG0, 0, a, partitions)
        y1 = build.floats(second) if second is not None else build.argument(ARG1, 1, a, partitions)
        made, inner = build.sink(out, target.dtype), build.scratch(out.shape)
    else:
        kind = "uint32" if domain == _PATTERN else _integer_type(source)
        f, g = _integer_operator(ins.op0), _integer_operator(ins.op1)
        if domain == _PATTERN:
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
    """Reduce the result, before its output cast, into RES."""
    result = build.target(RES)
    if result.count != 1 or result.partitions != made.shape[0]:
        raise ValueFault("the reduction result needs one element in each partition")
    axes, op, view = tuple(range(1, made.ndim)), build.ins.cmd, result.view
    if op not in ALL_OPERATORS:
        raise ValueFault(f"operator {op} is no reduction")
    tf32 = result.dtype == Dtype.TFLOAT32

    def reduce() -> None:
        found = reduce_values(op, made, axes) if axes else made
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
            amount: Values = bits_of(other) if stage and second is not None else other
            if op == Alu.BYPASS:
                value = np.broadcast_to(amount, value.shape).astype(np.uint32) if reverse else value
                continue
            left: Values = amount if reverse else value
            right: Values = value if reverse else amount
            if op == Alu.ARITHMETIC_RIGHT_SHIFT:
                left = signed_bits_of(np.asarray(left).astype(kind))
            PATTERN_OPERATORS[op](left, right, made)
            # What does not fit the element type is lost between the operators, too.
            value = made.astype(kind).astype(np.uint32)
        store_bits(out, value)

    if build.has(RES):
        raise ValueFault("bit operators cannot be reduced into a result operand")
    return build.finish(run)


# Scans and reductions ---------------------------------------------------------------------------

_SCANS = {
    Alu.BYPASS: 0,
    Alu.ADD: vk.SCAN_ADD,
    Alu.SUBTRACT: vk.SCAN_SUBTRACT,
    Alu.MULTIPLY: vk.SCAN_MULTIPLY,
    Alu.MAXIMUM: vk.SCAN_MAXIMUM,
    Alu.MINIMUM: vk.SCAN_MINIMUM,
}


def tensor_tensor_scan(build: Build) -> Plan:
    """r[i] = (SRC0[i] op0 r[i-1]) op1 SRC1[i], r[-1] = ARG0."""
    ins = build.ins
    first, second, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    a, b, out = build.arrange(first, second, target)
    rows = first.partitions
    x, y = build.floats(a), build.floats(b)
    initial = build.argument(ARG0, 0, a, rows)
    flat_shape = (rows, first.count)
    made = build.scratch(out.shape)
    tf32 = target.dtype == Dtype.TFLOAT32
    start = np.empty(rows, np.float32)
    swaps = ins.has(Flag.REVERSE0), ins.has(Flag.REVERSE1)
    if ins.op0 in _SCANS and ins.op1 in _SCANS:
        op0, op1 = _SCANS[Alu(ins.op0)], _SCANS[Alu(ins.op1)]

        def run() -> None:
            np.copyto(start.reshape(rows, *(1,) * (x.ndim - 1)), initial)
            left = np.ascontiguousarray(x).reshape(flat_shape)
            right = np.ascontiguousarray(y).reshape(flat_shape)
            vk.scan(left, right, start, op0, op1, *swaps, made.reshape(flat_shape))
            convert_into(out, round_tf32(made) if tf32 else made)

        return build.finish(run)
    f, g = _operator(FLOAT_OPERATORS, ins.op0), _operator(FLOAT_OPERATORS, ins.op1)

    def run_any() -> None:
        np.copyto(start.reshape(rows, *(1,) * (x.ndim - 1)), initial)
        left, right = x.reshape(flat_shape), y.reshape(flat_shape)
        results, last, inner = made.reshape(flat_shape), start.copy(), np.empty(rows, np.float32)
        for i in range(flat_shape[1]):
            f(*((last, left[:, i]) if swaps[0] else (left[:, i], last)), inner)
            g(*((right[:, i], inner) if swaps[1] else (inner, right[:, i])), last)
            results[:, i] = last
        convert_into(out, round_tf32(made) if tf32 else made)

    return build.finish(run_any)


def tensor_reduce(build: Build) -> Plan:
    """DST = op0 over the innermost free dimensions of SRC0: as many as make DST's element count."""
    ins = build.ins
    source, target = build.source(SRC0), build.target(DST)
    if source.partitions != target.partitions or source.count % target.count:
        raise ValueFault(
            f"{source.partitions} x {source.count} elements cannot be reduced to "
            f"{target.partitions} x {target.count}"
        )
    if ins.op0 not in ALL_OPERATORS:
        raise ValueFault(f"operator {ins.op0} is no reduction")
    view, rows = source.view, source.partitions
    split = split_trailing(view.shape[1:], source.count // target.count)
    if split is not None:
        view = view.reshape((rows, *split[0]), copy=False)
    domain = _domain(build, ins.op0)
    if domain == _FLOAT:
        values = build.floats(view)
    elif domain == _INTEGER:
        values = build.integers(view, _integer_type(source))
    else:
        values = view
    trailing = split[1] if split is not None else 1
    negate, tf32 = ins.has(Flag.NEGATE), target.dtype == Dtype.TFLOAT32
    op, out = ins.op0, target.view

    def run() -> None:
        taken = bits_of(values) if domain == _PATTERN else values
        if split is None:
            taken = np.ascontiguousarray(taken).reshape(rows, target.count, -1)
        found = (
            reduce_values(op, taken, tuple(range(taken.ndim - trailing, taken.ndim))) if trailing else taken
        )
        if negate:
            found = np.negative(found)
        found = found.reshape(out.shape)
        if domain == _PATTERN:
            store_bits(out, found)
        else:
            convert_into(out, round_tf32(np.ascontiguousarray(found)) if tf32 else found)

    return build.finish(run)


# Batch normalisation ----------------------------------------------------------------------------


def bn_stats(build: Build) -> Plan:
    """DST [P,6]: count, mean and variance * count of the even, then of the odd elements."""
    source, target = build.source(SRC0), build.target(DST)
    if target.count != 6 or target.partitions != source.partitions:
        raise ValueFault("BN_STATS writes 6 elements in each partition")
    values, rows, out = build.floats(source.view), source.partitions, target.view

    def run() -> None:
        flat = values.reshape(rows, -1)
        made = np.zeros((rows, 6), np.float32)
        for half in range(2):
            part = flat[:, half::2]
            if part.shape[1]:
                mean = part.mean(axis=1)
                made[:, 3 * half] = part.shape[1]
                made[:, 3 * half + 1] = mean
                made[:, 3 * half + 2] = np.square(part - mean[:, None]).sum(axis=1)
        convert_into(out, made.reshape(out.shape))

    return build.finish(run)


def bn_aggr(build: Build) -> Plan:
    """DST [P,2]: mean and variance of groups (count, mean, variance * count)."""
    source, target = build.source(SRC0), build.target(DST)
    if source.count % 3 or target.count != 2 or target.partitions != source.partitions:
        raise ValueFault("BN_AGGR reads groups of 3 elements and writes 2")
    values, rows, out = build.floats(source.view), source.partitions, target.view

    def run() -> None:
        groups = values.reshape(rows, -1, 3).astype(np.float64)
        counts, means, squares = groups[..., 0], groups[..., 1], groups[..., 2]
        total = counts.sum(axis=1)
        mean = (counts * means).sum(axis=1) / total
        spread = squares.sum(axis=1) + (counts * np.square(means - mean[:, None])).sum(axis=1)
        made = np.stack([mean, spread / total], axis=1).astype(np.float32)
        convert_into(out, made.reshape(out.shape))

    return build.finish(run)
