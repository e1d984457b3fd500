"""npuviz accuracy: every target's tensors, their depth, and one line for what cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest

from npuviz.cli.main import main
from npuviz.sim.check_result import NUM_BINS

pytestmark = pytest.mark.usefixtures("kept_scripts")

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
CNN = str(SAMPLES / "tiny_cnn.onnx")


def _measured(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["accuracy", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("target", ["neuroncore", "rk3588", "systolic"])
def test_tensors_come_by_depth_with_all_of_their_elements(
    capsys: pytest.CaptureFixture[str], target: str
) -> None:
    found = _measured(capsys, CNN, "--set", "batch=1", "--target", target)
    rows = found["tensors"]
    assert len(rows) == found["check"]["tensors"]
    depths = [row["depth"] for row in rows]
    assert depths == sorted(depths)
    assert rows[-1]["tensor"] == "classifier"
    assert rows[-1]["is_output"]
    for row in rows:
        size = 1
        for each in row["shape"]:
            size *= each
        for name in ("end_to_end", "per_operator"):
            counts = row[name]["counts"]
            assert len(counts) == NUM_BINS == len(found["bins"])
            assert sum(counts) == size
            assert (row[name]["worst"] is None) == (row[name]["largest"] == 0)
        assert row["end_to_end"]["largest"] <= row["allowed"]
    whole = found["check"]["end_to_end"]
    assert max(row["end_to_end"]["largest"] for row in rows) == pytest.approx(whole["max_rel_err"], rel=1e-6)
    assert found["first_instruction"] is None


def test_text_shows_tensors_and_narrower_types(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--what-if", "int8", "--tensor", "conv1", "--tensor", "pool2")
    assert main(["accuracy", CNN, "--target", "systolic", *chosen]) == 0
    out = capsys.readouterr().out
    assert "first wrong instruction: none" in out
    lines = out.splitlines()
    title = next(place for place, text in enumerate(lines) if "one tensor in a narrower type" in text)
    assert {line.split()[0] for line in lines[title + 2 : title + 4]} == {"conv1", "pool2"}
    assert lines[title + 4].startswith("  all of them in int8: outputs off by about 0.0")


def test_a_kernel_is_measured_against_its_reference(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = str(SAMPLES / "nki" / "softmax.py")
    found = _measured(capsys, kernel, "--shape", "x=128x64", "--reference", "references:softmax")
    assert [row["end_to_end"]["class"] for row in found["tensors"]] == ["right"]
    assert sum(found["tensors"][0]["end_to_end"]["counts"]) == 128 * 64


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((CNN, "--what-if", "int7"), "type int7: expected one of float16"),
        ((CNN, "--tensor", "conv1"), "--tensor belongs to --what-if TYPE"),
        ((CNN, "--target", "rk3588", "--what-if", "int8", "--tensor", "nosuch"), "no tensor nosuch"),
        (("heat",), "own host script"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert main(["accuracy", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert len(error.strip().splitlines()) == 1
