"""Compares the logits and tokens of a machine with those of ONNX Runtime, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Comparison:
    """A machine's tokens beside those of ONNX Runtime.

    reference  yields the logits of each step, (vocabulary,)
    tokens    of ONNX Runtime;  gaps  its best logit less the second, as a share of the largest magnitude
    errors    largest difference of the machine's logits from ONNX Runtime's, as a share of the largest
              magnitude: of steps up to the first token that differs, behind which the texts are not the same
    first_difference  number of that token from 0; None while all are equal
    """

    reference: Iterator[np.ndarray]
    tokens: list[int] = field(default_factory=list[int])
    gaps: list[float] = field(default_factory=list[float])
    errors: list[float] = field(default_factory=list[float])
    first_difference: int | None = None

    def take(self, logits: np.ndarray) -> None:
        """Compare the machine's logits of a step, (vocabulary,), with the next ones of the reference."""
        expected = next(self.reference)
        self.tokens.append(int(expected.argmax()))
        self.gaps.append(gap_of(expected))
        if self.first_difference is not None:
            return
        largest = max(float(np.abs(expected).max()), 1e-30)
        self.errors.append(float(np.abs(logits - expected).max()) / largest)
        if int(logits.argmax()) != self.tokens[-1]:
            self.first_difference = len(self.tokens) - 1


def gap_of(logits: np.ndarray) -> float:
    """Return the best logit less the second best, as a share of the largest magnitude."""
    if logits.size < 2:
        return 1.0
    second, best = np.partition(logits, -2)[-2:]
    return float((best - second) / max(float(np.abs(logits).max()), 1e-30))
