"""Finds the operator where an error began, and its most likely cause."""

from collections.abc import Mapping, Sequence

import numpy as np

from npuviz.onnx.check.growth import Allowed, Precision, is_eight_bits
from npuviz.onnx.check.records import Record
from npuviz.onnx.check.references import References
from npuviz.program.graph import Graph

_TEXTS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8": "fp8"}


class Causes:
    """Explains wrong tensors after all have been compared."""

    def __init__(
        self,
        graph: Graph,
        references: References,
        precision: Precision,
        allowed: Sequence[Allowed],
        records: Mapping[int, Record],
    ) -> None:
        self._graph = graph
        self._references = references
        self._precision = precision
        self._allowed = allowed
        self._records = records

    def operator(self, tensor: int) -> str:
        """Return the type and name of the operator that makes a tensor."""
        node = self._graph.nodes[self._graph.tensors[tensor].producer]
        return f"{node.op_type} {node.name}".rstrip()

    def origin(self, tensor: int) -> int:
        """Return the first tensor among the ancestors of this one whose error exceeds its tolerance, else
        itself."""
        needed = {tensor}
        for node in reversed(self._graph.nodes):
            if needed.intersection(node.outputs):
                needed.update(index for index in node.inputs if index >= 0)
        for node in self._graph.nodes:
            for index in node.outputs:
                record = self._records.get(index)
                if index not in needed or record is None:
                    continue
                deviation = record.deviation
                is_off = deviation is not None and (deviation.is_beyond or deviation.is_lost)
                if is_off or record.own_class == "wrong":
                    return index
        return tensor

    def of_operator(self, tensor: int) -> str:
        """Return the cause of an error per operator (on the machine's own inputs)."""
        if self._graph.tensors[tensor].producer in self._precision.table_errors:
            return "an error of the activation table that computes it"
        lost = [index for index in self._inputs(tensor) if self._is_lost(index)]
        if lost and self._is_lost(tensor):
            name = self._graph.tensors[lost[0]].name
            return f"what is infinite or NaN in {name} reaches more elements than in the reference's operator"
        return "the machine's operator computes something else than the reference's"

    def _inputs(self, tensor: int) -> Sequence[int]:
        """Return the tensors that the operator of a tensor reads."""
        producer = self._graph.tensors[tensor].producer
        return self._graph.nodes[producer].inputs if producer >= 0 else ()

    def _is_lost(self, tensor: int) -> bool:
        """Return whether a tensor holds NaN or infinity where the reference holds none."""
        record = self._records.get(tensor)
        return record is not None and record.deviation is not None and record.deviation.is_lost

    def of(self, tensor: int) -> str:
        """Return the cause of an error end to end that began at a tensor."""
        record, allowed = self._records[tensor], self._allowed[tensor]
        deviation = record.deviation
        if record.own_class == "wrong":
            return self.of_operator(tensor)
        if deviation is not None and deviation.is_lost:
            return self._of_overflow(tensor)
        if is_eight_bits(self._graph, tensor) or allowed.dtype == "int8":
            return "quantisation to 8 bits" + self._amplified(tensor)
        if self._graph.tensors[tensor].producer in self._precision.table_errors:
            return "errors of the activation table that computes it" + self._amplified(tensor)
        if not allowed.dtype:
            return "a choice between values that rounding has moved"
        return f"{_TEXTS.get(allowed.dtype, allowed.dtype)} rounding" + self._amplified(tensor)

    def _of_overflow(self, tensor: int) -> str:
        """Return the cause of infinity or NaN: a value beyond the range of its type, in the tensor or in
        tensors that were fused into its operator."""
        seen = {tensor}
        waiting = [tensor]
        while waiting:
            index = waiting.pop()
            dtype = self._precision.type_of(index)
            limit = self._precision.limits.get(dtype)
            largest = self._largest(index) if limit is not None else 0.0
            if limit is not None and largest > limit:
                name, kind = self._graph.tensors[index].name, _TEXTS.get(dtype, dtype)
                return f"overflow of {kind}'s range: {name} reaches {largest:.4g}, {kind} ends at {limit:g}"
            for before in self._inputs(index):
                if before >= 0 and before not in self._records and before not in seen:
                    seen.add(before)
                    waiting.append(before)
        return "an infinite or undefined result of values that rounding has moved"

    def _largest(self, tensor: int) -> float:
        """Return the largest finite magnitude of a computed tensor in the reference, 0 for other tensors."""
        if self._graph.tensors[tensor].producer < 0:
            return 0.0
        values = np.abs(np.asarray(self._references.get(tensor), np.float64))
        return float(values[np.isfinite(values)].max(initial=0))

    def _amplified(self, tensor: int) -> str:
        """Describe how much the operator of a tensor amplified the error of its inputs, "" if by less than
        twice."""
        found = self._records[tensor].deviation
        node = self._graph.nodes[self._graph.tensors[tensor].producer]
        known = [self._records[index].deviation for index in node.inputs if index in self._records]
        before = max((each.relative for each in known if each is not None), default=0.0)
        if found is None or not np.isfinite(found.relative) or found.relative <= 2 * before:
            return ""
        return f", from {before:.2g} of its inputs' magnitude to {found.relative:.2g} of its own"
