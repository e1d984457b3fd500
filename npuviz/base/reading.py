"""Tell wrong data from faults of npuviz: the one guard that all readers run under.

Libraries raise exceptions of every kind on damaged data. `reading` turns these into a FormatError with file
and member, by three rules; any other exception is a fault of npuviz and passes, with its traceback:

1. the class of the exception belongs to a library that decodes (`zlib.error`, `duckdb.BinderException`);
2. it was raised inside such a library, or in code that the library called, whatever its class (`tokenize`
   raises SyntaxError, `thrift` KeyError);
3. it means that a value does not fit: OverflowError, UnicodeError, RecursionError, MemoryError.

So a KeyError, IndexError, TypeError or ValueError of npuviz's own code is never taken for bad data: a reader
that finds an index out of range raises a FormatError itself.
"""

from collections.abc import Generator
from contextlib import contextmanager
from errno import EINVAL
from pathlib import Path
from types import TracebackType

from npuviz.base.errors import FormatError, NpuvizError
from npuviz.base.names import echo

LIBRARIES = (
    "_duckdb", "_pickle", "ast", "binascii", "codecs", "duckdb", "encodings", "flatbuffers", "google", "json",
    "lzma", "numpy.lib", "onnx", "onnx_ir", "onnxscript", "orjson", "pandas", "pyarrow", "pydantic",
    "pydantic_core", "struct", "tarfile", "tokenize", "tomllib", "zipfile", "zlib",
)  # fmt: skip
"""Modules that decode data; their submodules are included."""
PACKAGE = __name__.partition(".")[0]
VALUES = (OverflowError, UnicodeError, RecursionError, MemoryError)
LONGEST_REASON = 200
_REASONS = {RecursionError: "data nested too deeply", MemoryError: "more data than the memory holds"}


@contextmanager
def reading(file: str | Path, member: str = "", hint: str = "") -> Generator[None]:
    """Turn exceptions that libraries raise on bad data inside a `with` block into a
    FormatError of file and member."""
    try:
        yield
    except NpuvizError:
        raise
    except Exception as error:
        if not is_about_data(error):
            raise
        raise FormatError(file, field=member, found=reason_of(error), hint=hint) from error


def is_about_data(error: Exception) -> bool:
    """Whether an exception says that data are wrong, by the rules above."""
    # EINVAL comes from data (a position before the beginning of a file); other errors come from the disk.
    if isinstance(error, OSError) and error.errno not in (None, EINVAL):
        return False
    return (
        isinstance(error, VALUES)
        or _is_of_library(type(error).__module__)
        or _raised_in_library(error.__traceback__)
    )


def reason_of(error: BaseException) -> str:
    """Return the first line of an exception's text, at most LONGEST_REASON characters,
    or its class name if it has none."""
    for kind, reason in _REASONS.items():
        if isinstance(error, kind):
            return reason
    lines = (" ".join(line.split()) for line in str(error).splitlines())
    return echo(next(filter(None, lines), type(error).__name__), LONGEST_REASON)


def _is_of_library(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in LIBRARIES)


def _raised_in_library(trace: TracebackType | None) -> bool:
    """Whether a library that decodes was called, directly or not, by the innermost frame of npuviz."""
    is_below = False
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        is_below = module.partition(".")[0] != PACKAGE and (is_below or _is_of_library(module))
        trace = trace.tb_next
    return is_below
