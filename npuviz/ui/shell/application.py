"""The application: one Qt application, one theme, one settings file, one or more windows."""

import builtins
import os
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QEvent, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from npuviz.base.collection import set_aside
from npuviz.base.errors import NpuvizError
from npuviz.ui.shell.main_window import MainWindow
from npuviz.ui.theme.style import apply_theme
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.advice import failure_of
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.preferences.choices import FONT, MONO, SCALE, THEME, preferred
from npuviz.workbench.resources import resource_path
from npuviz.workbench.settings import Settings

REST_MS = 3000
"""Milliseconds after a file was opened at which its objects are excluded from garbage collection."""


@dataclass(frozen=True)
class WindowOptions:
    """What the window shows when it starts.

    go_to, run_until  cycle to go to, or to run until, once the first file is open
    conditions        breakpoints to set in the first file
    is_safe           ignore stored layout, settings and recent files, and store none
    """

    paths: tuple[Path, ...] = ()
    open: OpenOptions = field(default_factory=OpenOptions)
    go_to: int | None = None
    run_until: int | None = None
    conditions: tuple[str, ...] = ()
    is_safe: bool = False


class Application:
    """Makes windows and owns what they share: the Qt application, settings and theme."""

    def __init__(self, settings: Settings, theme: Theme | None = None) -> None:
        scale_everything(settings)
        self.qt = qt_application()
        self.settings = settings
        self.theme = theme or Theme(preferred(settings, THEME))
        self.theme.set_families(preferred(settings, FONT), preferred(settings, MONO))
        self.windows: list[MainWindow] = []
        apply_theme(self.qt, self.theme)
        self.theme.changed.connect(self._theme_changed)
        self._rest = QTimer(self.qt, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._set_aside)

    def new_window(self) -> MainWindow:
        """Make an empty window; the caller shows it."""
        window = MainWindow(self.theme, self.settings, self._open_other)
        self.windows.append(window)
        window.model.session_changed.connect(self._rest.start)
        window.closed.connect(lambda: self._forget(window))
        return window

    def close(self) -> None:
        """Close all windows and destroy their widgets now: Qt crashes on widgets that outlive it."""
        for window in tuple(self.windows):
            window.close()
        self.qt.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)

    def _set_aside(self) -> None:
        """Exclude the objects of open files from garbage collection, once no work is under way."""
        if any(window.model.is_busy for window in self.windows):
            self._rest.start()
        else:
            set_aside()

    def _forget(self, window: MainWindow) -> None:
        if window in self.windows:
            self.windows.remove(window)
            window.deleteLater()
        if not self.windows:
            self._rest.stop()

    def _open_other(self, path: Path, options: OpenOptions, is_named: bool) -> None:
        window = self.new_window()
        window.show()
        window.open(path, options, is_named=is_named)

    def _theme_changed(self) -> None:
        apply_theme(self.qt, self.theme)


def scale_everything(settings: Settings) -> None:
    """Have Qt draw everything in the size the user prefers; call this before the Qt application is made."""
    percent = preferred(settings, SCALE)
    if percent != SCALE.default:
        os.environ.setdefault("QT_SCALE_FACTOR", str(percent / 100))


def qt_application() -> QApplication:
    """Return the Qt application of this process, and make it if there is none."""
    existing = QApplication.instance()
    if isinstance(existing, QApplication):
        return existing
    app = QApplication(["npuviz"])
    # PySide replaces `__import__` to search the source of every imported module for `__feature__` switches,
    # which npuviz does not use; that takes a tenth of the time of opening a first file.
    builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)
    app.setApplicationName("npuviz")
    app.setApplicationDisplayName("npuviz")
    app.setDesktopFileName("npuviz")
    app.setWindowIcon(QIcon(str(resource_path("icons/npuviz.svg"))))
    return app


def run_window(options: WindowOptions) -> int:
    """Show the window until it is closed; return the exit code."""
    application = Application(Settings(None) if options.is_safe else Settings.of_user())
    window = application.new_window()
    window.show()
    _report_exceptions(application)
    if options.paths:
        _prepare(window, options)
        # After the first frame, so that the window is there before the work begins.
        QTimer.singleShot(0, lambda: window.files.open_paths(options.paths, options.open, is_named=True))
    code = application.qt.exec()
    application.close()
    return code


def _prepare(window: MainWindow, options: WindowOptions) -> None:
    """Set the breakpoints of the options and go to their cycle, once the first file is open."""

    def opened() -> None:
        window.model.session_changed.disconnect(opened)
        for text in options.conditions:
            try:
                window.model.add_breakpoint(text)
            except NpuvizError as error:
                window.error_bar.show_failure(failure_of(error))
        if options.go_to is not None:
            window.model.go_to(options.go_to)
        elif options.run_until is not None:
            window.model.run(options.run_until)

    window.model.session_changed.connect(opened)


def _report_exceptions(application: Application) -> None:
    """Show uncaught exceptions in the first visible window, besides writing them to standard error."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            application.qt.quit()
            return
        sys.stderr.write("".join(traceback.format_exception(kind, error, trace)))
        for window in application.windows:
            if window.isVisible():
                window.error_bar.show_failure(failure_of(error))
                return

    sys.excepthook = hook
