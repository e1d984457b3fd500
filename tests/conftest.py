"""What every test gets: no display, one thread per numeric library, and a look at what windows leave.

The environment is set before numpy, ONNX Runtime or Qt are imported anywhere.
"""

import gc
import os
import threading
from collections.abc import Generator

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest  # noqa: E402


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings, recent files and recordings of the tests away from those of the user."""
    home = tmp_path_factory.mktemp("home")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a window test that leaves a thread, a running timer or a top-level widget."""
    if "qtbot" not in request.fixturenames:
        yield
        return
    # The application must exist before the first look.
    request.getfixturevalue("qapp")
    before = _alive()
    yield
    left = [text for key, text in _alive().items() if key not in before]
    if left:
        pytest.fail("left behind: " + ", ".join(sorted(left)))


def _alive() -> dict[int, str]:
    """Identity -> description of threads, running timers and top-level widgets."""
    from PySide6.QtCore import QCoreApplication, QEvent, QThread, QTimer
    from PySide6.QtWidgets import QApplication
    from shiboken6 import isValid

    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    gc.collect()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    found = {id(thread): f"thread {thread.name}" for thread in threading.enumerate()}
    for thing in gc.get_objects():
        if isinstance(thing, QTimer) and isValid(thing) and thing.isActive():
            found[id(thing)] = f"running timer {thing.objectName() or thing.interval()}"
        elif isinstance(thing, QThread) and isValid(thing) and thing.isRunning():
            found[id(thing)] = f"running QThread {thing.objectName()}"
    for widget in QApplication.topLevelWidgets():
        if isValid(widget):
            found[id(widget)] = f"widget {type(widget).__name__} {widget.objectName()}"
    return found
