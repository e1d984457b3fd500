"""Running the command line in this process and looking at how it ended."""

from pathlib import Path

import pytest

from npuviz.cli.main import main

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_models"
MODEL = SAMPLES / "tiny_cnn.onnx"
CONFIG = SAMPLES / "systolic_2x16x16.json"
SMALL = (str(MODEL), "--config", str(CONFIG))
LONGEST = 1100

Captured = pytest.CaptureFixture[str]


def refused(arguments: list[str], capsys: Captured) -> str:
    """Run the command; its one line of error, after checking that it is that and nothing else."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("npuviz: error: ")
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("\n")
    assert "internal error" not in captured.err
    assert len(captured.err) < LONGEST
    return captured.err


def done(arguments: list[str], capsys: Captured) -> str:
    """Run the command, which must succeed; what it printed."""
    code = main(arguments)
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def misbehaved(arguments: list[str], capsys: Captured) -> str:
    """Run the command, in which the simulated chip must misbehave; what it printed."""
    assert main(arguments) == 3
    return capsys.readouterr().out


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())
