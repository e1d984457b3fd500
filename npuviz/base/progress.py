"""Report how far long work has come, and stop it when the user no longer wants it."""

from typing import Protocol

from npuviz.base.errors import Cancelled


class Progress(Protocol):
    """Receiver of progress. `report` raises Cancelled when the user asked to stop."""

    def report(self, fraction: float, text: str = "") -> None:
        """Tell that `fraction` (0..1, or negative when unknown) of the work is done."""
        ...


class NoProgress:
    """Progress that nobody watches."""

    def report(self, fraction: float, text: str = "") -> None:
        """Do nothing."""


class CallbackProgress:
    """Progress that calls a function, and raises Cancelled once `cancel` was called."""

    def __init__(self, callback: "ProgressCallback") -> None:
        self._callback = callback
        self._cancelled = False

    def cancel(self) -> None:
        """Make the next `report` raise Cancelled. Safe from any thread."""
        self._cancelled = True

    def report(self, fraction: float, text: str = "") -> None:
        """Forward to the callback."""
        if self._cancelled:
            raise Cancelled(f"cancelled: {text}" if text else "cancelled")
        self._callback(fraction, text)


class ProgressCallback(Protocol):
    """What CallbackProgress calls."""

    def __call__(self, fraction: float, text: str) -> None:
        """Take a fraction (0..1, or negative when unknown) and what is being done."""
        ...
