"""Import a module only when a function of it is first called, for modules that are seldom needed."""

import importlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _Late(ModuleType):
    """Placeholder for a module. While in `sys.modules`,
    its attributes are functions that import the module when called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            return _late_function(self.__name__, name)
        return getattr(importlib.import_module(self.__name__), name)


def _late_function(module: str, name: str) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **named)

    return call


@contextmanager
def late_module(name: str) -> Generator[None]:
    """Inside a `with` block, let imports of the module `name` give a placeholder that
    loads it at its first use.

    Code imported inside may put functions of that module into tables, but not subclass its classes. After the
    block, the module is imported as usual.
    """
    if name in sys.modules:
        yield
        return
    late = sys.modules[name] = _Late(name)
    try:
        yield
    finally:
        if sys.modules.get(name) is late:
            del sys.modules[name]
