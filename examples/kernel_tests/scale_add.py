"""out = 2 * a + b, 128 rows at a time."""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def scale_add(a: Any, b: Any) -> Any:
    """2 * a + b of arrays [128 * n, columns]."""
    rows, columns = a.shape
    out = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    for first in range(0, rows, 128):
        x = nl.ndarray((128, columns), dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray((128, columns), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[first : first + 128, :])
        nisa.dma_copy(dst=y, src=b[first : first + 128, :])
        nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=out[first : first + 128, :], src=x)
    return out
