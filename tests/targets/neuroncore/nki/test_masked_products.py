# nc_matmul with a mask: columns that it leaves out are neither read nor written.
import numpy as np
import pytest

from npuviz.base.errors import NpuvizError
from tests.targets.neuroncore.nki.running import FIRST, ran, random

KERNEL = (
    FIRST
    + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((3, 64, 512), dtype=np.float32, buffer=nl.shared_hbm)
    column = nl.arange(256)[None, :]
    stationary = nl.load(a)
    sums = nl.zeros((3, 2, nl.par_dim(64), 256), dtype=np.float32, buffer=nl.psum)
    rows = nl.arange(64)[:, None]
    for i in nl.affine_range(3):
        for j in nl.affine_range(2):
            inside = 511 - 256 * i - 256 * j - column + 88 >= 0
            for _ in nl.affine_range(2):
                moving = nl.load(b[nl.arange(128)[:, None], 256 * i + 256 * j + column], mask=inside)
                product = nisa.nc_matmul(stationary, moving, mask=inside)
                sums[i, j, rows, column] += product
            nl.store(out[i, rows, 256 * j + column], nl.copy(sums[i, j, rows, column]))
    return out
"""
)


def test_columns_of_a_mask_accumulate(tmp_path) -> None:
    a, b = random(128, 64), random(128, 600, seed=1)
    product = 2 * np.pad(a.T @ b, ((0, 0), (0, 424)))
    wanted = np.stack([product[:, 256 * i : 256 * i + 512] for i in range(3)])
    assert np.allclose(ran(tmp_path, KERNEL, {"a": a, "b": b}), wanted, atol=1e-3)


def test_columns_of_a_mask_accumulate_in_psum(tmp_path) -> None:
    a, b = random(128, 64), random(128, 600, seed=1)
    added = "sums[i, j, rows, column] += "
    text = KERNEL.replace("product = ", added).replace(f"                {added}product\n", "")
    assert text.count("+=") == 1
    assert (ran(tmp_path, text, {"a": a, "b": b}) == ran(tmp_path, KERNEL, {"a": a, "b": b})).all()


@pytest.mark.parametrize("count", [32, 128])
def test_a_mask_of_partitions_is_taken_only_if_it_leaves_all(tmp_path, count: int) -> None:
    a, b = random(128, 64), random(128, 600, seed=1)
    text = KERNEL.replace("moving, mask=inside", f"moving, mask=inside & (nl.arange(128)[:, None] < {count})")
    if count < 128:
        with pytest.raises(NpuvizError, match="nc_matmul with a mask of partitions"):
            ran(tmp_path, text, {"a": a, "b": b})
    else:
        assert (ran(tmp_path, text, {"a": a, "b": b}) == ran(tmp_path, KERNEL, {"a": a, "b": b})).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("mask", "turns"),
    [("i < 2", (0, 1)), ("i >= 3", ()), ("i < 9", (0, 1, 2)), ("True", (0, 1, 2)), ("False", ())],
)
def test_nl_matmul_with_a_mask_of_all_or_nothing(
    tmp_path, mask: str, turns: tuple[int, ...], transposed: bool
) -> None:
    x, y = random(3, 64, 64), random(64, 96, seed=1)
    text = (
        FIRST
        + f"""
@nki.jit
def kernel(x, y):
    out = nl.ndarray((64, 96), dtype=np.float32, buffer=nl.shared_hbm)
    other = nl.load(y)
    total = nl.zeros((64, 96), dtype=np.float32, buffer=nl.psum)
    for i in nl.affine_range(3):
        total += nl.matmul(nl.load(x[i]), other, transpose_x={transposed}, mask=({mask}))
    nl.store(out, nl.copy(total))
    return out
"""
    )
    wanted = sum(((x[i].T if transposed else x[i]) @ y for i in turns), np.zeros((64, 96), np.float32))
    assert np.allclose(ran(tmp_path, text, {"x": x, "y": y}), wanted, atol=1e-3)


def test_nl_matmul_with_a_mask_of_columns(tmp_path) -> None:
    x, y = random(64, 32), random(64, 96, seed=1)
    text = (
        FIRST
        + """
@nki.jit
def kernel(x, y):
    out = nl.ndarray((32, 96), dtype=np.float32, buffer=nl.shared_hbm)
    column = nl.arange(96)[None, :]
    total = nl.zeros((32, 96), dtype=np.float32, buffer=nl.psum)
    for limit in (40, 96):
        total += nl.matmul(nl.load(x), nl.load(y), transpose_x=True, mask=column < limit)
    nl.store(out, nl.copy(total))
    return out
"""
    )
    wanted = x.T @ y * np.where(np.arange(96) < 40, 2, 1)
    assert np.allclose(ran(tmp_path, text, {"x": x, "y": y}), wanted, atol=1e-3)
    with pytest.raises(NpuvizError, match="nc_matmul with a mask of partitions"):
        ran(tmp_path, text.replace("column <", "nl.arange(32)[:, None] * 4 <"), {"x": x, "y": y})
