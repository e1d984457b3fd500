"""The import contracts of pyproject.toml hold, and each of them catches a violation of its rule."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# contract -> (file to add a line to, the line)
VIOLATIONS = {
    "imports point only down": ("npuviz/base/names.py", "import npuviz.sim.stop"),
    "targets are independent of each other": (
        "npuviz/targets/other/__init__.py",
        "import npuviz.targets.systolic",
    ),
    "window, workbench and command line find plug-ins in the registry": (
        "npuviz/workbench/commands.py",
        "import npuviz.targets.systolic",
    ),
    "only the window knows Qt": ("npuviz/debug/session.py", "import PySide6.QtCore"),
    "numba lives in kernel files, which import only kernel files": ("npuviz/sim/state.py", "import numba"),
    "formats run no ONNX": ("npuviz/formats/binary.py", "import onnx"),
    "a feature of the window never imports another": (
        "npuviz/ui/graph/panel.py",
        "import npuviz.ui.timeline.panel",
    ),
    "no circles": ("npuviz/base/errors.py", "import npuviz.base.registry"),
}


def lint(folder: Path) -> str:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
        "--no-cache",
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "npuviz", tmp_path / "npuviz", ignore=ignore)
    shutil.copytree(ROOT / "tests" / "structure", tmp_path / "tests" / "structure", ignore=ignore)
    (tmp_path / "tests" / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_all_contracts_hold():
    assert f"{len(VIOLATIONS)} kept, 0 broken" in lint(ROOT)


def test_each_contract_catches_its_violation(copy):
    # A kernel file may import kernel files only, which is said beside where numba is.
    kernel = ("npuviz/trace/split_kernels.py", "import npuviz.trace.schema")
    for file, line in [*VIOLATIONS.values(), kernel]:
        path = copy / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + f"\n{line}\n")
    report = lint(copy)
    assert [name for name in VIOLATIONS if f"{name} BROKEN" not in report] == []
    assert "npuviz.trace.split_kernels imports npuviz.trace.schema" in report
