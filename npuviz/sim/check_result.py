"""What came of comparing a run's values with a reference: verdicts, what is wrong, and how errors are
distributed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Verdict:
    """One way of comparing the tensors of a run.

    num_failed        tensors that make it fail
    classes           what a comparison can come to, in words -> number of tensors, the best first
    first_divergence  name of the tensor (in program order) where it first went wrong, or ""
    rule              the tolerance in words
    share             end to end: what every output may be off, as a share of its largest magnitude;
    outputs_error     the largest of what they are off
    """

    num_failed: int
    classes: Mapping[str, int]
    max_abs_err: float
    max_rel_err: float
    first_divergence: str
    rule: str
    share: float = 0.0
    outputs_error: float = 0.0

    @property
    def num_tensors(self) -> int:
        """Tensors that were compared."""
        return sum(self.classes.values())


@dataclass(frozen=True, slots=True)
class Finding:
    """A tensor that makes a check fail.

    tensor    its name
    text      what is wrong with it
    operator  the operator where the error first grew, "" if unknown
    cause     what most likely made it, "" if unknown
    """

    tensor: str
    text: str
    operator: str = ""
    cause: str = ""


SMALLEST_EXPONENT, LARGEST_EXPONENT = -30, 0
"""Binary exponents of relative errors that a histogram tells apart."""
NUM_BINS = LARGEST_EXPONENT - SMALLEST_EXPONENT + 4


@dataclass(frozen=True, slots=True)
class Spread:
    """How the errors of a tensor's elements are distributed, relative to the reference's largest magnitude.

    counts  elements: equal ones; below 2**SMALLEST_EXPONENT; from each power of two to the next; 2 or more;
            infinite or NaN where the reference is not. NUM_BINS numbers
    sqnr    signal to quantization noise ratio, dB; infinite where all are equal
    cosine  of the angle between the two, as of vectors; 1 where all are equal
    bias    mean error
    largest the largest error; worst  the flat index of that element, -1 where all are equal
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
    """What the elements of a bin of `Spread.counts` are off, in words."""
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
    """How far one computed tensor is from the reference.

    tensor, node  ids in the graph: the tensor and who computes it
    whole, own    end to end, and per operator (on what the machine had before it); None: not compared so
    whole_class, own_class  what the two verdicts call it
    allowed       what it may be off end to end, as a share of its largest magnitude
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
    """Comparison of every computed tensor with the reference execution: the verdict per operator, and beside
    it the one end to end.

    num_tensors, num_failed  compared, and wrong, per operator: on what the machine itself had before it
    first_divergence  name of the first tensor (in program order) that is wrong per operator, or ""
    tolerance         text that states the rules used
    per_operator, end_to_end  the verdicts with their classes; end to end is against the reference run from
                      the model's inputs, where the model's outputs decide
    findings          what makes the check fail
    not_compared      reason -> names of tensors
    tensors           the errors of each tensor, in program order; () where a target does not measure them
    first_instruction  listing index of the instruction that made the first wrong element, -1 if unknown
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
    """The payload of a program that may come with something its values are compared with."""

    @property
    def reference(self) -> Any:
        """What knows the right values, None without it."""
        ...
