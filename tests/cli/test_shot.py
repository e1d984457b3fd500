# The picture is made by a process of its own: the command owns its Qt application.
import subprocess
import sys
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
    "sys.exit(main(['shot', *sys.argv[1:]]))\n"
)


def shot(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=False
    )


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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--theme", "pink"], "expected dark or light"),
        (["--layout", "wat"], "expected one of stepping"),
        (["--panel", "wat"], "expected one of"),
    ],
)
def test_bad_wishes_are_one_line(model: Path, tmp_path: Path, arguments: list[str], expected: str) -> None:
    found = shot(str(model), "-o", str(tmp_path / "x.png"), *arguments)
    assert found.returncode == 2
    assert expected in found.stderr
    assert found.stderr.count("\n") == 1
    assert not (tmp_path / "x.png").exists()


def test_what_cannot_be_opened_or_written_is_told(model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toy"
    bad.write_text("{ nonsense")
    found = shot(str(bad), "-o", str(tmp_path / "x.png"))
    assert found.returncode == 2
    assert "bad.toy" in found.stderr
    found = shot(str(model), "-o", str(tmp_path / "nowhere" / "x.png"))
    assert found.returncode == 2
    assert "folder does not exist" in found.stderr
