"""Paint a fabric by pixels with kernels: elements, links, routes, and words if they are many or small."""

from dataclasses import dataclass, replace

import numpy as np
from PySide6.QtGui import QColor, QImage

from npuviz.sim.fabric import Area
from npuviz.ui.fabric import grid_kernels as kernels
from npuviz.ui.fabric.camera import FabricCamera
from npuviz.ui.fabric.frame import CELL_HALF, FabricFrame, Shade, word_places
from npuviz.ui.fabric.style import FabricStyle
from npuviz.ui.kit.colors import image_of, pixel

GAP_FROM = 4.0
"""Device pixels per element from which on there are gaps between elements."""
LINKS_FROM = 10.0
"""Device pixels per element from which on links are drawn."""
HATCH_PERIOD = 8
FINE_WORDS = 2500
"""Most visible words that the painter draws with smooth edges, if they are large enough (FINE_FROM)."""
FINE_FROM = 14.0
WORD_SHARE = 0.11


Shading = tuple[np.ndarray, np.ndarray]
"""Values of the elements, and the table of styles that the values index."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Edges of elements in device pixels, an entry for each column or row of the area; `pitch` per
    element.
    """

    lefts: np.ndarray
    rights: np.ndarray
    tops: np.ndarray
    bottoms: np.ndarray
    pitch: float


def warm_up() -> None:
    """Compile the kernels for the types they are called with, and cache them on disk."""
    image, bytes_ = np.zeros((4, 4), np.uint32), np.zeros((2, 2), np.uint8)
    style, four, two = np.zeros((3, 5), np.int64), np.zeros(4, np.int64), np.zeros(2, np.int64)
    kernels.paint_dense(image, bytes_, style, four, four + 1, four, four + 1, 0)
    kernels.paint_cells(image, bytes_, style, two, two, two, two, HATCH_PERIOD)
    kernels.busiest(np.zeros((2, 2, kernels.NUM_PORTS), np.uint8), bytes_)
    kernels.paint_links(
        image, np.zeros((2, 2, kernels.NUM_PORTS), np.uint8), four, two, two, two, two, 1, 1, 1
    )
    kernels.paint_arms(image, four, four, four, four, 1, 1)
    kernels.paint_points(image, four, four, four, 1)


def draws_links(scale: float) -> bool:
    """Return whether there is room for links at `scale` device pixels per element."""
    return scale >= LINKS_FROM


def draws_fine_words(scale: float, count: int) -> bool:
    """Return whether words are drawn by the painter, not as pixels, at `scale` device pixels per element."""
    return scale >= FINE_FROM and count <= FINE_WORDS


class FabricRaster:
    """Paints frames into one image that is reused.

    largest  the largest load or fill level of the last picture, -1 for one of states
    """

    def __init__(self) -> None:
        self._pixels = np.zeros((1, 1), np.uint32)
        self._busiest = np.zeros((1, 1), np.uint8)
        self.largest = -1

    def paint(
        self,
        camera: FabricCamera,
        frame: FabricFrame,
        shade: Shade,
        style: FabricStyle,
        width: int,
        height: int,
        ratio: float,
    ) -> QImage:
        """Paint a picture of width x height device pixels; it is valid until the next call.

        camera  in logical pixels, each of which has `ratio` device pixels
        """
        if self._pixels.shape != (height, width):
            self._pixels = np.zeros((height, width), np.uint32)
        shading = self._shading(frame, shade, style)
        device = replace(camera, scale=camera.scale * ratio)
        if device.scale < GAP_FROM:
            self._dense(device, frame.area, shading, style)
        else:
            self._cells(device, frame, shading, style)
        if frame.routes is not None:
            self._routes(device, frame.routes, style.color_of_route(frame.color), style)
        if frame.words is not None and not draws_fine_words(device.scale, len(frame.words)):
            self._words(device, frame, style)
        return image_of(self._pixels, ratio)

    def _shading(self, frame: FabricFrame, shade: Shade, style: FabricStyle) -> Shading:
        if shade == "load" and frame.loads is not None:
            shape = frame.loads.shape[:2]
            if self._busiest.shape != shape:
                self._busiest = np.zeros(shape, np.uint8)
            kernels.busiest(frame.loads, self._busiest)
            self.largest = int(self._busiest.max(initial=0))
            return self._busiest, style.heat
        if shade == "queue" and frame.fills is not None:
            self.largest = int(frame.fills.max(initial=0))
            return frame.fills, style.heat
        self.largest = -1
        # A code without a name must not read beyond the table.
        last = len(style.states) - 1
        return np.minimum(frame.states, np.uint8(min(last, 255))), style.states

    def _dense(self, camera: FabricCamera, area: Area, shading: Shading, style: FabricStyle) -> None:
        height, width = self._pixels.shape
        columns = _covered(camera.x, area.column, area.columns, camera.scale, width)
        rows = _covered(camera.y, area.row, area.rows, camera.scale, height)
        kernels.paint_dense(self._pixels, *shading, *columns, *rows, style.background)

    def _cells(self, camera: FabricCamera, frame: FabricFrame, shading: Shading, style: FabricStyle) -> None:
        self._pixels[...] = style.background
        grid = grid_of(camera, frame.area)
        kernels.paint_cells(
            self._pixels, *shading, grid.lefts, grid.rights, grid.tops, grid.bottoms, HATCH_PERIOD
        )
        if frame.loads is not None and draws_links(grid.pitch):
            lane = max(round(grid.pitch * 0.07), 1)
            gap = max(round(grid.pitch * 0.035), 1)
            kernels.paint_links(
                self._pixels, frame.loads, style.links, grid.lefts, grid.rights, grid.tops, grid.bottoms,
                round(grid.pitch * (1 - 2 * CELL_HALF)), lane, gap,
            )  # fmt: skip

    def _routes(self, camera: FabricCamera, routes: np.ndarray, usual: QColor, style: FabricStyle) -> None:
        xs, ys = _middles(camera, routes["column"] + 0.5, routes["row"] + 0.5)
        arms = (routes["inputs"] | routes["outputs"]).astype(np.int64)
        closed = pixel(style.theme.color("hazard"))
        color = np.where(routes["closed"], closed, pixel(usual)).astype(np.int64)
        reach = int(np.ceil(camera.scale / 2))
        kernels.paint_arms(self._pixels, xs, ys, arms, color, reach, max(round(camera.scale * 0.05), 1))

    def _words(self, camera: FabricCamera, frame: FabricFrame, style: FabricStyle) -> None:
        assert frame.words is not None
        xs, ys = _middles(camera, *word_places(frame.words, frame.cycle))
        size = max(round(camera.scale * 2 * WORD_SHARE), 2)
        kernels.paint_points(self._pixels, xs, ys, style.pixels_of_routes(frame.words["color"]), size)


def grid_of(camera: FabricCamera, area: Area) -> Grid:
    """Return the edges of the elements of an area, in pixels of the camera."""
    scale = camera.scale
    half = CELL_HALF if draws_links(scale) else 0.5 - 0.5 / scale
    edges: list[np.ndarray] = []
    for first, count, origin in ((area.column, area.columns, camera.x), (area.row, area.rows, camera.y)):
        middle = (np.arange(first, first + count) + 0.5 - origin) * scale
        begin = np.floor(middle - half * scale + 0.5).astype(np.int64)
        # All equally large, whatever the rounding.
        edges += [begin, begin + max(round(2 * half * scale), 1)]
    return Grid(edges[0], edges[1], edges[2], edges[3], scale)


def _covered(
    origin: float, first: int, count: int, scale: float, pixels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last + 1 element of an area under each of `pixels` pixels, from 0 on; -1: none."""
    edges = origin + np.arange(pixels + 1) / scale - first
    if scale < 1:
        # Every element belongs to the one pixel that holds its middle.
        middles = np.ceil(edges - 0.5).astype(np.int64)
        low, high = middles[:-1], middles[1:]
    else:
        low = np.floor((edges[:-1] + edges[1:]) / 2).astype(np.int64)
        high = low + 1
    is_outside = (high <= 0) | (low >= count)
    low, high = np.clip(low, 0, count - 1), np.clip(high, 1, count)
    return np.where(is_outside, -1, low), np.where(is_outside, -1, np.maximum(high, low + 1))


def _middles(camera: FabricCamera, columns: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    xs, ys = (columns - camera.x) * camera.scale, (rows - camera.y) * camera.scale
    return np.floor(xs + 0.5).astype(np.int64), np.floor(ys + 0.5).astype(np.int64)
