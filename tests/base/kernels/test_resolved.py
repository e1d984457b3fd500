"""Operators on numbers: numba is asked for each once, and what it answers is what it always answers."""

import operator
from typing import Any

import pytest
from numba import njit, typeof
from numba.core import types
from numba.core.errors import TypingError

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner
from npuviz.base.kernels.resolved import _NAME, Context, Resolved

pytestmark = pytest.mark.skipif(entries.is_plain, reason="nothing is compiled")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of each call that numba itself has looked up, from now on."""
    found: list[tuple[Any, ...]] = []
    real = Context.resolve_function_type

    def resolve(context: Any, func: Any, args: Any, kws: Any) -> Any:
        found.append((getattr(func, "typing_key", func), *args))
        return real(context, func, args, kws)

    monkeypatch.setattr(Context, "resolve_function_type", resolve)
    return found


def test_numba_is_asked_once_for_an_operator_on_two_types(
    asked: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    @inner()
    def three(first: Any, second: Any) -> Any:
        return first + second + (second + first) + first + 1.5 * second

    @inner()
    def four(first: Any, second: Any) -> Any:
        return three(first, second) + (first + second)

    @njit
    def kernel(first: Any, second: Any) -> Any:
        return four(first, second)

    monkeypatch.setitem(vars(kernel.typingctx), _NAME, {})
    assert kernel(2, 3.5) == (2 + 3.5) * 2 + 2 + 1.5 * 3.5 + 5.5
    additions = [one[1:] for one in asked if one[0] is operator.add and types.int64 in one]
    assert additions.count((types.int64, types.float64)) == 1
    assert additions.count((types.float64, types.int64)) == 1


def test_a_call_that_fits_nothing_is_numbas_error_each_time() -> None:
    @inner()
    def wrong(value: Any) -> Any:
        return value << 1.5

    @njit
    def kernel(value: Any) -> Any:
        return wrong(value)

    for _ in range(2):
        with pytest.raises(TypingError, match="lshift"):
            kernel(2)


def test_powers_keep_what_depends_on_the_exponent_itself() -> None:
    @inner()
    def powers(value: Any) -> Any:
        return value**2, value**-1, value**0.5

    @njit
    def kernel(value: Any) -> Any:
        return powers(value)

    assert kernel(4) == njit(lambda value: (value**2, value**-1, value**0.5))(4)
    assert typeof(kernel(4)[0]) == types.int64


def test_everything_else_is_shared_with_numbas_context() -> None:
    @njit
    def kernel() -> int:
        return 1

    context = kernel.typingctx
    resolved = Resolved(context)
    assert vars(resolved) is vars(context)
