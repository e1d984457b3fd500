"""Kernels that paint into pixels, and that sum slices per pixel column; track_kernels paints the slices.

Images are (height, width) uint32 arrays of opaque 0xffRRGGBB pixels. A *category* is a small
integer that selects a row of a style table (fill colour, line colour, steps of the hatching's lines in
x and y, is_work); slice s has
category local[keys[s]]. Slices of a track are sorted by start and never overlap. Column x covers
[first + x * step, first + (x + 1) * step) in cycles. Sums of blocks of slices are those of
npuviz.trace.pyramid_kernels.
"""

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.twins import stand_in
from npuviz.trace.pyramid_kernels import BLOCK, first_between

FILL, LINE, X_STEP, Y_STEP, IS_WORK = range(5)
STYLE_COLUMNS = 5

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True, error_model="numpy")


@_entry
def _count_starts(starts, block_starts, first, step, counts):
    """Count the slices that start before each column's left edge, into `counts`.

    Two passes: whole blocks by their first starts, which lie close together in memory, then the
    slices of one block. Reads of the second pass do not wait for each other.
    """
    num_blocks = block_starts.shape[0]
    num_slices = starts.shape[0]
    low = 0
    for x in range(counts.shape[0]):
        edge = first + x * step
        width = 1
        while low + width <= num_blocks and block_starts[low + width - 1] < edge:
            low += width
            width *= 2
        low = first_between(block_starts, low, min(low + width, num_blocks), edge)
        counts[x] = low
    for x in range(counts.shape[0]):
        edge = first + x * step
        blocks = counts[x]
        begin = max(blocks - 1, 0) * BLOCK
        end = num_slices if blocks >= num_blocks else min(begin + BLOCK, num_slices)
        found = begin
        for s in range(begin, end):
            found += starts[s] < edge
        counts[x] = found


@_entry
def cumulate(starts, ends, keys, local, block_starts, totals, first, step, counts, sums):
    """Sum the cycles of slices per category before each column's left edge.

    counts  (columns + 1,) int64 out: slices that start before the edge
    sums    (columns + 1, categories) float64 out, exact below 2^53
    """
    num_categories = totals.shape[1]
    _count_starts(starts, block_starts, first, step, counts)
    for x in range(counts.shape[0]):
        edge = first + x * step
        found = counts[x]
        if x > 0 and found == counts[x - 1]:
            # No slice began since the edge before, so at most the last one reaches into this pixel.
            for c in range(num_categories):
                sums[x, c] = sums[x - 1, c]
            if found > 0 and ends[found - 1] > edge - step:
                sums[x, local[keys[found - 1]]] += min(float(ends[found - 1]), edge) - (edge - step)
            continue
        block = found // BLOCK
        for c in range(num_categories):
            sums[x, c] = totals[block, c]
        for s in range(block * BLOCK, found):
            sums[x, local[keys[s]]] += ends[s] - starts[s]
        if found > 0 and ends[found - 1] > edge:
            sums[x, local[keys[found - 1]]] -= ends[found - 1] - edge


def _plain_sums(starts, ends, keys, local, block_starts, totals, first, step, counts, sums):
    edges = first + np.arange(len(counts)) * step
    counts[:] = np.searchsorted(starts, np.ceil(edges).astype(np.int64))
    found, places = np.unique(counts, return_inverse=True)
    blocks = found // BLOCK
    until = totals[blocks].astype(np.float64)
    slices = blocks[:, None] * BLOCK + np.arange(BLOCK)
    rows, columns = np.nonzero(slices < found[:, None])
    slices = slices[rows, columns]
    np.add.at(until, (rows, local[keys[slices]]), ends[slices] - starts[slices])
    sums[:] = until[places]
    (begun,) = np.nonzero(counts)
    if len(begun):
        last = counts[begun] - 1
        sums[begun, local[keys[last]]] -= np.maximum(ends[last] - edges[begun], 0.0)


stand_in(cumulate, _plain_sums)


@_entry
def mix(below, above, weight):
    """Mix two pixels: weight / 256 of `above`, the rest of `below`; weight 0..256."""
    rest = 256 - weight
    red = (((below >> 16) & 255) * rest + ((above >> 16) & 255) * weight) >> 8
    green = (((below >> 8) & 255) * rest + ((above >> 8) & 255) * weight) >> 8
    blue = ((below & 255) * rest + (above & 255) * weight) >> 8
    return 0xFF000000 | (red << 16) | (green << 8) | blue


@_entry
def pixel(style, category, x, y, period):
    """Return the colour of a category's pixel: its line colour on the lines of its hatching, else its fill.

    period  a power of two. Plain categories have equal line and fill colours.
    """
    place = style[category, X_STEP] * x + style[category, Y_STEP] * y
    if 4 * (place & (period - 1)) < period:
        return style[category, LINE]
    return style[category, FILL]


@_entry
def fill_rows(image, top, bottom, color):
    """Fill whole pixel rows."""
    for y in range(max(top, 0), min(bottom, image.shape[0])):
        for x in range(image.shape[1]):
            image[y, x] = color


def _plain_fill(image, top, bottom, color):
    image[max(top, 0) : max(bottom, 0)] = color


stand_in(fill_rows, _plain_fill)


@_entry
def blit_labels(image, masks, places, label_height):
    """Draw text masks: rows of `places` are (offset into masks, width, x, y, colour), all int64."""
    rows, columns = image.shape
    for i in range(places.shape[0]):
        offset = places[i, 0]
        width = places[i, 1]
        color = places[i, 4]
        for dy in range(label_height):
            y = places[i, 3] + dy
            if y < 0 or y >= rows:
                continue
            line = offset + dy * width
            for dx in range(width):
                alpha = np.int64(masks[line + dx])
                x = places[i, 2] + dx
                if alpha and 0 <= x < columns:
                    image[y, x] = mix(np.int64(image[y, x]), color, alpha + (alpha >> 7))


@_entry
def paint_marks(image, top, height, starts, ends, chosen, first, step, color):
    """Draw a line of `height` pixels over every chosen slice; `chosen` are rising slice indices."""
    rows, columns = image.shape
    for i in range(chosen.shape[0]):
        s = chosen[i]
        left = int((starts[s] - first) / step)
        right = int((ends[s] - first) / step)
        if right < 0 or left >= columns:
            continue
        for y in range(max(top, 0), min(top + height, rows)):
            for x in range(max(left, 0), min(max(right, left + 1), columns)):
                image[y, x] = color


@_entry
def paint_counter(image, top, height, low, high, last, maximum, fill, band, line, thickness):
    """Paint a counter: per column an area up to its lowest value, a band to its highest, a line at its last.

    low, high, last  (columns,) float64; NaN where nothing is known
    """
    rows, columns = image.shape
    bottom = top + height
    previous = -1
    for x in range(min(columns, last.shape[0])):
        if np.isnan(last[x]):
            previous = -1
            continue
        y_low = bottom - int(min(low[x] / maximum, 1.0) * height + 0.5)
        y_high = bottom - int(min(high[x] / maximum, 1.0) * height + 0.5)
        y_last = bottom - int(min(last[x] / maximum, 1.0) * height + 0.5)
        for y in range(max(y_low, 0), min(bottom, rows)):
            image[y, x] = fill
        for y in range(max(y_high, 0), min(y_low, rows)):
            image[y, x] = band
        y_from = min(y_last, bottom - thickness)
        y_to = y_from + thickness
        if previous >= 0:
            y_from, y_to = min(y_from, previous), max(y_to, min(previous + thickness, bottom))
        for y in range(max(y_from, 0), min(y_to, rows)):
            image[y, x] = line
        previous = min(y_last, bottom - thickness)


@_entry
def fill_boxes(image, boxes, border):
    """Fill rectangles one after another: rows of `boxes` are (left, top, right, bottom, colour), int64.

    Each is at least one pixel large; those larger than 3 x 3 get an edge of `border` at left and top.
    """
    rows, columns = image.shape
    for i in range(boxes.shape[0]):
        left = boxes[i, 0]
        top = boxes[i, 1]
        right = max(boxes[i, 2], left + 1)
        bottom = max(boxes[i, 3], top + 1)
        has_edge = right - left > 3 and bottom - top > 3
        for y in range(max(top, 0), min(bottom, rows)):
            for x in range(max(left, 0), min(right, columns)):
                image[y, x] = border if has_edge and (x == left or y == top) else boxes[i, 4]
