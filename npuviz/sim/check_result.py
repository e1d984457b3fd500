"""Describe the comparison of a run's values with a reference: verdicts, what is wrong, how errors are
distributed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Verdict:
    """One way of comparing the tensors of a run.

    num_failed        number of tensors that make the check fail
    classes           result of a comparison, in words -> number of tensors, the best first
    first_divergence  name of the first tensor in program order that is wrong, or ""
    rule              the tolerance in words
    share             end to end: least of the errors allowed in outputs, each as a share of its magnitude
    outputs_error     the largest error of the outputs, as such a share
    num_outputs       end to end: number of outputs that were compared, -1: not counted
    outputs_left      end to end: names of outputs that were not compared
    output_shares     end to end: the error allowed in each output, as such a share
    """

    num_failed: int
    classes: Mapping[str, int]
    max_abs_err: float
    max_rel_err: float
    first_divergence: str
    rule: str
    share: float = 0.0
    outputs_error: float = 0.0
    num_outputs: int = -1
    outputs_left: tuple[str, ...] = ()
    output_shares: tuple[float, ...] = ()

    @property
    def says_nothing(self) -> bool:
        """Whether a model has outputs, and none of them was compared."""
        return not self.num_outputs and bool(self.outputs_left)

    @property
    def num_tensors(self) -> int:
        """Number of tensors that were compared."""
        return sum(self.classes.values())


@dataclass(frozen=True, slots=True)
class Finding:
    """A tensor that makes a check fail, and why.

    tensor    its name
    text      what is wrong with it
    operator  the operator where the error first grew, "" if unknown
    cause     most likely cause of the error, "" if unknown
    """

    tensor: str
    text: str
    operator: str = ""
    cause: str = ""


SMALLEST_EXPONENT, LARGEST_EXPONENT = -30, 0
"""Binary exponents of relative errors that have bins of their own in a histogram."""
NUM_BINS = LARGEST_EXPONENT - SMALLEST_EXPONENT + 4


@dataclass(frozen=True, slots=True)
class Spread:
    """How the errors of a tensor's elements are distributed, relative to the reference's largest magnitude.

    counts  elements: equal ones; below 2**SMALLEST_EXPONENT; from each power of two to the next; 2 or more;
            infinite or NaN where the reference is not. NUM_BINS numbers
    sqnr    signal to quantization noise ratio, dB; infinite if all elements are equal
    cosine  of the angle between both tensors as vectors; 1 if all elements are equal
    bias    mean error
    largest the largest error; worst  the flat index of its element, -1 if all are equal
    found, expected  the values of that element
    """

    counts: tuple[int, ...]
    sqnr: float
    cosine: float
    bias: float
    largest: float
    worst: int
    found: float
    expected: float


def bin_name(place: int) -> str:
    """Return the range of errors that a bin of `Spread.counts` stands for, in words."""
    if place == 0:
        return "equal"
    if place == 1:
        return f"below 2^{SMALLEST_EXPONENT}"
    if place == NUM_BINS - 1:
        return "infinite or NaN"
    exponent = SMALLEST_EXPONENT + place - 2
    return f"2^{exponent}" if exponent <= LARGEST_EXPONENT else f"2^{exponent} or more"


@dataclass(frozen=True, slots=True)
class TensorErrors:
    """Errors of one computed tensor against the reference.

    tensor, node  ids in the graph: the tensor and the node that computes it
    whole, own    errors end to end, and per operator (on the machine's own inputs); None: not compared so
    whole_class, own_class  the class that each of the two verdicts gives the tensor
    allowed       largest error allowed end to end, as a share of its largest magnitude
    """

    tensor: int
    node: int
    whole: Spread | None
    own: Spread | None
    whole_class: str
    own_class: str
    allowed: float


@dataclass(frozen=True)
class CheckResult:
    """Comparison of every computed tensor with the reference execution:
    a verdict per operator and one end to end.

    num_tensors, num_failed  tensors compared, and wrong, per operator: given the inputs that the
                      machine itself computed
    first_divergence  name of the first tensor (in program order) that is wrong per operator, or ""
    tolerance         text that states the rules used
    per_operator, end_to_end  the verdicts with their classes; end to end compares with a reference run from
                      the model's inputs, and the model's outputs decide
    findings          tensors that make the check fail
    not_compared      reason -> names of tensors
    tensors           the errors of each tensor, in program order; () where a target does not measure them
    first_instruction  listing index of the instruction that wrote the first wrong element, -1 if unknown
    """

    num_tensors: int
    num_failed: int
    max_abs_err: float
    max_rel_err: float
    first_divergence: str = ""
    tolerance: str = ""
    per_operator: Verdict | None = None
    end_to_end: Verdict | None = None
    findings: tuple[Finding, ...] = ()
    not_compared: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    tensors: tuple[TensorErrors, ...] = ()
    first_instruction: int = -1

    @property
    def is_passed(self) -> bool:
        """Whether nothing is wrong by either verdict."""
        return not self.num_failed and (self.end_to_end is None or not self.end_to_end.num_failed)


@runtime_checkable
class HasReference(Protocol):
    """A program's payload that may come with reference values."""

    @property
    def reference(self) -> Any:
        """An object that has the right values, None without one."""
        ...
