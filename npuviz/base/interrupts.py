"""Make Ctrl+C end the program, even where a library or Python itself swallows the interrupt.

Python raises KeyboardInterrupt in whatever the main thread is executing. Libraries turn it into errors of
their own (numpy while it compares, a class body while it is made), and where nothing can catch it, in a
callback of a compiler or a finalizer, Python prints it and goes on.
"""

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

AGAIN_SECONDS = 0.02
"""Time after which an interrupt that was raised where nothing can catch it is sent again."""
ENDLESS_THREAD = "npuviz endless call"
"""Name of a thread in a call that may never end and that nothing can interrupt: a program that is about to
end does not wait for it."""


class Interrupts:
    """Handles Ctrl+C between `begin` and `end`, and remembers in `is_asked` that it was pressed."""

    def __init__(self) -> None:
        self.is_asked = False
        self._is_over = False
        self._previous: tuple[object, Callable[..., object]] | None = None

    def begin(self) -> None:
        """Handle Ctrl+C from now on. Has no effect outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._previous = (signal.getsignal(signal.SIGINT), sys.unraisablehook)
        sys.unraisablehook = self._unraisable
        signal.signal(signal.SIGINT, self.handle)

    def end(self, *, is_ignored_after: bool) -> None:
        """Stop handling Ctrl+C: restore the earlier handler,
        or ignore Ctrl+C if the program is about to end."""
        self._is_over = True
        if self._previous is None:
            return
        handler, sys.unraisablehook = self._previous
        signal.signal(signal.SIGINT, signal.SIG_IGN if is_ignored_after else handler)  # pyright: ignore[reportArgumentType]

    def handle(self, *_signal: object) -> None:
        """Raise KeyboardInterrupt, as the handler of the signal."""
        if not self._is_over:
            self.is_asked = True
            raise KeyboardInterrupt

    def _unraisable(self, found: "sys.UnraisableHookArgs") -> None:
        if not issubclass(found.exc_type, KeyboardInterrupt):
            if self._previous is not None:
                self._previous[1](found)
            return
        again = threading.Timer(AGAIN_SECONDS, _thread.interrupt_main)
        again.daemon = True
        with suppress(RuntimeError):  # Python itself is ending
            again.start()


@contextmanager
def shielded() -> Generator[None]:
    """Hold Ctrl+C back until the end of a block that must not be left half done.

    Has no effect outside the main thread, where no interrupt arrives.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[object] = []
    previous = signal.signal(signal.SIGINT, lambda *given: held.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if previous is None else previous)
        if held:
            signal.raise_signal(signal.SIGINT)
