"""Functions that only kernels call: compiled with the kernels, not each by itself."""

from typing import Any

import numpy as np
import pytest
from numba import int64, njit
from numba.core import codegen

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner

pytestmark = pytest.mark.skipif(entries.is_plain, reason="nothing is compiled")

CPUCodeLibrary: Any = codegen.CPUCodeLibrary


def _chain(*, last_calls_twice: bool = False) -> Any:
    """A kernel that calls through three functions: 2 * (words[0] + 1), as often as there are words."""

    @inner()
    def plus_one(value: Any) -> Any:
        return value + 1

    @inner(forceinline=True)
    def doubled(words: Any, place: int) -> int:
        words[place] = 2 * plus_one(words[place])
        return words[place]

    @inner(error_model="numpy")
    def again(words: Any, place: int) -> int:
        if last_calls_twice:
            return doubled(words, place) + plus_one(words[place])
        return doubled(words, place)

    @njit
    def kernel(words: Any) -> Any:
        total = int64(0)
        for place in range(words.size):
            total += again(words, place)
        return total

    return kernel, (plus_one, doubled, again)


@pytest.mark.parametrize("twice", [False, True])
def test_values_are_those_of_python(twice: bool) -> None:
    kernel, _ = _chain(last_calls_twice=twice)
    words, same = np.arange(5), np.arange(5)
    assert kernel(words) == 2 * 15 + (35 if twice else 0)
    assert kernel(words[:0]) == 0
    assert np.array_equal(words, 2 * (same + 1))


def test_machine_code_of_a_chain_of_calls_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    optimised: list[str] = []
    optimise = CPUCodeLibrary._optimize_final_module
    monkeypatch.setattr(
        CPUCodeLibrary,
        "_optimize_final_module",
        lambda library: (optimised.append(library.name), optimise(library))[1],
    )
    kernel, parts = _chain()
    kernel(np.zeros(3, np.int64))
    assert [name.split(".")[-1] for name in optimised] == ["kernel"]
    engine = kernel.targetctx.codegen()._engine
    for part in parts:
        (overload,) = part.overloads.values()
        assert not engine.is_symbol_defined(overload.fndesc.llvm_func_name)


def test_two_kernels_share_a_function() -> None:
    @inner()
    def half(value: int) -> int:
        return value // 2

    @njit
    def first(value: int) -> int:
        return half(value) + 1

    @njit
    def second(value: int) -> int:
        return half(first(value))

    assert (first(10), second(10), second(31)) == (6, 3, 8)


def test_python_cannot_call_it() -> None:
    _, (plus_one, *_rest) = _chain()
    with pytest.raises(KeyError):
        plus_one(1)
    assert plus_one.py_func(1) == 2


def test_arrays_outside_are_constants() -> None:
    table = np.array([3, 5, 7])

    @inner()
    def at(place: int) -> Any:
        return table[place]

    @njit
    def kernel(place: int) -> Any:
        return at(place)

    assert [kernel(place) for place in range(3)] == [3, 5, 7]


def test_it_is_compiled_once_whatever_numbers_callers_write() -> None:
    @inner()
    def scaled(value: int, factors: tuple[int, int]) -> int:
        return value * factors[0] + factors[1]

    @inner()
    def between(value: int, by: int) -> int:
        return scaled(value, (by, 4)) + scaled(value, (2, by))

    @njit
    def kernel(value: int) -> Any:
        return between(value, 3) + between(3, value) + between(value, by=5) + scaled(7, (8, 9))

    assert kernel(10) == (34 + 23) + (34 + 16) + (54 + 25) + 65
    assert [len(function.overloads) for function in (scaled, between)] == [1, 1]


def test_callers_bring_no_code_of_what_they_call() -> None:
    kernel, parts = _chain(last_calls_twice=True)
    kernel(np.zeros(3, np.int64))
    for part in parts:
        (overload,) = part.overloads.values()
        functions = overload.library._final_module.functions
        defined = [function.name for function in functions if not function.is_declaration]
        assert defined == [overload.fndesc.llvm_func_name]


def test_what_only_a_deep_caller_needs_is_there() -> None:
    @inner()
    def long(words: Any, count: int) -> int:
        for place in range(1, words.size):
            words[place] = words[place - 1] * 3 // (words[place] + 7) + count % (place + words[0])
            words[place - 1] = words[place] * 5 // (words[place] + 3) + count % (place + words[0])
            words[place] = words[place - 1] * 7 // (words[place] + 5) + count % (place + words[0])
        return words[-1]

    @inner()
    def never(words: Any, count: int) -> int:
        return long(words, count) if count - count else count

    @inner()
    def always(words: Any, count: int) -> int:
        for place in range(1, words.size):
            words[place] = words[place - 1] * 3 // (words[place] + 7) + long(words, place)
            words[place - 1] = words[place] * 5 // (words[place] + 3) + long(words, count)
            words[place] = words[place - 1] * 7 // (words[place] + 5) + count % (place + words[0])
        return words[-1]

    @inner()
    def both(words: Any, count: int) -> int:
        return never(words, count) + always(words, count) + always(words, count + 1)

    @njit
    def kernel(words: Any, count: int) -> int:
        return both(words, count)

    kernel.compile((int64[::1], int64))
    library = kernel.overloads[int64[::1], int64].library
    functions = library._final_module.functions
    missing = [one.name for one in functions if one.is_declaration and "test_inner" in one.name]
    assert missing == []
    assert kernel(np.arange(1, 9), 5) > 0
