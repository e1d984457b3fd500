"""Measures the errors of a model's outputs if one tensor were kept in a narrower type."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.onnx.check.spread import spread_of
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.check_result import Spread

FLOATS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
BITS = {"int8": 8, "int4": 4}
"""Integer types: one scale per tensor, symmetric around 0, with the largest magnitude at the largest
integer."""
TYPES = (*FLOATS, *BITS)
MOST_TENSORS = 2000
_GROUP_BYTES = 256 << 20
INPUT, WEIGHT, COMPUTED = "input", "weight", "computed"


@dataclass(frozen=True, slots=True)
class Rounded:
    """One tensor in one type, with all other tensors unchanged.

    kind     INPUT, WEIGHT or COMPUTED
    own      distribution of the rounding errors of the tensor
    outputs  the largest error of the model's outputs, as a share of their largest magnitude
    """

    tensor: int
    kind: str
    dtype: str
    own: Spread
    outputs: float


@dataclass(frozen=True)
class RoundingResult:
    """Results for the wanted tensors, in the order of the graph.

    together  dtype -> error of the outputs with all of them in that type, estimated with the rounding errors
    that
      each tensor has alone; {} if they are too large to keep
    left_out  names of float tensors that were not tried: scalars that are no results
    """

    rows: tuple[Rounded, ...]
    together: Mapping[str, float]
    left_out: tuple[str, ...]


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Round float values to a type, and return them in their own type. Values beyond the range become
    infinite, or the largest number of a type without infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        wide = values.astype(np.float32)
        if dtype in BITS:
            steps = (1 << (BITS[dtype] - 1)) - 1
            finite = wide[np.isfinite(wide)]
            scale = float(np.abs(finite).max(initial=0)) / steps
            if not scale:
                return values
            return (np.clip(np.rint(wide / scale), -steps, steps) * scale).astype(values.dtype)
        kind = numpy_dtype(dtype)
        if dtype == "float8_e4m3fn":
            wide = np.clip(wide, -448.0, 448.0)
        return wide.astype(kind).astype(values.dtype)


def check_types(names: Collection[str]) -> None:
    """Raise UsageError for a type that `rounded` does not know."""
    for name in names:
        if name not in TYPES:
            raise UsageError(f"type {echo(name)}: expected one of {', '.join(TYPES)}")


def round_tensors(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    wanted: tuple[Sequence[str], Collection[int]],
    report: Callable[[float], None],
) -> RoundingResult:
    """Round tensors to narrower types, one at a time, and measure the errors of the outputs.

    wanted  (types, tensors); without tensors, all float tensors with more than one element or a producer
    Raises UsageError for more than MOST_TENSORS, FormatError where ONNX Runtime refuses the model.
    """
    types, chosen = wanted
    check_types(types)
    tensors, left_out = _candidates(graph)
    if chosen:
        tensors = [tensor for tensor in tensors if tensor in chosen]
    if len(tensors) > MOST_TENSORS:
        raise UsageError(f"{len(tensors)} tensors: at most {MOST_TENSORS} at once; name some of them")
    # Imported late: showing types and results does not need the runtime.
    from npuviz.onnx.check.injected_reference import InjectedReference, outputs_error

    session = InjectedReference(graph, inputs, tensors)
    exact = session.run({})
    rows: list[Rounded] = []
    sums: dict[str, dict[int, np.ndarray]] = {name: {} for name in types}
    total, done, kept = max(1, len(tensors) * len(types)), 0, 0
    for group in _groups(graph, tensors):
        for tensor, values in _values(graph, inputs, group).items():
            for name in types:
                report(done / total)
                done += 1
                near = rounded(values, name)
                spread = spread_of(near.reshape(-1), values.reshape(-1))
                if spread is None:
                    continue
                with np.errstate(invalid="ignore"):
                    error = near.astype(np.float64) - values.astype(np.float64)
                error[near == values] = 0  # equal infinities
                outputs = outputs_error(session.run({tensor: error}), exact) if spread.worst >= 0 else 0.0
                rows.append(Rounded(tensor, _kind(graph, tensor), name, spread, outputs))
                kept += error.nbytes // 2
                sums[name][tensor] = error.astype(np.float32)
    together = (
        {}
        if kept > 8 * _GROUP_BYTES
        else {name: outputs_error(session.run(errors), exact) for name, errors in sums.items()}
    )
    return RoundingResult(tuple(rows), together, tuple(left_out))


def _kind(graph: Graph, tensor: int) -> str:
    if graph.tensors[tensor].producer >= 0:
        return COMPUTED
    return WEIGHT if tensor in graph.constants else INPUT


def _candidates(graph: Graph) -> tuple[list[int], list[str]]:
    """Return the float tensors that are read or are outputs, and the names of those that are left out."""
    read = {index for node in graph.nodes for index in node.inputs if index >= 0}
    found: list[int] = []
    left_out: list[str] = []
    for tensor in graph.tensors:
        is_used = tensor.id in read or tensor.id in graph.outputs
        if not is_used or tensor.dtype not in ("float32", "float64", "float16", "bfloat16"):
            continue
        if tensor.num_elements > 1 or tensor.producer >= 0:
            found.append(tensor.id)
        else:
            left_out.append(tensor.name)
    return found, left_out


def _groups(graph: Graph, tensors: Sequence[int]) -> list[list[int]]:
    """Split tensors to groups that fit in memory together."""
    found: list[list[int]] = [[]]
    size = 0
    for tensor in tensors:
        if size > _GROUP_BYTES:
            found.append([])
            size = 0
        found[-1].append(tensor)
        size += graph.tensors[tensor].num_elements * 8
    return [group for group in found if group]


def _values(graph: Graph, inputs: Mapping[str, np.ndarray], tensors: Sequence[int]) -> dict[int, np.ndarray]:
    from npuviz.onnx.reference import run_reference

    return {index: np.asarray(found) for index, found in run_reference(graph, inputs, tensors).items()}
