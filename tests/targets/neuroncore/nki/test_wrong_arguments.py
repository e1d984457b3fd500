"""What functions do not take ends with one line that names the function.

Wrong kinds of values stand in place of each argument of the calls that `benchmarks.nki_calls` knows.
"""

import ast
import random
import re
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks.nki_calls import CALLS, HEADS
from benchmarks.nki_documented import Function, documented
from npuviz.base.errors import NpuvizError
from npuviz.base.progress import NoProgress
from npuviz.targets.neuroncore.nki.kernel import Kernel, lower_traced, trace_on
from npuviz.targets.neuroncore.nki.record.errors import KernelError, OutOfBounds
from npuviz.targets.neuroncore.nki.user_python import imported, stand_ins
from npuviz.targets.neuroncore.spec import make_spec
from tests.sweeps import quick
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded

WRONG = (
    *("None", "'x'", "-1", "0", "3.5", "True", "[]", "()", "{}", "np.zeros((3, 3), np.float32)", "x", "out"),
    *("c", "a[0:64]", "n", "h", "lambda: 0", "nl", "1 << 40", "float('nan')", "'float99'", "object()"),
    *("nl.add", "[1, 2]", "(0, 1)"),
)
FIRST_ALONE = ("i_p", "i_p < 4", "nl.ndarray((4, nl.par_dim(128), 64), dtype=nl.float32)")
CASES = 90


def _line(function: Function, rng: random.Random) -> tuple[str, str] | None:
    """A machine and a call with one wrong argument; None where no call of the function is known."""
    known = CALLS.get((function.generation, function.name)) or CALLS.get((0, function.name), "")
    machine, _, text = known.rpartition("@ ")
    tree = ast.parse(text.replace("; ", "\n"))
    calls = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") == function.name
    ]
    if not calls:
        return None
    call = calls[0]
    kinds = WRONG if function.generation == 2 else WRONG + FIRST_ALONE
    value = ast.parse(rng.choice(kinds), mode="eval").body
    given = {each.arg for each in call.keywords} | set(function.parameters[: len(call.args)])
    absent = [each for each in function.parameters if each not in given]
    at = rng.randrange(len(call.args) + len(call.keywords) + len(absent) or 1)
    if at < len(call.args):
        call.args[at] = value
    elif at < len(call.args) + len(call.keywords):
        call.keywords[at - len(call.args)].value = value
    elif absent:
        call.keywords.append(ast.keyword(absent[at - len(call.args) - len(call.keywords)], value))
    return machine.strip(), ast.unparse(tree)


def _drawn(seed: int) -> Iterator[tuple[Function, str, str]]:
    rng = random.Random(seed)
    functions = documented()
    for _ in range(CASES):
        function = rng.choice(functions)
        found = _line(function, rng)
        if found is not None:
            yield function, *found


@quick("0", "1")
@pytest.mark.parametrize("seed", range(40))
def test_wrong_arguments_end_with_one_line(tmp_path, seed) -> None:
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    arrays = (x, x.astype(ml_dtypes.bfloat16), (x * 10).astype(np.int32))
    path = tmp_path / "kernel.py"
    said = [
        (line, _what_it_says(path, function, machine, line, arrays))
        for function, machine, line in _drawn(seed)
    ]
    wrong = [(line, text) for line, text in said if text and not re.fullmatch(r"kernel.py:\d+: .*", text)]
    assert not wrong
    assert sum(bool(text) for _, text in said) > CASES // 4


def _what_it_says(path: Path, function: Function, machine: str, line: str, arrays: tuple[Any, ...]) -> str:
    """The error of a kernel with this line, "" where there is none, or one of Python at the line itself."""
    path.write_text(HEADS[function.generation].replace("CALL", line.replace("\n", "\n    ")))
    spec = make_spec("trn2" if machine.isdigit() or not machine else machine, None, {})[0]
    try:
        with stand_ins(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel: Kernel = imported(path).kernel
            made = kernel[int(machine)] if machine.isdigit() else kernel
            lower_traced(trace_on(made, arrays, {}, spec), spec, NoProgress())
    except OutOfBounds:
        return ""
    except NpuvizError as error:
        return str(error)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "" if last.filename == str(path) else f"{last.filename}:{last.lineno}: {error!r}"
    return ""


@pytest.mark.parametrize(
    ("head", "line", "message"),
    [
        (
            FIRST,
            "nl.where(None, t, t)",
            r"err_unsupported_memory: nl.where condition: expected a tile, found None",
        ),
        (FIRST, "nl.sum(t, axis=1.5)", r"nl.sum does not take x=sbuf tensor t .*axis=1.5"),
        (FIRST, "nl.exp()", r"nl.exp: missing a required argument: 'x'; its parameters are x, dtype, mask"),
        (FIRST, "t.reshape(nl.arange(4))", r"tensor.reshape does not take .*sizes_or_shape=\(index"),
        (SECOND, "nisa.iota(dst=t, pattern=7)", r"nisa.iota does not take dst=sbuf tensor t .*pattern=7"),
        (
            SECOND,
            "nisa.tensor_copy(t, t, to=1)",
            r"nisa.tensor_copy: got an unexpected keyword argument 'to'",
        ),
        (SECOND, "nl.zeros(t, nl.float32)", r"nl.zeros does not take shape=sbuf tensor t"),
        (SECOND, "t.rearrange(1, 2)", r"tensor.rearrange does not take .*src_pattern=1, dst_pattern=2"),
        (SECOND, "nl.fori_loop(0, 2, lambda i: 1 // 0)", r"ZeroDivisionError"),
        (SECOND, "t.as_tile", r"undocumented: tensor.as_tile is not in the public documentation of NKI"),
        (SECOND, "t.as_tile()", r"undocumented: tensor.as_tile "),
        (SECOND, "nisa.nothing(t)", r"undocumented: nisa.nothing "),
        (FIRST, "nl.nothing(t)", r"undocumented: nl.nothing "),
        (FIRST, "nl.arange(4).T", r"undocumented: T of an index tensor "),
    ],
)
def test_a_wrong_call_is_named_with_its_line(tmp_path, head, line, message) -> None:
    text = f"{head}\n@nki.jit\ndef kernel(a):\n    t = nl.load(a)\n    {line}\n    return t\n"
    with pytest.raises(KernelError, match=rf"^kernel.py:{len(text.splitlines()) - 1}: {message}") as caught:
        loaded(tmp_path, text, {}, **{"shape.a": "8x4"})
    assert "\n" not in str(caught.value)


def test_names_that_are_not_documented_are_not_there_for_who_asks(tmp_path) -> None:
    text = f"{FIRST}\n@nki.jit\ndef kernel(a):\n    t = nl.load(a)\n"
    text += "    assert not hasattr(t, 'as_tile') and not hasattr(nl, 'nothing')\n"
    text += "    assert getattr(t, 'as_tile', 3) == 3\n    return t\n"
    loaded(tmp_path, text, {}, **{"shape.a": "8x4"})
