"""Seeded bugs are found, and the programs that they are made from have none."""

import pytest

from tests.seeded import Seed, found_in, seeds
from tests.seeded.seed import sample
from tests.seeded.wavelet import right


def _one_of_each() -> list[Seed]:
    """The last seed of each machine and kind: the benchmark `findings` runs all of them."""
    return list({(seed.machine, seed.kind): seed for seed in seeds()}.values())


@pytest.mark.parametrize("machine", ["neuroncore", "rk3588", "systolic", "wavelet"])
def test_bugs_are_found(machine: str) -> None:
    chosen = [seed for seed in _one_of_each() if seed.machine == machine]
    assert len(chosen) >= 4
    missed = {seed.name: sorted(found.kinds) for seed in chosen
              if not (found := found_in(seed.make())).kinds & seed.expected}  # fmt: skip
    assert not missed


@pytest.mark.parametrize("target", ["neuroncore", "rk3588", "systolic"])
def test_what_our_compilers_make_has_none(target: str) -> None:
    machine = sample(target)
    begin = machine.snapshot()
    assert found_in(machine).texts == ()
    machine.restore(begin)


def test_the_right_csl_programs_have_none() -> None:
    assert {name: found_in(make()).texts for name, make in right()} == {"pass on": (), "exchange": ()}
