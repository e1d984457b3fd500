"""Names that mean a value everywhere: the directions of a router."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import Scalar, Value
from npuviz.targets.wavelet.kernels import isa

PREDEFINED_VALUES: dict[str, Value] = {
    "RAMP": Scalar(t.DIRECTION, isa.PORT_RAMP),
    "NORTH": Scalar(t.DIRECTION, isa.PORT_NORTH),
    "EAST": Scalar(t.DIRECTION, isa.PORT_EAST),
    "SOUTH": Scalar(t.DIRECTION, isa.PORT_SOUTH),
    "WEST": Scalar(t.DIRECTION, isa.PORT_WEST),
}
"""Name -> value; a direction's number is its port."""
