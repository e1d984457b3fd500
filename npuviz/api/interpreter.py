"""Run a Python prompt on a session that a window shows:
its names are `s` (the session), `npuviz` and `np`."""

import contextlib
import io
import rlcompleter
import sys
import traceback
from code import InteractiveConsole
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np

from npuviz.api.session import DebugSession
from npuviz.base.errors import Cancelled, NpuvizError, UsageError
from npuviz.debug.console.answer import Answer
from npuviz.workbench.opening import Opened

FILE_NAME = "<console>"
LINES_A_LOOK = 500
"""Number of executed lines of typed code after which `look` is called, so that the user can stop it."""
MOST_COMPLETIONS = 50


class ShownSession(DebugSession):
    """The session of a window, which only the window may close."""

    def close(self) -> None:
        """Raise UsageError: closing it would leave the window without its session."""
        raise UsageError("the window shows this session: close the file there (Ctrl+W)")


class PythonPrompt:
    """Takes lines one by one and returns what each printed; no input can end the program."""

    def __init__(self, opened: Opened) -> None:
        import npuviz

        self._names: dict[str, Any] = {"s": ShownSession(opened), "npuviz": npuviz, "np": np}
        self._console = _Console(self._names, FILE_NAME)
        self.is_continued = False
        """Whether the last line began a block that is not complete yet."""

    def push(self, line: str, look: Callable[[], object] = lambda: None) -> str:
        """Run a line, or keep it if it begins a block; return what it printed, and its value if it has one.

        look  called now and then while the line runs; may raise Cancelled
        Raises Cancelled when `look` does; assignments made by then are kept.
        """
        out = io.StringIO()
        shown, read = sys.displayhook, sys.stdin
        # There is no terminal from which `input()` could read.
        sys.displayhook, sys.stdin = _show, io.StringIO()
        sys.settrace(_Watch(look).call)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                self.is_continued = self._console.push(line)
        except Cancelled:
            self._console.resetbuffer()
            self.is_continued = False
            raise
        finally:
            sys.settrace(None)
            sys.displayhook, sys.stdin = shown, read
        return out.getvalue().rstrip("\n")

    def drop(self) -> None:
        """Drop a block that was begun."""
        self._console.resetbuffer()
        self.is_continued = False

    def completions(self, text: str) -> list[str]:
        """Return the possible completions of a name, or of an attribute of one."""
        found: list[str] = []
        completer = rlcompleter.Completer(self._names)
        with contextlib.suppress(Exception):  # reading an attribute may raise anything
            while len(found) < MOST_COMPLETIONS:
                name = completer.complete(text, len(found))
                if name is None:
                    break
                found.append(name)
        return sorted(set(found))


class _Console(InteractiveConsole):
    """A console that prints npuviz's errors as one line, and in which typed code cannot end the program."""

    def runcode(self, code: CodeType) -> None:
        try:
            exec(code, self.locals)
        except (Cancelled, KeyboardInterrupt):
            raise
        except NpuvizError as error:
            print(f"{type(error).__name__}: {error}")
        except SystemExit:
            print("the window goes on; close the file with Ctrl+W")
        except BaseException:
            # The first frame is this one.
            kind, error, trace = sys.exc_info()
            lines = traceback.format_exception(kind, error, trace.tb_next if trace is not None else None)
            print("".join(lines).rstrip())

    def showsyntaxerror(self, filename: str | None = None, **_more: Any) -> None:
        """Print the syntax error; Python's own method would call sys.excepthook."""
        print("".join(traceback.format_exception_only(*sys.exc_info()[:2])).rstrip())

    def write(self, data: str) -> None:
        print(data, end="")


class _Watch:
    """Calls `look` after some executed lines of typed code, not counting those of functions that it calls."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look, self._lines = look, 0

    def call(self, frame: FrameType, event: str, argument: object) -> Any:
        """Return the line tracer for frames of the console, None for others."""
        return self._line if frame.f_code.co_filename == FILE_NAME else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self._lines += 1
        if self._lines % LINES_A_LOOK == 0:
            self._look()
        return self._line


def _show(value: object) -> None:
    """Print a value as a prompt does, but answers as the text debugger shows them."""
    if value is not None:
        print(str(value) if isinstance(value, Answer) else repr(value))
