"""Compare every computed tensor with ONNX Runtime, and find the first wrong instruction."""

from collections import OrderedDict

import numpy as np

from npuviz.base.progress import NoProgress, Progress
from npuviz.onnx.check.comparison import Comparison
from npuviz.onnx.check.growth import Precision
from npuviz.onnx.check.own_inputs import OwnInputs
from npuviz.onnx.check.references import References
from npuviz.onnx.kept_nodes import kept_nodes, kept_tensors
from npuviz.onnx.semantics.operators import computed_tensors
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult
from npuviz.sim.replay.contents import Edit
from npuviz.targets.neuroncore.check.errors import rules_of, type_of
from npuviz.targets.neuroncore.check.origin import Bad, first_divergence
from npuviz.targets.neuroncore.check.pieces import Pieces, PieceValues
from npuviz.targets.neuroncore.values.engine import ValueEngine
from npuviz.targets.neuroncore.values.host import as_type

_ON_CHIP_BYTES = 512 << 20
"""Most bytes of tensors without HBM that are kept as inputs of later ones."""


def check(
    engine: ValueEngine,
    graph: Graph,
    log: np.ndarray,
    progress: Progress | None = None,
    edits: tuple[Edit, ...] | None = None,
) -> CheckResult:
    """Replay the log and compare every computed tensor, in HBM or in pieces on chip, with ONNX Runtime.

    edits  the user's edits; None: those of the engine's last move

    Elements that were never written count as wrong. Raises FormatError if ONNX Runtime refuses the model.
    """
    watch = progress or NoProgress()
    edits = engine.edits if edits is None else edits
    tensors = computed_tensors(graph)
    tensor_check = _TensorCheck(engine, graph, tensors)
    pieces = Pieces(engine.tables, graph)
    if pieces.by_instruction:
        total = max(1, len(log))

        def visit(position: int, entry: int) -> None:
            if not position & 1023:
                watch.report(0.5 * position / total, "replaying")
            for done in pieces.visit(engine, position, entry):
                tensor_check.compare_pieces(done)

        engine.replay(log, edits, visit)
        for left in pieces.unfinished():
            tensor_check.compare_pieces(left)
    with engine.at(log, edits):
        for number, index in enumerate(tensors):
            watch.report(0.5 + 0.5 * number / max(1, len(tensors)), f"checking {graph.tensors[index].name}")
            tensor_check.compare(index)
        return tensor_check.result(log)


class _TensorCheck:
    """Compares tensors in HBM at the end, or from pieces on chip."""

    def __init__(self, engine: ValueEngine, graph: Graph, tensors: list[int]) -> None:
        self._engine = engine
        self._graph = graph
        self._rule_of = rules_of(graph, engine.spec.dtype)
        # `keep_fp32` has names of the model before its functions were expanded.
        names = [name.strip() for name in engine.spec.keep_fp32.split(",") if name.strip()]
        self._kept = kept_tensors(graph, kept_nodes(graph, names))
        self._comparison = Comparison(
            graph,
            References(graph, engine.inputs, tensors),
            OwnInputs(graph, self._held),
            Precision(self._type_of),
        )
        self._failed: dict[int, Bad] = {}
        self._on_chip: OrderedDict[int, np.ndarray] = OrderedDict()
        self._on_chip_bytes = 0

    def _type_of(self, tensor: int) -> str:
        """Return the type in which a tensor is computed and stored."""
        dtype = type_of(self._graph, self._engine.spec.dtype, tensor)
        is_kept = tensor in self._kept and self._graph.tensors[tensor].dtype == "float32"
        return "float32" if is_kept else dtype

    def compare_pieces(self, found: PieceValues) -> None:
        """Compare a tensor whose elements were collected on chip."""
        index = found.tensor
        bad = self._comparison.compare(index, found.values, self._rule_of(index), found.covered)
        if bad is not None:
            position = found.first_position(bad)
            self._failed.setdefault(index, Bad(index, bad, position, found.instruction_at(position)))
        if found.covered.all():
            self._keep(index, found.values)

    def _keep(self, index: int, values: np.ndarray) -> None:
        """Keep a tensor that never was in HBM, as it may be the input of later ones."""
        self._on_chip[index] = values
        self._on_chip_bytes += values.nbytes
        while self._on_chip_bytes > _ON_CHIP_BYTES:
            self._on_chip_bytes -= self._on_chip.popitem(last=False)[1].nbytes

    def compare(self, index: int) -> None:
        """Compare a tensor in HBM at the end."""
        engine, comparison = self._engine, self._comparison
        if comparison.is_random(index):
            return
        number = engine.variable_of(index)
        is_compared = index in comparison.compared
        if number < 0:
            if not is_compared and self._graph.tensors[index].num_elements:
                comparison.leave_out(index, "fused into the operators that read them")
            return
        written = engine.written_elements(number)
        if is_compared and not written.any():
            return
        bad = comparison.compare(index, engine.variable(number), self._rule_of(index), written)
        if bad is not None:
            self._failed.setdefault(index, Bad(index, bad))

    def _held(self, tensor: int) -> np.ndarray | None:
        """Return a tensor from HBM or the kept ones, in the graph's type; None if there is none."""
        graph, engine = self._graph, self._engine
        if tensor in graph.constants and numpy_dtype(graph.tensors[tensor].dtype).kind in "iub":
            return np.asarray(graph.constants[tensor], order="C")
        found = graph.tensors[tensor]
        number = engine.variable_of(tensor)
        if number >= 0 and engine.is_complete(number):
            return as_type(engine.variable(number), numpy_dtype(found.dtype))
        values = self._on_chip.get(tensor)
        return None if values is None else as_type(values, numpy_dtype(found.dtype)).reshape(found.shape)

    def result(self, log: np.ndarray) -> CheckResult:
        """Return the result of the comparison; the contents must be at the end of the log."""
        failed = list(self._failed.values())
        text, instruction = first_divergence(self._engine, self._graph, log, failed)
        return self._comparison.result(text, first_instruction=instruction)
