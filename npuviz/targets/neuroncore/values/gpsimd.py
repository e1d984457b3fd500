"""Plan GpSimd's instructions and Vector's searches."""

import numpy as np

from npuviz.targets.neuroncore.isa import ARG0, ARG1, BITVEC, DST, RES, SRC0, SRC1, Flag, Space
from npuviz.targets.neuroncore.kernels import values as vk
from npuviz.targets.neuroncore.values.alu import ALL_OPERATORS, FLOAT_OPERATORS, reduce_values
from npuviz.targets.neuroncore.values.element_types import bits_of, convert_into, loader, store_bits
from npuviz.targets.neuroncore.values.memory import ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Plan

_EIGHT = 8
_QUADRANT = 32
_GROUP = 16
"""Partitions of each processor of GpSimd."""
_KEEP = 255


def _affine(build: Build, partitions: int, count: int) -> np.ndarray:
    """Return imm0 + imm1 * partition + sum of index * step as (partitions, count) int64.

    Partitions count from the operand's first. The product of the PATTERN's sizes must be `count`.
    """
    ins = build.ins
    space, _, _, _, _, sizes, steps = ins.operands[ARG0]
    if space != Space.PATTERN:
        raise ValueFault("the pattern operand is missing")
    offsets = np.zeros(1, np.int64)
    for size, step in zip(sizes, steps, strict=True):
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * step).reshape(-1)
    if len(offsets) != count:
        raise ValueFault(f"the pattern has {len(offsets)} elements, the operand {count}")
    lanes = np.arange(partitions, dtype=np.int64) * int(ins.number(1)) + int(ins.number(0))
    return lanes[:, None] + offsets


def iota(build: Build) -> Plan:
    """Plan DST = the affine expression; integers wrap to 32 bits."""
    target = build.target(DST)
    values = _affine(build, target.partitions, target.count).astype(np.int32).reshape(target.view.shape)
    out = target.view
    return build.finish(lambda: convert_into(out, values))


def affine_select(build: Build) -> Plan:
    """Plan DST = SRC0 where (affine expression) op0 0, else imm2."""
    ins = build.ins
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target)
    operator = FLOAT_OPERATORS.get(ins.op0)
    if operator is None:
        raise ValueFault(f"operator {ins.op0} does not compare")
    expression = _affine(build, source.partitions, source.count)
    chosen = np.empty(expression.shape, np.float32)
    operator(expression.astype(np.float32), 0.0, chosen)
    rejected = (chosen == 0).reshape(a.shape)
    fill = ins.number(2)
    if a.dtype == out.dtype:
        value = np.empty(1, out.dtype)
        convert_into(value, np.array([fill]))
        kind = np.dtype(f"u{out.dtype.itemsize}")
        bits, made, values = value.view(kind)[0], out.view(kind), a.view(kind)

        def run() -> None:
            np.copyto(made, np.where(rejected, bits, values))

        return build.finish(run)
    floats, result = build.floats(a), build.sink(out, target.dtype)

    def run_cast() -> None:
        np.copyto(result, floats)
        np.copyto(result, np.float32(fill), where=rejected)

    return build.finish(run_cast)


def gather(build: Build) -> Plan:
    """Plan DST[p, i] = SRC0[p, SRC1[p, i]]; an index outside gives 0 and a hazard."""
    source, index, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    if source.partitions != target.partitions:
        raise ValueFault("GATHER stays within its partitions")
    i, out = build.arrange(index, target)
    values, report, number = source.view, build.report, build.ins.index
    rows, limit = source.partitions, source.count

    def run() -> None:
        flat = values.reshape(rows, limit)
        chosen = (i.astype(np.int64) if i.dtype != np.int32 else i).reshape(rows, -1)
        wrong = (chosen < 0) | (chosen >= limit)
        if wrong.any():
            bad = int(chosen.reshape(-1)[int(wrong.reshape(-1).argmax())])
            report("index-range", f"instruction {number}: index {bad} is outside 0..{limit - 1}")
            found = np.take_along_axis(flat, np.where(wrong, 0, chosen), axis=1)
            found[wrong] = 0
        else:
            found = np.take_along_axis(flat, chosen, axis=1)
        _convert(out, found.reshape(out.shape))

    return build.finish(run)


def local_gather(build: Build) -> Plan:
    """Plan DST = imm0 elements of SRC0 at each index held by the group of 16 partitions, by partition first.

    The first imm1 indices are valid. An index beyond the source gives 0 and a hazard.
    """
    source, index, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    each, valid = build.ins.bits[0], build.ins.bits[1]
    rows, limit = source.partitions, source.count
    if rows % _GROUP or index.partitions != rows or target.partitions != rows or each < 1:
        raise ValueFault("LOCAL_GATHER works on whole groups of 16 partitions")
    if valid * each != target.count or valid > index.count * _GROUP or source.view.dtype != target.view.dtype:
        raise ValueFault(f"{valid} indices of {each} elements do not give {target.count}")
    values, indices, out, report, number = source.view, index.view, target.view, build.report, build.ins.index

    def run() -> None:
        flat, chosen = values.reshape(rows, limit), indices.reshape(rows, -1).astype(np.int64)
        made = np.zeros((rows, valid, each), flat.dtype)
        for first in range(0, rows, _GROUP):
            group = slice(first, first + _GROUP)
            starts = chosen[group].T.reshape(-1)[:valid]
            places = starts[:, None] + np.arange(each)
            wrong = places >= limit
            if wrong.any():
                bad = int(places[wrong][0])
                report("index-range", f"instruction {number}: index {bad} is outside 0..{limit - 1}")
            found = flat[group][:, np.where(wrong, 0, places)]
            found[:, wrong] = 0
            made[group] = found
        np.copyto(out, made.reshape(out.shape))

    return build.finish(run)


def sequence_bounds(build: Build) -> Plan:
    """Plan DST [1,2,N] = first and end of the run of equal ids around each element; N and -1 for id 0."""
    source, target = build.source(SRC0), build.target(DST)
    if source.partitions != 1 or target.count != 2 * source.count:
        raise ValueFault("SEQUENCE_BOUNDS takes one partition and gives two values for each element")
    values, out, count = build.floats(source.view), target.view, source.count

    def run() -> None:
        ids = values.reshape(-1)
        edges = np.flatnonzero(np.diff(ids)) + 1
        starts = np.concatenate([[0], edges]).astype(np.int32)
        ends = np.concatenate([edges, [count]]).astype(np.int32)
        lengths = ends - starts
        made = np.stack([np.repeat(starts, lengths), np.repeat(ends, lengths)])
        made[0, ids == 0], made[1, ids == 0] = count, -1
        convert_into(out, made.reshape(out.shape))

    return build.finish(run)


def nonzero_with_count(build: Build) -> Plan:
    """Plan DST [P,N+1] = positions of nonzeros of SRC0, plus imm0; then imm1 as padding; their count last.

    Only partitions 0, 16, 32, ... take part; the others keep their contents.
    """
    source, target = build.source(SRC0), build.target(DST)
    if target.count != source.count + 1 or target.partitions != source.partitions:
        raise ValueFault("NONZERO_WITH_COUNT gives one more value than it takes")
    values, out = build.floats(source.view), target.view
    offset, padding, shape = build.ins.bits[0], build.ins.bits[1], (source.partitions, source.count)

    def run() -> None:
        made = np.array(out.reshape(shape[0], -1), np.int32)
        for row in range(0, shape[0], _GROUP):
            found = np.flatnonzero(values.reshape(shape)[row])
            made[row] = padding
            made[row, : len(found)] = found + offset
            made[row, -1] = len(found)
        convert_into(out, made.reshape(out.shape))

    return build.finish(run)


def topk(build: Build) -> Plan:
    """Plan DST [P,K] = the K largest of imm0 elements held by 16 partitions, rising; RES [P,K] their numbers.

    Element n is in partition n % 16, column n // 16. All 16 partitions get the same; of equal elements the
    first counts as larger. # Assumed: neither is documented.
    """
    source, target, places = build.source(SRC0), build.target(DST), build.target(RES)
    rows, count, kept = source.partitions, build.ins.bits[0], target.count
    if rows % _GROUP or target.partitions != rows or places.partitions != rows or places.count != kept:
        raise ValueFault("TOPK takes and gives whole groups of 16 partitions")
    if not 0 < kept <= count <= source.count * _GROUP:
        raise ValueFault(f"TOPK of {kept} of {count} elements, {source.count * _GROUP} are there")
    values, out = build.floats(source.view), target.view

    def run() -> None:
        groups = values.reshape(rows // _GROUP, _GROUP, source.count).transpose(0, 2, 1)
        snakes = groups.reshape(len(groups), -1)[:, :count]
        order = np.argsort(-snakes, axis=1, kind="stable")[:, :kept][:, ::-1]
        largest = np.take_along_axis(snakes, order, 1)
        convert_into(out, np.repeat(largest, _GROUP, 0).reshape(out.shape))
        found = np.repeat(order, _GROUP, 0).reshape(places.view.shape)
        np.copyto(places.view, found, casting="unsafe")

    return build.finish(run)


def _convert(out: np.ndarray, values: np.ndarray) -> None:
    """Write values with the cast of data movements: through fp32 between different types."""
    if out.dtype == values.dtype:
        np.copyto(out, values)
    else:
        convert_into(out, values.astype(np.float32))


def partition_reduce(build: Build) -> Plan:
    """Plan DST [1, N] = op0 over the partitions of SRC0."""
    ins = build.ins
    source, target = build.source(SRC0), build.target(DST)
    if target.partitions != 1 or source.count != target.count:
        raise ValueFault(f"{source.count} elements cannot be reduced to {target.partitions} x {target.count}")
    if ins.op0 not in ALL_OPERATORS:
        raise ValueFault(f"operator {ins.op0} is no reduction")
    is_bits = ins.op0 in BITVEC
    view, out, op = source.view, target.view, ins.op0
    if is_bits:
        values = view
    elif ins.has(Flag.INTEGER):
        values = build.integers(view)
    else:
        values = build.floats(view)

    def run() -> None:
        lanes = np.moveaxis(bits_of(values) if is_bits else values, 0, -1)
        found = reduce_values(op, lanes, (lanes.ndim - 1,)).reshape(out.shape)
        if is_bits:
            store_bits(out, found)
        else:
            convert_into(out, found)

    return build.finish(run)


def stream_shuffle(build: Build) -> Plan:
    """Plan DST partition p = SRC0 partition mask[p % 32] of p's quadrant; mask 255 keeps DST.

    SRC0 may have fewer partitions than DST, for example when one is broadcast to a quadrant. The mask is the
    16 bytes of sizes and steps of ARG0, then those of ARG1 (both PATTERN).
    """
    source, target = build.source(SRC0), build.target(DST)
    a, out = build.arrange(source, target, any_partitions=True)
    if a.dtype != out.dtype:
        raise ValueFault("STREAM_SHUFFLE does not cast")
    data = b""
    for position in (ARG0, ARG1):
        space, _, _, _, _, sizes, steps = build.ins.operands[position]
        if space != Space.PATTERN:
            raise ValueFault("the pattern operand is missing")
        data += np.array(sizes, np.uint16).tobytes() + np.array(steps, np.int16).tobytes()
    origins, targets = [], []
    for lane in range(target.partitions):
        chosen = data[lane % _QUADRANT]
        if chosen == _KEEP:
            continue
        origin = lane - lane % _QUADRANT + chosen
        if chosen >= _QUADRANT or origin >= source.partitions:
            raise ValueFault(f"shuffle mask {chosen} of partition {lane} is outside its quadrant")
        origins.append(origin)
        targets.append(lane)
    where, into = np.array(origins, np.int64), np.array(targets, np.int64)

    def run() -> None:
        if len(where):
            out[into] = a[where]

    return build.finish(run)


def max8(build: Build) -> Plan:
    """Plan DST [P,8] = the eight largest of each partition, falling. A NaN counts as the largest
    (assumed).
    """
    source, target = build.source(SRC0), build.target(DST)
    if source.count < _EIGHT or target.count != _EIGHT or target.partitions != source.partitions:
        raise ValueFault(f"MAX8 takes 8 or more elements, found {source.count}, and gives {target.count}")
    values, rows, out = build.floats(source.view), source.partitions, target.view

    def run() -> None:
        flat = values.reshape(rows, -1)
        if flat.shape[1] > 2 * _EIGHT:
            flat = np.partition(flat, flat.shape[1] - _EIGHT, axis=1)[:, -_EIGHT:]
        convert_into(out, np.sort(flat, axis=1)[:, : -_EIGHT - 1 : -1].reshape(out.shape))

    return build.finish(run)


def find_index8(build: Build) -> Plan:
    """Plan DST [P,8] = first index of each of SRC1 [P,8] in SRC0; all ones if absent.

    # Ref: SDK nki/api/nki/isa: a value that is twice in SRC1 has its first two indices, rising.
    """
    source, wanted, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    if wanted.count != _EIGHT or target.count != _EIGHT:
        raise ValueFault("FIND_INDEX8 looks for 8 values and gives 8 indices")
    if not source.partitions == wanted.partitions == target.partitions:
        raise ValueFault("FIND_INDEX8 stays within its partitions")
    values, searched, rows = build.floats(source.view), build.floats(wanted.view), source.partitions
    out = target.view
    indices = np.empty((rows, _EIGHT), np.uint32)

    def run() -> None:
        flat = np.ascontiguousarray(values).reshape(rows, -1)
        vk.find_first(flat, np.ascontiguousarray(searched).reshape(rows, _EIGHT), indices)
        np.copyto(out, indices.reshape(out.shape), casting="unsafe")

    return build.finish(run)


def match_replace8(build: Build) -> Plan:
    """Plan DST = SRC0 with the first occurrence of each of SRC1 [P,8] replaced by imm0.

    A value that is twice in SRC1 replaces two occurrences. RES [P,8], if present, gets their indices.
    # Ref: SDK nki/api/nki/isa: the last value of SRC1 is looked for first, so that these are falling.
    """
    source, wanted, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    a, out = build.arrange(source, target)
    rows = source.partitions
    if wanted.count != _EIGHT or wanted.partitions != rows:
        raise ValueFault("MATCH_REPLACE8 looks for 8 values in each partition")
    searched, fill = build.floats(wanted.view), np.float32(build.ins.imm[0])
    work = build.scratch(a.shape)
    load = loader(a, work)
    indices = np.empty((rows, _EIGHT), np.uint32)
    found = build.target(RES) if build.has(RES) else None
    if found is not None and (found.count != _EIGHT or found.partitions != rows):
        raise ValueFault("MATCH_REPLACE8 gives 8 indices in each partition")

    def run() -> None:
        load()
        vk.match_and_replace(
            work.reshape(rows, -1), np.ascontiguousarray(searched).reshape(rows, _EIGHT), fill, indices
        )
        convert_into(out, work)
        if found is not None:
            np.copyto(found.view, indices.reshape(found.view.shape), casting="unsafe")

    return build.finish(run)
