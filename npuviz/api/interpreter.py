"""A Python prompt on a session that somebody else shows: `s` is the session, `npuviz` and `np` are there."""

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
"""After so many lines of what was typed the user is asked whether it shall stop."""
MOST_COMPLETIONS = 50


class ShownSession(DebugSession):
    """The session of a window; what shows it closes it."""

    def close(self) -> None:
        """Refuse: the window would be left with a session that is gone. Raises UsageError."""
        raise UsageError("the window shows this session: close the file there (Ctrl+W)")


class PythonPrompt:
    """Takes lines one by one and gives what each printed; nothing that is typed ends the program.

    look  called now and then while a line runs; may raise Cancelled
    """

    def __init__(self, opened: Opened) -> None:
        import npuviz

        self._names: dict[str, Any] = {"s": ShownSession(opened), "npuviz": npuviz, "np": np}
        self._console = _Console(self._names, FILE_NAME)
        self.is_continued = False
        """Whether the last line began a block that is not complete yet."""

    def push(self, line: str, look: Callable[[], object] = lambda: None) -> str:
        """Run a line, or keep it where it begins a block; what it printed, and its value if it has one.

        Raises Cancelled when `look` does; names keep what they had got by then.
        """
        out = io.StringIO()
        shown, read = sys.displayhook, sys.stdin
        # Nobody can answer what asks at the terminal.
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
        """Forget a block that was begun."""
        self._console.resetbuffer()
        self.is_continued = False

    def completions(self, text: str) -> list[str]:
        """What a name, or an attribute of one, may go on as."""
        found: list[str] = []
        completer = rlcompleter.Completer(self._names)
        with contextlib.suppress(Exception):  # an attribute may raise anything when it is looked at
            while len(found) < MOST_COMPLETIONS:
                name = completer.complete(text, len(found))
                if name is None:
                    break
                found.append(name)
        return sorted(set(found))


class _Console(InteractiveConsole):
    """A console that tells mistakes which npuviz names in a line, and that cannot end the program."""

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
        """Print it: that of Python hands it to whoever catches faults of the program."""
        print("".join(traceback.format_exception_only(*sys.exc_info()[:2])).rstrip())

    def write(self, data: str) -> None:
        print(data, end="")


class _Watch:
    """Looks around after some lines of what was typed, not of what that calls."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look, self._lines = look, 0

    def call(self, frame: FrameType, event: str, argument: object) -> Any:
        """Trace frames of the console only."""
        return self._line if frame.f_code.co_filename == FILE_NAME else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self._lines += 1
        if self._lines % LINES_A_LOOK == 0:
            self._look()
        return self._line


def _show(value: object) -> None:
    """Print a value as a prompt does; answers as the text debugger shows them."""
    if value is not None:
        print(str(value) if isinstance(value, Answer) else repr(value))
