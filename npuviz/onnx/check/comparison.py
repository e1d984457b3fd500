"""Compares a machine's tensors with the reference, tensor by tensor, and gives two verdicts.

*End to end*: against the model run from its inputs; only its outputs decide the verdict. *Per operator*:
against each operator run on the machine's own values of its inputs. The first tells whether the network as a
whole still computes the right results, the second whether each operator of the machine is right: accumulated
rounding may fail the first although all operators pass the second.
"""

from dataclasses import replace

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.check.causes import Causes
from npuviz.onnx.check.decisions import holds_scores, is_close_call, other_classes, row_text
from npuviz.onnx.check.errors import Rule
from npuviz.onnx.check.exact import exact_values
from npuviz.onnx.check.file_outputs import leaves_out_roundings, other_outputs, outputs_of_file
from npuviz.onnx.check.growth import SAFETY, Precision, allowed_errors
from npuviz.onnx.check.own_inputs import OwnInputs
from npuviz.onnx.check.records import CLASSES, Record, float_deviation, integer_deviation
from npuviz.onnx.check.references import References
from npuviz.onnx.check.saturation import saturated_errors
from npuviz.onnx.check.spread import spread_of
from npuviz.onnx.check.steadiness import EXPLAINS, IS_MUCH, moves, remark
from npuviz.onnx.semantics.operators import draws, holds_requantized
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult, Finding, TensorErrors, Verdict

_RANDOM = "random numbers, drawn"
_FROM_RANDOM = "depending on random numbers (compared per operator only)"
_NO_FILE = "not compared with the file as it is, which does not run in ONNX Runtime"
_NO_NUMBERS = "text, a sequence or an optional, which no machine holds"
_OTHER_GRAPH = "reading the model has changed it, a fault of npuviz; or another branch or size than the run's"
_UNROUNDED = "the file rounds operands to 8 bits at run time, the machine does not, and the outputs tell"
_OTHER_SIZE = "of a shape that depends on values (compared per operator only)"


class Comparison:
    """Compares tensors one after the other, keeps a record of each, and makes the verdicts.

    own        reference results of operators on the machine's own inputs
    precision  the types that the machine rounds to
    """

    def __init__(self, graph: Graph, references: References, own: OwnInputs, precision: Precision) -> None:
        self._graph = graph
        self._references = references
        self._own = own
        self._precision = precision
        self._allowed = allowed_errors(graph, precision)
        self._outputs = frozenset(graph.outputs)
        self._from_random = _from_random(graph)
        self._rules: set[str] = set()
        self._left_out: dict[str, dict[str, None]] = {}
        self._records: dict[int, Record] = {}
        self._findings: list[Finding] = []
        self._ties: dict[str, int] = {}
        self._saturated: set[int] = set()
        self.failed: dict[int, np.ndarray] = {}
        """Tensor -> its elements (flat bool) that were wrong per operator at the first failure."""

    @property
    def compared(self) -> frozenset[int]:
        """Tensors compared so far."""
        return frozenset(self._records)

    def is_random(self, tensor: int) -> bool:
        """Return whether an operator draws a tensor at random; such a tensor is left out."""
        node = self._graph.nodes[self._graph.tensors[tensor].producer]
        if not draws(self._graph, node):
            return False
        self.leave_out(tensor, f"{_RANDOM} by {node.op_type}: make them an input of the model to compare")
        return True

    def leave_out(self, tensor: int, reason: str) -> None:
        """Note why a tensor is not compared."""
        self._left_out.setdefault(reason, {})[self._graph.tensors[tensor].name] = None

    def compare(
        self, tensor: int, found: np.ndarray, rule: Rule, written: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Compare the values that the machine holds of a tensor. Returns the elements (flat bool) that are
        wrong per operator, None if all are right.

        found  values in any shape; written  flat bool, elements that no instruction wrote count as wrong
        """
        held = self._graph.tensors[tensor]
        if found.size != held.num_elements and self._references.get(tensor).size == held.num_elements:
            raise AssertionError(f"tensor {held.name} has {found.size} elements")
        record = self._records.setdefault(tensor, Record(tensor))
        flat = found.reshape(-1)
        if tensor in self._from_random:
            self.leave_out(tensor, _FROM_RANDOM)
        else:
            self._compare_end_to_end(record, flat)
        bad = self._compare_operator(record, flat, rule)
        if written is not None and not written.all():
            bad = ~written if bad is None else bad | ~written
        if bad is None or not bad.any():
            return None
        record.own_class = "wrong"
        self.failed.setdefault(tensor, bad)
        return bad

    def _compare_operator(self, record: Record, found: np.ndarray, rule: Rule) -> np.ndarray | None:
        """Compare per operator. Returns the wrong elements, None if there is nothing to compare with."""
        expected = self._own.values(record.tensor)
        name = "right"
        if expected is None or expected.size != found.size:
            # Without results on the machine's own inputs, those on the reference's inputs are used.
            name = "right, measured from the model's inputs"
            expected = None if record.tensor in self._from_random else self._references.get(record.tensor)
            if expected is None or expected.size != found.size:
                record.note("not measured", None)
                return None
        errors = rule(found, expected.reshape(-1))
        self._rules.add(errors.rule)
        if errors.bad.any() and (expected.dtype.kind not in "iub" or self._may_saturate(record.tensor)):
            exact = self._exact(record.tensor, found)
            if exact is not None:
                close = rule(found, exact)
                if not close.bad.any():
                    name, errors = "right against float64, where the reference is the coarser one", close
                elif _is_as_exact(found, expected.reshape(-1), exact):
                    name, errors = CLASSES[2], replace(close, bad=np.zeros_like(close.bad))
        spread = spread_of(found, expected.reshape(-1))
        record.note("wrong" if errors.bad.any() else name, errors, spread)
        return errors.bad

    def _may_saturate(self, tensor: int) -> bool:
        """Return whether ONNX Runtime itself may saturate: without VNNI, processors add pairs of products of
        unsigned and signed 8-bit integers in 16 bits, which saturate."""
        return self._graph.nodes[self._graph.tensors[tensor].producer].op_type in (
            "MatMulInteger",
            "ConvInteger",
        )

    def _exact(self, tensor: int, found: np.ndarray) -> np.ndarray | None:
        """Return a tensor in float64 from the machine's inputs, flat; None if it cannot be computed."""
        exact = self._own.exact(tensor)
        return None if exact is None or exact.size != found.size else exact.reshape(-1)

    def _compare_end_to_end(self, record: Record, found: np.ndarray) -> None:
        tensor, held = record.tensor, self._graph.tensors[record.tensor]
        reference = self._references.get(tensor)
        if reference.size != found.size:
            self.leave_out(tensor, _OTHER_SIZE)
            if tensor in self._outputs:
                text = f"has {found.size} elements, the reference's has {reference.size}"
                cause = "its shape depends on values, and is that of the run that observed it; give --input"
                self._findings.append(Finding(held.name, text, "", cause))
            return
        allowed = self._allowed[tensor]
        if numpy_dtype(held.dtype).kind in "iub":
            steps = self._steps(tensor)
            deviation = integer_deviation(found, reference.reshape(-1), steps)
            if deviation.is_beyond and not steps and self._is_close_call(tensor, found, reference):
                deviation = deviation.as_choice()
        else:
            least = allowed.absolute
            if tensor in self._outputs:
                least = saturated_errors(self._graph, tensor, self._references.get, self._allowed)
                if isinstance(least, np.ndarray):
                    self._saturated.add(tensor)
            deviation = float_deviation(found, reference.reshape(-1), allowed.share, least)
        record.add(deviation, spread_of(found, reference.reshape(-1)))
        if tensor in self._outputs:
            self._compare_classes(record, found.reshape(reference.shape), reference)

    def _is_close_call(self, tensor: int, found: np.ndarray, reference: np.ndarray) -> bool:
        node = self._graph.nodes[self._graph.tensors[tensor].producer]
        known = [index for index in node.inputs if index >= 0]
        inputs = [self._references.get(index) for index in known]
        share = max((self._allowed[index].share for index in known), default=0.0)
        return is_close_call(self._graph, tensor, found.reshape(reference.shape), inputs, share)

    def _compare_classes(self, record: Record, found: np.ndarray, reference: np.ndarray) -> None:
        """Note whether an output with scores of classes ranks another class first than the reference."""
        if not reference.size or not holds_scores(self._graph, record.tensor):
            return
        allowed = self._allowed[record.tensor]
        rows, ties = other_classes(found, reference, allowed.share, allowed.absolute)
        if rows:
            more = f" ({len(rows)} rows differ)" if len(rows) > 1 else ""
            record.other_class = row_text(rows[0], found, reference) + more
        if ties:
            self._ties[self._graph.tensors[record.tensor].name] = ties

    def result(self, first_divergence: str, remarks: str = "", first_instruction: int = -1) -> CheckResult:
        """Return the verdicts of all comparisons.

        first_divergence, first_instruction  text and index of the first instruction that was wrong per
        operator
        remarks  what a target adds to the text, each after a semicolon
        """
        self._excuse_coarse_references()
        self._compare_with_file()
        for tensor in self._graph.outputs:
            if self._graph.tensors[tensor].producer < 0 and tensor not in self._records:
                self.leave_out(tensor, "known before the run: the file or an input holds it")
        causes = Causes(self._graph, self._references, self._precision, self._allowed, self._records)
        wrong = self._wrong_operators(causes)
        outputs, first = self._wrong_outputs(causes)
        single, whole = self._per_operator(first_divergence), self._end_to_end(len(outputs), first)
        text = f"end to end: {whole.rule}; per operator: {single.rule}"
        for name, count in self._ties.items():
            text += f"; {count} rows of {name} rank another class first, closer than the tolerance can tell"
        known = {finding.tensor for finding in wrong}
        return CheckResult(
            len(self._records),
            single.num_failed,
            single.max_abs_err,
            single.max_rel_err,
            first_divergence,
            text + remarks,
            single,
            whole,
            (*wrong, *(finding for finding in outputs if finding.tensor not in known)),
            {reason: tuple(names) for reason, names in self._left_out.items()},
            self._tensor_errors(),
            first_instruction,
        )

    def _tensor_errors(self) -> tuple[TensorErrors, ...]:
        tensors = self._graph.tensors
        return tuple(
            TensorErrors(
                record.tensor,
                tensors[record.tensor].producer,
                record.spread,
                record.own_spread,
                record.deviation.name if record.deviation is not None else "not compared",
                record.own_class,
                self._allowed[record.tensor].share,
            )
            for record in sorted(
                self._records.values(), key=lambda each: (tensors[each.tensor].producer, each.tensor)
            )
        )

    def _excuse_coarse_references(self) -> None:
        """Accept errors that are about as large as the error of the reference itself against a float64 run,
        for tensors whose ancestors are all float32 or finer: the reference is not exact enough to call them
        wrong."""
        wrong = {
            tensor: record
            for tensor, record in self._records.items()
            if self._allowed[tensor].dtype in ("float32", "float64")
            and record.deviation is not None
            and record.deviation.is_beyond
            and not record.deviation.is_lost
        }
        if not wrong:
            return
        for tensor, values in exact_values(self._graph, self._references.inputs, wrong.keys()):
            reference, deviation = self._references.get(tensor), wrong[tensor].deviation
            if deviation is None or values.size != reference.size or reference.dtype.kind in "iub":
                continue
            own = float_deviation(reference.reshape(-1), values.reshape(-1), 0.0)
            if np.isfinite(own.absolute) and deviation.absolute <= SAFETY * own.absolute:
                wrong[tensor].deviation = deviation.as_uncertain()

    def _compare_with_file(self) -> None:
        """Compare the reference outputs of the compiled graph with those of the unchanged file, and note
        findings."""
        graph = self._graph
        texts = [index for index in graph.outputs if graph.tensors[index].dtype in ("string", "opaque")]
        for index in texts:
            self.leave_out(index, _NO_NUMBERS)
        outputs = [i for i in graph.outputs if i not in texts and not self._depends_on_chance(i)]
        if graph.file is None or not outputs:
            return
        try:
            values = outputs_of_file(graph, self._references.inputs)
        except FormatError as error:
            for index in outputs:
                self.leave_out(index, f"{_NO_FILE} ({error.found})")
            return
        cause = _UNROUNDED if leaves_out_roundings(graph) else _OTHER_GRAPH
        for index, text in other_outputs(graph, self._references, outputs, values):
            self._findings.append(Finding(graph.tensors[index].name, text, "", cause))

    def _depends_on_chance(self, tensor: int) -> bool:
        producer = self._graph.tensors[tensor].producer
        drawn = producer >= 0 and draws(self._graph, self._graph.nodes[producer])
        return drawn or tensor in self._from_random

    def _wrong_operators(self, causes: Causes) -> list[Finding]:
        found: list[Finding] = []
        for tensor in self.failed:
            record = self._records[tensor]
            text = "is wrong on the machine's own inputs"
            if record.own_errors is not None:
                text += f", by up to {record.own_errors.absolute:.3g}"
            found.append(
                Finding(
                    self._graph.tensors[tensor].name,
                    text,
                    causes.operator(tensor),
                    causes.of_operator(tensor),
                )
            )
        return found

    def _wrong_outputs(self, causes: Causes) -> tuple[list[Finding], str]:
        """Return the findings for outputs that are wrong end to end and for tensors with NaN, and the name of
        the tensor where the first error began."""
        found = list(self._findings)
        first = found[0].tensor if found else ""
        for tensor in sorted(self._records):
            text = self._wrong_text(self._records[tensor])
            if text and not self._is_inherited(tensor):
                origin = causes.origin(tensor)
                first = first or self._graph.tensors[origin].name
                name = self._graph.tensors[tensor].name
                found.append(Finding(name, text, causes.operator(origin), causes.of(origin)))
        return self._with_steadiness(found), first

    def _with_steadiness(self, findings: list[Finding]) -> list[Finding]:
        """Add a remark to findings of outputs that a tiny change of the inputs moves by a relevant share of
        the error."""
        named = {finding.tensor for finding in findings}
        outputs = {self._graph.tensors[tensor].name: tensor for tensor in self._graph.outputs}
        wrong = [tensor for name, tensor in outputs.items() if name in named]
        moved = moves(self._graph, self._references, wrong) if wrong else {}
        found: list[Finding] = []
        for finding in findings:
            tensor = outputs.get(finding.tensor, -1)
            share = moved.get(tensor, 0.0)
            is_unsteady = tensor in moved and share > max(
                IS_MUCH * self._allowed[tensor].share, self._worth(tensor)
            )
            found.append(replace(finding, cause=finding.cause + remark(share)) if is_unsteady else finding)
        return found

    def _worth(self, tensor: int) -> float:
        """Return how far an output must move to explain part of its error, as a share of its largest
        magnitude."""
        deviation = self._records[tensor].deviation if tensor in self._records else None
        return EXPLAINS * deviation.relative if deviation is not None else 0.0

    def _is_inherited(self, tensor: int) -> bool:
        """Return whether a tensor inside the model holds NaN because an input of its operator does."""
        if tensor in self._outputs:
            return False
        read = self._graph.nodes[self._graph.tensors[tensor].producer].inputs
        before = [self._records[index].deviation for index in read if index in self._records]
        return any(each is not None and each.has_nan for each in before)

    def _wrong_text(self, record: Record) -> str:
        """Describe the error of a tensor end to end, "" if it is right."""
        deviation = record.deviation
        if deviation is None:
            return ""
        if record.tensor not in self._outputs:
            return "holds NaN where the reference holds none" if deviation.has_nan else ""
        if deviation.is_lost:
            return f"holds {'NaN' if deviation.has_nan else 'infinity'} where the reference holds none"
        if deviation.is_beyond:
            return f"is off by up to {deviation.text}; allowed {self._allowed_text(record.tensor)}"
        return record.other_class

    def _steps(self, tensor: int) -> float:
        """Return by how much the integers of a tensor may differ."""
        if not holds_requantized(self._graph, tensor):
            return 0.0
        return max(self._precision.steps, self._allowed[tensor].share * 256)

    def _allowed_text(self, tensor: int) -> str:
        if numpy_dtype(self._graph.tensors[tensor].dtype).kind in "iub":
            steps = self._steps(tensor)
            return f"{steps:.2g} steps of its integers" if steps else "0, as integers"
        more = ", or what it makes of its input's" if tensor in self._saturated else ""
        return self._allowed[tensor].text + more

    def _end_to_end(self, num_failed: int, first: str) -> Verdict:
        deviations = [record.deviation for record in self._records.values() if record.deviation is not None]
        classes: dict[str, int] = dict.fromkeys(CLASSES, 0)
        for deviation in deviations:
            classes[deviation.name] += 1
        outputs = [
            self._records[tensor].deviation for tensor in self._graph.outputs if tensor in self._records
        ]
        noted = {name for names in self._left_out.values() for name in names}
        names = [self._graph.tensors[tensor].name for tensor in self._graph.outputs]
        texts = {
            f"{self._graph.tensors[tensor].name} {self._allowed_text(tensor)}"
            for tensor in self._graph.outputs
            if tensor in self._records
        }
        return Verdict(
            num_failed,
            classes,
            max((each.absolute for each in deviations), default=0.0),
            max((each.relative for each in deviations), default=0.0),
            first,
            "outputs, " + ", ".join(sorted(texts)) if texts else "no output to compare",
            min((self._allowed[tensor].share for tensor in self._graph.outputs), default=0.0),
            max((each.relative for each in outputs if each is not None), default=0.0),
            sum(each is not None for each in outputs),
            tuple(name for name in names if name in noted),
            tuple(self._allowed[tensor].share for tensor in self._graph.outputs),
        )

    def _per_operator(self, first: str) -> Verdict:
        records = self._records.values()
        names = list(dict.fromkeys(("right", *sorted(record.own_class for record in records), "wrong")))
        names.sort(key=lambda name: name == "wrong")
        errors = [record.own_errors for record in records if record.own_errors is not None]
        return Verdict(
            len(self.failed),
            {name: sum(record.own_class == name for record in records) for name in names},
            max((each.absolute for each in errors), default=0.0),
            max((each.relative for each in errors), default=0.0),
            first,
            ", ".join(sorted(self._rules)) or "nothing to compare",
        )


def _is_as_exact(found: np.ndarray, reference: np.ndarray, exact: np.ndarray) -> bool:
    """Return whether flat real numbers are about as near to their float64 values as the reference's are."""
    if reference.dtype.kind in "iub":
        return False
    # Deviations are those of finite numbers: infinite ones and NaN have to be the same.
    found, expected = found.astype(np.float64), exact.astype(np.float64)
    odd = ~(np.isfinite(found) & np.isfinite(expected))
    if not np.array_equal(found[odd], expected[odd], equal_nan=True):
        return False
    own = float_deviation(reference, exact, 0.0)
    return not own.is_lost and float_deviation(found, exact, 0.0).absolute <= SAFETY * own.absolute


def _from_random(graph: Graph) -> frozenset[int]:
    """Return the tensors that depend on random numbers but are not drawn themselves."""
    drawn: set[int] = set()
    found: set[int] = set()
    for node in graph.nodes:
        outputs = {index for index in node.outputs if index >= 0}
        if draws(graph, node):
            drawn |= outputs
        elif any(index in drawn or index in found for index in node.inputs):
            found |= outputs
    return frozenset(found)
