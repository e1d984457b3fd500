"""What a target knows about making its machine faster: settings, and what they do to times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from npuviz.sim.target import LoadRequest, Target


@dataclass(frozen=True, slots=True)
class Effect:
    """Work and ways of some kinds take another time.

    kinds   names of interval kinds; units  what the unit's name ends with, "" for all
    factor  of time: 0.5 is twice as fast
    """

    factor: float
    kinds: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting that times are proportional to, or, with is_rate, inversely so.

    value  what it is now; kinds, unit  as in Effect; but  kinds of that unit that it does not concern
    """

    setting: str
    value: float
    kinds: tuple[str, ...] = ()
    unit: str = ""
    is_rate: bool = False
    but: tuple[str, ...] = ()

    def effects(self, value: float) -> tuple[Effect, ...]:
        """What another value does to times. Raises ZeroDivisionError where a time was 0."""
        factor = self.value / value if self.is_rate else value / self.value
        found = (Effect(factor, self.kinds, self.unit),)
        return (*found, Effect(1 / factor, self.but, self.unit)) if self.but else found


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of settings that makes something faster.

    text      what to do, for people
    settings  `--set` pairs
    effects   what the change does to times, as far as it does not change the program; () if it changes that,
              so that only a run can tell
    concerns  names of kinds whose cost it is a remedy for; () those of `effects`
    """

    text: str
    settings: Mapping[str, str]
    effects: tuple[Effect, ...] = ()
    concerns: tuple[str, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        """Names of the kinds it is for."""
        return frozenset(self.concerns) or frozenset(kind for each in self.effects for kind in each.kinds)


@runtime_checkable
class HasRemedies(Target, Protocol):
    """A target that can say which settings would help."""

    def remedies(self, request: LoadRequest) -> Sequence[Remedy]:
        """Remedies for the machine that a request describes. Raises as `Target.load` for bad settings."""
        ...


@runtime_checkable
class HasKnobs(Target, Protocol):
    """A target that knows which times its settings stand for, so that other values can be predicted."""

    def knobs(self, request: LoadRequest) -> Sequence[Knob]:
        """As `HasRemedies.remedies`. Settings that change the program, or more than times, are none."""
        ...
