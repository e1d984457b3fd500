"""Cut a drawing that is much higher than wide into bands beside each other, so that it fits a panel."""

import numpy as np

Point = tuple[float, float]
Routes = dict[tuple[int, int], list[Point]]
MIN_ROWS = 16
"""Fewest rows of a drawing that is cut."""
GUTTER = 76.0
"""Width between two bands, where edges go up to the next one."""
MARGIN = 14.0
LANE, NUM_LANES = 6.0, 7
"""Distance of edges in a gutter, and after how many of them the lanes are reused."""


def in_bands(
    centres: np.ndarray, routes: Routes, edges: list[tuple[int, int]], aspect: float, box: Point
) -> tuple[np.ndarray, Routes]:
    """Arrange the rows of a drawing in bands from left to right; return new centres and routes.

    centres  (boxes, 2) float64; a row is all boxes of one y
    aspect   wanted width divided by height
    box      width and height of a box with its gaps

    Bands end where few edges cross. An edge to another band leaves its band at the bottom and enters the
    other
    from above. Too few rows, or a drawing that is wide enough, are returned unchanged.
    """
    rows = np.unique(np.round(centres[:, 1], 1)) if len(centres) else np.zeros(0)
    if len(rows) < MIN_ROWS or aspect <= 0:
        return centres, routes
    width = float(np.ptp(centres[:, 0])) + box[0] + GUTTER
    height = float(rows[-1] - rows[0]) + box[1]
    count = min(round((aspect * height / width) ** 0.5), len(rows) // 4)
    if count < 2:
        return centres, routes
    cuts = _cuts(rows, centres[:, 1], edges, count)
    return _Bands(centres, routes, edges, cuts, box).moved()


def _cuts(rows: np.ndarray, y: np.ndarray, edges: list[tuple[int, int]], count: int) -> np.ndarray:
    """Return the heights at which to cut: near equal parts, between the rows that the fewest edges cross."""
    between = (rows[:-1] + rows[1:]) / 2
    crossing = np.zeros(len(between), np.int64)
    for a, b in edges:
        low, high = sorted((float(y[a]), float(y[b])))
        crossing[np.searchsorted(between, low) : np.searchsorted(between, high)] += 1
    reach = len(rows) // (4 * count)
    chosen: list[int] = []
    for part in range(1, count):
        ideal = len(rows) * part // count - 1
        near = range(
            max(ideal - reach, chosen[-1] + 1 if chosen else 0), min(ideal + reach, len(between) - 1) + 1
        )
        chosen.append(min(near, key=lambda place: (int(crossing[place]), abs(place - ideal))))
    return between[chosen]


class _Bands:
    """Moves boxes and bends into bands, and routes edges from one band to another."""

    def __init__(
        self, centres: np.ndarray, routes: Routes, edges: list[tuple[int, int]], cuts: np.ndarray, box: Point
    ) -> None:
        self._centres, self._routes, self._edges, self._cuts = centres, routes, edges, cuts
        self._band = np.searchsorted(cuts, centres[:, 1])
        spots = [centres, *(np.array(way) for way in routes.values() if way)]
        points = np.concatenate(spots)
        of_points = np.searchsorted(cuts, points[:, 1])
        self._shift: list[Point] = []
        self._right: list[float] = []
        self._bottom: list[float] = []
        at, self._top = 0.0, -box[1] / 2 - MARGIN
        for band in range(len(cuts) + 1):
            x, y = points[of_points == band, 0], points[of_points == band, 1]
            self._shift.append((at - float(x.min()), -float(y.min())))
            self._right.append(at + float(np.ptp(x)) + box[0] / 2)
            self._bottom.append(float(np.ptp(y)) + box[1] / 2)
            at += float(np.ptp(x)) + box[0] + GUTTER

    def moved(self) -> tuple[np.ndarray, Routes]:
        """Return centres and routes in their new places."""
        centres = self._centres + np.array(self._shift)[self._band]
        routes: Routes = {}
        lane = 0
        for a, b in self._edges:
            bends = self._routes.get((a, b), [])
            first, last = int(self._band[a]), int(self._band[b])
            if first == last:
                routes[(a, b)] = [self._at(bend, first) for bend in bends]
            elif (a, b) not in routes:
                routes[(a, b)] = self._around(centres[a], centres[b], bends, (first, last), lane % NUM_LANES)
                lane += 1
        return centres, routes

    def _at(self, point: Point, band: int) -> Point:
        dx, dy = self._shift[band]
        return point[0] + dx, point[1] + dy

    def _around(
        self, a: np.ndarray, b: np.ndarray, bends: list[Point], bands: tuple[int, int], lane: int
    ) -> list[Point]:
        """Return the bends of an edge between bands: down out of the first, up beside it, down into the
        other.
        """
        first, last = bands
        inside = [(int(np.searchsorted(self._cuts, bend[1])), bend) for bend in bends]
        leaving = [self._at(bend, first) for band, bend in inside if band == first]
        entering = [self._at(bend, last) for band, bend in inside if band == last]
        out_x = leaving[-1][0] if leaving else float(a[0])
        in_x = entering[0][0] if entering else float(b[0])
        low = self._bottom[first] + MARGIN + lane * LANE
        high, beside = self._top - lane * LANE, self._right[first] + MARGIN + lane * LANE
        return [*leaving, (out_x, low), (beside, low), (beside, high), (in_x, high), *entering]
