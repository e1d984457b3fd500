"""Plan the scanning and reducing instructions and batch normalisation."""

import numpy as np

from npuviz.targets.neuroncore.isa import ARG0, DST, SRC0, SRC1, Alu, Dtype, Flag
from npuviz.targets.neuroncore.kernels import values as vk
from npuviz.targets.neuroncore.values import vector
from npuviz.targets.neuroncore.values.alu import ALL_OPERATORS, FLOAT_OPERATORS, reduce_values
from npuviz.targets.neuroncore.values.element_types import bits_of, convert_into, round_tf32, store_bits
from npuviz.targets.neuroncore.values.memory import ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Plan, split_trailing

_SCANS = {
    Alu.BYPASS: 0,
    Alu.ADD: vk.SCAN_ADD,
    Alu.SUBTRACT: vk.SCAN_SUBTRACT,
    Alu.MULTIPLY: vk.SCAN_MULTIPLY,
    Alu.MAXIMUM: vk.SCAN_MAXIMUM,
    Alu.MINIMUM: vk.SCAN_MINIMUM,
}


def tensor_tensor_scan(build: Build) -> Plan:
    """Plan DST[i] = (SRC0[i] op0 DST[i-1]) op1 SRC1[i], with DST[-1] = ARG0."""
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
        steps = op0, swaps[0], op1, swaps[1]

        def run() -> None:
            np.copyto(start.reshape(rows, *(1,) * (x.ndim - 1)), initial)
            left = np.ascontiguousarray(x).reshape(flat_shape)
            right = np.ascontiguousarray(y).reshape(flat_shape)
            vk.scan(left, right, start, steps, made.reshape(flat_shape))
            convert_into(out, round_tf32(made) if tf32 else made)

        return build.finish(run)
    f, g = vector.operator_of(FLOAT_OPERATORS, ins.op0), vector.operator_of(FLOAT_OPERATORS, ins.op1)

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
    """Plan DST = op0 over the innermost free dimensions of SRC0, as many as leave DST's element count."""
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
    domain = vector.domain_of(build, ins.op0)
    if domain == vector.FLOAT:
        values = build.floats(view)
    elif domain == vector.INTEGER:
        values = build.integers(view, vector.integer_type(source))
    else:
        values = view
    trailing = split[1] if split is not None else 1
    negate, tf32 = ins.has(Flag.NEGATE), target.dtype == Dtype.TFLOAT32
    op, out = ins.op0, target.view

    def run() -> None:
        taken = bits_of(values) if domain == vector.PATTERN else values
        if split is None:
            taken = np.ascontiguousarray(taken).reshape(rows, target.count, -1)
        found = (
            reduce_values(op, taken, tuple(range(taken.ndim - trailing, taken.ndim))) if trailing else taken
        )
        if negate:
            found = np.negative(found)
        found = found.reshape(out.shape)
        if domain == vector.PATTERN:
            store_bits(out, found)
        else:
            convert_into(out, round_tf32(np.ascontiguousarray(found)) if tf32 else found)

    return build.finish(run)


# Batch normalisation ----------------------------------------------------------------------------


def bn_stats(build: Build) -> Plan:
    """Plan DST [P,6] = count, mean and variance * count of the even, then of the odd elements."""
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
    """Plan DST [P,2] = mean and variance of groups (count, mean, variance * count)."""
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
