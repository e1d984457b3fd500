"""Plan the random number generators of Vector and GpSimd."""

import numpy as np

from npuviz.targets.neuroncore.isa import DST
from npuviz.targets.neuroncore.values.element_types import INTEGERS
from npuviz.targets.neuroncore.values.memory import ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Plan


def rng(build: Build) -> Plan:
    """Plan DST = random bits, the same for equal imm0 and imm1. Assumed: the vendor's algorithm is not
    public.
    """
    target = build.target(DST)
    if target.dtype not in INTEGERS:
        raise ValueFault("RNG gives bits to a tile of integers")
    view, key = target.view, (build.ins.bits[0] & 0xFFFFFFFF, build.ins.bits[1] & 0xFFFFFFFF)

    def run() -> None:
        drawn = np.random.Generator(np.random.Philox(key=key[0] << 32 | key[1]))
        bits = drawn.integers(0, 1 << 32, view.shape, np.uint32, endpoint=False)
        np.copyto(view, bits.astype(view.dtype))

    return build.finish(run)
