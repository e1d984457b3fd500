"""A product in tiles: one tile of the result after the other gathers its sum in PSUM."""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def matmul(a_transposed: Any, b: Any) -> Any:
    """a @ b of arrays whose sizes are multiples of 128, 128 and 512; a comes transposed, [K, M]."""
    depth, rows = a_transposed.shape
    _, columns = b.shape
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for row in range(0, rows, 128):
        for column in range(0, columns, 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, 128):
                x = nl.ndarray((128, 128), dtype=a_transposed.dtype, buffer=nl.sbuf)
                y = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=x, src=a_transposed[k : k + 128, row : row + 128])
                nisa.dma_copy(dst=y, src=b[k : k + 128, column : column + 512])
                nisa.nc_matmul(dst=total, stationary=x, moving=y)
            result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[row : row + 128, column : column + 512], src=result)
    return out
