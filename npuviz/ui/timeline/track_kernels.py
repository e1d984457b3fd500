"""Kernels that paint interval tracks, one call per track; the cost depends on pixels and visible slices.

A kernel first plans every pixel column of a row (PLAN_ROWS numbers for each column, see `_set_column`) and
then paints the row line by line, which the compiler can vectorise. Images, styles and columns are those of
raster_kernels; a slice's category is keys[s].
"""

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner
from npuviz.base.kernels.twins import stand_in
from npuviz.trace.pyramid_kernels import first_starting_from
from npuviz.ui.kit.raster_kernels import FILL, IS_WORK, LINE, X_STEP, Y_STEP, mix, pixel

PLAN_ROWS = 7
EDGE_COLUMNS = 3
LABEL_COLUMNS = 3

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True, error_model="numpy")

_inlined = inner(error_model="numpy", forceinline=True)
"""Decorator of helpers in hot loops: without inlining, every array argument costs atomic reference counts."""


@_entry
def count_between(starts, block_starts, first, last):
    """Count the slices that start in [first, last)."""
    low = first_starting_from(starts, block_starts, 0, first)
    return max(first_starting_from(starts, block_starts, low, last) - low, 0)


@_entry
def summarise(sums, present, is_work, amounts, categories):
    """Reduce the sums of each column to the cycles, and the commonest category, of work and of stalls.

    sums        (columns + 1, categories of the track) busy cycles before each edge
    present     category number of each column of `sums`; is_work (categories,) of each number
    amounts     (2, columns) float64 out: busy cycles of work, of stalls
    categories  (2, columns) int16 out: category with most cycles of either, the lower of equal ones
    """
    for x in range(sums.shape[0] - 1):
        for part in range(2):
            total = 0.0
            best = 0.0
            category = np.int16(0)
            for c in range(sums.shape[1]):
                number = present[c]
                if is_work[number] == part:
                    continue
                amount = sums[x + 1, c] - sums[x, c]
                total += amount
                is_better = (amount > best) | ((amount == best) & (amount > 0.0) & (number < category))
                best = amount if is_better else best
                category = number if is_better else category
            amounts[part, x] = total
            categories[part, x] = category


def _plain_summary(sums, present, is_work, amounts, categories):
    each = np.diff(sums, axis=0)
    rising = np.argsort(present[: each.shape[1]])
    for part in range(2):
        chosen = rising[is_work[present[rising]] != part]
        amounts[part] = each[:, chosen].sum(axis=1)
        categories[part] = 0
        if len(chosen):
            best = each[:, chosen].argmax(axis=1)
            is_any = each[np.arange(len(each)), chosen[best]] > 0.0
            categories[part] = np.where(is_any, present[chosen[best]], 0)


stand_in(summarise, _plain_summary)


@_inlined
def _set_column(plan, x, size, busy, style):
    """Plan a column from its busy cycles; return its height in pixels, at least 1 if there are any.

    size  place in the hatching, height of the row, fraction of the column that a busy cycle stands for
    busy  cycles of work, of stalls, categories of both

    Rows of `plan`: pixels of work, pixels of work and stalls, colour of work, fill and line colour of
    stalls, place in the hatching at the row's top, its growth per line.
    """
    place, height, scale = size
    work, stall, work_category, stall_category = busy
    work_pixels = np.int32(min(work * scale, 1.0) * height + 0.5)
    work_pixels = np.int32(1) if (work > 0.0) & (work_pixels == 0) else work_pixels
    both_pixels = np.int32(min((work + stall) * scale, 1.0) * height + 0.5)
    both_pixels = max(both_pixels, work_pixels)
    both_pixels = np.int32(1) if (stall > 0.0) & (both_pixels == 0) else both_pixels
    plan[0, x] = work_pixels
    plan[1, x] = both_pixels
    plan[2, x] = np.int32(style[work_category, FILL])
    plan[3, x] = np.int32(style[stall_category, FILL])
    plan[4, x] = np.int32(style[stall_category, LINE])
    plan[5, x] = style[stall_category, X_STEP] * place
    plan[6, x] = style[stall_category, Y_STEP]
    return both_pixels


@_inlined
def _paint_plan(image, lane, plan, period, background):
    """Paint all pixels of a row: work from below, stalls above it, then background.

    lane  top of the row, its height, the height of its highest column
    """
    top, height, highest = lane
    mask = np.int32(period - 1)
    quarter = np.int32(period >> 2)
    width = min(plan.shape[1], image.shape[1])
    plain = np.int32(np.uint32(background))
    works = plan[0]
    boths = plan[1]
    work_colors = plan[2]
    fills = plan[3]
    lines = plan[4]
    places = plan[5]
    growths = plan[6]
    for y in range(max(top, 0), min(top + height, image.shape[0])):
        level = np.int32(top + height - y)
        row = image[y].view(np.int32)
        if level > highest:
            row[:width] = plain
            continue
        down = np.int32(y - top)
        # All loads first and selections instead of branches, for vector instructions.
        for x in range(width):
            plain_work = works[x]
            both = boths[x]
            fill = fills[x]
            line = lines[x]
            color = work_colors[x]
            place = (places[x] + growths[x] * down) & mask
            stall = line if place < quarter else fill
            color = color if level <= plain_work else stall
            row[x] = color if level <= both else plain


def _plain_plan(image, lane, plan, period, background):
    top, height, highest = lane
    width = min(plan.shape[1], image.shape[1])
    image = image.view(np.int32)
    works, boths, work_colors, fills, lines, places, growths = plan[:, :width]
    plain = np.int32(np.uint32(background))
    for y in range(max(top, 0), min(top + height, image.shape[0])):
        level = top + height - y
        image[y, :width] = plain
        if level <= highest:
            is_line = (places + growths * (y - top)) & (period - 1) < period >> 2
            stalls = np.where(is_line, lines, fills)
            colors = np.where(level <= works, work_colors, stalls)
            image[y, :width] = np.where(level <= boths, colors, plain)


stand_in(_paint_plan, _plain_plan)


@_inlined
def _paint_frame(image, lane, background, line):
    """Paint the gaps above and below the slices of a row, and the line that separates it from the next row.

    lane  top of the row, its height, the gap
    """
    top, height, gap = lane
    bottom = top + height + gap
    for y in range(max(top - gap, 0), min(top, image.shape[0])):
        image[y, :] = np.uint32(background)
    for y in range(max(top + height, 0), min(bottom, image.shape[0])):
        image[y, :] = np.uint32(line if y == bottom - 1 else background)


@_entry
def paint_cells(
    image, top, height, gap, amounts, categories, begin, first, step, cell, share, style, phase, period,
    plan, background, line,
):  # fmt: skip
    """Paint a row from sums over cells of at least one column each.

    amounts, categories  as `summarise` makes them; the first of them is of cell number `begin`,
                         which covers [begin * cell, (begin + 1) * cell) cycles counted from 0
    share  fraction of a cell that one busy cycle stands for
    plan   (PLAN_ROWS, columns) int32, scratch
    """
    width = plan.shape[1]
    plan[1, :] = 0
    highest = np.int32(0)
    low = max(int(np.floor(first / cell)) - begin, 0)
    for i in range(low, amounts.shape[1]):
        left = int(np.floor(((begin + i) * cell - first) / step + 0.5))
        if left >= width:
            break
        work = amounts[0, i]
        stall = amounts[1, i]
        if work <= 0.0 and stall <= 0.0:
            continue
        right = int(np.floor(((begin + i + 1) * cell - first) / step + 0.5))
        for x in range(max(left, 0), min(right, width)):
            busy = (work, stall, categories[0, i], categories[1, i])
            reached = _set_column(plan, x, (x + phase, height, share), busy, style)
            highest = max(highest, reached)
    _paint_frame(image, (top, height, gap), background, line)
    _paint_plan(image, (top, height, highest), plan, period, background)


@_inlined
def _plan_run(plan, span, size, category, style):
    """Plan the columns [span[0], span[1]) as covered by one slice. size: height, phase of the hatching."""
    height, phase = size
    is_work = style[category, IS_WORK]
    for x in range(span[0], span[1]):
        plan[0, x] = height if is_work else 0
        plan[1, x] = height
        plan[2, x] = np.int32(style[category, FILL])
        plan[3, x] = np.int32(style[category, FILL])
        plan[4, x] = np.int32(style[category, LINE])
        plan[5, x] = style[category, X_STEP] * (x + phase)
        plan[6, x] = style[category, Y_STEP]


@_inlined
def _plan_crowd(plan, x, keys, s, j, step, height, phase, style, amounts):
    """Plan a column from the slices [s, j) that touch it; takes their cycles out of `amounts`."""
    whole = 0.0
    work = 0.0
    best_work = 0.0
    best_stall = 0.0
    work_category = np.int64(0)
    stall_category = np.int64(0)
    for i in range(s, j):
        # Selections instead of branches, which would be mispredicted: kinds alternate at random.
        category = np.int64(keys[i])
        amount = amounts[category]
        amounts[category] = 0.0
        is_work = style[category, IS_WORK] != 0
        of_work = amount if is_work else 0.0
        of_stall = amount - of_work
        whole += amount
        work += of_work
        is_better = (of_work > best_work) | (
            (of_work == best_work) & (of_work > 0.0) & (category < work_category)
        )
        best_work = of_work if is_better else best_work
        work_category = category if is_better else work_category
        is_worse = (of_stall > best_stall) | (
            (of_stall == best_stall) & (of_stall > 0.0) & (category < stall_category)
        )
        best_stall = of_stall if is_worse else best_stall
        stall_category = category if is_worse else stall_category
    busy = (work, whole - work, work_category, stall_category)
    return _set_column(plan, x, (x + phase, height, 1.0 / step), busy, style)


@_entry
def plan_slices(
    starts,
    ends,
    keys,
    block_starts,
    style,
    first,
    step,
    height,
    phase,
    min_label,
    plan,
    amounts,
    edges,
    labels,
):
    """Walk over the slices of the window and plan every column.

    A column that one slice covers gets its colour; one that at most two slices touch, one of them longer than
    a column and a half, is an edge, painted by `_paint_edge`; all others show their utilisation.
    plan     (PLAN_ROWS, columns) int32 out
    amounts  (categories,) float64, all zero before and after
    edges    (columns, EDGE_COLUMNS) int64 out: column, first slice, last slice + 1
    labels   (n, LABEL_COLUMNS) int64 out: slice, left, right of slices at least `min_label` columns wide
    Returns (height of the highest column, rows of `edges`, rows of `labels`).
    """
    count = starts.shape[0]
    columns = plan.shape[1]
    num_edges = 0
    num_labels = 0
    labelled = -1
    highest = np.int32(0)
    s = first_starting_from(starts, block_starts, 0, first)
    while s > 0 and ends[s - 1] > first:
        s -= 1
    x = 0
    while x < columns:
        left = first + x * step
        right = first + (x + 1) * step
        plan[0, x] = 0
        plan[1, x] = 0
        if s >= count or starts[s] >= right:
            x += 1
            continue
        if starts[s] <= left and ends[s] >= right:
            stop = min(max(int((ends[s] - first) / step), x + 1), columns)
            _plan_run(plan, (x, stop), (np.int32(height), phase), keys[s], style)
            highest = np.int32(height)
            if s != labelled and num_labels < labels.shape[0]:
                begin = max((starts[s] - first) / step, 0.0)
                end = min((ends[s] - first) / step, float(columns))
                if end - begin >= min_label:
                    labels[num_labels, 0] = s
                    labels[num_labels, 1] = int(begin + 0.5)
                    labels[num_labels, 2] = int(end + 0.5)
                    num_labels += 1
                labelled = s
            x = stop
            while s < count and ends[s] <= first + x * step and starts[s] < first + x * step:
                s += 1
            continue
        j = s
        longest = ends[s] - starts[s]
        while j < count and starts[j] < right:
            longest = max(longest, ends[j] - starts[j])
            amounts[keys[j]] += max(min(float(ends[j]), right) - max(float(starts[j]), left), 0.0)
            j += 1
        if j - s <= 2 and longest >= 1.5 * step:
            amounts[keys[s]] = 0.0
            amounts[keys[j - 1]] = 0.0
            edges[num_edges, 0] = x
            edges[num_edges, 1] = s
            edges[num_edges, 2] = j
            num_edges += 1
        else:
            reached = _plan_crowd(plan, x, keys, s, j, step, height, phase, style, amounts)
            highest = max(highest, reached)
        s = j - 1 if ends[j - 1] > right else j
        x += 1
    return highest, num_edges, num_labels


@_inlined
def _paint_edge(
    image, x, top, height, starts, ends, keys, low, high, style, left, step, place, period, background
):
    """Paint a column that one or two slices cover in part, mixing their colours by their shares."""
    right = left + step
    first = keys[low]
    second = keys[high - 1]
    share = max((min(float(ends[low]), right) - max(float(starts[low]), left)) / step, 0.0)
    other = 0.0
    # The first pixel of a long slice is paler, so that a line shows between it and the one before.
    is_edge = starts[low] > left - 0.5 * step and ends[low] - starts[low] >= 4.0 * step
    if high - low == 2:
        other = max((min(float(ends[high - 1]), right) - max(float(starts[high - 1]), left)) / step, 0.0)
        is_edge = is_edge or ends[high - 1] - starts[high - 1] >= 4.0 * step
    covered = share + other
    if covered > 0.0:
        part = int(256.0 * other / covered + 0.5)
        weight = min(int(256.0 * covered + 0.5), 256)
        weight = weight * 5 >> 3 if is_edge else weight
        if not (style[first, X_STEP] | style[first, Y_STEP] | style[second, X_STEP] | style[second, Y_STEP]):
            color = mix(background, mix(style[first, FILL], style[second, FILL], part), weight)
            for y in range(max(top, 0), min(top + height, image.shape[0])):
                image[y, x] = color
            return
        for y in range(max(top, 0), min(top + height, image.shape[0])):
            color = pixel(style, first, place, y - top, period)
            if part:
                color = mix(color, pixel(style, second, place, y - top, period), part)
            image[y, x] = mix(background, color, weight)


@_entry
def paint_slices(
    image, top, height, gap, starts, ends, keys, block_starts, style, first, step, phase, period, min_label,
    plan, amounts, edges, labels, background, line,
):  # fmt: skip
    """Paint a row from its slices; return the number of rows in `labels`. Other arguments: `plan_slices`."""
    highest, num_edges, num_labels = plan_slices(
        starts, ends, keys, block_starts, style, first, step, height, phase, min_label, plan, amounts,
        edges, labels,
    )  # fmt: skip
    _paint_frame(image, (top, height, gap), background, line)
    _paint_plan(image, (top, height, highest), plan, period, background)
    for i in range(num_edges):
        x = edges[i, 0]
        _paint_edge(
            image, x, top, height, starts, ends, keys, edges[i, 1], edges[i, 2], style, first + x * step,
            step, x + phase, period, background,
        )  # fmt: skip
    return num_labels
