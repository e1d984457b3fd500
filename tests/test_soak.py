"""What `make soak` counts as growth and as a fault, and the page it writes."""

import random
from pathlib import Path

import pytest

from benchmarks.soak.containers import MODEL, Attack, judge
from benchmarks.soak.kernels import damage
from benchmarks.soak.measures import Held
from benchmarks.soak.outcome import MOST_FAULTS, Outcome
from benchmarks.soak.page import page

BEFORE = Held(500 << 20, 2, 10)


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (Held(560 << 20, 2, 12), ""),
        (Held(565 << 20, 2, 10), "memory grew from 500 to 565 MiB"),
        (Held(400 << 20, 3, 10), "threads grew from 2 to 3"),
        (Held(400 << 20, 1, 13), "open files grew from 10 to 13"),
    ],
)
def test_growth(later: Held, text: str) -> None:
    assert BEFORE.growth(later) == text


def test_faults_are_counted_and_shown() -> None:
    outcome = Outcome("kill", "systolic: something", figures="7 remains")
    for number in range(2 * MOST_FAULTS):
        outcome.count(f"fault\n{number}" if number % 2 else "")
    assert (outcome.tried, outcome.good) == (2 * MOST_FAULTS, MOST_FAULTS)
    text = page({"kill": {"date": "2026-01-01", "minutes": 1.5, "rows": [vars(outcome)]}})
    assert "| systolic: something | 20 | 10 | 7 remains |" in text
    assert "Left to mend" in text
    assert "* `fault 19`" in text


def test_attacks_are_judged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, good = tmp_path / "model.onnx", ("info", str(MODEL), "--target", "rk3588")
    model.write_bytes(b"no model")
    with capfd.disabled():  # what is attacked writes to files of its own
        assert judge(Attack("no model", ("info", str(model))), tmp_path) == ""
        assert judge(Attack("a model", good), tmp_path) == ""
        assert "a model: read" in judge(Attack("a model", good, "what it holds"), tmp_path)


def test_damage_spoils_a_file(tmp_path: Path) -> None:
    path, choose = tmp_path / "kernel.nbc", random.Random(1)
    for _ in range(20):
        path.write_bytes(bytes(range(200)))
        damage(path, choose)
        assert path.read_bytes() != bytes(range(200))
