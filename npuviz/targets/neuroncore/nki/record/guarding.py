"""Turns what NKI's functions do not take, and names they do not have, into one line that says so."""

import ast
import functools
import inspect
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

import numpy as np

from npuviz.base.errors import NpuvizError
from npuviz.targets.neuroncore.nki.record.errors import UNDOCUMENTED, KernelError, OutOfBounds
from npuviz.targets.neuroncore.nki.record.index import Index, Mask
from npuviz.targets.neuroncore.nki.record.tensors import Tensor
from npuviz.targets.neuroncore.nki.record.variable_names import OWN_FOLDER, statement_at

_OURS = str(Path(__file__).parents[4])
_LIBRARIES = (sysconfig.get_path("stdlib"), "<frozen ", str(Path(np.__file__).parent))
_RAISED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError),
    *(TypeError, ValueError),
)
MAX_ARGUMENT = 60
"""Characters of an argument that a message shows."""
MAX_ARGUMENTS = 400
"""Characters of all arguments that a message shows."""
METHODS = (
    *("ap", "assert_shape", "astype", "broadcast", "broadcast_to", "expand_dim", "expand_dims"),
    *("flatten_dims", "indirect", "permute", "rearrange", "reinterpret_cast", "reshape", "reshape_dim"),
    *("select", "slice", "squeeze_dim", "vector_select", "view"),
)
"""What kernels call on tensors."""


def guard(names: dict[str, Any], prefix: str) -> None:
    """Make the functions among the names of a module raise KernelError for what they do not take."""
    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and not name.startswith("_"):
            names[name] = guarded(value, f"{prefix}.{name}")


def guard_methods() -> None:
    """The same for what kernels call on tensors."""
    for name in METHODS:
        method = getattr(Tensor, name)
        if not hasattr(method, "__wrapped__"):
            setattr(Tensor, name, guarded(method, f"tensor.{name}"))


def guarded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function; errors of Python in it are KernelErrors that say what it was given."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (*_RAISED, KernelError) as error:
            if type(error) is KernelError and name.startswith("nl.") and _is_own(error.__traceback__):
                raise _naming(error, name) from error
            if isinstance(error, NpuvizError | OutOfBounds) or not _is_own(error.__traceback__):
                raise
            raise KernelError(_text(function, name, args, kwargs, error)) from error

    return call


def _naming(error: KernelError, name: str) -> KernelError:
    """An error about an operand of what a function of nl is made of, with that function's name."""
    text = str(error)
    is_operand = error.name == "err_unsupported_memory" or text.startswith("an operation on tiles")
    if not is_operand or re.search(rf"\b{name.rpartition('.')[2]}\b", text):
        return error
    head = f"{error.name}: " if error.name else ""
    return KernelError(f"{name}: {text.removeprefix(head)}", error.name)


def _is_own(trace: TracebackType | None) -> bool:
    """Whether npuviz raised it, and not a function of the user that it called."""
    own = True
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_LIBRARIES):
            own = file.startswith(_OURS)
        trace = trace.tb_next
    return own


def _text(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: Exception,
) -> str:
    what = " ".join(str(error).split()) or type(error).__name__
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as wrong:
        known = [each for each in signature.parameters if not each.startswith("_") and each != "self"]
        strange = [each for each in kwargs if each not in signature.parameters]
        if strange and "unexpected" not in str(wrong):
            wrong = TypeError(f"got an unexpected keyword argument {strange[0]!r}, {wrong}")
        return f"{name}: {wrong}; its parameters are {', '.join(known) or 'none'}"
    return f"{name} does not take {_shown(bound.items())} ({what})"


def _shown(arguments: Iterable[tuple[str, Any]]) -> str:
    """Arguments by name, shortened."""
    text = ", ".join(f"{name}={_short(value)}" for name, value in arguments if not name.startswith("_"))
    return text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]} ..."


def _short(value: object) -> str:
    if isinstance(value, Index | Mask):
        return f"an index of shape {list(value.shape)}" if isinstance(value, Index) else "a mask"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype}{list(value.shape)}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a class of the user
        text = type(value).__name__
    return text if len(text) <= MAX_ARGUMENT else f"{text[:MAX_ARGUMENT]}..."


def undocumented_import(package: str) -> ImportError:
    """The error of an import from a package without public documentation; it tells the names asked for."""
    return ImportError(f"undocumented: {', '.join(_asked_for(package))} {UNDOCUMENTED}")


def vendors_import(package: str, source: str) -> ImportError:
    """The error of an import from a package of the vendor's own kernels, whose source is public elsewhere."""
    names = ", ".join(_asked_for(package))
    return ImportError(f"{names}: npuviz has none of the vendor's kernels; run them from {source}")


def _asked_for(package: str) -> list[str]:
    """The names that the user's line imports from a package."""
    frame = sys._getframe(2)  # noqa: SLF001 - the documented way to the caller's line
    while frame.f_back is not None and frame.f_code.co_filename.startswith((OWN_FOLDER, "<frozen ")):
        frame = frame.f_back
    statement = statement_at(frame.f_code.co_filename, frame.f_lineno)
    if isinstance(statement, ast.ImportFrom) and statement.module:
        return [f"{statement.module}.{each.name}" for each in statement.names]
    if isinstance(statement, ast.Import):
        return [each.name for each in statement.names if each.name.startswith(package)] or [package]
    return [package]
