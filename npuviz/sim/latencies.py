"""Vary latencies at random from a seed, to see what a machine with other timing might do.

A run under seed 0 has the nominal latencies. Under another seed each figure is multiplied by a random factor:
drawn for each figure alone, for each unit, as a mean of both, or at one of the bounds for each unit. The seed
also decides which of these four applies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.target import Target

LATENCY_SEED = "latency_seed"
"""Name of the setting of targets whose latencies can vary; 0: nominal latencies."""
MOST_SEED = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Varied:
    """Figures of one kind that a seed changes.

    what       their name for people; count  number of figures; low, high  bounds of the change
    is_factor  the change is a factor; otherwise it is cycles that are added
    """

    what: str
    count: int
    low: float
    high: float
    is_factor: bool = True

    @property
    def text(self) -> str:
        """What varies and within which bounds, in words."""
        bounds = f"x {self.low:g} to {self.high:g}" if self.is_factor else f"+{self.low:g} to +{self.high:g}"
        return f"{self.what}: {bounds}{'' if self.is_factor else ' cycles'}"


class Draws:
    """Random changes of figures, the same for the same seed. seed  1 or more"""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        # By seed % 4: one draw for all figures of a unit; one for each figure; the mean of both; one for each
        # unit, rounded to a bound.
        self._share = (1.0, 0.0, 0.5, 1.0)[seed % 4]
        self._is_extreme = seed % 4 == 3

    def factors(self, varied: Varied, units: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return a factor for each figure, (n,) float64, uniform on a log scale.
        units  the unit of each figure"""
        place = self._places(varied, units)
        return varied.low * (varied.high / varied.low) ** place

    def added(self, varied: Varied, units: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the cycles to add to each figure, (n,) int64. units  the unit of each figure"""
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
    """Multiply int64 values by factors and round; values of at least `least` do not fall below it."""
    made = np.rint(values * factors).astype(np.int64)
    return np.where(values < least, values, np.maximum(made, least))


def spec_text(spec: Any) -> str:
    """Return a spec as text for fingerprints; it mentions the latency seed only if that is not 0."""
    seed = getattr(spec, LATENCY_SEED, 0)
    return f"{spec!r} {LATENCY_SEED}={seed}" if seed else repr(spec)


def with_latency_seed(spec: Any, seed: int) -> Any:
    """Return a spec with this latency seed, 0 for nominal latencies."""
    return replace(spec, **{LATENCY_SEED: seed})


@runtime_checkable
class VariesLatencies(Target, Protocol):
    """A target whose machines take their latencies from a seed, the setting `latency_seed` of the spec."""

    def varied(self, spec: Any, program: Program) -> Sequence[Varied]:
        """Return what a seed changes in a run of this program."""
        ...

    def not_varied(self, spec: Any, program: Program) -> Sequence[str]:
        """Return the times of the machine that no seed changes, in words."""
        ...
