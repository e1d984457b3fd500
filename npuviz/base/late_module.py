"""Modules that others import for the rare case: loaded when that comes."""

import importlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _Late(ModuleType):
    """Stands for a module. While in `sys.modules`, its attributes are functions that load it when called."""

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
    """Have what is imported inside load the module `name` only when it uses it, if it ever does.

    What is imported may put functions of that module into tables, but not subclass its classes. Afterwards
    everybody else imports the module as ever.
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
