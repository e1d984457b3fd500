"""npuviz compare: the changes that it lists add up, and what cannot be compared is one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from npuviz.cli.main import main

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
CNN = str(SAMPLES / "tiny_cnn.onnx")


def _compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["compare", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def _adds_up(found: dict[str, Any]) -> None:
    change = found["b"]["cycles"] - found["a"]["cycles"]
    assert found["change"] == change
    assert sum(row["change"] for row in found["causes"]) == change
    assert sum(row["change"] for row in found["operators"]) == pytest.approx(change, abs=1.0)
    for key in ("a", "b"):
        assert sum(row[key] for row in found["causes"]) == found[key]["cycles"]
        assert sum(row[key] for row in found["operators"]) == pytest.approx(found[key]["cycles"], abs=1.0)


@pytest.mark.parametrize(
    "options",
    [
        ("--target", "neuroncore", "--preset-b", "trn1"),
        ("--target", "systolic", "--set-b", "dram_latency=200"),
        ("--target", "rk3588", "--target-b", "neuroncore"),
        ("--target", "systolic", "--set-b", "cores=1"),
    ],
)
def test_changes_add_up_to_that_of_the_run(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    found = _compared(capsys, CNN, "-", "--set", "batch=1", *options)
    assert not found["is_equal"]
    _adds_up(found)
    rows = [abs(row["change"]) for row in found["operators"]]
    assert rows == sorted(rows, reverse=True)
    assert {"conv1", "conv2", "conv3"} <= {row["operator"] for row in found["operators"]}


def test_bundles_are_read_and_kernels_have_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kernel = str(SAMPLES / "nki" / "softmax.py")
    folder = str(tmp_path / "a.npuviz")
    assert main(["run", kernel, "--shape", "x=128x64", "--record", folder]) == 0
    capsys.readouterr()
    same = _compared(capsys, folder, kernel, "--shape", "x=128x64")
    assert same["is_equal"]
    assert same["change"] == 0
    other = _compared(capsys, kernel, "-", "--shape", "x=128x64", "--preset-b", "trn1")
    _adds_up(other)
    assert any("softmax.py" in row["line"] for row in other["lines"])
    assert main(["compare", folder, kernel, "--shape", "x=128x64"]) == 0
    assert "The traces are equal." in capsys.readouterr().out


def test_the_text_says_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["compare", CNN, "-", "--set", "batch=1", "--target", "neuroncore", "--preset-b", "trn1"]) == 0
    )
    text = capsys.readouterr().out
    for word in (
        "A  tiny_cnn (neuroncore)",
        "First difference",
        "Critical path by cause",
        "Operators",
        "conv2",
    ):
        assert word in text


def test_what_cannot_be_compared_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["compare", CNN, str(tmp_path / "missing.npuviz"), "--set", "batch=1"]) == 2
    assert main(["compare", CNN, "-", "--set", "batch=1", "--set-b", "nonsense=1"]) == 2
    assert main(["compare", CNN]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len([line for line in lines if line.startswith("npuviz: error: ")]) == 3
