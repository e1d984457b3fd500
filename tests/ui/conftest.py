"""A real window on the toy machine, offscreen."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from pytestqt.qtbot import QtBot

from npuviz.ui.shell.application import Application
from npuviz.ui.shell.main_window import MainWindow
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.settings import Settings
from tests.ui.driver import Driver
from tests.workbench.toy_registry import install_toy, toy_file


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "config" / "settings.json")


@pytest.fixture
def application(qapp: object, settings: Settings) -> Application:
    return Application(settings, Theme("dark"))


@pytest.fixture
def window(qtbot: QtBot, application: Application, monkeypatch: pytest.MonkeyPatch) -> Iterator[MainWindow]:
    install_toy(monkeypatch)
    made = application.new_window()
    made.show()
    yield made
    for shown in tuple(application.windows):
        shown.close()
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("npuviz-session")]
    assert left == [], "closing the window must end its worker"


@pytest.fixture
def driver(qtbot: QtBot, window: MainWindow) -> Driver:
    found = Driver(qtbot, window)
    found.idle()
    return found


@pytest.fixture
def toy(driver: Driver, tmp_path: Path) -> Driver:
    """A window that has the toy program open, at cycle 0."""
    driver.open(toy_file(tmp_path))
    return driver
