"""Where things are in time and in rows, without drawing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.trace.schema import Track
from npuviz.ui.kit.viewport import Viewport, tick_step, ticks
from npuviz.ui.timeline.rows import RowOptions, lay_out, leading_tracks


@given(
    st.floats(0, 1e9), st.floats(10, 1e9), st.floats(0.1, 10), st.integers(0, 1000), st.integers(1, 10**10)
)
def test_zoom_keeps_what_is_under_the_pointer_unless_clamped(
    start: float, span: float, factor: float, x: int, end: int
) -> None:
    view = Viewport(start, span, 1000.0).clamped(end)
    before = view.cycle_at(x)
    after = view.zoomed(factor, x, end)
    free = after.span * 0.05
    is_clamped = after.start <= -free * 0.999 or after.end >= end + free * 0.999
    if not is_clamped:
        assert after.cycle_at(x) == pytest.approx(before, rel=1e-6, abs=after.span * 1e-6)
    assert after.span <= after.max_span(end) * (1 + 1e-9)


def test_fit_shows_all_cycles() -> None:
    view = Viewport(width=800.0).fitted(12_345)
    assert view.start <= 0
    assert view.end >= 12_345


def test_pan_cannot_lose_the_run() -> None:
    view = Viewport(0, 100, 1000.0).panned(1e9, 1000)
    assert view.start < 1000 < view.end + 1
    assert Viewport(0, 100, 1000.0).panned(-1e9, 1000).end > 0


def test_reveal_moves_only_when_needed() -> None:
    view = Viewport(100, 100, 1000.0)
    assert view.revealed(150, 10_000) is view
    moved = view.revealed(5000, 10_000)
    assert moved.start < 5000 < moved.end
    assert moved.span == view.span


@pytest.mark.parametrize(
    ("span", "width", "step"), [(1000, 1000, 100), (1000, 500, 200), (10, 1000, 1), (7e6, 700, 1_000_000)]
)
def test_tick_steps_are_round_numbers(span: float, width: float, step: int) -> None:
    assert tick_step(span, width, 100) == step


def test_ticks_lie_inside() -> None:
    assert ticks(Viewport(-50, 300, 100.0), 100) == [0, 100, 200]


def track(number: int, name: str, kind: str = "interval", unit: int = -1) -> Track:
    return Track(number, name, "counter" if kind == "counter" else "interval", unit)


TRACKS = (
    track(0, "Core[10].LD", unit=0),
    track(1, "Core[2].LD", unit=1),
    track(2, "Core[2].EX", unit=2),
    track(3, "Core[2].LD.occupancy", "counter", unit=1),
    track(4, "Core[10].EX", unit=4),
    track(5, "Bus", unit=5),
)


def labels(options: RowOptions = RowOptions()) -> list[str]:  # noqa: B008
    return [f"{'  ' * row.depth}{row.label}" for row in lay_out(TRACKS, options).rows]


def test_groups_in_the_order_of_the_machine_counters_under_their_owner() -> None:
    assert labels() == [
        "Core[2]", "  LD", "    occupancy", "  EX", "Core[10]", "  LD", "  EX", "Bus",
    ]  # fmt: skip


def test_arrays_and_many_counters_are_folded_until_asked_for() -> None:
    tracks = [track(0, "Core[0].PE", unit=0)]
    tracks += [track(i, f"Core[0].DMA[{i - 1}]", unit=i) for i in range(1, 17)]
    tracks += [track(i, f"Core[0].S[{i - 17}]", "counter", unit=0) for i in range(17, 23)]
    layout = lay_out(tracks, RowOptions())
    assert [row.label for row in layout.rows] == ["Core[0]", "PE", "6 counters", "DMA \u00d7 16"]
    array = layout.rows[-1]
    assert array.is_collapsed
    assert set(array.members) == set(range(1, 17))
    assert layout.showing(5) is array
    layout = lay_out(tracks, RowOptions(collapsed=frozenset({array.name})))
    assert [row.label for row in layout.rows][-16:] == [f"DMA[{i}]" for i in range(16)]
    layout = lay_out(tracks, RowOptions(filter_text="dma[3]"))
    assert layout.of_track(4) is not None, "a filter shows what it finds"
    alone = lay_out(tracks[1:17], RowOptions())
    assert [row.label for row in alone.rows] == ["Core[0]", *[f"DMA[{i}]" for i in range(16)]]


def test_folded_group_is_one_row_that_knows_its_tracks() -> None:
    layout = lay_out(TRACKS, RowOptions(collapsed=frozenset({"Core[2]"})))
    row = next(row for row in layout.rows if row.name == "Core[2]")
    assert row.is_collapsed
    assert set(row.members) == {1, 2}
    assert layout.of_track(1) is None


def test_hidden_filtered_pinned() -> None:
    assert "    occupancy" not in labels(RowOptions(shows_counters=False))
    assert labels(RowOptions(filter_text="core[10]")) == ["Core[10]", "  LD", "  EX"]
    assert "  EX" not in labels(RowOptions(hidden=frozenset({2, 4})))
    assert labels(RowOptions(pinned=(4,)))[0] == "Core[10].EX"
    assert labels(RowOptions(pinned=(4,))).count("  EX") == 1


def test_rows_by_pixel() -> None:
    layout = lay_out(TRACKS, RowOptions(row_height=20))
    for row in layout.rows:
        assert layout.at(row.top) is row
        assert layout.at(row.bottom - 1) is row
    assert layout.at(-1) is None
    assert layout.at(layout.height) is None
    inside = layout.between(layout.rows[1].top + 1, layout.rows[3].top + 1)
    assert inside == layout.rows[1:4]


def test_a_group_of_one_is_no_group() -> None:
    layout = lay_out((track(0, "Core[0].SPAD.used"), track(1, "Core[0].LD")), RowOptions())
    assert [row.label for row in layout.rows] == ["Core[0]", "SPAD.used", "LD"]


def test_what_all_units_work_on_and_units_that_dominate_stand_first() -> None:
    tracks = [track(0, "Core[0].LD", unit=0), track(1, "Core[0].EX", unit=1), track(2, "Operators")]
    tracks += [track(3, "Host", unit=2), track(4, "DDR", unit=3)]
    assert [row.name for row in lay_out(tracks, RowOptions()).rows][-1] == "DDR"
    assert leading_tracks(tracks, {}) == {2}
    leading = leading_tracks(tracks, {1: 0.9, 2: 0.7, 3: 0.2})
    rows = lay_out(tracks, RowOptions(leading=leading)).rows
    assert [row.name for row in rows if row.kind != "group"] == [
        "Operators", "Host", "Core[0].LD", "Core[0].EX", "DDR",
    ]  # fmt: skip
