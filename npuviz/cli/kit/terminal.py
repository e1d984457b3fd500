"""Shows progress on stderr, and lets Ctrl+C stop the machine instead of the process."""

import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

INTERVAL_SECONDS = 0.1
WIDTH = 78


class TerminalProgress:
    """Rewrites one line of progress on stderr inside a `with`; silent when stderr is not a terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._last = 0.0
        self._has_line = False

    def report(self, fraction: float, text: str = "") -> None:
        """Show the fraction of work that is done; a negative one is unknown."""
        now = time.monotonic()
        if not self._is_shown or now - self._last < INTERVAL_SECONDS:
            return
        self._last = now
        share = f"{fraction:4.0%} " if fraction >= 0 else "  ... "
        sys.stderr.write("\r" + f"{share}{text}"[:WIDTH].ljust(WIDTH))
        sys.stderr.flush()
        self._has_line = True

    def __enter__(self) -> "TerminalProgress":
        return self

    def __exit__(self, *_error: object) -> None:
        if self._has_line:
            sys.stderr.write("\r" + " " * WIDTH + "\r")
            sys.stderr.flush()
            self._has_line = False


class Interrupter:
    """Calls a function on the first Ctrl+C. A second one, or one before there is a function, interrupts
    Python.

    before  the previous handler of the signal
    """

    def __init__(self, before: object) -> None:
        self._before = before
        self._action: Callable[[], None] | None = None
        self._is_asked = False

    def use(self, action: Callable[[], None]) -> None:
        """Set the function that the next Ctrl+C calls."""
        self._action = action

    def handle(self, *given: object) -> None:
        """Handle the signal of Ctrl+C."""
        if self._action is not None and not self._is_asked:
            self._is_asked = True
            self._action()
        elif callable(self._before):
            self._before(*given)
        else:
            raise KeyboardInterrupt


@contextmanager
def interruptible() -> Generator[Interrupter]:
    """Handle Ctrl+C with an Interrupter inside the block."""
    previous = signal.getsignal(signal.SIGINT)
    interrupter = Interrupter(previous)
    signal.signal(signal.SIGINT, interrupter.handle)
    try:
        yield interrupter
    finally:
        signal.signal(signal.SIGINT, previous)
