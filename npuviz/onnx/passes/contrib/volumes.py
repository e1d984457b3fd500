"""Rewrites convolutions and pools over three dimensions as those over two: depths are channels.

A tensor (N, C, D, H, W) is, without moving an element, a picture (N, C * D, H, W). A convolution over it has
a kernel for each of its kernels at each depth, with zeros for the depths out of reach. A window of a pool is
the window over the plane, then one over depths.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer

MOST_WEIGHTS = 1 << 24
"""Most weights of such a convolution, zeros included."""
_OLDEST_OF_POOLS = 10
"""The first operator set in which Slice has lists as inputs, and MaxPool has ceil_mode."""


@dataclass(frozen=True)
class _Depths:
    """The first spatial axis of a window: sizes of both ends, taps, steps, padding."""

    size: int
    out: int
    taps: int
    stride: int
    dilation: int
    before: int

    def bands(self) -> np.ndarray:
        """Return which depth meets which tap: (depths made, taps), -1 for padding."""
        first = np.arange(self.out)[:, None] * self.stride - self.before
        places = first + np.arange(self.taps) * self.dilation
        return np.where((places >= 0) & (places < self.size), places, -1)


_LISTS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2}
"""Attribute -> numbers for each spatial axis."""


def spans_volume(node: NodeProto) -> bool:
    """Return whether an operator of `WRITERS` may have windows over three dimensions."""
    if node.op_type.startswith("Global"):
        return True
    ranks = [len(item.ints) // _LISTS[item.name] for item in node.attribute if item.name in _LISTS]
    # A Conv needs none of these: then its weights decide.
    return 3 in ranks or (not ranks and node.op_type == "Conv")


def write_volume_conv(writer: Writer, node: NodeProto) -> None:
    """Rewrite a Conv with constant weights over three dimensions."""
    source, weights = writer.given(0), writer.known(writer.given(1))
    shape, wanted, depths, others = _window(writer, node, weights.shape[2:])
    group = int(writer.attribute("group", 1))
    made, inner = weights.shape[:2]
    if weights.size // depths.taps * depths.size * depths.out > MOST_WEIGHTS:
        raise CannotWrite
    kernel = np.zeros((made, depths.out, inner, depths.size, *weights.shape[3:]), weights.dtype)
    for depth, places in enumerate(depths.bands()):
        for tap, place in enumerate(places):
            if place >= 0:
                kernel[:, depth, :, place] = weights[:, :, tap]
    flat = kernel.reshape(made * depths.out, inner * depths.size, *weights.shape[3:])
    inputs = [_picture(writer, source, shape), writer.constant("weights", flat)]
    if writer.given(2):
        bias = writer.known(writer.given(2))
        inputs.append(writer.constant("bias", np.repeat(bias, depths.out)))
    picture = writer.add("Conv", inputs, group=group, kernel_shape=flat.shape[2:], **others)
    writer.reshape(picture, wanted, writer.wanted(0))


def write_volume_pool(writer: Writer, node: NodeProto) -> None:
    """Rewrite a MaxPool or an AveragePool over three dimensions."""
    kernel = tuple(int(size) for size in writer.attribute("kernel_shape", ()))
    is_maximum = node.op_type == "MaxPool"
    if (len(node.output) > 1 and node.output[1]) or writer.opset < _OLDEST_OF_POOLS:
        raise CannotWrite
    shape, wanted, depths, others = _window(writer, node, kernel)
    is_partial = any(others["pads"]) or int(writer.attribute("ceil_mode", 0)) or (depths.bands() < 0).any()
    if not is_maximum and is_partial:
        # Means over fewer elements at the edges.
        raise CannotWrite
    if int(writer.attribute("ceil_mode", 0)):
        others["ceil_mode"] = 1
    picture = writer.add(
        node.op_type, [_picture(writer, writer.given(0), shape)], kernel_shape=kernel[1:], **others
    )
    parts = _parts(writer, picture, shape[1], depths)
    result = parts[0]
    for part in parts[1:]:
        result = writer.add("Max" if is_maximum else "Add", [result, part])
    if not is_maximum and len(parts) > 1:
        share = np.array(1 / len(parts), writer.dtype(writer.given(0)))
        result = writer.add("Mul", [result, writer.constant("share", share)])
    writer.reshape(result, wanted, writer.wanted(0))


def write_volume_mean(writer: Writer, node: NodeProto) -> None:
    """Rewrite a GlobalAveragePool or GlobalMaxPool over three dimensions or more."""
    shape = writer.shape(writer.given(0))
    if len(shape) < 5 or not prod(shape):
        raise CannotWrite
    picture = writer.reshape(writer.given(0), (*shape[:2], prod(shape[2:-1]), shape[-1]))
    made = writer.add(node.op_type, [picture])
    writer.reshape(made, (*shape[:2], *[1] * (len(shape) - 2)), writer.wanted(0))


def _window(
    writer: Writer, node: NodeProto, kernel: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], _Depths, dict[str, Any]]:
    """Return shapes of both ends, the window over depths, and attributes of that over the plane. Raises
    CannotWrite for windows over fewer or more dimensions."""
    shape, wanted = writer.shape(writer.given(0)), writer.shape(writer.wanted(0))
    if len(kernel) != 3 or len(shape) != 5 or not prod(shape) * prod(wanted):
        raise CannotWrite
    strides, dilations = (list(writer.attribute(name, [1] * 3)) for name in ("strides", "dilations"))
    pads = _pads(writer, kernel, strides, dilations)
    depths = _Depths(shape[2], wanted[2], kernel[0], strides[0], dilations[0], pads[0])
    others: dict[str, Any] = {"strides": strides[1:], "pads": [*pads[1:3], *pads[4:6]]}
    if node.op_type != "AveragePool":
        others["dilations"] = dilations[1:]
    return shape, wanted, depths, others


def _pads(
    writer: Writer, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Return the padding before and after each axis, also where the sizes of the result decide it."""
    automatic = writer.attribute("auto_pad", b"NOTSET")
    if automatic not in (b"SAME_UPPER", b"SAME_LOWER"):
        return [0] * 6 if automatic == b"VALID" else list(writer.attribute("pads", [0] * 6))
    sizes, made = writer.shape(writer.given(0))[2:], writer.shape(writer.wanted(0))[2:]
    axes = zip(sizes, made, kernel, strides, dilations, strict=True)
    total = [max(0, (out - 1) * step + (taps - 1) * far + 1 - size) for size, out, taps, step, far in axes]
    small, large = [size // 2 for size in total], [size - size // 2 for size in total]
    return [*small, *large] if automatic == b"SAME_UPPER" else [*large, *small]


def _picture(writer: Writer, name: str, shape: tuple[int, ...]) -> str:
    return writer.reshape(name, (shape[0], shape[1] * shape[2], *shape[3:]))


def _parts(writer: Writer, picture: str, channels: int, depths: _Depths) -> list[str]:
    """Return for each tap of the window over depths a picture with the depths that meet it.

    Depths of padding are the nearest that the window reaches, which changes no maximum.
    """
    bands = depths.bands()
    if not (bands >= 0).any(axis=1).all():
        raise CannotWrite
    reached = np.where(bands >= 0, bands, bands.max(axis=1, keepdims=True))
    found: list[str] = []
    for tap in range(depths.taps):
        places = (np.arange(channels)[:, None] * depths.size + reached[:, tap]).reshape(-1)
        found.append(_picked(writer, picture, places, f"tap{tap}", channels * depths.size))
    return found


def _picked(writer: Writer, picture: str, places: np.ndarray, name: str, size: int) -> str:
    """Pick channels: as a Slice where they are at even distances, else by Gather."""
    if np.array_equal(places, np.arange(size)):
        return picture
    steps = np.diff(places)
    if steps.size and steps[0] > 0 and np.all(steps == steps[0]):
        limits = {"starts": places[0], "ends": places[-1] + 1, "axes": 1, "steps": steps[0]}
        reads = [
            writer.constant(f"{name}_{key}", np.array([value], np.int64)) for key, value in limits.items()
        ]
        return writer.add("Slice", [picture, *reads])
    return writer.add("Gather", [picture, writer.constant(f"{name}_places", places.astype(np.int64))], axis=1)


WRITERS: Mapping[str, Callable[[Writer, NodeProto], None]] = {
    "AveragePool": write_volume_pool,
    "Conv": write_volume_conv,
    "GlobalAveragePool": write_volume_mean,
    "GlobalMaxPool": write_volume_mean,
    "MaxPool": write_volume_pool,
}
