"""Results of the comparison of one tensor: its errors end to end and per operator."""

from dataclasses import dataclass, replace

import numpy as np

from npuviz.onnx.check.blocks import blocks
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
    """Error of a tensor against the reference, end to end.

    absolute, relative  the largest error, absolute and as a share of the reference's largest magnitude
    is_beyond           an element is beyond the tolerance
    is_lost             infinity or NaN where the reference has none; has_nan  one of them is NaN
    magnitude           largest magnitude of the reference
    is_uncertain        the reference's own error against float64 is about as large
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
        """The largest error as text."""
        if not np.isfinite(self.relative):
            return f"{self.absolute:.3g}"
        return f"{self.absolute:.3g}, {self.relative:.2g} of the largest magnitude"

    def as_uncertain(self) -> "Deviation":
        """Return a copy that is accepted because the reference itself is no more exact."""
        return replace(self, is_beyond=False, is_uncertain=True)

    def as_choice(self) -> "Deviation":
        """Return a copy that is accepted because rounding of the inputs may decide the choice either way."""
        return replace(self, is_beyond=False)


def float_deviation(
    found: np.ndarray, reference: np.ndarray, share: float, least: np.ndarray | float = 0.0
) -> Deviation:
    """Measure the deviation of flat floats: each element may be off by a share of the reference's largest
    magnitude, or by `least` (one number, or one per element) if that is more.

    An element whose reference is a sentinel for infinity may be off by a share of itself; infinities and NaN
    must be equal.
    """
    scale = max(magnitude(_as_float64(reference[part])) for part in blocks(reference.size))
    absolute, is_beyond, is_lost, has_nan = 0.0, False, False, False
    for part in blocks(reference.size):
        a, b = _as_float64(found[part]), _as_float64(reference[part])
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(b)
            lost = finite & ~np.isfinite(a)
            distance = np.abs(a - b)
            allowed = np.maximum(
                share * np.where(np.abs(b) > SENTINEL, np.abs(b), scale),
                least[part] if isinstance(least, np.ndarray) else least,
            )
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            beyond = ~same & ~(finite & (distance <= allowed))
            plain = finite & np.isfinite(a) & (np.abs(b) <= SENTINEL)
        absolute = max(absolute, float(distance[plain].max(initial=0)))
        is_beyond |= bool(beyond.any())
        is_lost |= bool(lost.any())
        has_nan |= bool((np.isnan(a) & ~np.isnan(b)).any())
    if is_lost:
        absolute = float("inf")
    relative = absolute / scale if scale else (float("inf") if absolute else 0.0)
    return Deviation(absolute, relative, is_beyond, is_lost or has_nan, has_nan, scale)


def _as_float64(values: np.ndarray) -> np.ndarray:
    # Converting a signalling NaN warns; NaNs are handled by those who call.
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def integer_deviation(found: np.ndarray, reference: np.ndarray, steps: float) -> Deviation:
    """Measure the deviation of flat integers that may be off by `steps`."""
    a, b = found.astype(np.float64), reference.astype(np.float64)
    absolute = float(np.abs(a - b).max(initial=0))
    scale = float(np.abs(b).max(initial=0))
    relative = absolute / scale if scale else (float("inf") if absolute else 0.0)
    is_beyond = absolute > steps if steps else not np.array_equal(found, reference)
    return Deviation(absolute, relative, is_beyond, magnitude=scale)


@dataclass(slots=True)
class Record:
    """Comparisons of one tensor; if it is compared twice, the worse result is kept.

    own_class, own_errors  of the comparison per operator;  other_class  describes a wrong ranking of classes
    spread, own_spread  distribution of the errors, end to end and per operator
    """

    tensor: int
    deviation: Deviation | None = None
    own_class: str = "not measured"
    own_errors: Errors | None = None
    other_class: str = ""
    spread: Spread | None = None
    own_spread: Spread | None = None

    def add(self, deviation: Deviation, spread: Spread | None) -> None:
        """Keep a comparison end to end if it is worse than the one before."""
        old = self.deviation
        if old is None or (deviation.is_lost, deviation.is_beyond, deviation.absolute) > (
            old.is_lost,
            old.is_beyond,
            old.absolute,
        ):
            self.deviation, self.spread = deviation, spread

    def note(self, name: str, errors: Errors | None, spread: Spread | None = None) -> None:
        """Keep a comparison per operator, unless the tensor is wrong already."""
        if self.own_class == "wrong":
            return
        self.own_class = name
        if errors is not None and (self.own_errors is None or errors.absolute >= self.own_errors.absolute):
            # The wrong elements are kept in Comparison.failed.
            self.own_errors, self.own_spread = replace(errors, bad=np.zeros(0, np.bool_)), spread
