"""Compute one axis of a resize as a matrix: each result is a weighted sum of near sources.

Ref: ONNX Resize, versions 10 to 19.
"""

from dataclasses import dataclass

import numpy as np

from npuviz.onnx.errors import CannotLower


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


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))
