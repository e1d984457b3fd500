# What kernels of generation 2 may name without importing it, and the classes that they declare.
import numpy as np
import pytest

from npuviz.base.errors import NpuvizError
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, ran, random

MEMORIES = """
def copied(a):
    tile = sbuf.view(dtype=a.dtype, shape=a.shape)
    nisa.dma_copy(dst=tile, src=a)
    return tile

@nki.jit
def kernel(a, b):
    c = sbuf.view(dtype=a.dtype, shape=a.shape)
    nisa.tensor_tensor(dst=c, data1=copied(a), data2=copied(b), op=nl.add)
    out = hbm.view(dtype=a.dtype, shape=a.shape)
    nisa.dma_copy(dst=out, src=c)
    return out
"""


def test_memories_have_names_in_kernels_of_generation_2(tmp_path) -> None:
    a, b = random(64, 32), random(64, 32, seed=1)
    assert (ran(tmp_path, SECOND + MEMORIES, {"a": a, "b": b}) == a + b).all()
    with pytest.raises(NameError):
        sbuf  # type: ignore[name-defined]  # noqa: B018, F821


def test_generation_1_and_names_of_the_file_stay_as_they_are(tmp_path) -> None:
    with pytest.raises(NpuvizError, match=r"kernel\.py:\d+.*'sbuf' is not defined"):
        ran(tmp_path, FIRST + MEMORIES, {"a": random(64, 32), "b": random(64, 32)})
    own = SECOND + "class sbuf:\n    view = staticmethod(lambda dtype, shape: 1 / 0)\n" + MEMORIES
    with pytest.raises(NpuvizError, match="division by zero"):
        ran(tmp_path, own, {"a": random(64, 32), "b": random(64, 32)})


@pytest.mark.parametrize("decorator", ["@dataclass\n", ""])
def test_a_field_without_a_value_is_none(tmp_path, decorator) -> None:
    text = f"""{SECOND}
from dataclasses import dataclass

{decorator}class Sizes(nl.NKIObject):
    rows: int
    unused: int
    columns: int
    factor: float = 3.0
    doubled = 0

    def __post_init__(self):
        self.doubled = 2 * self.rows

@nki.jit
def kernel(x):
    sizes = Sizes(rows=64, columns=32)
    assert sizes.unused is None and sizes.doubled == 128
    tile = nl.ndarray((sizes.rows, sizes.columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=sizes.factor)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
    x = random(64, 32)
    assert np.allclose(ran(tmp_path, text, {"x": x}), 3 * x)


@pytest.mark.parametrize("header", [SECOND, FIRST])
def test_ranges_are_subscripts_of_generation_2(tmp_path, header) -> None:
    text = f"""{header}
@nki.jit
def kernel(x):
    rows, columns = nl.affine_range(4, 100), range(0, 30, 2)
    out = nl.ndarray((96, 15), dtype=x.dtype, buffer=nl.shared_hbm)
    assert len(rows) == 96
    nl.store(out, nl.load(x[rows, columns]))
    return out
"""
    x = random(100, 32)
    if header == FIRST:
        with pytest.raises(NpuvizError, match=r"kernel\.py:\d+: an index is made of"):
            ran(tmp_path, text, {"x": x})
    else:
        assert (ran(tmp_path, text, {"x": x}) == x[4:100, 0:30:2]).all()


@pytest.mark.parametrize("value", ["10**400", "-(10**40)", "1e300"])
def test_numbers_that_float32_does_not_hold_are_named_with_their_line(tmp_path, value) -> None:
    text = (
        FIRST
        + f"""
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.minimum(nl.load(x) * 1e37, {value}))
    return out
"""
    )
    with pytest.raises(NpuvizError, match=r"kernel\.py:10: a number of .*: operands are of float32"):
        ran(tmp_path, text, {"x": random(8, 8)})
    x = random(8, 8)
    assert (ran(tmp_path, text.replace(value, "float('inf')"), {"x": x}) == x * np.float32(1e37)).all()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("nl.sqrt(4 * 1.0)", "err_unsupported_memory: nl.sqrt: activation data: expected a tile, found 4.0"),
        ("nl.softmax(2.0, axis=1)", "err_unsupported_memory: nl.softmax: .* expected a tile, found 2.0"),
        ("nl.multiply(2, 3)", "nl.multiply: an operation on tiles has no tile among its operands"),
        ("nl.add(a, a)", "err_unsupported_memory: add: hbm tensor a .* load it first"),
    ],
)
@pytest.mark.parametrize("head", [FIRST, SECOND])
def test_an_error_about_an_operand_names_the_function_that_the_kernel_calls(
    tmp_path, head: str, call: str, told: str
) -> None:
    text = f"{head}@nki.jit\ndef kernel(a):\n    t = {call}\n    return a\n"
    with pytest.raises(NpuvizError, match=rf"kernel\.py:\d+: {told}"):
        loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
