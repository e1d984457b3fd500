"""Keeps the user's Python from ending the process of npuviz, and from choosing its exit code."""

import atexit
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Never


class _Handling(threading.local):
    """Whether a handler that the user's Python left for the end of the process runs in this thread."""

    is_on = False


_HANDLING = _Handling()


@contextmanager
def exits_raise(thread: threading.Thread) -> Generator[None]:
    """Let `os._exit` and `os.abort` raise SystemExit in a thread, instead of taking npuviz with them.

    In what the thread gives to `atexit` they end that handler alone, when the process ends.
    """
    register, unregister = atexit.register, atexit.unregister
    guarded: list[tuple[Callable[..., Any], Callable[..., Any]]] = []

    def kept(handler: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
        if threading.current_thread() is not thread:
            return register(handler, *args, **kwargs)
        guarded.append((handler, register(_guard(handler), *args, **kwargs)))
        return handler

    def forgotten(handler: Callable[..., Any]) -> None:
        unregister(handler)
        for given, made in guarded:
            if given == handler:
                unregister(made)

    atexit.register, atexit.unregister = kept, forgotten
    try:
        with _patched(lambda: threading.current_thread() is thread):
            yield
    finally:
        atexit.register, atexit.unregister = register, unregister


def _guard(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler, which cannot end the process; what it prints goes to stderr."""

    def run(*args: Any, **kwargs: Any) -> None:
        _HANDLING.is_on = True
        try:
            with _patched(lambda: _HANDLING.is_on), redirect_stdout(sys.stderr):
                handler(*args, **kwargs)
        except SystemExit:
            pass
        finally:
            _HANDLING.is_on = False

    return run


@contextmanager
def _patched(is_asked: Callable[[], bool]) -> Generator[None]:
    """`os._exit` and `os.abort` raise SystemExit where `is_asked` or a handler runs, in this process."""
    at_once, abort, process = os._exit, os.abort, os.getpid()

    def ended(end: Callable[[], Never], status: object) -> Never:
        if (is_asked() or _HANDLING.is_on) and os.getpid() == process:
            raise SystemExit(status)
        end()

    os._exit = lambda status: ended(lambda: at_once(status), status)
    os.abort = lambda: ended(abort, "abort")
    try:
        yield
    finally:
        os._exit, os.abort = at_once, abort
