"""Random graphs of every family, on every machine that compiles models."""

import pytest

from benchmarks.random_graphs.__main__ import judged, main, make_graph
from benchmarks.random_graphs.networks import FAMILIES

pytestmark = pytest.mark.usefixtures("observed_here")

MACHINES = pytest.mark.parametrize("target", ["rk3588", "systolic", "neuroncore"])


@MACHINES
@pytest.mark.parametrize("family", FAMILIES)
def test_a_graph_of_each_family_is_right(family: str, target: str) -> None:
    assert judged(*make_graph(family, 5), target) == ("right", "")


def test_two_steps_of_8_bits_are_what_an_operator_may_be_off() -> None:
    """The output is off by two steps, of which its largest value has 23."""
    assert judged(*make_graph("quantised", 7), "rk3588") == ("right", "")


def test_what_a_normalisation_amplifies_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["45", "46", "--families", "pictures", "--targets", "systolic"]) == 0
    told = capsys.readouterr().out
    assert "pictures 45 systolic: end to end: t13 is off" in told
    assert "| pictures | systolic | 0 | 1 | 0 | 0 |" in told
