"""Convert from one scale of numbers to another by stages of the DPU: int8 to int8, int8 to fp16, fp16 to
int8."""

from npuviz.targets.rk3588.compiler.dpu import Stages, requantisation
from npuviz.targets.rk3588.compiler.quantisation import Quantisation


def rescaling(taken: Quantisation | None, out: Quantisation | None) -> Stages | None:
    """Return the stages that an int8 layer needs if its input and output are scaled differently, else
    None."""
    if taken is None or out is None or taken == out:
        return None
    end = requantisation(taken.scale / out.scale, out.zero_point)
    return Stages(bias_constant=-taken.zero_point, out=end)


def to_halves(taken: Quantisation | None) -> Stages:
    """Return the stages that make int8 real numbers: the zero point is subtracted, OUT_CVT multiplies by the
    scale."""
    if taken is None:
        return Stages()
    return Stages(bias_constant=-taken.zero_point, out=requantisation(taken.scale))


def to_integers(out: Quantisation | None) -> Stages:
    """Return the stages that make real numbers int8: OUT_CVT divides by the scale, rounds, adds the zero
    point, saturates."""
    return Stages() if out is None else Stages(out=requantisation(1 / out.scale, out.zero_point))
