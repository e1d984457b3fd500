"""What every test gets: no display, compiled kernels, one thread per numeric library, no leaks of windows.

The environment is set before numpy, ONNX Runtime or Qt are imported anywhere.
"""

import gc
import itertools
import os
import signal
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("NPUVIZ_KERNELS", "wait")
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some are about.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests make millions of objects that live for long: to look through them as often as usual took a twentieth
# of the time. Before anything keeps what is usual.
gc.set_threshold(20_000, 20, 100)

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from hypothesis.internal.conjecture import providers  # noqa: E402

# `make check` draws the same examples from the same commit, however slow the machine is. `make fuzz` draws
# others (--hypothesis-profile=fuzz --hypothesis-seed=...); what it finds becomes an @example.
_UNHURRIED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("check", derandomize=True, database=None, **_UNHURRIED)
settings.register_profile("fuzz", print_blob=True, **_UNHURRIED)
settings.load_profile("check")


def pytest_configure(config: pytest.Config) -> None:
    """Have examples not depend on what a process has imported before, but where other ones are looked for.

    Hypothesis draws some of the numbers and texts that stand in modules, in all that are imported by then: a
    test alone, or in another order, had other examples, and to read the modules took each process a second.
    """
    if config.getoption("--hypothesis-profile") in (None, "check"):
        drawing: Any = providers
        drawing._get_local_constants = lambda: drawing._local_constants


if TYPE_CHECKING:
    from tests.patient_bot import PatientBot


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, and never again in what that leaves.

    Modules and thirteen thousand tests stay to the end: to look through them took a third of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark sweeps, and put long files first in a worker; one process runs tests as they are written."""
    from tests.sweeps import mark_sweeps

    # A choice of cases by their names (`pytest FILE::TEST[CASE]`) may leave out all that are quick.
    if not any("[" in argument for argument in config.args):
        mark_sweeps(items)
    if hasattr(config, "workerinput"):
        from tests.order import by_length

        items[:] = by_length(items)


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings, recent files and recordings of the tests away from those of the user.

    Nobody has made the folders, as in a new home: to have pytest make one for each test took milliseconds,
    more with every test before it.
    """
    home = tmp_path_factory.getbasetemp() / f"home-{next(_homes)}"
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))


_homes = itertools.count()


@pytest.fixture
def kept_scripts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that open samples of the wafer, about something else: their scripts run once a process."""
    from tests.kept_scripts import keep_scripts

    keep_scripts(tmp_path_factory, monkeypatch)


@pytest.fixture
def observed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that read models whose shapes a run tells, about something else: it runs in this process."""
    from tests.observed_here import observe_here

    observe_here(monkeypatch)


@pytest.fixture
def qtbot(qapp: object, request: pytest.FixtureRequest) -> "PatientBot":
    """Instead of pytest-qt's: waits do not end because the machine is busy."""
    from tests.patient_bot import PatientBot

    return PatientBot(request)


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a window test that leaves a thread, a running timer or a top-level widget."""
    if "qtbot" not in request.fixturenames:
        yield
        return
    # The application must exist before the first look.
    request.getfixturevalue("qapp")
    before = threads_and_widgets()
    # What is there already need not be looked through: a worker that has run a thousand tests holds millions
    # of objects.
    gc.freeze()
    yield
    _delete_what_nobody_holds()
    left = {key: text for key, text in threads_and_widgets().items() if key not in before}
    left |= running_timers_and_threads()
    gc.unfreeze()
    if left:
        pytest.fail("left behind: " + ", ".join(sorted(left.values())))


def _delete_what_nobody_holds() -> None:
    from PySide6.QtCore import QCoreApplication, QEvent

    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    gc.collect()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def threads_and_widgets() -> dict[int, str]:
    """Identity -> description of threads of Python and top-level widgets."""
    from PySide6.QtWidgets import QApplication
    from shiboken6 import isValid

    found = {id(thread): f"thread {thread.name}" for thread in threading.enumerate()}
    for widget in QApplication.topLevelWidgets():
        if isValid(widget):
            found[id(widget)] = f"widget {type(widget).__name__} {widget.objectName()}"
    return found


def running_timers_and_threads() -> dict[int, str]:
    """Identity -> description of the timers and threads of Qt that were made since objects were frozen."""
    from PySide6.QtCore import QThread, QTimer
    from shiboken6 import isValid

    found: dict[int, str] = {}
    for thing in gc.get_objects():
        if isinstance(thing, QTimer) and isValid(thing) and thing.isActive():
            found[id(thing)] = f"running timer {thing.objectName() or thing.interval()}"
        elif isinstance(thing, QThread) and isValid(thing) and thing.isRunning():
            found[id(thing)] = f"running QThread {thing.objectName()}"
    return found
