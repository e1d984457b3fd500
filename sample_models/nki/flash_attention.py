"""Attention without the matrix of scores in memory: a running maximum and sum for each query."""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl


def _on_chip(shape: tuple[int, ...], dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


@nki.jit
def flash_attention(q: Any, k: Any, v: Any) -> Any:
    """softmax(q.T @ k) @ v of a head: q, k [depth, length], v [length, depth]; length is n * 128."""
    depth, length = q.shape
    out = nl.ndarray((length, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    for first in range(0, length, 128):
        queries = _on_chip((depth, 128))
        nisa.dma_copy(dst=queries, src=q[:, first : first + 128])
        highest, total, sums = _on_chip((128, 1)), _on_chip((128, 1)), _on_chip((128, depth))
        nisa.memset(dst=highest, value=-1e30)
        nisa.memset(dst=total, value=0.0)
        nisa.memset(dst=sums, value=0.0)
        for block in range(0, length, 128):
            keys, values = _on_chip((depth, 128)), _on_chip((128, depth))
            nisa.dma_copy(dst=keys, src=k[:, block : block + 128])
            nisa.dma_copy(dst=values, src=v[block : block + 128, :])
            scores = _on_chip((128, 128), buffer=nl.psum)
            nisa.nc_matmul(dst=scores, stationary=queries, moving=keys)

            # The new maximum, and what the old sums shrink by.
            here, above, shrink = _on_chip((128, 1)), _on_chip((128, 1)), _on_chip((128, 1))
            nisa.tensor_reduce(dst=here, op=nl.maximum, data=scores, axis=1)
            nisa.tensor_tensor(dst=above, data1=highest, data2=here, op=nl.maximum)
            nisa.tensor_tensor(dst=shrink, data1=highest, data2=above, op=nl.subtract)
            nisa.activation(dst=shrink, op=nl.exp, data=shrink)
            nisa.tensor_copy(dst=highest, src=above)
            nisa.tensor_scalar(dst=above, data=above, op0=nl.multiply, operand0=-1.0)

            powers, row_sum = _on_chip((128, 128)), _on_chip((128, 1))
            nisa.activation(dst=powers, op=nl.exp, data=scores, bias=above)
            nisa.tensor_reduce(dst=row_sum, op=nl.add, data=powers, axis=1)
            nisa.scalar_tensor_tensor(
                dst=total, data=total, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=row_sum
            )
            turned, weights = _on_chip((128, 128), buffer=nl.psum), _on_chip((128, 128))
            nisa.nc_transpose(dst=turned, data=powers)
            nisa.tensor_copy(dst=weights, src=turned)
            part = _on_chip((128, depth), buffer=nl.psum)
            nisa.nc_matmul(dst=part, stationary=weights, moving=values)
            nisa.scalar_tensor_tensor(
                dst=sums, data=sums, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=part
            )
        share, result = _on_chip((128, 1)), _on_chip((128, depth))
        nisa.reciprocal(dst=share, data=total)
        nisa.tensor_scalar(dst=result, data=sums, op0=nl.multiply, operand0=share)
        nisa.dma_copy(dst=out[first : first + 128, :], src=result)
    return out
