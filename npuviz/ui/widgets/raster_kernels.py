"""Painting of tracks into pixels, and the sums behind it.

Images are (height, width) uint32 arrays of opaque 0xffRRGGBB pixels. A *category* is a small
integer that selects a row of a style table: (fill colour, line colour, hatch, is_work); slice s has
category local[keys[s]]. Slices of a track are sorted by start and never overlap. Column x covers
[first + x * step, first + (x + 1) * step) in cycles. Sums of blocks of slices are those of
npuviz.trace.pyramid_kernels.
"""

import numpy as np
from numba import njit

from npuviz.trace.pyramid_kernels import BLOCK

FILL, LINE, HATCH, IS_WORK = 0, 1, 2, 3


@njit(cache=True, nogil=True, error_model="numpy")
def _count_before(starts, block_starts, cycle, hint):
    """Slices that start before `cycle`, looked for from `hint` (a lower bound) on.

    Whole blocks are passed by their first starts, which lie close together in memory.
    """
    num_blocks = block_starts.shape[0]
    low = hint // BLOCK
    width = 1
    while low + width <= num_blocks and block_starts[low + width - 1] < cycle:
        low += width
        width *= 2
    high = min(low + width, num_blocks)
    while low < high:
        middle = (low + high) >> 1
        if block_starts[middle] < cycle:
            low = middle + 1
        else:
            high = middle
    # Blocks before `low` begin before the cycle: the answer is in the last of them, or in the
    # slices behind the last block.
    first = max((low - 1) * BLOCK, hint)
    last = starts.shape[0] if low >= num_blocks else low * BLOCK
    while first < last:
        middle = (first + last) >> 1
        if starts[middle] < cycle:
            first = middle + 1
        else:
            last = middle
    return first


@njit(cache=True, nogil=True, error_model="numpy")
def cumulate(starts, ends, keys, local, block_starts, totals, first, step, counts, sums):
    """Busy cycles per category before each column's left edge.

    counts  (columns + 1,) int64 out: slices that start before the edge
    sums    (columns + 1, categories) float64 out, exact below 2^53
    """
    num_categories = totals.shape[1]
    hint = 0
    for x in range(counts.shape[0]):
        edge = first + x * step
        found = _count_before(starts, block_starts, edge, hint)
        counts[x] = found
        if x > 0 and found == hint and (found == 0 or ends[found - 1] <= edge - step):
            # Nothing happened between this edge and the one before.
            for c in range(num_categories):
                sums[x, c] = sums[x - 1, c]
            continue
        hint = found
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
def _is_hatched(hatch, x, y, period):
    """Whether a pixel lies on a line of a hatching: 1 rising, 2 falling, 3 level, 4 upright.

    period  a power of two
    """
    if hatch == 1:
        place = x + y
    elif hatch == 2:
        place = x - y
    elif hatch == 3:
        place = y
    else:
        place = x
    return 4 * (place & (period - 1)) < period


@njit(cache=True, nogil=True, error_model="numpy")
def _pixel(fill, line, hatch, x, y, period):
    if hatch and _is_hatched(hatch, x, y, period):
        return line
    return fill


@njit(cache=True, nogil=True, error_model="numpy")
def fill_rows(image, top, bottom, color):
    """Fill whole pixel rows."""
    for y in range(max(top, 0), min(bottom, image.shape[0])):
        for x in range(image.shape[1]):
            image[y, x] = color


@njit(cache=True, nogil=True, error_model="numpy")
def paint_levels(image, top, height, sums, scale, style, only_lines, phase, period):
    """Paint utilisation as height: work from below in its dominant category, stalls above it.

    sums        (columns + 1, categories) as `cumulate` makes them
    scale       fraction of a column's height that one busy cycle stands for
    only_lines  per column: 1 where something else paints the column
    """
    num_categories = sums.shape[1]
    rows = image.shape[0]
    for x in range(sums.shape[0] - 1):
        if only_lines[x]:
            continue
        work = 0.0
        stall = 0.0
        best_work = 0.0
        best_stall = 0.0
        work_category = 0
        stall_category = 0
        for c in range(num_categories):
            amount = sums[x + 1, c] - sums[x, c]
            if amount <= 0.0:
                continue
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
        if work <= 0.0 and stall <= 0.0:
            continue
        work_pixels = int(min(work * scale, 1.0) * height + 0.5)
        if work > 0.0 and work_pixels == 0:
            work_pixels = 1
        both_pixels = max(int(min((work + stall) * scale, 1.0) * height + 0.5), work_pixels)
        if stall > 0.0 and both_pixels == 0:
            both_pixels = 1
        bottom = top + height
        fill = style[stall_category, FILL]
        line = style[stall_category, LINE]
        hatch = style[stall_category, HATCH]
        for y in range(max(bottom - both_pixels, 0), min(bottom - work_pixels, rows)):
            image[y, x] = _pixel(fill, line, hatch, x + phase, y - top, period)
        fill = style[work_category, FILL]
        for y in range(max(bottom - work_pixels, 0), min(bottom, rows)):
            image[y, x] = fill


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
        color = _pixel(style[first, FILL], style[first, LINE], style[first, HATCH], place, y - top, period)
        if part:
            above = _pixel(
                style[second, FILL], style[second, LINE], style[second, HATCH], place, y - top, period
            )
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
            fill = style[category, FILL]
            line = style[category, LINE]
            hatch = style[category, HATCH]
            if hatch == 0:
                for y in range(upper, lower):
                    image[y, x] = fill
            else:
                for y in range(upper, lower):
                    image[y, x] = _pixel(fill, line, hatch, x + phase, y - top, period)
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
