"""From one scale of numbers to another, as stages of the DPU: int8 to int8, int8 to fp16, fp16 to int8."""

from npuviz.targets.rk3588.compiler.dpu import Stages, requantisation
from npuviz.targets.rk3588.compiler.quantisation import Quantisation


def rescaling(taken: Quantisation | None, out: Quantisation | None) -> Stages | None:
    """What a task must do where input and output of an int8 layer are scaled differently."""
    if taken is None or out is None or taken == out:
        return None
    end = requantisation(taken.scale / out.scale, out.zero_point)
    return Stages(bias_constant=-taken.zero_point, out=end)


def to_halves(taken: Quantisation | None) -> Stages:
    """int8 as real numbers: the zero point is taken off, OUT_CVT multiplies by the scale."""
    if taken is None:
        return Stages()
    return Stages(bias_constant=-taken.zero_point, out=requantisation(taken.scale))


def to_integers(out: Quantisation | None) -> Stages:
    """Real numbers as int8: OUT_CVT divides by the scale, rounds, adds the zero point and saturates."""
    return Stages() if out is None else Stages(out=requantisation(1 / out.scale, out.zero_point))
