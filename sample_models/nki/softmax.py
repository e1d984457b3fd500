"""Softmax of rows, in the first generation of NKI: masks take care of the last rows."""

from typing import Any

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def softmax(x: Any) -> Any:
    """exp(x) / sum(exp(x)) along the rows of [rows, columns]."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(128)[:, None]
    column = nl.arange(columns)[None, :]
    for block in nl.affine_range((rows + 127) // 128):
        inside = block * 128 + row < rows
        tile = nl.load(x[block * 128 + row, column], mask=inside)
        lowest = nisa.tensor_reduce(nl.max, tile, axis=1, negate=True, keepdims=True, mask=inside)
        powers = nisa.activation(nl.exp, tile, bias=lowest, mask=inside)
        total = nl.sum(powers, axis=1, keepdims=True, mask=inside)
        share = nl.multiply(powers, nl.reciprocal(total, mask=inside), mask=inside)
        nl.store(out[block * 128 + row, column], share, mask=inside)
    return out
