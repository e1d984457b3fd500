"""Compares everything a program computes with ONNX Runtime."""

from collections.abc import Callable

import numpy as np

from npuviz.base.progress import NoProgress, Progress
from npuviz.onnx.check import errors
from npuviz.onnx.check.comparison import Comparison
from npuviz.onnx.check.growth import Precision
from npuviz.onnx.check.own_inputs import OwnInputs
from npuviz.onnx.check.references import References
from npuviz.onnx.semantics.operators import computed_tensors, is_requantized
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.access_order import AccessTable
from npuviz.sim.check_result import CheckResult
from npuviz.targets.systolic.values.engine import ValueEngine
from npuviz.targets.systolic.values.storage import FLOATS, Storage, convert

TOLERANCES = {
    "float32": 1e-4,
    "float16": 2e-2,
    "bfloat16": 1e-1,
    "float8_e4m3fn": 5e-1,
}
"""Largest error allowed, relative to the largest magnitude of the tensor, by element type in DRAM.

Rounding errors of a layer reach all later ones, so these are several times the error of one rounding
(2**-24, 2**-11, 2**-8, 2**-4).
"""

UNIT_TYPES = {"float8_e4m3fn": "float8"}
"""Type in DRAM -> its name in the end-to-end rule of `Precision`."""


def check(
    engine: ValueEngine,
    graph: Graph,
    accesses: Callable[[], AccessTable] | None = None,
    progress: Progress | None = None,
) -> CheckResult:
    """Compare every computed tensor with ONNX Runtime, and find the first store that went wrong.

    accesses  returns what instructions write to DRAM; called only if something is wrong; None: unknown
    Raises FormatError when ONNX Runtime refuses the model. Its uint8 x int8 products saturate on
    processors without VNNI, so models with 8-bit weights may differ there.
    """
    watch = progress or NoProgress()
    tensors = computed_tensors(graph)
    type_of = _types_of(engine, graph)
    rule_of = _rules_of(graph, type_of)
    storages = engine.plan.storages

    def held(tensor: int) -> np.ndarray | None:
        kind = numpy_dtype(graph.tensors[tensor].dtype)
        return None if kind.kind == "O" else np.asarray(engine.tensor(tensor).astype(kind), order="C")

    def stored(tensor: int, values: np.ndarray) -> np.ndarray:
        return convert(values, numpy_dtype(storages[tensor].dtype))

    comparison = Comparison(
        graph,
        References(graph, engine.inputs, tensors),
        OwnInputs(graph, held, stored),
        Precision(lambda tensor: UNIT_TYPES.get(type_of(tensor), type_of(tensor))),
    )
    for number, index in enumerate(tensors):
        watch.report(number / max(1, len(tensors)), f"checking {graph.tensors[index].name}")
        if not comparison.is_random(index):
            comparison.compare(index, engine.tensor(index), rule_of(index))
    first = next(iter(comparison.failed), None)
    remarks = _clamped_text(engine)
    if first is None:
        return comparison.result("", remarks)
    number = -1 if accesses is None else _first_store(storages[first], comparison.failed[first], accesses())
    name = graph.tensors[first].name
    text = f"{name} (stored by instruction {number})" if number >= 0 else name
    return comparison.result(text, remarks, first_instruction=number)


def _clamped_text(engine: ValueEngine) -> str:
    """Tell how many numbers that the Host wrote were beyond the range of their tensor's type."""
    return "".join(
        f"; clamped: {count:,} numbers of {engine.graph.tensors[tensor].name} are beyond "
        f"{engine.plan.storages[tensor].dtype} and held as its largest"
        for tensor, count in sorted(engine.clamped.items())
    )


def _first_store(storage: Storage, bad: np.ndarray, table: AccessTable) -> int:
    """Find the first instruction in program order that writes a wrong element to DRAM; -1 if none does.

    bad  elements that are wrong, flat bool
    """
    places = np.arange(bad.size).reshape(storage.shape).transpose(storage.order).reshape(-1)
    wrong = storage.address + np.flatnonzero(bad[places]) * storage.item_bytes
    writes = table.rows[:, 1] == 1
    low, high = table.rows[writes, 4], table.rows[writes, 5]
    following = np.searchsorted(wrong, low)
    hits = (following < len(wrong)) & (wrong[np.minimum(following, len(wrong) - 1)] < high)
    entries = np.repeat(np.arange(len(table.first) - 1), np.diff(table.first))[writes][hits]
    return int(table.instructions[entries[0]]) if len(entries) else -1


def _types_of(engine: ValueEngine, graph: Graph) -> Callable[[int], str]:
    """Return a function from a tensor to the coarser of its stored and declared types, "" for exact integers.

    The machine may store a tensor more coarsely than the graph declares it, and the reference computes
    in the declared types, which may be the coarser ones.
    """
    order = list(TOLERANCES)

    def type_of(tensor: int) -> str:
        declared = graph.tensors[tensor].dtype
        if declared not in FLOATS:
            return ""
        stored = engine.plan.storages[tensor].dtype
        coarse = (name for name in (stored, declared) if name in TOLERANCES)
        # What only the Host keeps may be finer than any type of the machine.
        return max(coarse, key=order.index, default=order[0])

    return type_of


def _rules_of(graph: Graph, type_of: Callable[[int], str]) -> Callable[[int], errors.Rule]:
    """Return a function from a tensor to its comparison rule, by the coarsest type on the way to it."""
    types = errors.coarsest_types(graph, list(TOLERANCES), type_of)

    def rule_of(tensor: int) -> errors.Rule:
        dtype = types[tensor]
        if dtype:
            return lambda found, expected: _float_errors(found, expected, dtype)
        declared = graph.tensors[tensor].dtype
        if numpy_dtype(declared).kind not in "iub":
            return lambda found, expected: errors.float_errors(found, expected, 0.0, f"{declared} exactly")
        steps = 1 if is_requantized(graph, tensor) else 0
        text = errors.REQUANTIZED if steps else errors.INTEGERS
        return lambda found, expected: errors.integer_errors(found, expected, steps, text)

    return rule_of


def _float_errors(found: np.ndarray, expected: np.ndarray, dtype: str) -> errors.Errors:
    share = TOLERANCES[dtype]
    return errors.float_errors(
        found,
        expected,
        errors.Tolerance(0.0, share),
        f"{dtype} {share:g} of the largest magnitude of the tensor",
    )
