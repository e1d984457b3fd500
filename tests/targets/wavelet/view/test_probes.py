"""What is written into a wafer while it runs: the depth of a queue, the datapath of a PE, a launch."""

from pathlib import Path
from typing import Any

import pytest

from npuviz.api.session import DebugSession
from npuviz.base.progress import NoProgress
from npuviz.debug.session import Session
from npuviz.targets.wavelet.target import TARGET
from npuviz.workbench.opening import Opened, OpenOptions

pytestmark = pytest.mark.usefixtures("kept_scripts")

HEAT = Path(__file__).parents[4] / "sample_models" / "csl" / "heat"
QUEUES = tuple(f"PE(2,1).in{number}" for number in (5, 6, 7))
EARLY = 300
ON_THE_RAMP = 3
"""Words that a queue holds beside its depth: the ramp's cycles, and a place on its way back."""


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    """Specification and program; the host's script runs once."""
    return TARGET.load(OpenOptions().request(HEAT), NoProgress())


@pytest.fixture
def heat(loaded: tuple[Any, Any]) -> DebugSession:
    session = Session(TARGET.build(*loaded))
    return DebugSession(Opened(HEAT, HEAT.name, OpenOptions(), session=session, target=TARGET))


def most_words(session: DebugSession) -> list[int]:
    peaks = {name: peak for name, peak, _ in session.session.machine.summary().queues}
    return [peaks[name] for name in QUEUES]


def test_a_queue_takes_as_many_words_as_its_depth(heat: DebugSession) -> None:
    heat.run()
    result = heat.cycle
    assert most_words(heat) == [4 + ON_THE_RAMP] * 3
    heat.goto(0)
    heat.goto(EARLY)
    for name in QUEUES:
        assert heat.session.read(f"{name}.depth") == 4
        heat.write(f"{name}.depth", 1)
    heat.run()
    assert most_words(heat) == [1 + ON_THE_RAMP] * 3
    assert heat.cycle >= result


def test_a_queue_that_takes_more_words_again_gets_them(heat: DebugSession) -> None:
    heat.goto(EARLY)
    heat.write("PE(2,1).slowdown", 100)
    for name in QUEUES:
        heat.write(f"{name}.depth", 1)
    heat.goto(3000)
    for name in QUEUES:
        heat.write(f"{name}.depth", 4)
    heat.run()
    assert most_words(heat) == [4 + ON_THE_RAMP] * 3
    assert repr(heat).endswith("finished>")


def test_a_pe_whose_datapath_is_slow_works_as_much_and_takes_longer(heat: DebugSession) -> None:
    heat.run()
    end, work = heat.cycle, heat.session.read("PE(2,1).busy")
    heat.goto(0)
    heat.goto(EARLY)
    heat.write("PE(2,1).slowdown", 10)
    heat.run()
    assert heat.cycle > 3 * end
    assert heat.session.read("PE(2,1).busy") == pytest.approx(work, rel=0.05)


def test_a_launch_that_takes_longer_delays_the_end(heat: DebugSession) -> None:
    heat.run()
    end = heat.cycle
    heat.goto(0)
    heat.goto(100)
    heat.write("host_launch", 900)
    heat.run()
    assert heat.cycle > end


@pytest.mark.parametrize("depth", [0, 5, -1])
def test_a_queue_is_no_deeper_than_specified(heat: DebugSession, depth: int) -> None:
    with pytest.raises(Exception, match=r"in4\.depth.*expected a whole number from [01] to 4"):
        heat.write("PE(2,1).in4.depth", depth)
