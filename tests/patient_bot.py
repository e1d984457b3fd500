"""A bot that waits as long as it takes: how fast the machine is decides no test.

A wait ends when what it waits for has happened; a minute and more is for what never happens.
"""

from collections.abc import Callable
from typing import Any

from pytestqt.qtbot import QtBot

PATIENCE_MS = 200_000


class PatientBot(QtBot):
    """pytest-qt's bot with another default for its timeouts."""

    def waitUntil(self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS) -> None:
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(self, signal: Any, *, timeout: int = PATIENCE_MS, **options: Any) -> Any:
        return super().waitSignal(signal, timeout=timeout, **options)
