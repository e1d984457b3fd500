"""Tiles that do not fit wait in HBM, also where a hidden tile needs room."""

import numpy as np

from tests.targets.neuroncore.nki.running import FIRST, loaded, outputs_of, random

_FULL = (
    FIRST
    + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 512), dtype=np.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((128, 1), dtype=np.float32, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    tiles = [nl.ndarray((nl.par_dim(128), SIZE), dtype=np.float32, buffer=nl.sbuf) for n in range(COUNT)]
    total = nl.zeros((nl.par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf)
    tiles[0][...] = nisa.memset((128, SIZE), 1.0, np.float32)
    for n, tile in enumerate(tiles):
        if n:
            tile[...] = nisa.tensor_scalar(tiles[n - 1], nl.add, total)
        total[...] = nl.add(total, nl.max(tile, axis=1, keepdims=True))
    left[...] = nisa.tensor_scalar(left, nl.add, nl.multiply(total, 0.0))
    nl.store(out, nisa.nc_matmul(left, right))  # by way of SBUF, which is full
    for tile in (*tiles[::-1], right):
        total[...] = nl.add(total, nl.min(tile, axis=1, keepdims=True))
    nl.store(sums, total)
    return out, sums
"""
)


def test_a_store_from_psum_finds_room_in_a_full_sbuf(tmp_path) -> None:
    a, b = random(128, 128), random(128, 512, seed=1)
    text = _FULL.replace("SIZE", "8080").replace("COUNT", "7")
    spec, program = loaded(tmp_path, text, {"a": a, "b": b})
    out, sums = outputs_of(spec, program)
    assert np.allclose(out, a.T.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    # Each tile is the one before it and the sum of all before it.
    tiles, total = [1.0], 1.0
    for _ in range(6):
        tiles.append(tiles[-1] + total)
        total += tiles[-1]
    assert np.allclose(sums, 2.0 * total + b.min(axis=1, keepdims=True), rtol=1e-5)
    assert "spilled" in [note.code for note in program.notes]
