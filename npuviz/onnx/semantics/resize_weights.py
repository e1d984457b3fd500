"""Compute one axis of a resize as a matrix: each result is a weighted sum of near sources.

Ref: ONNX Resize, versions 10 to 19.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import Attributes


@dataclass(frozen=True, slots=True)
class AxisResize:
    """The resizing of one axis.

    size, out  elements before and after;  scale  the given scale, or out / size
    mode       "nearest", "linear" or "cubic"
    coordinates, nearest  names in ONNX;  roi  first and last place, for tf_crop_and_resize
    """

    size: int
    out: int
    scale: float
    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    excludes_outside: bool = False
    is_antialiased: bool = False
    roi: tuple[float, float] = (0.0, 1.0)

    def places(self) -> np.ndarray:
        """Return the place of each result in the source, (out,) float64."""
        x = np.arange(self.out, dtype=np.float64)
        length = self.scale * self.size
        if self.coordinates == "half_pixel":
            return (x + 0.5) / self.scale - 0.5
        if self.coordinates == "pytorch_half_pixel":
            return (x + 0.5) / self.scale - 0.5 if self.out > 1 else x * 0.0
        if self.coordinates == "asymmetric":
            return x / self.scale
        if self.coordinates in ("align_corners", "tf_half_pixel_for_nn"):
            if self.coordinates == "tf_half_pixel_for_nn":
                return (x + 0.5) / self.scale
            return x * 0.0 if length == 1 else x * (self.size - 1) / (length - 1)
        if self.coordinates == "half_pixel_symmetric":
            offset = self.size / 2 * (1 - self.out / length)
            return offset + (x + 0.5) / self.scale - 0.5
        if self.coordinates == "tf_crop_and_resize":
            start, end = self.roi
            if self.out == 1:
                return x * 0.0 + (start + end) * (self.size - 1) / 2
            return start * (self.size - 1) + x * (end - start) * (self.size - 1) / (self.out - 1)
        raise CannotLower(f"the coordinate transformation {self.coordinates}")

    def outside(self) -> np.ndarray:
        """Return which results get the extrapolation value, (out,) bool."""
        if self.coordinates != "tf_crop_and_resize":
            return np.zeros(self.out, bool)
        places = self.places()
        return (places < 0) | (places > self.size - 1)

    def sources(self) -> np.ndarray:
        """Return the source of each result, (out,) int64, for nearest."""
        places = self.places()
        rounded = {
            "round_prefer_floor": np.ceil(places - 0.5),
            "round_prefer_ceil": np.floor(places + 0.5),
            "floor": np.floor(places),
            "ceil": np.ceil(places),
        }
        if self.nearest not in rounded:
            raise CannotLower(f"the rounding {self.nearest}")
        return np.clip(rounded[self.nearest], 0, self.size - 1).astype(np.int64)

    def weights(self) -> np.ndarray:
        """Return the weights, (out, size) float64, for linear and cubic."""
        places = self.places()
        narrow = min(self.scale, 1.0) if self.is_antialiased else 1.0
        reach = int(np.ceil((1 if self.mode == "linear" else 2) / narrow)) + 1
        near = np.floor(places)[:, None] + np.arange(-reach, reach + 1)[None]
        distance = np.abs(near - places[:, None]) * narrow
        taps = np.clip(1 - distance, 0, None) if self.mode == "linear" else _cubic(distance, self.cubic)
        if self.excludes_outside:
            taps[(near < 0) | (near >= self.size)] = 0
        if self.excludes_outside or self.is_antialiased:
            taps /= taps.sum(axis=1, keepdims=True)
        made = np.zeros((self.out, self.size))
        columns = np.clip(near, 0, self.size - 1).astype(np.int64)
        np.add.at(made, (np.arange(self.out)[:, None], columns), taps)
        return made


@dataclass(frozen=True, slots=True)
class Given:
    """What a Resize reads beside the image: its shape before and after, and inputs that are known."""

    shape: tuple[int, ...]
    result: tuple[int, ...]
    roi: np.ndarray | None = None
    scales: np.ndarray | None = None
    sizes: Sequence[int] | None = None


def resize_axes(attributes: Attributes, given: Given, is_old: bool) -> list[AxisResize]:
    """Return how each axis is resized. is_old  whether it is an Upsample, or a Resize before version 11"""
    rank = len(given.shape)
    axes = attributes.integers("axes", list(range(rank)))
    chosen = [axis % rank for axis in axes] or list(range(rank))
    made = [
        AxisResize(size, out, out / max(1, size)) for size, out in zip(given.shape, given.result, strict=True)
    ]
    factors = _factors(attributes, given, chosen)
    for index, axis in enumerate(chosen):
        region = (0.0, 1.0)
        if given.roi is not None and given.roi.size == 2 * len(chosen):
            region = (float(given.roi[index]), float(given.roi[index + len(chosen)]))
        made[axis] = AxisResize(
            given.shape[axis],
            given.result[axis],
            factors[index],
            attributes.text("mode", "nearest"),
            attributes.text("coordinate_transformation_mode", "asymmetric" if is_old else "half_pixel"),
            attributes.text("nearest_mode", "floor" if is_old else "round_prefer_floor"),
            float(attributes.given.get("cubic_coeff_a", -0.75)),
            bool(attributes.given.get("exclude_outside", 0)),
            bool(attributes.given.get("antialias", 0)),
            region,
        )
    return made


def _factors(attributes: Attributes, given: Given, chosen: Sequence[int]) -> list[float]:
    if given.scales is not None and given.scales.size == len(chosen):
        return [float(scale) for scale in given.scales.reshape(-1)]
    ratios = [given.result[axis] / max(1, given.shape[axis]) for axis in chosen]
    policy = attributes.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return ratios
    if given.sizes is None:
        raise CannotLower("an aspect ratio kept without sizes")
    pairs = zip(chosen, given.sizes, strict=True)
    common = [wanted / max(1, given.shape[axis]) for axis, wanted in pairs]
    return [min(common) if policy == "not_larger" else max(common)] * len(chosen)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))
