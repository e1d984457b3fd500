"""Which code an operator on numbers is: looked up once for all kernels of a process.

numba tries the forty meanings of `+` one after the other wherever one is written, and words an error for each
that does not fit: a tenth of the time that a large kernel took to compile, 18,500 times for 300 answers.
"""

from typing import Any

from numba.core import types
from numba.core.typing import context as _typing

Context: Any = _typing.Context  # these stubs lack what is private
_NUMBERS: Any = (types.Number, types.Boolean, types.Literal)
_NAME = "_npuviz_resolved"


class Resolved(Context):
    """A typing context of numba that remembers the signatures of functions on numbers.

    Everything else it shares with the context that it is made of, whose functions never change for numbers.
    """

    def __init__(self, context: Any) -> None:
        vars(context).setdefault(_NAME, {})
        self.__dict__ = context.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call, None if there is none; errors are those of numba."""
        if kws or type(func) is not types.Function or not all(isinstance(one, _NUMBERS) for one in args):
            return super().resolve_function_type(func, args, kws)
        known: dict[Any, Any] = vars(self)[_NAME]
        key = (func, tuple(args))
        if key not in known:
            known[key] = super().resolve_function_type(func, args, kws)
        return known[key]
