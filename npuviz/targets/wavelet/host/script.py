"""Stand in for `cs_python`: run a host program with what it expects of its environment, and say what is
missing.

The vendor's Python has NumPy 1, where `words[1] << 16` of a 16-bit element makes a 64-bit number; NumPy 2
keeps 16 bits and shifts everything out. Shifts in the program and in modules beside it are done as in NumPy
1; no file of the program changes.

Programs compare what a PE summed, term after term, with a product of matrices of NumPy, some of them to the
bit. OpenBLAS adds in an order that depends on the processor of the host; ORDERED_BLAS adds term after term.
"""

import ast
import importlib.machinery
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

SHIFT = "__npuviz_shifted"
EXTRAS = ("scipy", "pandas", "matplotlib", "tomli")
"""Packages that programs import beside numpy; the extra `csl` installs them."""
ORDERED_BLAS = "Nehalem"
"""OPENBLAS_CORETYPE whose matrix products run wherever NumPy does, and add along k in order."""
SIMULATOR = "cerebras.sdk.runtime.sdkruntimepybind"


def shifted(value: Any, count: Any) -> Any:
    """Return `value << count`; a NumPy integer shifted by a Python int becomes 64 bits wide."""
    import numpy as np

    if isinstance(value, np.integer) and type(count) is int and value.dtype != np.uint64:
        return np.int64(value) << count
    return value << count


class _Shifts(ast.NodeTransformer):
    """Replace shifts in a syntax tree by calls of `shifted`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.LShift):
            return node
        call = ast.Call(ast.Name(SHIFT, ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def code_of(text: bytes, path: str) -> CodeType:
    """Return the code of a file of the program. Raises SyntaxError, ValueError."""
    if b"<<" not in text:
        return compile(text, path, "exec", dont_inherit=True)
    tree = _Shifts().visit(ast.parse(text, path))
    return compile(tree, path, "exec", dont_inherit=True)


class _Loader(importlib.machinery.SourceFileLoader):
    """Load modules beside the program; their code is not cached."""

    def get_code(self, fullname: str) -> CodeType | None:
        return code_of(self.get_data(self.path), self.path)


def _finder_in(folder: str) -> Any:
    """Return a path hook for one folder and those below it."""
    inner = importlib.machinery.FileFinder.path_hook((_Loader, importlib.machinery.SOURCE_SUFFIXES))

    def hook(path: str) -> Any:
        place = os.path.realpath(path or ".")
        if place != folder and not place.startswith(folder + os.sep):
            raise ImportError
        return inner(path)

    return hook


def run_script(path: Path, arguments: Sequence[str]) -> None:
    """Execute a file as `__main__`. Raises what the program raises, OSError if the file cannot be read."""
    import builtins

    setattr(builtins, SHIFT, shifted)
    code = code_of(path.read_bytes(), str(path))
    folder = os.path.realpath(path.parent)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    sys.path_hooks.insert(0, _finder_in(folder))
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=builtins)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def missing(error: ModuleNotFoundError) -> str:
    """Return one line about a package that is not installed, "" for one that npuviz does not know."""
    text = _remedy(error.name or "")
    return f"{_line_of(error.__traceback__)}{text}" if text else ""


def _remedy(name: str) -> str:
    """Return what to do about a package that is not installed, "" for one that npuviz does not know."""
    if name.partition(".")[0] in EXTRAS:
        return f"imports {name}, which is not installed: pip install npuviz[csl]"
    if name.partition(".")[0] == "cerebras":
        return f"imports {name}; npuviz has the interface of the simulator, {SIMULATOR}"
    return ""


def _line_of(trace: TracebackType | None) -> str:
    frames = [frame for frame in traceback.extract_tb(trace) if "importlib" not in frame.filename]
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""


def failure_of(error: BaseException, script: Path) -> str:
    """Return why a host program fails, in one line that begins with its own last source line; "" if it does
    not fail."""
    if isinstance(error, SystemExit) and error.code in (None, 0, False):
        return ""
    folder = script.resolve().parent
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename[:1] != "<"]
    own = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(folder)]
    place = f"{os.path.relpath(own[-1].filename, folder)}:{own[-1].lineno}: " if own else ""
    if isinstance(error, SystemExit):
        return f"{place}sys.exit({error.code!r})"
    text = _remedy(error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    return f"{place}{text or ' '.join(f'{type(error).__name__}: {error}'.split())}"


def _tell(text: str) -> None:
    """Write a failure into the folders that the program has loaded, and into the file of
    FAILURES_VARIABLE."""
    from npuviz.targets.wavelet.host.finished import fail
    from npuviz.targets.wavelet.host.shims import FAILURES_VARIABLE
    from npuviz.targets.wavelet.load.compiled import add_failure

    fail(text)
    if FAILURES_VARIABLE in os.environ:
        with suppress(OSError):
            add_failure(Path(os.environ[FAILURES_VARIABLE]), text)


def run(arguments: Sequence[str]) -> int:
    """Run the command; `cs_python` without a file is plain Python. Returns 2 when a package is missing."""
    if not arguments or arguments[0].startswith("-"):
        os.execv(sys.executable, [sys.executable, *arguments])
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("OPENBLAS_CORETYPE", ORDERED_BLAS)
    path = Path(arguments[0])
    try:
        try:
            run_script(path, arguments[1:])
        except BaseException as error:
            text = failure_of(error, path)
            if text:
                _tell(text)
            raise
    except ModuleNotFoundError as error:
        line = missing(error)
        if not line:
            raise
        print(f"cs_python: {line}", file=sys.stderr)
        return 2
    except FileNotFoundError as error:
        if error.filename != arguments[0]:
            raise
        print(f"cs_python: {arguments[0]}: no such file", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
