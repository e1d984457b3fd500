"""Plan instructions of PE and Scalar: matrix products, transposes, activations with accumulators."""

import numpy as np

from npuviz.targets.neuroncore import isa
from npuviz.targets.neuroncore.activation_tables import TABLE_SETS, TABLELESS, sets_of
from npuviz.targets.neuroncore.values.activation import FUNCTIONS, RANGES, outside_range, range_text
from npuviz.targets.neuroncore.values.element_types import convert_into, loader, round_tf32
from npuviz.targets.neuroncore.values.memory import Operand, ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Plan

_BLOCK = isa.VECTOR_BLOCK
_COMMANDS = frozenset(isa.ReduceCmd)


def nc_matmul(build: Build) -> Plan:
    """Plan DST [M,N] = or += SRC0 [K,M] ^T @ SRC1 [K,N], in fp32.

    With Flag.DOUBLE_ROW every partition holds two rows of K, one after the other.
    """
    ins = build.ins
    stationary, moving, target = build.source(isa.SRC0), build.source(isa.SRC1), build.target(isa.DST)
    rows = 2 if ins.has(isa.Flag.DOUBLE_ROW) else 1
    if (
        stationary.partitions != moving.partitions
        or stationary.count != target.partitions * rows
        or moving.count != target.count * rows
    ):
        raise ValueFault(
            f"stationary {stationary.partitions} x {stationary.count} and moving "
            f"{moving.partitions} x {moving.count} do not give {target.partitions} x {target.count}"
        )
    a, b = build.matrix(stationary), build.matrix(moving)
    for flag, name, values in (
        (isa.Flag.STATIONARY_ONEZERO, "stationary", a),
        (isa.Flag.MOVING_ONEZERO, "moving", b),
    ):
        if ins.has(flag):
            _watch_zeros_and_ones(build, name, values)
    if rows == 2:
        a = _in_rows(build, a, (stationary.partitions * 2, target.partitions))
        b = _in_rows(build, b, (moving.partitions * 2, target.count))
    return product_of(build, target, a.T, b)


def _watch_zeros_and_ones(build: Build, name: str, values: np.ndarray) -> None:
    """Add a check that reports values other than 0 and 1 in a tile that must hold only these."""
    report, number = build.report, build.ins.index

    def check() -> None:
        wrong = (values != 0) & (values != 1)
        if wrong.any():
            report(
                "not-onezero",
                f"instruction {number}: is_{name}_onezero, but the tile holds {values[wrong][0]:g} too: the "
                "chip may take fewer passes than these values need",
            )

    build.before.append(check)


def product_of(build: Build, target: Operand, stationary_rows: np.ndarray, b: np.ndarray) -> Plan:
    """Plan target = or += stationary_rows [M,K] @ b [K,N]."""
    ins = build.ins
    if ins.has(isa.Flag.ACCUMULATE):
        build.reads.append(target.mask)
    view = target.view.reshape(target.partitions, 1) if target.view.ndim == 1 else target.view
    is_plain = view.ndim == 2 and target.dtype == isa.Dtype.FLOAT32
    if is_plain and not ins.has(isa.Flag.ACCUMULATE):
        return build.finish(lambda: np.matmul(stationary_rows, b, out=view))
    product = build.scratch((target.partitions, target.count))
    shaped = product.reshape(view.shape)
    if ins.has(isa.Flag.ACCUMULATE):
        if target.dtype == isa.Dtype.FLOAT32:

            def accumulate() -> None:
                np.matmul(stationary_rows, b, out=product)
                np.add(view, shaped, out=view)

            return build.finish(accumulate)
        before = build.scratch(view.shape)
        load = loader(view, before)

        def accumulate_cast() -> None:
            load()
            np.matmul(stationary_rows, b, out=product)
            np.add(before, shaped, out=before)
            convert_into(view, before)

        return build.finish(accumulate_cast)

    def overwrite() -> None:
        np.matmul(stationary_rows, b, out=product)
        convert_into(view, shaped)

    return build.finish(overwrite)


def _in_rows(build: Build, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return a contiguous array in another shape, into which the values are copied at each run."""
    made = build.scratch(shape)
    build.before.append(lambda: np.copyto(made.reshape(values.shape), values))
    return made


def nc_transpose(build: Build) -> Plan:
    """Plan DST [F,P] = SRC0 [P,F] ^T; on Vector, more than 32 x 32 is transposed block by block in its
    place.
    """
    source, target = build.source(isa.SRC0), build.target(isa.DST)
    in_blocks = build.ins.engine == isa.Engine.DVE and max(source.partitions, source.count) > _BLOCK
    if in_blocks:
        if (source.partitions, source.count) != (target.partitions, target.count) or (
            source.partitions % _BLOCK or source.count % _BLOCK
        ):
            raise ValueFault(
                f"Vector transposes blocks of {_BLOCK} x {_BLOCK}, found {source.partitions} x {source.count}"
            )
    elif source.count != target.partitions or source.partitions != target.count:
        raise ValueFault(
            f"{source.partitions} x {source.count} transposed does not give "
            f"{target.partitions} x {target.count}"
        )
    values, out = source.view, target.view
    shape = source.partitions, source.count

    def run() -> None:
        flat = values.reshape(shape)
        if in_blocks:
            tiles = flat.reshape(shape[0] // _BLOCK, _BLOCK, shape[1] // _BLOCK, _BLOCK)
            turned = np.ascontiguousarray(tiles.transpose(0, 3, 2, 1)).reshape(out.shape)
        else:
            turned = np.ascontiguousarray(flat.T).reshape(out.shape)
        if turned.dtype == out.dtype:
            np.copyto(out, turned)
        else:
            convert_into(out, turned.astype(np.float32))

    return build.finish(run)


def activation(build: Build) -> Plan:
    """Plan DST = op0(SRC0 * scale + bias) in fp32, cast; then the accumulators. Ref: ACTDOC, section 3."""
    ins = build.ins
    function = ins.op0
    f = FUNCTIONS.get(function)
    if f is None:
        raise ValueFault(f"activation function {function} does not exist")
    if ins.cmd not in _COMMANDS or ins.cmd == isa.ReduceCmd.LOAD_REDUCE:
        raise ValueFault("load_reduce needs an instruction with an initial value, which activation is not")
    source, target = build.source(isa.SRC0), build.target(isa.DST)
    a, out = build.arrange(source, target)
    scale = build.argument(isa.ARG0, 0, a, source.partitions)
    bias = build.argument(isa.ARG1, 1, a, source.partitions)
    values = build.floats(a)
    result = build.sink(out, target.dtype)
    accumulate = _accumulation(build, source, result)
    is_identity = isinstance(scale, float) and scale == 1.0 and isinstance(bias, float) and bias == 0.0
    if is_identity and function in (isa.Activation.COPY, isa.Activation.RELU):
        if function == isa.Activation.COPY:

            def copy() -> None:
                np.copyto(result, values)
                if accumulate is not None:
                    accumulate()

            return build.finish(copy)

        def relu() -> None:
            np.maximum(values, 0, out=result)
            if accumulate is not None:
                accumulate()

        return build.finish(relu)
    alpha = float(ins.imm[2])
    x = build.scratch(values.shape)
    checks = _range_check(build, function, source, x) if function in RANGES else None
    table = None if function in TABLELESS else _table_check(build, isa.Activation(function))
    no_scale = isinstance(scale, float) and scale == 1.0
    no_bias = isinstance(bias, float) and bias == 0.0

    def run() -> None:
        if table is not None:
            table()
        if no_scale:
            if no_bias:
                np.copyto(x, values)
            else:
                np.add(values, bias, out=x)
        else:
            np.multiply(values, scale, out=x)
            if not no_bias:
                np.add(x, bias, out=x)
        if checks is not None:
            checks()
        f(x, result, alpha)
        if accumulate is not None:
            accumulate()

    return build.finish(run)


def _accumulation(build: Build, source: Operand, result: np.ndarray):
    """Return a function that updates the accumulators after the activation, None if none is needed."""
    ins = build.ins
    command = ins.cmd
    reads_out = build.has(isa.RES)
    if command == isa.ReduceCmd.IDLE and not reads_out:
        return None
    lanes = build.chip.accumulators[ins.core][source.partition : source.partition + source.partitions]
    axes = tuple(range(1, result.ndim))
    readout = build.target(isa.RES) if reads_out else None
    if readout is not None and (readout.count != 1 or readout.partitions != source.partitions):
        raise ValueFault("the accumulators go to one element in each partition")
    if command != isa.ReduceCmd.IDLE:
        build.accumulates = ins.core

    def run() -> None:
        if command in (isa.ReduceCmd.RESET, isa.ReduceCmd.RESET_REDUCE):
            lanes.fill(0)
        if command in (isa.ReduceCmd.REDUCE, isa.ReduceCmd.RESET_REDUCE):
            np.add(lanes, np.add.reduce(result, axis=axes) if axes else result, out=lanes)
        if readout is not None:
            values = round_tf32(lanes) if readout.dtype == isa.Dtype.TFLOAT32 else lanes
            convert_into(readout.view, values.reshape(readout.view.shape))

    return run


def _table_check(build: Build, function: isa.Activation):
    """Return a check that reports a function whose table set is not loaded."""
    report, index, core, loaded = build.report, build.ins.index, build.ins.core, build.chip.table_sets
    holding = sets_of(function)

    def run() -> None:
        number = int(loaded[core])
        if number not in holding:
            wanted = " or ".join(TABLE_SETS[each] for each in holding)
            there = TABLE_SETS[number] if number >= 0 else "none"
            report(
                "table-set",
                f"instruction {index}: {function.name.lower()} needs table set {wanted}; loaded is {there}",
            )

    return run


def _range_check(build: Build, function: int, source: Operand, x: np.ndarray):
    """Return a check that reports inputs outside the range in which the function's table is valid."""
    report, index, first = build.report, build.ins.index, source.partition
    per_partition = x.size // x.shape[0]
    name = isa.Activation(function).name.lower()

    def run() -> None:
        found = outside_range(function, x)
        if found is not None:
            partition = first + found[0] // per_partition
            report(
                "input-range",
                f"instruction {index}: {name} of {found[1]:.9g} in partition {partition} is outside "
                f"{range_text(function)}, where its results are valid",
            )

    return run
