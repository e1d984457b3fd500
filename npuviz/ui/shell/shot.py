"""A picture of the real window, made without a display."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QElapsedTimer,
    QEventLoop,
    QIODevice,
    QMessageLogContext,
    QTimer,
    QtMsgType,
    qInstallMessageHandler,
)

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.export.exporter import replacing
from npuviz.workbench.layouts import LAYOUTS, layout_named
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.settings import Settings

if TYPE_CHECKING:
    from npuviz.ui.bridge.session_model import SessionModel
    from npuviz.ui.shell.main_window import MainWindow

DEFAULT_SHARE = 0.4
"""Where in the run the picture is taken when no cycle is given: something is in flight there."""
SETTLE_MS = 250


@dataclass(frozen=True)
class ShotOptions:
    """What the picture shows.

    size    pixels
    panels  panel ids ("timeline" or "panel.timeline"); () shows the whole layout
    theme   "dark" or "light"
    """

    out: Path
    cycle: int | None = None
    size: tuple[int, int] = (1600, 1000)
    panels: tuple[str, ...] = ()
    theme: str = "dark"
    layout: str = "stepping"


def take_shot(path: Path, opening: OpenOptions, shot: ShotOptions) -> None:
    """Open a file, run it to the end, go to a cycle, and write the picture.

    Raises NpuvizError, also what opening and running told the window.
    """
    if shot.theme not in ("dark", "light"):
        raise UsageError(f"--theme {shot.theme}: expected dark or light")
    layout = layout_named(shot.layout)
    if layout is None:
        known = ", ".join(known.name for known in LAYOUTS)
        raise UsageError(f"--layout {shot.layout}: expected one of {known}")
    # The picture is always drawn offscreen, whatever display there is.
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    qInstallMessageHandler(_drop_platform_noise)
    from npuviz.ui.shell.application import Application, qt_application
    from npuviz.ui.theme.theme import Theme

    qt_application()
    application = Application(Settings(None), Theme(shot.theme))
    window = application.new_window()
    wanted = [name.removeprefix("panel.") for name in shot.panels]
    for name in wanted:
        if name not in window.docks.all:
            raise UsageError(f"--panel {name}: expected one of {', '.join(window.docks.all)}")
    try:
        window.resize(*shot.size)
        window.show()
        failures: list[str] = []
        window.model.failed.connect(failures.append)
        window.open(path, opening, is_named=True)
        _wait(lambda: not window.model.is_busy, failures)
        window.docks.apply(layout)
        if wanted:
            window.docks.show_only(wanted)
        _go(window.model, shot.cycle, failures)
        window.status.work.end()
        _settle()
        _wait(lambda: all(panel.is_settled for panel in window.docks.panels.values()), failures)
        _settle()
        _save(window, shot.out)
    finally:
        application.close()


def _drop_platform_noise(kind: QtMsgType, _context: QMessageLogContext, text: str) -> None:
    """The offscreen platform tells at each resize what it cannot do; everything else is shown."""
    if "propagateSizeHints" not in text and kind != QtMsgType.QtDebugMsg:
        sys.stderr.write(f"{text}\n")


def _go(model: "SessionModel", cycle: int | None, failures: list[str]) -> None:
    if model.session is None:
        return
    model.run_through()
    _wait(lambda: not model.is_busy, failures)
    goal = cycle if cycle is not None else round(model.cycle * DEFAULT_SHARE)
    model.go_to(goal)
    _wait(lambda: not model.is_busy, failures)


def _wait(is_done: Callable[[], bool], failures: list[str]) -> None:
    """Let the event loop run until the condition holds."""
    loop = QEventLoop()
    poll = QTimer(interval=5)
    poll.timeout.connect(lambda: loop.quit() if is_done() else None)
    poll.start()
    if not is_done():
        loop.exec()
    poll.stop()
    if failures:
        raise NpuvizError(failures[0])


def _settle() -> None:
    """Let layouts, frames and lazily filled views finish."""
    clock = QElapsedTimer()
    clock.start()
    _wait(lambda: clock.elapsed() >= SETTLE_MS, [])


def _save(window: "MainWindow", out: Path) -> None:
    picture = window.grab()
    if not out.parent.is_dir():
        raise UsageError(f"{out}: the folder does not exist")
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    form = out.suffix.removeprefix(".")
    if not form or not picture.save(buffer, form):
        raise UsageError(f"{out}: cannot be written as a picture; expected a name that ends in .png")
    # All of it or nothing, also on a full disk.
    with replacing(out) as temporary:
        temporary.write_bytes(data.data())
