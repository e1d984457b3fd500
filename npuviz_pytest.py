"""Fixtures of npuviz for people's own tests; pytest finds them by itself.

This file lies outside of the package on purpose: pytest imports it at every start, and it imports nothing of
npuviz before a test asks for a fixture.
"""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from npuviz import DebugSession
    from npuviz.testing import Budgets
    from npuviz.ui.shell.headless import HeadlessWindow

BUDGETS = "budgets.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --npuviz-update."""
    parser.getgroup("npuviz").addoption(
        "--npuviz-update", action="store_true", help="Write what runs cost now to their budgets."
    )


@pytest.fixture
def npuviz_open() -> "Generator[Callable[..., DebugSession]]":
    """A function as npuviz.open; the sessions are closed after the test."""
    import npuviz

    opened: list[DebugSession] = []

    def open_session(path: str | Path, **arguments: Any) -> "DebugSession":
        opened.append(npuviz.open(path, **arguments))
        return opened[-1]

    yield open_session
    for session in opened:
        session.close()


@pytest.fixture
def npuviz_run(npuviz_open: "Callable[..., DebugSession]") -> "Callable[..., DebugSession]":
    """As npuviz_open, with the program run to its end; its trace is `.trace`."""
    from npuviz.testing import ran

    return lambda path, **arguments: ran(npuviz_open(path, **arguments))


@pytest.fixture
def npuviz_window() -> "Generator[Callable[..., HeadlessWindow]]":
    """A function as npuviz.open that opens the real window, which nobody sees; closed after the test."""
    from npuviz.api.opening import chosen_file
    from npuviz.ui.shell.headless import HeadlessWindow

    opened: list[HeadlessWindow] = []

    def open_window(path: str | Path, theme: str = "light", **arguments: Any) -> "HeadlessWindow":
        file, options = chosen_file(path, arguments, "open")  # pyright: ignore[reportArgumentType]
        opened.append(HeadlessWindow(theme))
        opened[-1].open(file, options)
        return opened[-1]

    yield open_window
    for window in opened:
        window.close()


@pytest.fixture
def npuviz_budgets(request: pytest.FixtureRequest) -> "Budgets":
    """The budgets in budgets.json beside the test."""
    from npuviz.testing import Budgets

    return Budgets(request.path.parent / BUDGETS, bool(request.config.getoption("--npuviz-update")))
