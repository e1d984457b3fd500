"""Other latencies than the nominal ones, drawn from a seed: what a machine that runs another time might do.

A run under seed 0 is the nominal one. Under another seed each figure is multiplied by a factor, drawn for it
alone, for its unit, or half and half; or each unit is as fast or as slow as the bounds allow. Which of these,
the seed decides too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.target import Target

LATENCY_SEED = "latency_seed"
"""Setting of targets whose latencies can vary; 0: the nominal ones."""
MOST_SEED = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Varied:
    """Figures of one sort that a seed changes.

    what       for people; count  how many figures; low, high  bounds of the change
    is_factor  the change is a factor, else cycles that are added
    """

    what: str
    count: int
    low: float
    high: float
    is_factor: bool = True

    @property
    def text(self) -> str:
        """What varies and within what."""
        bounds = f"x {self.low:g} to {self.high:g}" if self.is_factor else f"+{self.low:g} to +{self.high:g}"
        return f"{self.what}: {bounds}{'' if self.is_factor else ' cycles'}"


class Draws:
    """Changes by name, the same for the same seed. seed  1 or more."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        # Every figure for itself, all of a unit together, a mean of both; and units at the bounds.
        self._share = (1.0, 0.0, 0.5, 1.0)[seed % 4]
        self._is_extreme = seed % 4 == 3

    def factors(self, varied: Varied, units: Sequence[int] | np.ndarray) -> np.ndarray:
        """(n,) float64: a factor for each of n figures, which belong to these units; even on a log scale."""
        place = self._places(varied, units)
        return varied.low * (varied.high / varied.low) ** place

    def added(self, varied: Varied, units: Sequence[int] | np.ndarray) -> np.ndarray:
        """(n,) int64: cycles to add to each of n figures."""
        return np.rint(varied.low + (varied.high - varied.low) * self._places(varied, units)).astype(np.int64)

    def _places(self, varied: Varied, units: Sequence[int] | np.ndarray) -> np.ndarray:
        drawn = np.random.default_rng([self._seed, *varied.what.encode()])
        known, unit = np.unique(np.asarray(units, np.int64), return_inverse=True)
        together = drawn.random(len(known))
        if self._is_extreme:
            together = np.rint(together)
        together = together[unit]
        return self._share * together + (1 - self._share) * drawn.random(len(unit))


def scaled(values: np.ndarray, factors: np.ndarray, least: int = 0) -> np.ndarray:
    """int64 values times factors, rounded; none below `least` but those that were."""
    made = np.rint(values * factors).astype(np.int64)
    return np.where(values < least, values, np.maximum(made, least))


def spec_text(spec: Any) -> str:
    """A spec as text for fingerprints: nominal latencies leave no trace in it."""
    seed = getattr(spec, LATENCY_SEED, 0)
    return f"{spec!r} {LATENCY_SEED}={seed}" if seed else repr(spec)


def with_latency_seed(spec: Any, seed: int) -> Any:
    """A spec with this seed, 0 for the nominal latencies."""
    return replace(spec, **{LATENCY_SEED: seed})


@runtime_checkable
class VariesLatencies(Target, Protocol):
    """A target whose machines take their latencies from a seed: `latency_seed`, a setting of its spec."""

    def varied(self, spec: Any, program: Program) -> Sequence[Varied]:
        """What a seed changes in a run of this program."""
        ...

    def not_varied(self, spec: Any, program: Program) -> Sequence[str]:
        """Times of the machine that no seed changes, in words."""
        ...
