"""Finds whether Resize in mode nearest repeats each position equally often."""

import numpy as np

from npuviz.onnx.semantics.attributes import Attributes
from npuviz.program.graph import Node

_SIZES_OPSET = 11
"""The first operator set in which Resize has rounding modes; before, it rounds down, as Upsample does."""


def repeats_evenly(attributes: Attributes, node: Node, size: int, factor: int) -> bool:
    """Return whether every output o of an axis of `size` positions is the input o // factor, in mode
    nearest."""
    out = np.arange(size * factor, dtype=np.float64)
    if node.op_type == "Upsample" or node.opset < _SIZES_OPSET:
        place = out / factor
        rounding = "floor"
    else:
        kind = attributes.text("coordinate_transformation_mode")
        rounding = attributes.text("nearest_mode")
        if kind == "align_corners":
            place = out * (size - 1) / max(1, size * factor - 1)
        elif kind in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
            place = (out + 0.5) / factor - 0.5
        elif kind == "asymmetric":
            place = out / factor
        else:
            return False
    whole_place = {
        "floor": np.floor(place),
        "ceil": np.ceil(place),
        "round_prefer_floor": np.ceil(place - 0.5),
        "round_prefer_ceil": np.floor(place + 0.5),
    }.get(rounding)
    return whole_place is not None and bool(np.all(np.clip(whole_place, 0, size - 1) == out // factor))
