# What functions of nl and nisa compute: masks, names and signatures.
import numpy as np
import pytest

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, outputs_of, ran, random


def test_masks_that_cut_a_tile_along_a_diagonal_are_several_instructions(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(x, y):
    tail = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    lower = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    ip, ix = nl.arange(4)[:, None], nl.arange(8)[None, :]
    tile = nl.zeros((4, 8), dtype=x.dtype)
    tile[...] = nl.load(x[ip * 8 + ix], mask=ip * 8 + ix < 21)
    nl.store(tail, tile)
    part = nl.full((4, 8), 7.0, dtype=x.dtype)
    part[...] = nl.multiply(nl.load(y), 2.0, mask=ip >= ix)
    nl.store(lower, part)
    return tail, lower
"""
    )
    x, y = random(21), random(4, 8)
    tail, lower = outputs_of(*loaded(tmp_path, text, {"x": x, "y": y}))
    assert np.array_equal(tail.reshape(-1), np.append(x, np.zeros(11, np.float32)))
    triangle = np.arange(4)[:, None] >= np.arange(8)[None, :]
    assert np.array_equal(lower, np.where(triangle, 2 * y, np.float32(7)))


def test_what_a_mask_without_elements_leaves_is_not_assigned(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    ix = nl.arange(8)[None, :]
    tile = nl.full((4, 8), 3.0, dtype=x.dtype)
    doubled = nl.multiply(nl.load(x), 2.0)
    tile[...] = nl.add(doubled, 5.0, mask=ix >= 8)
    tile[...] = nl.load(x, mask=ix >= 8)
    nl.store(out, doubled)
    nl.store(kept, tile)
    return out, kept
"""
    )
    x = random(4, 8)
    out, kept = outputs_of(*loaded(tmp_path, text, {"x": x}))
    assert np.array_equal(out, 2 * x)
    assert np.all(kept == 3)


def test_names_and_signatures_of_generation_2_are_the_documented_ones(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
    assert nl.is_hbm(out.buffer) and nl.is_on_chip(nl.sbuf) and nl.is_psum(nl.psum) and a.is_contiguous()
    tile = nl.load(a, nl.float32)
    zeros = nl.zeros_like(x=tile)
    halved = tile.rearrange(("p", ("h", "w")), ("p", "w", "h"), {"h": 4})
    assert halved.shape == (4, 6, 4) and not halved.is_contiguous()
    total = nl.sum(halved, 1, nl.float32, False)
    nl.fori_loop(0, 2, body_fun=lambda i: nisa.tensor_copy(dst=zeros[:, 0:4], src=total))
    nl.store(out, nl.add(nl.copy(x=zeros[:, 0:4]), 1.0, nl.float32))
    return out
"""
    )
    a = random(4, 24)
    assert np.allclose(ran(tmp_path, text, {"a": a}), a.reshape(4, 4, 6).sum(2) + 1, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("imm0=2.0, imm1=0.5, op0=nl.multiply, op1=nl.add", lambda x: 2 * x + 0.5),
        ("imm0=2.0, imm1=0.5, op0=nl.multiply, op1=nl.subtract, reverse1=True", lambda x: 0.5 - 2 * x),
        ("imm0=2.0, imm1=0.0, op0=nl.subtract, op1=nl.bypass", lambda x: x - 2),
        ("imm0=2.0, imm1=0.0, op0=nl.bypass, op1=nl.bypass", lambda x: x),
    ],
)
def test_activate2(tmp_path, call, wanted) -> None:
    text = (
        SECOND
        + f"""
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nisa.activate2(dst=tile, op=nl.tanh, data=tile, {call})
    nl.store(out, tile)
    return out
"""
    )
    a = random(4, 8)
    assert np.allclose(ran(tmp_path, text, {"a": a}, preset="trn3"), np.tanh(wanted(a)), atol=1e-5)


def test_a_tile_of_psum_is_repeated_as_often_as_a_tile_of_sbuf(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    column = nl.ndarray((4, 512, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.tensor_copy(dst=column.reshape(shape=(4, 512)), src=nl.load(b))
    nisa.tensor_tensor(dst=tile, data1=tile, data2=column.broadcast(2, 24), op=nl.subtract)
    nl.store(out, tile)
    return out
"""
    )
    a, b = random(4, 512, 24), random(4, 512)
    assert np.array_equal(ran(tmp_path, text, {"a": a, "b": b}), a - b[:, :, None])


def test_a_constant_is_an_array_or_a_file_of_one(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a, path):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(nl.shared_constant(path))))
    return out
"""
    )
    a, b = random(4, 8), random(4, 8, seed=1)
    np.save(tmp_path / "b.npy", b)
    assert np.array_equal(ran(tmp_path, text, {"a": a}, path=str(tmp_path / "b.npy")), a + b)
    with pytest.raises(KernelError, match=r"kernel.py:9: nl.shared_constant '.*none.npy': no .npy file"):
        ran(tmp_path, text, {"a": a}, path=str(tmp_path / "none.npy"))
