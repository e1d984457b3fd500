"""Describe what a target knows about making its machine faster: settings, and their effect on times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from npuviz.sim.target import LoadRequest, Target


@dataclass(frozen=True, slots=True)
class Effect:
    """A change of the times of some kinds of intervals and causes.

    kinds   names of interval kinds, () for all; unit  end of the units' names, "" for all
    factor  of time: 0.5 is twice as fast
    """

    factor: float
    kinds: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting to which some times are proportional, or, with is_rate, inversely proportional.

    value  its present value; kinds, unit  as in Effect; but  kinds of that unit left out
    """

    setting: str
    value: float
    kinds: tuple[str, ...] = ()
    unit: str = ""
    is_rate: bool = False
    but: tuple[str, ...] = ()

    def effects(self, value: float) -> tuple[Effect, ...]:
        """Return what another value does to times. Raises ZeroDivisionError if a time was 0."""
        factor = self.value / value if self.is_rate else value / self.value
        found = (Effect(factor, self.kinds, self.unit),)
        return (*found, Effect(1 / factor, self.but, self.unit)) if self.but else found


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of settings that makes something faster.

    text      the advice, for people
    settings  `--set` pairs
    effects   what the change does to times if the program stays the same; () if the program changes,
              so that only a run can tell
    concerns  names of kinds whose cost it reduces; () for those of `effects`
    """

    text: str
    settings: Mapping[str, str]
    effects: tuple[Effect, ...] = ()
    concerns: tuple[str, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        """Names of the kinds whose cost the remedy reduces."""
        return frozenset(self.concerns) or frozenset(kind for each in self.effects for kind in each.kinds)


@runtime_checkable
class HasRemedies(Target, Protocol):
    """A target that can suggest settings which would make its machine faster."""

    def remedies(self, request: LoadRequest) -> Sequence[Remedy]:
        """Return remedies for the machine that a request describes.
        Raises as `Target.load` for bad settings."""
        ...


@runtime_checkable
class HasKnobs(Target, Protocol):
    """A target that knows which times depend on its settings, so that other values can be predicted."""

    def knobs(self, request: LoadRequest) -> Sequence[Knob]:
        """Return the knobs of a request's machine,
        without settings that change the program or more than times."""
        ...
