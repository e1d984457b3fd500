"""Sums and pixels of the timeline against plain recounts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.trace.pyramid_kernels import BLOCK, extend_sums
from npuviz.trace.schema import INTERVAL, TYPE_SHIFT
from npuviz.trace.store import TraceStore
from npuviz.ui.widgets import raster_kernels as kernels
from npuviz.ui.widgets.timeline_index import Categories, TimelineIndex
from tests.ui.synthetic import KINDS, make_reader

WORK = [kind.id for kind in KINDS if not kind.role.startswith("wait-")]


def recount(index: TimelineIndex, track: int, first: float, last: float) -> dict[int, float]:
    view = index.track(track).view
    covered = np.minimum(view.end, last) - np.maximum(view.start, first)
    found: dict[int, float] = {}
    for kind in np.unique(view.kind):
        amount = float(covered[(view.kind == kind) & (covered > 0)].sum())
        if amount:
            found[int(kind)] = amount
    return found


READER = make_reader(2, 4000)


@settings(max_examples=60, deadline=None)
@given(st.floats(-100, 25_000), st.floats(0.05, 5000), st.integers(1, 40))
def test_columns_are_exact(first: float, step: float, count: int) -> None:
    index = TimelineIndex(READER).track(0)
    edges = index.columns(first, step, count)
    view = index.view
    for x in (0, count // 2, count):
        edge = first + x * step
        assert edges.counts[x] == np.count_nonzero(view.start < edge)
        covered = np.clip(edge - view.start, 0, view.end - view.start)
        for place, kind in enumerate(index.present):
            assert edges.sums[x, place] == pytest.approx(covered[view.kind == kind].sum(), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 20_000), st.integers(1, 20_000))
def test_busy_of_a_range_is_a_recount(first: int, length: int) -> None:
    index = TimelineIndex(READER)
    assert index.track(1).busy(first, first + length) == pytest.approx(
        recount(index, 1, first, first + length)
    )


def test_by_operator_counts_the_same_work() -> None:
    by_kind, by_operator = TimelineIndex(READER), TimelineIndex(READER, by_operator=True)
    plain = by_kind.busy([0, 1], 1000, 9000)
    coloured = by_operator.busy([0, 1], 1000, 9000)
    work = sum(amount for kind, amount in plain.items() if kind in WORK)
    operators = {n: a for n, a in coloured.items() if n >= by_operator.categories.num_kinds}
    assert sum(operators.values()) == pytest.approx(work)
    assert {by_operator.categories.names[n] for n in operators} <= {"Conv", "Relu", "Add", "MaxPool"}
    assert len(operators) > 1


def test_categories_know_stalls() -> None:
    categories = Categories(READER.schema)
    assert [bool(categories.is_work[kind.id]) for kind in KINDS] == [kind.id in WORK for kind in KINDS]
    texts = [text for _number, text in categories.legend()]
    assert "compute" in texts
    assert "waits: conflict" in texts
    assert len(texts) == len(set(texts))


STYLE = np.array([[0xFF0000FF, 0xFF0000FF, 0, 0, 1], [0xFF00FF00, 0xFFFFFFFF, 1, 1, 0]], dtype=np.int64)


def paint(
    starts: list[int], ends: list[int], keys: list[int], first: float, step: float, width: int
) -> np.ndarray:
    """One track, ten pixels high, on black."""
    start, end = np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
    key, local = np.array(keys, dtype=np.int16), np.array([0, 1], dtype=np.int16)
    counts, sums = np.empty(width + 1, dtype=np.int64), np.empty((width + 1, 2))
    blocks = len(start) // BLOCK
    totals, block_starts = np.zeros((blocks + 1, 2), dtype=np.int64), np.zeros(blocks, dtype=np.int64)
    extend_sums(start, end, key, local, 0, blocks, totals, block_starts)
    kernels.cumulate(start, end, key, local, block_starts, totals, first, step, counts, sums)
    wide = np.empty(width, dtype=np.uint8)
    kernels.find_wide(start, end, counts, first, step, wide)
    image = np.full((10, width), 0xFF000000, dtype=np.uint32)
    plan = np.zeros((kernels.PLAN_ROWS, width), dtype=np.int32)
    highest = kernels.plan_levels(10, sums, 1 / step, STYLE, wide, np.arange(width + 1), 0, plan)
    kernels.paint_plan(image, 0, 10, highest, plan, 8)
    kernels.paint_slices(
        image, 0, 10, start, end, key, local, counts, wide, STYLE, first, step, 0, 8, 0xFF000000
    )
    return image


def test_height_is_utilisation() -> None:
    # Forty cycles a pixel, of which every second is busy.
    starts = list(range(0, 400, 2))
    image = paint(starts, [s + 1 for s in starts], [0] * len(starts), 0.0, 40.0, 10)
    assert (image == 0xFF0000FF).sum(axis=0).tolist() == [5] * 10


def test_a_lonely_slice_is_never_invisible() -> None:
    image = paint([5000], [5001], [0], 0.0, 1000.0, 10)
    assert (image != 0xFF000000).sum(axis=0).tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_wide_slices_have_full_height_and_soft_edges() -> None:
    image = paint([10, 25], [25, 35], [0, 1], 0.0, 2.0, 20)
    assert set(image[:, 8].tolist()) == {0xFF0000FF}
    assert set(image[:, 15].tolist()) <= {0xFF00FF00, 0xFFFFFFFF}
    assert len(set(image[:, 15].tolist())) == 2, "a stall is hatched"
    edge = int(image[5, 17])
    assert edge not in (0xFF000000, 0xFF00FF00), "half covered"
    assert set(image[:, 18].tolist()) == {0xFF000000}


def test_labels_find_every_wide_slice() -> None:
    starts, ends = np.array([0, 10, 11, 100], dtype=np.int64), np.array([10, 11, 90, 101], dtype=np.int64)
    counts, sums = np.empty(121, dtype=np.int64), np.empty((121, 1))
    keys, local = np.zeros(4, dtype=np.int16), np.zeros(1, dtype=np.int16)
    none, totals = np.zeros(0, dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
    kernels.cumulate(starts, ends, keys, local, none, totals, 0.0, 1.0, counts, sums)
    out = np.empty((8, 3), dtype=np.int64)
    used = kernels.find_labelled(starts, ends, counts, 0.0, 1.0, 5.0, out)
    assert out[:used].tolist() == [[0, 0, 10], [2, 11, 90]]
    used = kernels.find_labelled(starts, ends, counts, 20.0, 1.0, 5.0, out)
    assert out[:used].tolist() == [[2, 0, 70]] or used == 1


def test_counter_is_an_area_up_to_its_value() -> None:
    image = np.zeros((10, 4), dtype=np.uint32)
    values = np.array([0.0, 5.0, 10.0, np.nan])
    kernels.paint_counter(image, 0, 10, values, values, values, 10.0, 1, 2, 3, 1)
    assert (image[:, 3] == 0).all()
    assert (image[:, 2] != 0).all()
    assert (image[:5, 1] == 0).sum() == 5 or (image[:4, 1] == 0).all()
    assert (image[:, 0] == 1).sum() == 0


def test_boxes_are_at_least_one_pixel() -> None:
    image = np.zeros((6, 6), dtype=np.uint32)
    kernels.fill_boxes(image, np.array([[1, 1, 1, 1, 7], [4, -5, 99, 3, 8]], dtype=np.int64), 9)
    assert image[1, 1] == 7
    assert (image[:3, 4:] == 8).all() or (image[:3, 4:] == 9).any()
    assert (image[3:] == 0).all()


def test_grid_is_exact_and_grows_with_the_trace() -> None:
    reader = make_reader(1, 500)
    index = TimelineIndex(reader)
    first = index.grid(0, 64)
    assert index.grid(0, 64) is first
    store = reader.source
    assert isinstance(store, TraceStore)
    end = reader.end_cycle
    rows = np.array([[INTERVAL << TYPE_SHIFT | 3, end + 10 + i, end + 11 + i, 0] for i in range(300)])
    store.append(rows)
    grown = index.grid(0, 64)
    whole = index.track(0).columns(0.0, 64.0, len(grown.sums) - 1)
    assert len(grown.sums) > len(first.sums)
    assert np.array_equal(grown.sums, whole.sums)
    assert grown.sums[-1].sum() == (index.track(0).end - index.track(0).start).sum()


def test_grid_forgets_a_history_that_was_rewritten() -> None:
    reader = make_reader(1, 500)
    index = TimelineIndex(reader)
    index.grid(0, 64)
    store = reader.source
    assert isinstance(store, TraceStore)
    store.truncate(1000)
    store.append(np.array([[INTERVAL << TYPE_SHIFT | 2, 2000 + 2 * i, 2001 + 2 * i, 0] for i in range(900)]))
    grown = index.grid(0, 64)
    assert np.array_equal(grown.sums, index.track(0).columns(0.0, 64.0, len(grown.sums) - 1).sums)
