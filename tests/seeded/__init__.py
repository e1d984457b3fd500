"""Broken programs, each made by a rule from one that is right: a wait left out, a buffer used too early.

`seeds()` gives them: name, machine, what is broken, the kinds of findings that tell it, and a function that
builds the machine. Nothing here knows how findings are made.
"""

from collections.abc import Iterator

from tests.seeded.seed import Found, Seed, found_in

__all__ = ["Found", "Seed", "found_in", "seeds"]


def seeds(machine: str = "") -> Iterator[Seed]:
    """All seeds, or those of one machine ("neuroncore", "rk3588", "systolic", "wavelet")."""
    from tests.seeded import neuroncore, others, rk3588, systolic, wavelet

    for module in (neuroncore, rk3588, systolic, wavelet, others):
        yield from (seed for seed in module.seeds() if machine in ("", seed.machine))
