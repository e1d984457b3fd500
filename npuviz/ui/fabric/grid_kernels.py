"""Kernels that paint a grid of elements into pixels.

Images are (height, width) uint32 arrays of opaque 0xffRRGGBB pixels; values and loads are bytes. A style row
is that of raster_kernels (fill, line, steps of the hatching in x and y) with the urgency of a value as its
fifth column: a pixel that stands for many elements shows the most urgent one, or their mean if none is.
"""

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.twins import stand_in

FILL, LINE, X_STEP, Y_STEP, URGENT = range(5)
NUM_PORTS = 5
NORTH, EAST, SOUTH, WEST = 1, 2, 3, 4

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True, error_model="numpy")


@_entry
def paint_dense(image, values, style, first_column, last_column, first_row, last_row, background):
    """Paint elements of few pixels, or of less than one.

    first_column, last_column  (width,) int64: elements [first, last) under a pixel column; -1: none
    first_row, last_row        (height,) int64: the same for pixel rows

    The cost depends on the number of pixels or of elements, whichever is larger.
    """
    height, width = image.shape
    for y in range(height):
        top, bottom = first_row[y], last_row[y]
        if top < 0:
            for x in range(width):
                image[y, x] = background
            continue
        if y > 0 and first_row[y - 1] == top and last_row[y - 1] == bottom:
            for x in range(width):
                image[y, x] = image[y - 1, x]
            continue
        for x in range(width):
            left, right = first_column[x], last_column[x]
            if left < 0:
                image[y, x] = background
            elif right - left == 1 and bottom - top == 1:
                image[y, x] = style[values[top, left], FILL]
            else:
                image[y, x] = _mean(values, style, (left, top, right, bottom))


@_entry
def _mean(values, style, box):
    """Return the colour of the most urgent of some elements; the mean colour if none is urgent."""
    left, top, right, bottom = box
    red = green = blue = 0
    urgent = 0
    chosen = 0
    for r in range(top, bottom):
        for c in range(left, right):
            value = values[r, c]
            color = style[value, FILL]
            red += (color >> 16) & 255
            green += (color >> 8) & 255
            blue += color & 255
            if style[value, URGENT] > urgent:
                urgent = style[value, URGENT]
                chosen = color
    if urgent > 0:
        return chosen
    count = (right - left) * (bottom - top)
    return 0xFF000000 | (red // count) << 16 | (green // count) << 8 | blue // count


@_entry
def paint_cells(image, values, style, lefts, rights, tops, bottoms, period):
    """Paint elements as rectangles: element (c, r) covers lefts[c]..rights[c] x tops[r]..bottoms[r] pixels.

    period  of the hatching, a power of two
    """
    height, width = image.shape
    for r in range(values.shape[0]):
        for y in range(max(tops[r], 0), min(bottoms[r], height)):
            for c in range(values.shape[1]):
                value = values[r, c]
                fill = style[value, FILL]
                line = style[value, LINE]
                begin, end = max(lefts[c], 0), min(rights[c], width)
                if fill == line:
                    for x in range(begin, end):
                        image[y, x] = fill
                else:
                    for x in range(begin, end):
                        place = style[value, X_STEP] * x + style[value, Y_STEP] * y
                        image[y, x] = line if 4 * (place & (period - 1)) < period else fill


def _plain_cells(image, values, style, lefts, rights, tops, bottoms, period):
    height, width = image.shape
    ys, xs = np.arange(height)[:, None], np.arange(width)
    for r, c in np.ndindex(values.shape):
        fill, line, x_step, y_step = style[values[r, c], :URGENT]
        rows = slice(max(tops[r], 0), max(bottoms[r], 0))
        columns = slice(max(lefts[c], 0), max(rights[c], 0))
        places = x_step * xs[columns] + y_step * ys[rows]
        image[rows, columns] = np.where(4 * (places & (period - 1)) < period, line, fill)


stand_in(paint_cells, _plain_cells)


@_entry
def busiest(loads, found):
    """Write into `found` each element's largest load of a link to a neighbour; loads (rows, columns,
    ports).
    """
    for r in range(found.shape[0]):
        for c in range(found.shape[1]):
            found[r, c] = max(max(loads[r, c, 1], loads[r, c, 2]), max(loads[r, c, 3], loads[r, c, 4]))


@_entry
def fill_rectangle(image, box, color):
    """Fill a rectangle of pixels (left, top, right, bottom), cut at the edges of the image."""
    left, top, right, bottom = box
    for y in range(max(top, 0), min(bottom, image.shape[0])):
        for x in range(max(left, 0), min(right, image.shape[1])):
            image[y, x] = color


def _plain_rectangle(image, box, color):
    left, top, right, bottom = box
    image[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = color


stand_in(fill_rectangle, _plain_rectangle)


@_entry
def paint_links(image, loads, heat, lefts, rights, tops, bottoms, reach, lane, gap):
    """Paint the links to neighbours as lanes between the elements, one for each direction.

    heat   (256,) int64: colour of a load
    reach  pixels between two elements
    lane   width of a lane in pixels
    gap    half of the pixels between two lanes

    Links that lead out of the area are drawn only if they carry something.
    """
    rows, columns = loads.shape[0], loads.shape[1]
    for r in range(rows):
        y = (tops[r] + bottoms[r]) // 2
        above = bottoms[r - 1] if r > 0 else tops[r] - reach
        below = tops[r + 1] if r + 1 < rows else bottoms[r] + reach
        for c in range(columns):
            x = (lefts[c] + rights[c]) // 2
            before = rights[c - 1] if c > 0 else lefts[c] - reach
            behind = lefts[c + 1] if c + 1 < columns else rights[c] + reach
            # Each direction is drawn on the right-hand side of its link.
            load = loads[r, c, EAST]
            if load or c + 1 < columns:
                fill_rectangle(image, (rights[c], y + gap, behind, y + gap + lane), heat[load])
            load = loads[r, c, WEST]
            if load or c > 0:
                fill_rectangle(image, (before, y - gap - lane, lefts[c], y - gap), heat[load])
            load = loads[r, c, SOUTH]
            if load or r + 1 < rows:
                fill_rectangle(image, (x - gap - lane, bottoms[r], x - gap, below), heat[load])
            load = loads[r, c, NORTH]
            if load or r > 0:
                fill_rectangle(image, (x + gap, above, x + gap + lane, tops[r]), heat[load])


@_entry
def paint_arms(image, xs, ys, arms, colors, reach, thick):
    """Paint lines from the middles of elements to their edges.

    xs, ys  (n,) int64: middle pixel
    arms    (n,) int64: bit p draws the line to the edge of port p
    colors  (n,) int64
    reach   pixels from the middle to the edge
    """
    half = thick // 2
    for i in range(xs.shape[0]):
        x, y = xs[i] - half, ys[i] - half
        color = colors[i]
        fill_rectangle(image, (x, y, x + thick, y + thick), color)
        if arms[i] >> NORTH & 1:
            fill_rectangle(image, (x, y - reach + half, x + thick, y), color)
        if arms[i] >> SOUTH & 1:
            fill_rectangle(image, (x, y, x + thick, y + reach + half), color)
        if arms[i] >> WEST & 1:
            fill_rectangle(image, (x - reach + half, y, x, y + thick), color)
        if arms[i] >> EAST & 1:
            fill_rectangle(image, (x, y, x + reach + half, y + thick), color)


@_entry
def paint_points(image, xs, ys, colors, size):
    """Paint squares of `size` pixels around places; xs, ys, colors (n,) int64."""
    half = size // 2
    for i in range(xs.shape[0]):
        x, y = xs[i] - half, ys[i] - half
        fill_rectangle(image, (x, y, x + size, y + size), colors[i])
