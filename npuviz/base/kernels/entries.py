"""Call a kernel at once through shipped code or its plain twin, and switch to the compiled code when it is
ready.

A kernel may take half a minute to compile, and no call waits for that: a helper process compiles into the
cache on disk, and until it has finished, calls run the machine code that came with the package (`shipped`),
or else the plain twin. The results are the same.
NPUVIZ_KERNELS=wait compiles at the first call instead; NPUVIZ_KERNELS=plain runs twins only, and a twin that
fails is an error; with NUMBA_DISABLE_JIT=1 kernels are plain functions.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, cast

import numpy as np
from numba import njit
from numba.core import config as _config

from npuviz.base.kernels import shipped
from npuviz.base.kernels.helper import NICENESS, PATIENT_NICENESS, Helper, compiling
from npuviz.base.kernels.kept import checked
from npuviz.base.kernels.seldom import seldom_collected
from npuviz.base.kernels.twins import plain_twin

config: Any = _config
# numba raises and catches thousands of errors while it infers types; nobody sees the colours of their texts.
config.DISABLE_ERROR_MESSAGE_HIGHLIGHTING = 1
_compile: Any = njit  # its stub lacks the options below

MODE_VARIABLE = "NPUVIZ_KERNELS"
WAIT, PLAIN = "wait", "plain"
LOOK_SECONDS = 0.2
"""Shortest time between two looks in the cache for compiled code."""
KEPT_BYTES = 1 << 18
"""Arrays up to this size are copied before a twin runs, so that a failed call can be made again."""
MOST_ITEMS = 1 << 23
"""A call with a larger array (more items than a large screen has pixels) is compiled first: that takes less
time than its twin."""
_NOT_KEPT = ("program", "words", "events")
"""Parameters that need no copy before a twin runs: they are only read, or nobody has read what is written."""

is_plain = bool(getattr(config, "DISABLE_JIT", 0))
"""Whether nothing is compiled in this process."""


def waits() -> bool:
    """Whether calls wait for compiled code."""
    return _mode() == WAIT


def compiles() -> bool:
    """Whether kernels are compiled at all."""
    return _mode() != PLAIN


def _mode() -> str:
    return os.environ.get(MODE_VARIABLE, "")


@cache
def _helper(group: str) -> Helper:
    return Helper(group)


_asked_first: "dict[Entry, float]" = {}
"""Kernels that a helper was asked to compile and that were not ready at the last look, with the time of the
first request (monotonic clock)."""


def awaited() -> dict[str, float]:
    """Return the groups whose kernels a helper is compiling for this process, with the seconds since the
    first request."""
    now = time.monotonic()
    found: dict[str, float] = {}
    for entry, since in tuple(_asked_first.items()):
        if entry.has_come or not _helper(entry.group).is_at_work:
            _asked_first.pop(entry, None)
        else:
            found[entry.group] = max(found.get(entry.group, 0.0), now - since)
    return found


@contextlib.contextmanager
def light_optimisation() -> Generator[None]:
    """Compile inside a `with` block with LLVM's optimisation level 1: a third less time."""
    before = config.OPT
    config.OPT = type(before)(1)
    try:
        yield
    finally:
        config.OPT = before


class Entry:
    """A kernel that Python calls, cached on disk. Kernels may call it as well.

    group     kernels of one group are compiled one after the other
    is_light  compiled with LLVM's optimisation level 1, for kernels that it makes as fast
    is_repeatable  a call that failed halfway can be made again on the arrays that it has partly written
    """

    is_entry = True

    def __init__(
        self, kernel: Any, group: str, is_light: bool, is_repeatable: bool, options: dict[str, Any]
    ) -> None:
        self._kernel = kernel
        self._options = options
        self.group = group
        self._is_light = is_light
        self._is_repeatable = is_repeatable
        self.py_func: Callable[..., Any] = kernel if is_plain else kernel.py_func
        self.__name__ = self.py_func.__name__
        self.module = self.py_func.__module__
        self.arguments = ""
        """Types of the arguments for which the package brings code, a letter of `shipped` for each; "" for
        none."""
        self.__doc__ = self.py_func.__doc__
        parameters = self.py_func.__code__.co_varnames
        self._kept = tuple(name not in _NOT_KEPT for name in parameters[: self.py_func.__code__.co_argcount])
        self._lock = threading.RLock()
        self._asked: dict[tuple[Any, ...], float] = {}
        """When the cache was last searched for code for arguments of these types (monotonic clock)."""
        self._shipped: Callable[..., Any] | None = None
        self._is_looked_up = False
        self._known: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        """numba's types by the kinds of the arguments (see `_kind`): numba takes long to find them."""
        self._call: Callable[..., Any] = kernel if is_plain else self._first

    def __call__(self, *args: Any) -> Any:
        """Run the kernel, compiled or not."""
        return self._call(*args)

    @property
    def _numba_type_(self) -> Any:
        """The type of the compiled function: kernels that name this entry call that."""
        return self._kernel._numba_type_

    @property
    def stats(self) -> Any:
        """numba's counts of hits and misses in the cache on disk."""
        return self._kernel.stats

    def is_ready(self, *args: Any) -> bool:
        """Whether calls with such arguments run compiled code. Load the code if it is in the cache, else ask
        a helper for it."""
        return self._call is self._kernel or self._look(self._types(args))

    def compile(self, types: tuple[Any, ...]) -> None:
        """Compile for arguments of these types, or load the code from the cache."""
        with seldom_collected(), light_optimisation() if self._is_light else contextlib.nullcontext():
            self._kernel.compile(types)

    def takes(self, arguments: str) -> None:
        """Register that code for such arguments, a letter of `shipped` for each, comes with the package."""
        self.arguments = arguments

    def prepare(self) -> None:
        """Load code for the arguments that were registered by `takes`: compiled if it is ready, else
        shipped."""
        examples = tuple(map(shipped.example_of, self.arguments))
        if not self.is_ready(*examples):
            self.has_shipped(*examples)

    def has_shipped(self, *args: Any) -> bool:
        """Whether the package brought code for such arguments."""
        return bool(shipped.fits(self.arguments, args) and self._find_shipped())

    def _find_shipped(self) -> Callable[..., Any] | None:
        if not self.arguments or is_plain or _mode():
            return None
        with self._lock:
            if not self._is_looked_up:
                self._shipped = shipped.load(self.module, self._name_in_module(), self.arguments)
                self._is_looked_up = True
            return self._shipped

    def run_at_once(self, *args: Any) -> Any:
        """Run without compiled code: the shipped code for such arguments if there is any, else the plain
        twin."""
        found = self._find_shipped() if shipped.fits(self.arguments, args) else None
        return found(*args) if found else self.run_plain(*args)

    def compiled_apart(self) -> Any:
        """Compile for the arguments registered by `takes`, without the wrapper that Python calls; return
        numba's result."""
        types = tuple(self._kernel.typeof_pyval(shipped.example_of(letter)) for letter in self.arguments)
        options = {**self._options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        kernel = _compile(nogil=True, **options)(self.py_func)
        with seldom_collected():
            kernel.compile(types)
        return kernel.overloads[types]

    def await_ready(self, *args: Any) -> None:
        """Sleep until calls with such arguments run compiled code."""
        while not self.is_ready(*args):
            time.sleep(LOOK_SECONDS)

    def _compile_here(self, types: tuple[Any, ...]) -> None:
        """Compile in this process, and use the code even if a full disk cannot keep it.

        If another process is compiling the same, wait for it and load its code.
        """
        # Programs that wait for compiled code, as tests do, lock one kernel each: they need not wait for the
        # rest of the group.
        work = f"{self.group}-{self.py_func.__module__}-{self.__name__}" if waits() else self.group
        try:
            with contextlib.nullcontext() if self._is_on_disk(types) else compiling(work):
                self.compile(types)
        except OSError:
            if types not in self._kernel.overloads:
                raise

    def _first(self, *args: Any) -> Any:
        types = self._types(args)
        if not self._look(types):
            is_small = all(getattr(arg, "size", 0) <= MOST_ITEMS for arg in args)
            if is_small or _mode() == PLAIN or self.has_shipped(*args):
                return self.run_at_once(*args)
            self._compile_here(types)
        return self._kernel(*args)

    def _types(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        kinds = tuple(map(_kind, args))
        types = self._known.get(kinds)
        if types is None:
            types = self._known[kinds] = tuple(self._kernel.typeof_pyval(arg) for arg in args)
        return types

    def _look(self, types: tuple[Any, ...]) -> bool:
        with self._lock:
            if types in self._kernel.overloads:
                return True
            if _mode() == PLAIN:
                return False
            now = time.monotonic()
            last = self._asked.get(types)
            if last is not None and now - last < LOOK_SECONDS:
                return False
            if waits() or self._is_on_disk(types) or not self._ask(types):
                self._compile_here(types)
                self._asked.pop(types, None)
                if not self._asked:
                    self._call = self._kernel
                return True
            self._asked[types] = time.monotonic()
            _asked_first.setdefault(self, self._asked[types])
            return False

    @property
    def has_come(self) -> bool:
        """Whether all code that a helper was asked for is compiled."""
        # Without the lock, which is held while this process compiles: the caller must not wait for that.
        wanted = [types for types in tuple(self._asked) if types not in self._kernel.overloads]
        return all(self._is_on_disk(types) for types in wanted)

    def _ask(self, types: tuple[Any, ...]) -> bool:
        niceness = PATIENT_NICENESS if self._find_shipped() else NICENESS
        return _helper(self.group).ask(self.module, self._name_in_module(), types, niceness)

    def _name_in_module(self) -> str:
        return next(name for name, value in vars(sys.modules[self.module]).items() if value is self)

    def _is_on_disk(self, types: tuple[Any, ...]) -> bool:
        """Whether the cache has code for these types; numba's public functions would compile it if not."""
        cached = self._kernel._cache  # noqa: SLF001
        key = cached._index_key(types, self._kernel.targetctx.codegen())  # noqa: SLF001
        file = cached._cache_file  # noqa: SLF001
        name = file._load_index().get(key)  # noqa: SLF001
        return name is not None and os.path.exists(file._data_path(name))  # noqa: SLF001

    def run_plain(self, *args: Any) -> Any:
        """Run the plain twin. If it fails, restore the arrays that it changed, compile here and run that."""
        changed = [
            array
            for array, is_kept in zip(args, self._kept, strict=True)
            if is_kept and isinstance(array, np.ndarray) and array.flags.writeable
        ]
        kept = [(array, array.copy()) for array in changed if array.nbytes <= KEPT_BYTES]
        try:
            with np.errstate(all="ignore"):
                return plain_twin(self)(*args)
        except Exception:
            if _mode() == PLAIN or (len(kept) < len(changed) and not self._is_repeatable):
                raise
            for array, before in kept:
                array[...] = before
            self._compile_here(self._types(args))
            self._call = self._kernel
            return self._kernel(*args)


def _kind(value: Any) -> Any:
    """Return a key that is equal for values to which numba gives the same type: arrays, numbers, tuples of
    them."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return (type(value), *map(_kind, cast(tuple[Any, ...], value)))
    return (type(value), value >> 63) if isinstance(value, int) else type(value)


WINDOW_GROUP = "window"
"""Group of the kernels that read or draw traces."""


def entry(
    group: str, is_light: bool = False, is_repeatable: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes a kernel an Entry (see there); the other options are numba's."""

    def decorate(function: Callable[..., Any]) -> Entry:
        kernel = _compile(cache=True, nogil=True, **options)(function)
        return Entry(kernel if is_plain else checked(kernel), group, is_light, is_repeatable, options)

    return decorate
