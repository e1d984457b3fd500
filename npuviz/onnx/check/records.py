"""What came of comparing one tensor: how far it is from the reference, and how far per operator."""

from dataclasses import dataclass, replace

import numpy as np

from npuviz.onnx.check.errors import Errors
from npuviz.onnx.check.growth import SENTINEL, magnitude
from npuviz.sim.check_result import Spread

CLASSES = (
    "equal",
    "within the tolerance",
    "as far off as the reference is from float64",
    "beyond the tolerance",
    "infinite or NaN",
)


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far a tensor is from the reference, end to end.

    absolute, relative  the largest error, and as a share of the reference's largest magnitude
    is_lost             infinity or NaN where the reference has none; has_nan  one of them is NaN
    magnitude           the reference's largest
    is_uncertain        the reference itself is about as far from the model in float64
    """

    absolute: float
    relative: float
    is_beyond: bool
    is_lost: bool = False
    has_nan: bool = False
    magnitude: float = 0.0
    is_uncertain: bool = False

    @property
    def name(self) -> str:
        """The class of the comparison, one of CLASSES."""
        equal, within, uncertain, beyond, lost = CLASSES
        if self.is_lost:
            return lost
        if self.is_beyond:
            return beyond
        if self.is_uncertain:
            return uncertain
        return within if self.absolute else equal

    @property
    def text(self) -> str:
        """The largest error in words."""
        if not np.isfinite(self.relative):
            return f"{self.absolute:.3g}"
        return f"{self.absolute:.3g}, {self.relative:.2g} of the largest magnitude"

    def as_uncertain(self) -> "Deviation":
        """The same where the reference is no closer to the truth."""
        return replace(self, is_beyond=False, is_uncertain=True)

    def as_choice(self) -> "Deviation":
        """The same for a choice that roundings of its inputs may decide either way."""
        return replace(self, is_beyond=False)


def float_deviation(
    found: np.ndarray, reference: np.ndarray, share: float, least: np.ndarray | float = 0.0
) -> Deviation:
    """Floats, flat: each element may be off by a share of the reference's largest magnitude, and by `least`
    (of all, or of each) where that is more.

    A reference that is infinite, NaN or a sentinel for infinity allows a share of itself only.
    """
    # Bits that are signalling NaNs are values like others here.
    with np.errstate(invalid="ignore"):
        a, b = found.astype(np.float64), reference.astype(np.float64)
        finite = np.isfinite(b)
        lost = finite & ~np.isfinite(a)
        scale = magnitude(b)
        distance = np.abs(a - b)
        allowed = np.maximum(share * np.where(np.abs(b) > SENTINEL, np.abs(b), scale), least)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        beyond = ~same & ~(finite & (distance <= allowed))
        nan = bool((np.isnan(a) & ~np.isnan(b)).any())
        plain = finite & np.isfinite(a) & (np.abs(b) <= SENTINEL)
    absolute = float("inf") if lost.any() else float(distance[plain].max(initial=0))
    relative = absolute / scale if scale else (float("inf") if absolute else 0.0)
    return Deviation(absolute, relative, bool(beyond.any()), bool(lost.any() or nan), nan, scale)


def integer_deviation(found: np.ndarray, reference: np.ndarray, steps: float) -> Deviation:
    """Integers, flat, that may be off by so many steps."""
    a, b = found.astype(np.float64), reference.astype(np.float64)
    absolute = float(np.abs(a - b).max(initial=0))
    scale = float(np.abs(b).max(initial=0))
    relative = absolute / scale if scale else (float("inf") if absolute else 0.0)
    is_beyond = absolute > steps if steps else not np.array_equal(found, reference)
    return Deviation(absolute, relative, is_beyond, magnitude=scale)


@dataclass(slots=True)
class Record:
    """One tensor; a tensor that is compared in two places keeps the worse of both.

    own_class, own_errors  of the comparison per operator;  other_class  what is wrong with its ranking
    spread, own_spread  how the errors are distributed, end to end and per operator
    """

    tensor: int
    deviation: Deviation | None = None
    own_class: str = "not measured"
    own_errors: Errors | None = None
    other_class: str = ""
    spread: Spread | None = None
    own_spread: Spread | None = None

    def add(self, deviation: Deviation, spread: Spread | None) -> None:
        """Keep a comparison end to end."""
        old = self.deviation
        if old is None or (deviation.is_lost, deviation.is_beyond, deviation.absolute) > (
            old.is_lost,
            old.is_beyond,
            old.absolute,
        ):
            self.deviation, self.spread = deviation, spread

    def note(self, name: str, errors: Errors | None, spread: Spread | None = None) -> None:
        """Keep a comparison per operator."""
        if self.own_class == "wrong":
            return
        self.own_class = name
        if errors is not None and (self.own_errors is None or errors.absolute >= self.own_errors.absolute):
            # The wrong elements are kept elsewhere.
            self.own_errors, self.own_spread = replace(errors, bad=np.zeros(0, np.bool_)), spread
