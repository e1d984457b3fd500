"""Latencies and speeds changed while a program runs: what follows pays them, in any order of visits."""

from pathlib import Path

import pytest

import npuviz
from npuviz.api.session import DebugSession
from npuviz.base.errors import UsageError

pytestmark = pytest.mark.usefixtures("kept_scripts")

SAMPLES = Path(__file__).parents[2] / "sample_models"
CASES = {
    "neuroncore": (("Core[0].PE.speed", 0.02), ("dma.speed", 0.1), ("dma.start", 20_000)),
    "rk3588": (("core_speed", 0.05), ("ddr_bytes_per_cycle", 0.5), ("task_overhead", 9000), ("backlog", 0)),
    "wavelet": (
        ("hop", 30),
        ("ramp", 30),
        ("task_start", 30),
        ("link_interval", 20.0),
        ("host_setup", 5000),
        ("host_word", 40),
        ("PE(1,1).slowdown", 50),
    ),
    "systolic": (
        ("Core[0].VEC.gelu_latency", 500),
        ("Core[0].VEC.add_latency", 400),
        ("DRAM.latency", 900),
        ("DRAM.clock", 40.0),
    ),
}
"""What slows a program down."""
DETAILED = {"dram_type": "ramulator2", "dram_device": "HBM2", "dram_queue_depth": 16}


def opened(target: str) -> DebugSession:
    """What is run on a target."""
    if target == "wavelet":
        return npuviz.open(SAMPLES / "csl" / "heat", target=target)
    return npuviz.open("tiny_transformer.onnx", target=target, settings={"batch": 1})


@pytest.mark.parametrize("target", list(CASES))
def test_what_is_written_costs_from_then_on_and_the_old_future_stays(target: str) -> None:
    with opened(target) as found:
        session = found.session
        found.run()
        end, middle = found.cycle, found.cycle // 3
        ends: list[int] = []
        for name, value in CASES[target]:
            session.restart()
            found.goto(middle)
            before = session.machine.digest()
            found.write(name, value)
            assert session.read(name) == pytest.approx(value, rel=1e-3)
            assert session.machine.digest() != before
            found.run()
            ends.append(found.cycle)
            last = session.machine.digest()
            found.goto(middle // 2)
            assert session.read(name) != value
            found.goto(middle + (found.session.end_cycle or 0) // 8)
            found.goto(1 << 60)
            assert (found.cycle, session.machine.digest()) == (ends[-1], last)
        assert all(each > end for each in ends), (end, ends)
        assert len(session.branches) == len(ends)
        found.switch(1)
        found.goto(1 << 60)
        assert found.cycle == end


@pytest.mark.parametrize("target", list(CASES))
def test_bad_numbers_are_refused_with_the_range(target: str) -> None:
    with opened(target) as found:
        for name, value in CASES[target]:
            for bad in (-1, 1e12, float("nan"), [1, 2], "fast"):
                with pytest.raises((ValueError, UsageError), match=rf"{name.split('.')[-1]}.*expected a"):
                    found.write(name, bad)
            assert found.session.read(name) != value


def test_buffers_of_dram_written_smaller_are_those_of_a_machine_built_with_them() -> None:
    ends: list[int] = []
    for depth, written in ((64, None), (4, None), (64, 1)):
        settings = {"batch": 1, **DETAILED, "dram_queue_depth": depth}
        with npuviz.open("tiny_transformer.onnx", target="systolic", settings=settings) as found:
            if written is not None:
                found.write("DRAM.queue_depth", written)
            found.run()
            ends.append(found.cycle)
    assert ends[1] > ends[0]
    assert ends[2] > ends[0]  # the thresholds of write mode stay those of 64
