"""Painting of tracks into pixels, and the sums behind it.

Images are (height, width) uint32 arrays of opaque 0xffRRGGBB pixels. A *category* is a small
integer that selects a row of a style table (fill colour, line colour, steps of the hatching's lines in
x and y, is_work); slice s has
category local[keys[s]]. Slices of a track are sorted by start and never overlap. Column x covers
[first + x * step, first + (x + 1) * step) in cycles. Sums of blocks of slices are those of
npuviz.trace.pyramid_kernels.
"""

import numpy as np
from numba import njit

from npuviz.trace.pyramid_kernels import BLOCK

FILL, LINE, X_STEP, Y_STEP, IS_WORK = range(5)
STYLE_COLUMNS = 5
PLAN_ROWS = 7


@njit(cache=True, nogil=True, error_model="numpy")
def _count_starts(starts, block_starts, first, step, counts):
    """Slices that start before each column's left edge.

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
        high = min(low + width, num_blocks)
        while low < high:
            middle = (low + high) >> 1
            if block_starts[middle] < edge:
                low = middle + 1
            else:
                high = middle
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


@njit(cache=True, nogil=True, error_model="numpy")
def cumulate(starts, ends, keys, local, block_starts, totals, first, step, counts, sums):
    """Busy cycles per category before each column's left edge.

    counts  (columns + 1,) int64 out: slices that start before the edge
    sums    (columns + 1, categories) float64 out, exact below 2^53
    """
    num_categories = totals.shape[1]
    _count_starts(starts, block_starts, first, step, counts)
    for x in range(counts.shape[0]):
        edge = first + x * step
        found = counts[x]
        if x > 0 and found == counts[x - 1]:
            # No slice began since the edge before: at most the last one has gone on.
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


@njit(cache=True, nogil=True, error_model="numpy")
def _mix(below, above, weight):
    """`above` over `below`, weight 0..256."""
    rest = 256 - weight
    red = (((below >> 16) & 255) * rest + ((above >> 16) & 255) * weight) >> 8
    green = (((below >> 8) & 255) * rest + ((above >> 8) & 255) * weight) >> 8
    blue = ((below & 255) * rest + (above & 255) * weight) >> 8
    return 0xFF000000 | (red << 16) | (green << 8) | blue


@njit(cache=True, nogil=True, error_model="numpy")
def _pixel(style, category, x, y, period):
    """Colour of a pixel of a category: its line colour on the lines of its hatching, else its fill.

    period  a power of two. Plain categories have equal line and fill colours.
    """
    place = style[category, X_STEP] * x + style[category, Y_STEP] * y
    if 4 * (place & (period - 1)) < period:
        return style[category, LINE]
    return style[category, FILL]


@njit(cache=True, nogil=True, error_model="numpy")
def fill_rows(image, top, bottom, color):
    """Fill whole pixel rows."""
    for y in range(max(top, 0), min(bottom, image.shape[0])):
        for x in range(image.shape[1]):
            image[y, x] = color


@njit(cache=True, nogil=True, error_model="numpy")
def plan_levels(height, sums, scale, style, skipped, edges, phase, plan):
    """Find what `paint_plan` shall paint in every pixel column of a row `height` pixels high.

    sums     (columns + 1, categories) as `cumulate` makes them
    scale    fraction of a column's height that one busy cycle stands for
    skipped  per column: 1 where something else paints the column
    edges    (columns + 1,) int64: pixel at which each column begins, and behind the last
    plan     (PLAN_ROWS, pixels) int32 out, zero before
    Returns the height of the highest column.
    """
    highest = 0
    num_categories = sums.shape[1]
    num_pixels = plan.shape[1]
    for x in range(sums.shape[0] - 1):
        work = 0.0
        stall = 0.0
        best_work = 0.0
        best_stall = 0.0
        work_category = 0
        stall_category = 0
        if skipped[x]:
            continue
        for c in range(num_categories):
            amount = sums[x + 1, c] - sums[x, c]
            if style[c, IS_WORK]:
                work += amount
                if amount > best_work:
                    best_work = amount
                    work_category = c
            else:
                stall += amount
                if amount > best_stall:
                    best_stall = amount
                    stall_category = c
        if best_work <= 0.0 and best_stall <= 0.0:
            continue
        work_pixels = int(min(work * scale, 1.0) * height + 0.5)
        if best_work > 0.0 and work_pixels == 0:
            work_pixels = 1
        both_pixels = max(int(min((work + stall) * scale, 1.0) * height + 0.5), work_pixels)
        if best_stall > 0.0 and both_pixels == 0:
            both_pixels = 1
        highest = max(highest, both_pixels)
        for pixel in range(max(edges[x], 0), min(edges[x + 1], num_pixels)):
            plan[0, pixel] = work_pixels
            plan[1, pixel] = both_pixels
            plan[2, pixel] = style[work_category, FILL]
            plan[3, pixel] = style[stall_category, FILL]
            plan[4, pixel] = style[stall_category, LINE]
            plan[5, pixel] = style[stall_category, X_STEP] * (pixel + phase)
            plan[6, pixel] = style[stall_category, Y_STEP]
    return highest


@njit(cache=True, nogil=True, error_model="numpy")
def paint_plan(image, top, height, highest, plan, period):
    """Paint utilisation as height: work from below in its dominant category, stalls above it."""
    mask = period - 1
    for y in range(max(top + height - highest, 0), min(top + height, image.shape[0])):
        level = top + height - y
        row = image[y]
        for x in range(min(plan.shape[1], row.shape[0])):
            place = (plan[5, x] + plan[6, x] * (y - top)) & mask
            stall = plan[4, x] if 4 * place < period else plan[3, x]
            color = plan[2, x] if level <= plan[0, x] else stall
            row[x] = np.uint32(color) if level <= plan[1, x] else row[x]


@njit(cache=True, nogil=True, error_model="numpy")
def find_wide(starts, ends, counts, first, step, wide):
    """Mark columns that at most two slices touch, one of them wider than a column and a half."""
    for x in range(counts.shape[0] - 1):
        left = first + x * step
        low = counts[x]
        if low > 0 and ends[low - 1] > left:
            low -= 1
        high = counts[x + 1]
        wide[x] = 0
        if 0 < high - low <= 2:
            for s in range(low, high):
                if ends[s] - starts[s] >= 1.5 * step:
                    wide[x] = 1


@njit(cache=True, nogil=True, error_model="numpy")
def _paint_edge(
    image, x, top, upper, lower, starts, ends, keys, local, low, high, style, left, step, place, period,
    background,
):  # fmt: skip
    """Paint a column that one or two slices cover in part: their colours by their shares."""
    right = left + step
    first = local[keys[low]]
    second = local[keys[high - 1]]
    share = max((min(float(ends[low]), right) - max(float(starts[low]), left)) / step, 0.0)
    other = 0.0
    is_edge = starts[low] > left - 0.5 * step and ends[low] - starts[low] >= 4.0 * step
    if high - low == 2:
        other = max((min(float(ends[high - 1]), right) - max(float(starts[high - 1]), left)) / step, 0.0)
        is_edge = is_edge or ends[high - 1] - starts[high - 1] >= 4.0 * step
    covered = share + other
    if covered <= 0.0:
        return
    part = int(256.0 * other / covered + 0.5)
    weight = min(int(256.0 * covered + 0.5), 256)
    if is_edge:
        weight = weight * 5 >> 3
    for y in range(upper, lower):
        color = _pixel(style, first, place, y - top, period)
        if part:
            above = _pixel(style, second, place, y - top, period)
            color = _mix(color, above, part)
        image[y, x] = _mix(background, color, weight)


@njit(cache=True, nogil=True, error_model="numpy")
def paint_slices(
    image, top, height, starts, ends, keys, local, counts, wide, style, first, step, phase, period, background
):
    """Paint the columns marked by `find_wide`: full height, soft edges, a line where a slice begins."""
    rows = image.shape[0]
    upper = max(top, 0)
    lower = min(top + height, rows)
    for x in range(counts.shape[0] - 1):
        if not wide[x]:
            continue
        left = first + x * step
        right = left + step
        low = counts[x]
        if low > 0 and ends[low - 1] > left:
            low -= 1
        high = counts[x + 1]
        if high - low == 1 and starts[low] <= left and ends[low] >= right:
            category = local[keys[low]]
            for y in range(upper, lower):
                image[y, x] = _pixel(style, category, x + phase, y - top, period)
            continue
        _paint_edge(
            image,
            x,
            top,
            upper,
            lower,
            starts,
            ends,
            keys,
            local,
            low,
            high,
            style,
            left,
            step,
            x + phase,
            period,
            background,
        )


@njit(cache=True, nogil=True, error_model="numpy")
def find_labelled(starts, ends, counts, first, step, min_width, out):
    """Collect slices at least `min_width` columns wide that can be seen: rows (slice, left, right).

    A wide slice is the last one that starts in its column, so the cost follows the columns.
    Returns how many rows of `out` (n, 3) int64 are used.
    """
    used = 0
    num_slices = starts.shape[0]
    columns = counts.shape[0] - 1
    last_seen = -1
    for x in range(-1, columns):
        slice_index = counts[x + 1] - 1 if x >= 0 else counts[0] - 1
        if slice_index < 0 or slice_index == last_seen or slice_index >= num_slices:
            continue
        last_seen = slice_index
        left = max((starts[slice_index] - first) / step, 0.0)
        right = min((ends[slice_index] - first) / step, float(columns))
        if right - left < min_width:
            continue
        if used == out.shape[0]:
            break
        out[used, 0] = slice_index
        out[used, 1] = int(left + 0.5)
        out[used, 2] = int(right + 0.5)
        used += 1
    return used


@njit(cache=True, nogil=True, error_model="numpy")
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
                alpha = masks[line + dx]
                x = places[i, 2] + dx
                if alpha and 0 <= x < columns:
                    image[y, x] = _mix(np.int64(image[y, x]), color, alpha + (alpha >> 7))


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def paint_counter(image, top, height, low, high, last, maximum, fill, band, line, thickness):
    """Paint a counter: area up to its lowest value, a band up to its highest, a line at its last.

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


@njit(cache=True, nogil=True, error_model="numpy")
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
