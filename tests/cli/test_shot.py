# The picture is made by a process of its own: the command owns its Qt application.
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

SCRIPT = (
    "import sys\n"
    "from npuviz.base import registry\n"
    "from npuviz.workbench import choosing\n"
    "from tests.toy.target import ToyTarget\n"
    "real = registry.load_plugins\n"
    "choosing.load_plugins = lambda g: {'toy': ToyTarget()} if g == registry.TARGETS else real(g)\n"
    "from npuviz.cli.main import main\n"
    "for line in sys.argv[1:-1]:\n"
    "    code = main(['shot', *line.splitlines()])\n"
    "    print(f'exit code {code}', file=sys.stderr)\n"
    "sys.exit(main(['shot', *sys.argv[-1].splitlines()]))\n"
)


def shot(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return shots(arguments)


def shots(*commands: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """One command after the other in one process, which ends with the last."""
    words = ["\n".join(command) for command in commands]
    return subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=False)


def brightness(image: QImage) -> float:
    small = image.scaled(32, 32)
    return sum(small.pixelColor(x, y).lightness() for x in range(32) for y in range(32)) / 1024


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.toy"
    path.write_text("{}")
    return path


def test_writes_a_picture_of_the_asked_size_and_theme(model: Path, tmp_path: Path) -> None:
    light, dark = tmp_path / "light.png", tmp_path / "dark.png"
    found = shot(str(model), "-o", str(light), "--size", "1000x700", "--theme", "light", "--cycle", "300")
    assert found.returncode == 0, found.stderr
    assert found.stdout == ""
    assert shot(str(model), "-o", str(dark), "--size", "1000x700", "--panel", "timeline").returncode == 0
    pictures = [QImage(str(path)) for path in (light, dark)]
    assert all((picture.width(), picture.height()) == (1000, 700) for picture in pictures)
    assert brightness(pictures[0]) > 150 > 100 > brightness(pictures[1])


def test_what_cannot_be_is_one_line(model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toy"
    bad.write_text("{ nonsense")
    out = tmp_path / "x.png"
    cases = [
        ([str(model), "-o", str(out), "--theme", "pink"], "expected dark or light"),
        ([str(model), "-o", str(out), "--layout", "wat"], "expected one of stepping"),
        ([str(model), "-o", str(out), "--panel", "wat"], "expected one of"),
        ([str(model), "-o", str(tmp_path / "nowhere" / "x.png")], "folder does not exist"),
        ([str(bad), "-o", str(out)], "bad.toy"),
    ]
    found = shots(*(arguments for arguments, _ in cases))
    assert found.returncode == 2
    lines = found.stderr.splitlines()
    assert lines[1::2] == ["exit code 2"] * (len(cases) - 1)
    for (arguments, expected), line in zip(cases, lines[::2], strict=True):
        assert expected in line, arguments
    assert not out.exists()
