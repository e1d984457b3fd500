"""Sums and pixels of the timeline against plain recounts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.base.kernels import entries
from npuviz.trace.pyramid_kernels import BLOCK, extend_sums
from npuviz.trace.schema import INTERVAL, TYPE_SHIFT
from npuviz.trace.store import TraceStore
from npuviz.ui.kit import raster_kernels as kernels
from npuviz.ui.timeline import track_kernels as tracks
from npuviz.ui.timeline.index import Categories, Cells, TimelineIndex
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


@pytest.mark.skipif(entries.is_plain, reason="there are no kernels")
@settings(max_examples=60, deadline=None)
@given(st.floats(-100, 25_000), st.floats(0.05, 5000), st.integers(1, 40))
def test_columns_are_the_same_uncompiled(first: float, step: float, count: int) -> None:
    whole = TimelineIndex(READER)
    index, is_work = whole.track(0), whole.categories.is_work
    compiled = index.columns(first, step, count)
    counts, sums = np.empty_like(compiled.counts), np.empty_like(compiled.sums)
    slices = (index.start, index.end, index.keys, index.local, index.view.starts, index.totals)
    kernels.cumulate.run_plain(*slices, first, step, counts, sums)
    np.testing.assert_array_equal(counts, compiled.counts)
    np.testing.assert_allclose(sums, compiled.sums, atol=1e-6)
    found = [(np.empty((2, count)), np.empty((2, count), np.int16)) for _ in range(2)]
    tracks.summarise(sums, index.present, is_work, *found[0])
    tracks.summarise.run_plain(sums, index.present, is_work, *found[1])
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    np.testing.assert_array_equal(found[0][1], found[1][1])


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


def test_by_operator_runs_the_same_kernels() -> None:
    def types(index: TimelineIndex) -> list[tuple[np.dtype, bool]]:
        track = index.track(0)
        arrays = (track.start, track.end, track.keys, track.local, track.view.starts, track.totals)
        return [(array.dtype, array.flags.writeable) for array in arrays]

    assert types(TimelineIndex(READER, by_operator=True)) == types(TimelineIndex(READER))


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
    image = np.zeros((10, width), dtype=np.uint32)
    paint_track(image, starts, ends, keys, first, step)
    return image


def paint_track(
    image: np.ndarray, starts: list[int], ends: list[int], keys: list[int], first: float, step: float,
    gap: int = 0, min_label: float = 1e9,
) -> np.ndarray:  # fmt: skip
    """Paint one track over all of an image but its gaps; returns the slices to be labelled."""
    start, end = np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
    key, local = np.array(keys, dtype=np.int16), np.array([0, 1], dtype=np.int16)
    blocks = len(start) // BLOCK
    totals, block_starts = np.zeros((blocks + 1, 2), dtype=np.int64), np.zeros(blocks, dtype=np.int64)
    # As a trace gives them: other arrays would take kernels of their own, seconds each.
    for column in (start, end, key):
        column.setflags(write=False)
    extend_sums(start, end, key, local, 0, blocks, totals, block_starts)
    block_starts.setflags(write=False)
    height, width = image.shape
    plan = np.full((tracks.PLAN_ROWS, width), 77, dtype=np.int32)
    amounts, edges = np.zeros(2), np.zeros((width, tracks.EDGE_COLUMNS), dtype=np.int64)
    labels = np.zeros((8, tracks.LABEL_COLUMNS), dtype=np.int64)
    used = tracks.paint_slices(
        image, gap, height - 2 * gap, gap, start, end, key, block_starts, STYLE, first, step, 0, 8, min_label,
        plan, amounts, edges, labels, 0xFF000000, 0xFF333333,
    )  # fmt: skip
    assert not amounts.any()
    return labels[:used]


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
    image = np.zeros((10, 120), dtype=np.uint32)
    slices = ([0, 10, 11, 100], [10, 11, 90, 101], [0] * 4)
    assert paint_track(image, *slices, 0.0, 1.0, 0, 5.0).tolist() == [[0, 0, 10], [2, 11, 90]]
    assert paint_track(image, *slices, 20.0, 1.0, 0, 5.0).tolist() == [[2, 0, 70]]
    assert paint_track(image, *slices, 85.0, 1.0, 0, 6.0).tolist() == []


def test_a_row_paints_its_gaps_and_the_line_below() -> None:
    image = np.full((10, 3), 7, dtype=np.uint32)
    paint_track(image, [0], [100], [0], 0.0, 1.0, 2)
    assert image[:, 1].tolist() == [0xFF000000] * 2 + [0xFF0000FF] * 6 + [0xFF000000, 0xFF333333]


@given(
    st.integers(0, 2**32),
    st.floats(-20, 3000),
    st.floats(0.3, 300),
    st.integers(1, 60),
    st.sampled_from([8, 28, 400]),
)
@settings(max_examples=60, deadline=None)
def test_every_column_shows_a_naive_recount(
    seed: int, first: float, step: float, width: int, longest: int
) -> None:
    random = np.random.default_rng(seed)
    length = random.integers(0, longest, 300)
    stop = np.cumsum(length + random.integers(0, 9, 300))
    start, keys = stop - length, random.integers(0, 2, 300)
    image = paint(start.tolist(), stop.tolist(), keys.tolist(), first, step, width)
    for x in range(width):
        left, right = first + x * step, first + (x + 1) * step
        part = np.clip(np.minimum(stop, right) - np.maximum(start, left), 0, None)
        touching = (stop > left) & (start < right)
        if touching.sum() <= 2 and (length[touching] >= 1.5 * step).any():
            assert part.sum() <= step * 0.02 or set(image[:, x].tolist()) != {0xFF000000}
            continue
        expected = [part[keys == key].sum() / step * 10 for key in (0, 1)]
        blue = int((image[:, x] == 0xFF0000FF).sum())
        both = int((image[:, x] != 0xFF000000).sum())
        for found, exact in ((blue, expected[0]), (both, sum(expected))):
            assert abs(found - exact) <= 0.5 + 1e-6 or (found == 1 and 0 < exact < 1) or part.sum() < 1e-6


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


def check_cells(index: TimelineIndex, cells: Cells) -> None:
    """Compare cells with a recount of every slice."""
    for i in range(cells.begin, cells.end):
        found = recount(index, 0, i * cells.size, (i + 1) * cells.size)
        for part in (0, 1):
            own = {
                c: n for c, n in found.items() if bool(index.categories.is_work[c]) == (part == 0) and n > 0
            }
            assert cells.amounts[part, i - cells.begin] == sum(own.values())
            if own:
                best = min(c for c, n in own.items() if n == max(own.values()))
                assert cells.categories[part, i - cells.begin] == best


def test_cells_are_exact_wherever_a_window_moves() -> None:
    index = TimelineIndex(make_reader(1, 2000))
    first = index.cells((0,), 64, 100, 110)
    assert index.cells((0,), 64, 101, 120) is first, "what is summed up is kept"
    for low, high in ((90, 170), (20, 60), (-5, 400), (300, 310)):
        cells = index.cells((0,), 64, low, high)
        assert cells.begin <= low
        assert cells.end >= high
        check_cells(index, cells)
    check_cells(index, index.cells((0,), 32, 50, 60))


def test_cells_follow_a_growing_trace() -> None:
    reader = make_reader(1, 500)
    index = TimelineIndex(reader)
    index.cells((0,), 64, 0, 120)
    store = reader.source
    assert isinstance(store, TraceStore)
    end = reader.end_cycle
    store.append(np.array([[INTERVAL << TYPE_SHIFT | 3, end + 10 + i, end + 11 + i, 0] for i in range(300)]))
    check_cells(index, index.cells((0,), 64, 0, 120))


def test_cells_forget_a_history_that_was_rewritten() -> None:
    reader = make_reader(1, 500)
    index = TimelineIndex(reader)
    index.cells((0,), 64, 0, 120)
    store = reader.source
    assert isinstance(store, TraceStore)
    store.truncate(1000)
    store.append(np.array([[INTERVAL << TYPE_SHIFT | 2, 2000 + 2 * i, 2001 + 2 * i, 0] for i in range(900)]))
    check_cells(index, index.cells((0,), 64, 0, 120))


def test_cells_of_a_group_are_the_sum_of_its_tracks() -> None:
    index = TimelineIndex(make_reader(3, 3000))
    together = index.cells((0, 1, 2), 64, 10, 90).between(10, 90)
    each = [index.cells((track,), 64, 10, 90).between(10, 90).amounts for track in range(3)]
    assert np.array_equal(together.amounts, sum(each))
