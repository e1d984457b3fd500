"""A window that cannot be shown says why in one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npuviz.base.errors import UsageError
from npuviz.cli.kit import display
from npuviz.cli.kit.display import BASE_LIBRARIES, X_LIBRARIES, check_display

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux is looked at")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)


def test_no_display_at_all() -> None:
    with pytest.raises(UsageError, match="neither DISPLAY nor WAYLAND_DISPLAY is set; `npuviz shot`"):
        check_display()


@pytest.mark.parametrize(("missing", "package"), [*X_LIBRARIES.items(), *BASE_LIBRARIES.items()])
def test_each_missing_library_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, missing: str, package: str
) -> None:
    monkeypatch.setenv("DISPLAY", ":99")
    monkeypatch.setattr(display, "_is_there", lambda name: name != missing)
    with pytest.raises(UsageError) as caught:
        check_display()
    assert missing in str(caught.value)
    assert f"apt install {package}" in str(caught.value)


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":4711")
    monkeypatch.setattr(display, "_is_there", lambda _name: True)
    monkeypatch.setattr(display, "_answers", lambda: False)
    with pytest.raises(UsageError, match=r"':4711' \(DISPLAY\) does not answer"):
        check_display()


@pytest.mark.parametrize("platform", ["offscreen", "minimal", "vnc:size=1280x720"])
def test_platforms_without_a_server_are_let_through(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", platform)
    check_display()


def test_the_command_ends_with_one_line(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("npuviz")), "open"]
    surroundings = {key: value for key, value in os.environ.items() if "DISPLAY" not in key}
    surroundings.pop("QT_QPA_PLATFORM", None)
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "no display" in done.stderr
