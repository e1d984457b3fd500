"""Products that are added to what something else than a product has put into PSUM.

# Ref: aws-neuron-sdk 81ce03ae, nki/api/nki/isa/__init__.py, nc_matmul, Accumulation mode: undefined on
# NeuronCore-v2 and v3; here such a product is added to what the tile holds
"""

from collections.abc import Iterator, Sequence

import numpy as np

from npuviz.targets.neuroncore.nki.record.steps import Step
from npuviz.targets.neuroncore.nki.record.sums import bytes_of
from npuviz.targets.neuroncore.nki.record.tensors import PSUM

UNDEFINED = "undefined-on-chip"
"""Name of the warnings of what has a value here and none that the documentation of the machine promises."""
_PRODUCTS = ("matmul", "matmul_mx", "transpose")


def sums_begun_by_others(steps: Sequence[Step]) -> Iterator[tuple[Step, Step]]:
    """Yield (a product that is added to elements, the last other step that wrote some of these).

    Zeros begin nothing: a product that is added to them and one that overwrites them are the same. Neither do
    steps of npuviz's own (`fills_rest`), which put back what lies beside zeros.
    # Ref: nki-autotune, kernel_library/matmul: memset of 0.0 before accumulating products, at 0.9 of the peak
    """
    marks: dict[int, np.ndarray] = {}
    writers: dict[int, Step] = {}
    for step in steps:
        target = step.target
        if target is None or target.buffer != PSUM:
            continue
        key = target.storage.id
        is_product = step.op in _PRODUCTS
        is_zero = step.op == "memset" and not step.values.get("value")
        begins = not (is_product or is_zero or step.values.get("fills_rest"))
        if begins:
            rows, columns = target.storage.shape
            marks.setdefault(key, np.zeros((rows, columns * target.storage.dtype.itemsize), np.bool_))
            writers[key] = step
        if key not in marks:
            continue
        part = bytes_of(marks[key], target)
        if part is None:
            continue
        if is_product and step.values.get("accumulate") and part.any():
            yield step, writers[key]
        part[...] = begins
