"""Check the operands of instructions against each other, so that compiler bugs raise errors.

Checked once for each combination of opcode and patterns, not for every instruction.
"""

from collections.abc import Callable
from math import prod

from npuviz.base.errors import SimulationError
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import ARG0, ARG1, DST, RES, SRC0, SRC1, Opcode, Space

MAX_SBUF_ELEMENTS = 65536
MAX_PSUM_ELEMENTS = 4096
"""Most elements a partition of one access, repeated ones once. Ref: ARCH2 (free size of Vector and Scalar),
LIB (layernorm_tkg reads 512 elements of PSUM 24 times)."""
MIN_SEARCHED, MAX_SEARCHED = 8, 16384
"""Fewest and most elements a partition for the instructions on eight values. Ref: SDK226."""
MAX_STATISTICS = 512
"""Most elements a partition of BN_STATS. Ref: SDK226."""

Views = tuple[View | None, ...]


def check_operands(opcode: Opcode, views: Views) -> None:
    """Raise SimulationError, naming instruction and operands, if the operands do not fit each other."""
    problem = _problem(opcode, views)
    if problem:
        shown = ", ".join(repr(view) for view in views if view is not None)
        raise SimulationError(f"{opcode.name} of {shown}: {problem}")


def _problem(opcode: Opcode, views: Views) -> str:
    for view in views:
        if view is not None:
            limit = MAX_PSUM_ELEMENTS if view.space == Space.PSUM else MAX_SBUF_ELEMENTS
            count = prod(size for size, step in zip(view.shape, view.steps, strict=True) if step)
            if count > limit or view.free_size > MAX_SBUF_ELEMENTS:
                return f"{view.free_size} elements in a partition, at most {limit} are possible"
    padded = (*views, *(None,) * (6 - len(views)))
    rule = _RULES.get(opcode)
    places, target = padded[RES], padded[DST]
    if opcode == Opcode.MATCH_REPLACE8 and places is not None and target is not None:
        padded = (*padded[:RES], None)
        if places.free_size != 8 or places.partitions != target.partitions:
            return "there are 8 indices in each partition"
    if opcode == Opcode.TOPK and places is not None and target is not None:
        padded = (*padded[:RES], None)
        if places.free_size != target.free_size or places.partitions != target.partitions:
            return "there are as many indices as values"
    if opcode == Opcode.QUANTIZE_MX:
        padded = (*padded[:RES], None)
    return (rule(padded) if rule else "") or _columns(padded)


def _columns(views: Views) -> str:
    """Check the operands with one value a partition: arguments, and the result of accumulators."""
    target = views[DST]
    for position in (ARG0, ARG1, RES):
        column = views[position]
        if column is not None and target is not None:
            if column.free_size != 1:
                return "a value by partition has one element"
            if column.partitions != target.partitions:
                return "a value by partition has as many partitions as the result"
    return ""


def _elementwise(views: Views) -> str:
    target = views[DST]
    for position in (SRC0, SRC1):
        source = views[position]
        if source is None or target is None:
            continue
        if source.partitions != target.partitions:
            return "operands differ in partitions"
        if source.free_size != target.free_size:
            return "operands differ in elements"
    return ""


def _partitions(views: Views) -> str:
    target = views[DST]
    is_same = all(view is None or target is None or view.partitions == target.partitions for view in views)
    return "" if is_same else "operands differ in partitions"


def _sizes(target: int, searched: tuple[int, int], values: int = 0) -> Callable[[Views], str]:
    """Make a rule: `target` elements (0: as many as the source), source size in a range, `values` in SRC1."""

    def rule(views: Views) -> str:
        dst, src, other = views[DST], views[SRC0], views[SRC1]
        if dst is None or src is None:
            return "an operand is missing"
        if dst.free_size != (target or src.free_size):
            return f"the result has {target or src.free_size} elements"
        if not searched[0] <= src.free_size <= searched[1]:
            return f"the source has {searched[0]}..{searched[1]} elements"
        if values and (other is None or other.free_size != values):
            return f"the second source has {values} elements"
        return _partitions(views)

    return rule


def _reduction(views: Views) -> str:
    dst, src = views[DST], views[SRC0]
    if dst is None or src is None or src.free_size % dst.free_size:
        return "the source is no multiple of the result"
    return _partitions(views)


def _aggregation(views: Views) -> str:
    dst, src = views[DST], views[SRC0]
    if dst is None or src is None or dst.free_size != 2 or src.free_size % 3:
        return "groups of three become two values"
    return _partitions(views)


def _over_partitions(views: Views) -> str:
    dst, src = views[DST], views[SRC0]
    if dst is None or src is None or dst.partitions != 1 or dst.free_size != src.free_size:
        return "the result is one partition of the source's elements"
    return ""


def _gather(views: Views) -> str:
    dst, index = views[DST], views[SRC1]
    if dst is None or index is None or dst.free_size != index.free_size:
        return "there is one index for each element of the result"
    return _partitions(views)


def _local_gather(views: Views) -> str:
    dst, src, index = views[DST], views[SRC0], views[SRC1]
    if dst is None or src is None or index is None or src.partitions % 16:
        return "whole groups of 16 partitions are gathered"
    if dst.dtype != src.dtype or index.dtype != "uint16":
        return "it does not cast, and indices are uint16"
    return _partitions(views)


def _indirect_copy(views: Views) -> str:
    dst, src, index = views[DST], views[SRC0], views[SRC1]
    if dst is None or src is None or index is None or index.partitions != dst.partitions:
        return "offsets lie in as many partitions as the result"
    return "" if dst.partitions == src.partitions and dst.dtype == src.dtype else "it does not cast"


def _bounds(views: Views) -> str:
    dst, src = views[DST], views[SRC0]
    if dst is None or src is None or src.partitions != 1 or dst.free_size != 2 * src.free_size:
        return "one partition of N elements gives two rows of N"
    return _partitions(views)


def _with_count(views: Views) -> str:
    dst, src = views[DST], views[SRC0]
    if dst is None or src is None or dst.free_size != src.free_size + 1:
        return "the result has one more element than the source"
    return _partitions(views)


def _largest(views: Views) -> str:
    dst, src = views[DST], views[SRC0]
    if dst is None or src is None or src.partitions % 16 or dst.partitions != src.partitions:
        return "whole groups of 16 partitions are searched"
    return ""


def _packing(views: Views) -> str:
    dst, src = views[DST], views[SRC0]
    if dst is None or src is None or src.partitions % 32 or dst.free_size * 4 != src.free_size:
        return "groups of 32 partitions and 4 elements are packed"
    return "" if dst.partitions == src.partitions else "operands differ in partitions"


_SEARCHED = (MIN_SEARCHED, MAX_SEARCHED)
_RULES: dict[Opcode, Callable[[Views], str]] = {
    Opcode.ACTIVATION: _elementwise,
    Opcode.TENSOR_COPY: _elementwise,
    Opcode.TENSOR_COPY_PREDICATED: _elementwise,
    Opcode.TENSOR_TENSOR: _elementwise,
    Opcode.TENSOR_SCALAR: _elementwise,
    Opcode.SCALAR_TENSOR_TENSOR: _elementwise,
    Opcode.TENSOR_TENSOR_SCAN: _elementwise,
    Opcode.RECIPROCAL: _elementwise,
    Opcode.TENSOR_REDUCE: _reduction,
    Opcode.BN_STATS: _sizes(6, (1, MAX_STATISTICS)),
    Opcode.BN_AGGR: _aggregation,
    Opcode.MAX8: _sizes(8, _SEARCHED),
    Opcode.FIND_INDEX8: _sizes(8, _SEARCHED, 8),
    Opcode.MATCH_REPLACE8: _sizes(0, _SEARCHED, 8),
    Opcode.GATHER: _gather,
    Opcode.PARTITION_REDUCE: _over_partitions,
    Opcode.TENSOR_SCALAR_CUMULATIVE: _elementwise,
    Opcode.RANGE_SELECT: _elementwise,
    Opcode.SELECT_REDUCE: _elementwise,
    Opcode.TENSOR_SCALAR_REDUCE: _elementwise,
    Opcode.EXPONENTIAL: _elementwise,
    Opcode.LOCAL_GATHER: _local_gather,
    Opcode.INDIRECT_COPY: _indirect_copy,
    Opcode.SEQUENCE_BOUNDS: _bounds,
    Opcode.NONZERO_WITH_COUNT: _with_count,
    Opcode.TOPK: _largest,
    Opcode.QUANTIZE_MX: _packing,
}
