"""A module that is imported late: not before it is used, and as ever by everybody else."""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"


def _output(program: str, *arguments: str, path: Path | None = None) -> list[str]:
    """What a program prints in a process of its own, which has imported nothing."""
    lines = f"import sys\nsys.path.insert(0, {str(path)!r})\n{program}" if path else program
    found = subprocess.run(
        [sys.executable, "-c", lines, *arguments], capture_output=True, text=True, check=True
    )
    return found.stdout.split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`slow` tells that it is imported; `user` imports it and puts one of its functions into a table."""
    (tmp_path / "slow.py").write_text("print('slow')\nclass Number(int): pass\ndef half(x): return x // 2\n")
    (tmp_path / "user.py").write_text(
        "import slow\nTABLE = {'half': slow.half}\n"
        "def halved(x): return TABLE['half'](x)\n"
        "def is_number(x): return isinstance(x, slow.Number)\n"
    )
    return tmp_path


_HEAD = "from npuviz.base.late_module import late_module\nwith late_module('slow'):\n    import user\n"


@pytest.mark.parametrize("use", ["user.halved(8) == 4", "not user.is_number(3)"])
def test_loads_with_its_first_use(folder: Path, use: str) -> None:
    program = f"{_HEAD}print('imported', 'slow' in sys.modules)\nprint({use})"
    assert _output(program, path=folder) == ["imported", "False", "slow", "True"]


def test_is_a_module_as_ever_afterwards(folder: Path) -> None:
    program = f"{_HEAD}from slow import Number\nprint(user.is_number(Number(1)), isinstance(Number, type))"
    assert _output(program, path=folder) == ["slow", "True", "True"]


def test_what_is_imported_already_stays(folder: Path) -> None:
    program = f"import slow\n{_HEAD}print(user.slow is slow, sys.modules['slow'] is slow)"
    assert _output(program, path=folder) == ["slow", "True", "True"]


def test_a_model_of_known_shapes_loads_no_computer_algebra() -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom npuviz.onnx.reader import read_model\n"
        "graph = read_model(Path(sys.argv[1]))\n"
        "print('onnxscript' in sys.modules, 'sympy' in sys.modules)\n"
        "import onnx_ir\n"
        "print(onnx_ir.SymbolicDim('n') * 2 + onnx_ir.SymbolicDim('max(n, 3)'))"
    )
    found = _output(program, str(LIGHT))
    assert found[:2] == ["True", "False"]
    assert "".join(found[2:]) == "2*n+Max(3,n)"
