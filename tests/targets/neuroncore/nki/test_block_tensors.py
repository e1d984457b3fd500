"""Tensors with block dimensions: parts of them in helpers, and products that whole masks leave out."""

import numpy as np
import pytest

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import FIRST, loaded, ran, random

_PARTS = (
    FIRST
    + """
def filled(tiles, x, count):
    assert tiles.shape == (count, 128, 64) and tiles.ndim == 3
    for n in nl.affine_range(count):
        tiles[n, :, :] = nl.load(x[n])

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray((2, 3, nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.sbuf)
    for half in nl.affine_range(2):
        filled(tiles[half], x[half], 3)
    for n in nl.affine_range(3):
        nl.store(out[0, n], tiles[-1][n] + tiles[0, n])
        nl.store(out[1, n], tiles[0][n, :, :] - tiles[1, n, 0:128, 0:64])
    return out
"""
)


def test_the_first_indices_of_blocks_leave_a_tensor_of_the_others(tmp_path) -> None:
    x = random(2, 3, 128, 64)
    found = ran(tmp_path, _PARTS, {"x": x})
    assert np.array_equal(found, np.stack([x[1] + x[0], x[0] - x[1]]))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("tiles[2]", r"err_tensor_access_out_of_bound: block \[2\] of a tensor \[2, 3, 128, 64\]"),
        ("tiles[1][3]", r"err_tensor_access_out_of_bound: block \[3\] of a tensor \[3, 128, 64\]"),
        ("tiles[0:1]", r"err_failed_to_infer_tile_from_local_tensor: tiles \[2, 3, 128, 64\]: the first 2"),
        (
            "tiles[1] = 0.0",
            r"err_failed_to_infer_tile_from_local_tensor: tiles \[2, 3, 128, 64\]: the first 2",
        ),
    ],
)
def test_what_is_no_block_is_told(tmp_path, code, error) -> None:
    text = _PARTS.replace("    for half in", f"    {code}\n    for half in")
    with pytest.raises(KernelError, match=r"kernel.py:\d+: " + error):
        loaded(tmp_path, text, {"x": random(2, 3, 128, 64)})


_PRODUCTS = (
    FIRST
    + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((3, 128, 64), dtype=np.float32, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    for row in nl.static_range(3):
        total = nl.zeros((nl.par_dim(128), 64), dtype=np.float32, buffer=nl.psum)
        for turn in nl.static_range(3):
            turned = nisa.nc_transpose(left, mask=row >= turn)
            total[...] += nisa.nc_matmul(turned, right, mask=row >= turn)
        nl.store(out[row], total)
    return out
"""
)


def test_a_product_that_a_mask_leaves_out_adds_nothing(tmp_path) -> None:
    """Its stationary tile comes from nc_transpose at once, which lies in PSUM."""
    a, b = random(128, 128), random(128, 64, seed=1)
    found = ran(tmp_path, _PRODUCTS, {"a": a, "b": b})
    expected = np.stack([a.astype(np.float64) @ b * (row + 1) for row in range(3)])
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_tile_that_the_kernel_has_put_into_psum_is_no_operand(tmp_path) -> None:
    text = _PRODUCTS.replace(
        "turned = nisa",
        "turned = nl.ndarray((nl.par_dim(128), 128), dtype=np.float32, buffer=nl.psum)\n"
        "            turned[...] = nisa",
    )
    with pytest.raises(
        KernelError, match=r"err_unsupported_memory: nc_matmul stationary: psum tensor turned"
    ):
        loaded(tmp_path, text, {"a": random(128, 128), "b": random(128, 64)})
