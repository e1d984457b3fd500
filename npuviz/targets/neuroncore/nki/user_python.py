"""The user's own Python: imported beside stand-ins for the vendor's packages, watched while it runs."""

import ast
import ctypes
import importlib
import importlib.util
import re
import sys
import sysconfig
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

from npuviz.base.errors import FormatError, NpuvizError, UsageError
from npuviz.base.progress import Progress
from npuviz.targets.neuroncore.nki.absent import is_taken_as_missing, missing_packages
from npuviz.targets.neuroncore.nki.exits import exits_raise
from npuviz.targets.neuroncore.nki.record.endless import while_without_exit
from npuviz.targets.neuroncore.nki.record.errors import UNDOCUMENTED, KernelError, KernelTimeout

SHIMS = Path(__file__).parent / "shims"
"""Holds the packages `neuronxcc` and `nki` that kernel files import."""
MAX_SECONDS = 60.0
"""For which the Python of a kernel may run."""
LOOK_SECONDS = 2.0
"""After which its loops are looked at, and again."""
MAX_TEXT = 600
"""Characters of an exception's text that are shown."""
_OUTER_MODULES = ("neuronxcc", "nki")
_OWN_FOLDER = str(Path(__file__).parent)
_LIBRARIES = (sysconfig.get_path("stdlib"), "<frozen ")
_IMPORTED = re.compile(rb"^\s*(?:from|import)\s+(\.|\w+)", re.MULTILINE)
"""The first part of each import's name."""
Result = TypeVar("Result")


@contextmanager
def stand_ins(*folders: Path) -> Generator[None]:
    """Let imports find the stand-ins and what lies in these folders; forget afterwards what was imported."""
    before = set(sys.modules)
    outer = [name for name in sys.modules if name.split(".")[0] in _OUTER_MODULES]
    kept = {name: sys.modules.pop(name) for name in outer}
    own = [str(folder.resolve()) for folder in folders]
    added = [str(SHIMS), *own]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        with missing_packages():
            yield
    finally:
        for folder in added:
            if folder in sys.path:
                sys.path.remove(folder)
        for name in set(sys.modules) - before:
            origin = getattr(sys.modules.get(name), "__file__", None) or ""
            if name.split(".")[0] in _OUTER_MODULES or origin.startswith(tuple(own)):
                sys.modules.pop(name, None)
        sys.modules.update(kept)


def package_folders(path: Path) -> list[Path]:
    """Where the package begins that a file is part of and imports from; empty for any other file."""
    return [] if not _package_of(path) else [path.resolve().parents[_package_of(path).count(".") + 1]]


def _package_of(path: Path) -> str:
    """The package that a file lies in and imports from, by relative names or its own; "" if it does not."""
    names: list[str] = []
    folder = path.resolve().parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if not names:
        return ""
    imported_names = set(_IMPORTED.findall(path.read_bytes()))
    return ".".join(names) if imported_names & {b".", names[0].encode()} else ""


def watched(work: Callable[[], Result], progress: Progress, path: Path) -> Result:
    """Run the user's Python so that it can be cancelled and ends after a while; its output goes to stderr.

    Raises what the work raised, UsageError when it ran for too long, KernelError when it wanted to end the
    process, Cancelled from `progress`.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="kernel", daemon=True)
    started = time.monotonic()
    look = started + LOOK_SECONDS
    shown: Any = _NeverClosed(sys.stderr)
    before = set(threading.enumerate())
    with _left_to_stderr(before), redirect_stdout(shown), redirect_stderr(shown), exits_raise(thread):
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.05)
                progress.report(-1.0, "running the kernel's Python")
                now = time.monotonic()
                if now > look:
                    _check_loops(thread)
                    look = now + LOOK_SECONDS
                if now - started > MAX_SECONDS:
                    raise UsageError(
                        f"{path.name}: its Python ran for {MAX_SECONDS:g} seconds without an end"
                        f"{_running_line(thread, path)}; look for a loop that does not end, "
                        "or make it smaller"
                    )
        except BaseException:
            _stop(thread)
            raise
    if not errors:
        return results[0]
    if not isinstance(errors[0], Exception | KernelTimeout):
        raise user_error(errors[0], path) from errors[0]
    raise errors[0]


@contextmanager
def _left_to_stderr(before: set[threading.Thread]) -> Generator[None]:
    """Let threads that a kernel leaves behind, all but those of `before`, print to stderr as it did."""
    try:
        yield
    finally:
        left = set(threading.enumerate()) - before
        if left and isinstance(sys.stdout, _ByThread):
            sys.stdout.strangers.update(left)
        elif left:
            sys.stdout = cast(Any, _ByThread(sys.stdout, weakref.WeakSet(left)))


class _ByThread:
    """A stream that takes what some threads write to it to stderr."""

    def __init__(self, stream: Any, strangers: weakref.WeakSet[threading.Thread]) -> None:
        self._stream, self.strangers = stream, strangers

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if threading.current_thread() in self.strangers else self._stream, name)


class _NeverClosed:
    """A stream that the user's Python may close; what goes there afterwards still comes out."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def close(self) -> None:
        """Write what waits, and stay open."""
        self._stream.flush()


def _check_loops(thread: threading.Thread) -> None:
    """Raise KernelError if the user's Python is in a loop that nothing in its text can end."""
    own = [(str(file), line) for file, line in _running(thread) if not str(file).startswith(_LIBRARIES)]
    found = while_without_exit(own)
    if found is not None:
        raise KernelError(
            f"{Path(found[0]).name}:{found[1]}: the loop does not end: its condition is always true, and "
            "nothing in it leaves it"
        )


def _running(thread: threading.Thread) -> list[tuple[Path, int]]:
    """Where a thread is in the user's own files, innermost first."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - the documented way to other threads
    places: list[tuple[Path, int]] = []
    while frame is not None:
        line: int | None = frame.f_lineno  # None between two lines
        if line is not None and not _is_ours(frame.f_code.co_filename):
            places.append((Path(frame.f_code.co_filename), line))
        frame = frame.f_back
    return places


def _running_line(thread: threading.Thread, path: Path) -> str:
    """Where a thread is in the user's file, else in one that is not npuviz's, in words; "" if in none."""
    places = _running(thread)
    inside = [place for place in places if place[0].name == path.name]
    return "".join(f", at {file.name}:{line}" for file, line in (inside or places)[:1])


def _stop(thread: threading.Thread) -> None:
    """Raise KernelTimeout in a thread, at its next line of Python."""
    if thread.is_alive() and thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(KernelTimeout)
        )
        thread.join(1.0)


def imported(path: Path) -> ModuleType:
    """The module that a file makes. Raises FormatError, KernelError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    parsed(path, text)
    package = _package_of(path)
    name = f"{package}.{path.stem}" if package else f"npuviz_kernel_{abs(hash(str(path)))}"
    try:
        if package:
            importlib.import_module(package)
            if name in sys.modules:  # the package imports this file
                return sys.modules[name]
        return _executed(name, path)
    except KernelError as error:
        raise located(error) from error
    except (KernelTimeout, NpuvizError):
        raise
    except Exception as error:
        if is_taken_as_missing(error):
            return imported(path)
        raise user_error(error, path) from error
    finally:
        sys.modules.pop(name, None)


def _executed(name: str, path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def parsed(path: Path, text: bytes) -> ast.Module:
    """The syntax tree of a file; nothing is run. Raises FormatError with the line."""
    try:
        return ast.parse(text, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        what = getattr(error, "msg", None) or error or "too deep for Python's parser"
        raise FormatError(f"{path.name}:{line or 1}: {what}") from None


def located(error: KernelError) -> KernelError:
    """The error with the line of the user's text that raised it at its head."""
    frames = [f for f in _places(error) if not _is_ours(f.filename)]
    own = [f for f in frames if not f.filename.startswith(_LIBRARIES)]
    return error.at(f"{Path(own[-1].filename).name}:{own[-1].lineno}") if own else error


def user_error(error: BaseException, path: Path) -> KernelError:
    """An exception of the user's own Python in one line: where, what, and for known ones what to do."""
    users = [frame for frame in _places(error) if not _is_ours(frame.filename)]
    own = [frame for frame in users if not frame.filename.startswith(_LIBRARIES)]
    this = {name for name in {frame.filename for frame in own} if Path(name).resolve() == path.resolve()}
    inside = [frame for frame in own if frame.filename in this]
    place = (inside or own)[-1:]
    where = f"{Path(place[0].filename).name}:{place[0].lineno}" if place else path.name
    helper = own[-1] if own and inside and own[-1] is not inside[-1] else None
    deeper = f" (in {Path(helper.filename).name}:{helper.lineno})" if helper is not None else ""
    what = _text_of(error)
    what = what if len(what) <= MAX_TEXT else what[:MAX_TEXT] + " ..."
    text = f"{type(error).__name__}: {what}" if what else type(error).__name__
    return KernelError(f"{where}: {text}{deeper}{_remedy(error)}")


class _Place(NamedTuple):
    """A line of a traceback."""

    filename: str
    lineno: int


def _places(error: BaseException) -> list[_Place]:
    """The lines that an exception went through, outermost first; there may be millions."""
    found = traceback.walk_tb(error.__traceback__)
    return [_Place(frame.f_code.co_filename, line) for frame, line in found]


def _text_of(error: BaseException) -> str:
    """What an exception says, in one line; its own __str__ may fail."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return "its text cannot be had"


def _remedy(error: BaseException) -> str:
    """What to do about it, "" if that is plain."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        name = error.name.partition(".")[0]
        if name in _OUTER_MODULES:
            return f"; undocumented: {error.name} {UNDOCUMENTED}"
        return (
            f"; npuviz needs no {name}: import it inside the functions that use it, "
            f"or install it for {Path(sys.executable).name}"
        )
    if isinstance(error, TypeError) and "does not support ufuncs" in _text_of(error):
        return "; functions of numpy do not take tiles: use those of nl"
    if isinstance(error, SystemExit):
        return "; a kernel file that ends the process has its script under if __name__ == '__main__'"
    return ""


def _is_ours(filename: str) -> bool:
    """Whether a file is npuviz's own part of running kernels."""
    return filename.startswith(_OWN_FOLDER)
