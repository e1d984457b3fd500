"""`npuviz sweep` used wrongly: one line, exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.refusals import Captured, refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "base.model: expected a model"),
        ("x = 1", "x: expected one of name, base, axes"),
        ("[base", "expected TOML"),
        ('[base]\nmodel = "absent.onnx"', "absent.onnx: no such file"),
        ('[base]\nmodel = "tiny_cnn.onnx"\n[axes.set]\ncores = 4', "axes.cores: expected a list of values"),
    ],
)
def test_bad_plans(text: str, expected: str, tmp_path: Path, capsys: Captured) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(text, encoding="utf-8")
    assert expected in refused(["sweep", str(plan), "-o", str(tmp_path / "out")], capsys)
    assert not (tmp_path / "out").exists()


def test_bad_options(tmp_path: Path, capsys: Captured) -> None:
    assert "no readable file" in refused(["sweep", str(tmp_path / "absent.toml")], capsys)
    plan = tmp_path / "plan.toml"
    plan.write_text('[base]\nmodel = "tiny_cnn.onnx"\n', encoding="utf-8")
    assert "ends in .html or .md" in refused(["sweep", str(plan), "--report", "r.pdf"], capsys)
    assert "--processes" in refused(["sweep", str(plan), "--processes", "-1"], capsys)


def test_dask_is_loaded_by_sweeps_only() -> None:
    code = "import sys, npuviz.cli.sweep, npuviz.workbench.sweep.dispatch; print('dask' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
