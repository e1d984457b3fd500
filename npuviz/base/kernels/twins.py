"""Make the plain twin of a kernel: the same code, run by Python, while the rest of the module stays compiled.

A twin shares the code object of its kernel and gets other globals: each kernel is replaced by its twin, each
intrinsic by what `stand_in` gave for it, and numba's numbers by Python's.
"""

import builtins
import threading
import types as python
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from numba.core import dispatcher as _dispatcher

Dispatcher: Any = _dispatcher.Dispatcher
nb: Any = numba

_HALF = 1 << 63
_stand_ins: dict[int, tuple[Any, Any]] = {}
_twins: dict[Any, Callable[..., Any]] = {}
_making = threading.RLock()


def stand_in(compiled: Any, plain: Any) -> Any:
    """Let twins see `plain` where kernels name `compiled`. Returns `compiled`."""
    _stand_ins[id(compiled)] = (compiled, plain)
    return compiled


def _word(value: Any) -> int:
    """Return a number wrapped to a signed word of 64 bits."""
    number = int(value)
    return number if -_HALF <= number < _HALF else (number + _HALF) % (2 * _HALF) - _HALF


for _type, _number in (
    (nb.int64, _word),
    (nb.float64, float),
    (nb.float32, np.float32),
    (nb.int32, np.int32),
    (nb.uint32, np.uint32),
    (nb.uint64, np.uint64),
):
    stand_in(_type, _number)


def plain_twin(kernel: Any) -> Callable[..., Any]:
    """Return the function that runs a kernel uncompiled; the same one at each call."""
    with _making:
        return _seen(kernel, ())


def _make(function: Any) -> Callable[..., Any]:
    known = _twins.get(function)
    if known is not None:
        return known
    names: dict[str, Any] = {"__builtins__": builtins, "__name__": function.__module__}
    cells = tuple(python.CellType(_seen(cell.cell_contents, ())) for cell in function.__closure__ or ())
    twin = python.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, cells or None
    )
    _twins[function] = twin
    used = set(_names(function.__code__))
    for name in used & set(function.__globals__):
        names[name] = _seen(function.__globals__[name], used)
    return twin


def _names(code: python.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, python.CodeType):
            yield from _names(constant)


def _seen(value: Any, used: set[str] | tuple[()]) -> Any:
    """Return what a twin sees in place of a value. used  names to take from a module of npuviz"""
    known = _stand_ins.get(id(value))
    if known is not None:
        return known[1]
    if isinstance(value, python.ModuleType) and value.__name__.startswith("npuviz."):
        return python.SimpleNamespace(
            **{name: _seen(getattr(value, name), ()) for name in used if hasattr(value, name)}
        )
    if hasattr(value, "for_twins"):
        return value.for_twins
    if isinstance(value, np.integer):
        return int(value)
    is_kernel = isinstance(value, Dispatcher) or hasattr(value, "is_entry")
    return _make(value.py_func) if is_kernel else value
