from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QImage, QPainter, QRegion
from PySide6.QtTest import QTest

from npuviz.program.graph import Flow, Graph, Node
from npuviz.program.program import HostReason, Note
from npuviz.program.tensor import Tensor
from npuviz.ui.graph.camera import GraphCamera, fit
from npuviz.ui.graph.edges import GraphEdgePainter
from npuviz.ui.graph.layout import NODE_HEIGHT, NODE_WIDTH, TERMINAL_HEIGHT, GraphLayout, lay_out_graph
from npuviz.ui.graph.painter import GraphPainter
from npuviz.ui.graph.panel import GraphPanel
from npuviz.ui.graph.picture import GraphOverlay, make_picture
from npuviz.ui.graph.progress import GraphProgress
from npuviz.ui.kit.trace_facts import NodeTimes, retired_before
from npuviz.workbench.selection import NOTHING
from tests.toy.session import make_session
from tests.ui.panel_bench import Bench, bench, pixels

__all__ = ["bench"]


def chain(length: int, skips: dict[int, int] | None = None) -> Graph:
    """A chain of operators; `skips` maps a node to an earlier node it reads as well."""
    tensors = [Tensor(0, "x", (1, 8), "float32", "input")]
    nodes: list[Node] = []
    for index in range(length):
        inputs = (index, skips[index] + 1) if skips and index in skips else (index,)
        tensors.append(Tensor(index + 1, f"t{index}", (1, 8), "float32", "activation", index))
        nodes.append(Node(index, f"n{index}", "Relu", "", inputs, (index + 1,)))
    return Graph("chain", tuple(nodes), tuple(tensors), (0,), (length,))


def overlaps(layout: GraphLayout) -> int:
    """Pairs of boxes that cover each other."""
    dx = np.abs(layout.x[:, None] - layout.x[None, :]) < NODE_WIDTH - 1
    dy = np.abs(layout.y[:, None] - layout.y[None, :]) < NODE_HEIGHT - 1
    return (int((dx & dy).sum()) - layout.num_boxes) // 2


@pytest.mark.parametrize("direction", ["down", "right"])
def test_data_flow_in_one_direction_and_boxes_keep_apart(direction: str) -> None:
    graph = chain(30, {5: 1, 9: 4, 20: 2})
    layout = lay_out_graph(graph, direction)  # pyright: ignore[reportArgumentType]
    along = layout.x if direction == "right" else layout.y
    assert (along[layout.sink] > along[layout.source]).all()
    assert overlaps(layout) == 0
    assert layout.num_nodes == 30
    assert [t.is_input for t in layout.terminals] == [True, False]
    assert len(layout.source) == 30 + 3 + 1


def test_edges_begin_and_end_at_their_boxes() -> None:
    layout = lay_out_graph(chain(12, {8: 1}))
    heights = [NODE_HEIGHT if box < layout.num_nodes else TERMINAL_HEIGHT for box in range(layout.num_boxes)]
    for edge in range(len(layout.source)):
        way = layout.path(edge)
        a, b = int(layout.source[edge]), int(layout.sink[edge])
        assert way[0].tolist() == pytest.approx([layout.x[a], layout.y[a] + heights[a] / 2])
        assert way[-1].tolist() == pytest.approx([layout.x[b], layout.y[b] - heights[b] / 2])


def test_a_long_edge_goes_around_the_boxes_between() -> None:
    layout = lay_out_graph(chain(12, {8: 1}))
    edge = next(e for e in range(len(layout.source)) if (layout.source[e], layout.sink[e]) == (1, 8))
    assert len(layout.path(edge)) == 2 + 6, "one bend for each rank it passes"


def test_parts_without_connection_stand_side_by_side() -> None:
    tensors = tuple(Tensor(i, f"t{i}", (), "float32", "activation", i) for i in range(6))
    nodes = tuple(Node(i, f"n{i}", "Constant", "", (), (i,)) for i in range(6))
    layout = lay_out_graph(Graph("islands", nodes, tensors, (), ()))
    assert overlaps(layout) == 0
    assert layout.num_boxes == 6


def test_an_empty_graph_and_a_cycle_do_no_harm() -> None:
    empty = lay_out_graph(Graph("e", (), (), (), ()))
    assert empty.bounds() == (0.0, 0.0, 0.0, 0.0)
    tensors = tuple(Tensor(i, f"t{i}", (), "float32", "activation", i) for i in range(2))
    nodes = (Node(0, "a", "Add", "", (1,), (0,)), Node(1, "b", "Add", "", (0,), (1,)))
    assert lay_out_graph(Graph("c", nodes, tensors, (), ())).num_boxes == 2


@pytest.mark.parametrize("x", [0.0, 40.0, 500.0, 960.0, 1000.0])
def test_a_centred_camera_shows_nothing_beyond_the_drawing(x: float) -> None:
    camera = GraphCamera(1.0).centred_on(x, 50, 400, 300).within((0, 0, 1000, 100), 400, 300)
    left, right = camera.to_drawing(0, 0)[0], camera.to_drawing(400, 0)[0]
    assert left >= -24
    assert right <= 1024
    assert left <= x <= right
    assert camera.to_screen(0, 50)[1] == 150, "what is smaller than the view lies in its middle"


def test_camera_keeps_the_point_under_the_pointer() -> None:
    camera = GraphCamera(0.5, 10, 20)
    at = camera.to_drawing(100, 80)
    zoomed = camera.zoomed(1.7, 100, 80)
    assert zoomed.to_drawing(100, 80) == pytest.approx(at)
    assert zoomed.scale == pytest.approx(0.85)
    whole = fit((0, 0, 1000, 4000), 500, 400)
    assert whole.to_screen(0, 0)[1] >= 0
    assert whole.to_screen(1000, 4000)[1] <= 400


def test_progress_counts_what_has_retired(bench: Bench) -> None:
    listing = bench.open_toy(blocks=2).program.listing
    progress = GraphProgress(listing, 4, [0, 1, 2])
    assert progress.total.tolist() == [8, 8, 8, 8]
    assert progress.retired({}).tolist() == [0, 0, 0, 0]
    # Loads of the first three tiles, the operation of the first two.
    assert progress.retired({0: 12, 1: 8}).tolist() == [6, 2, 0, 0]
    assert progress.fractions({0: 99, 1: 99, 2: 99}).tolist() == [1, 1, 1, 1]


def test_bounds_from_the_trace_agree_with_a_recount() -> None:
    session = make_session(blocks=4)
    session.run()
    assert session.trace is not None
    for cycle in (0, 37, 150, 222, session.cycle):
        bounds = retired_before(session.trace, cycle)
        for unit in range(3):
            rows = session.trace.interval_columns(unit)
            done = {
                int(i)
                for i, e, k in zip(rows.instruction, rows.end, rows.kind, strict=True)
                if e <= cycle and k < 4
            }
            total = sum(
                1
                for first, end in session.program.listing.ranges_of_unit(unit)
                for i in range(first, end)
                if i < bounds.get(unit, 0)
            )
            assert total == len(done), (cycle, unit)


def test_node_times_agree_with_a_recount_in_slices_and_at_once() -> None:
    session = make_session(blocks=4)
    session.run()
    assert session.trace is not None
    whole, sliced = NodeTimes(session.trace, 4), NodeTimes(session.trace, 4)
    assert whole.advance()
    calls = 1
    while not sliced.advance(budget=7):
        calls += 1
    assert calls > 3
    rows = [session.trace.interval_columns(track) for track in range(3)]
    for node in range(4):
        spans = [
            (int(s), int(e))
            for r in rows
            for s, e, k, n in zip(r.start, r.end, r.kind, r.node, strict=True)
            if n == node and k < 4
        ]
        expected = (min(s for s, _ in spans), max(e for _, e in spans), sum(e - s for s, e in spans))
        for times in (whole, sliced):
            assert (times.first[node], times.last[node], times.busy[node]) == expected


def wait_for_picture(bench: Bench, panel: GraphPanel) -> None:
    bench.qtbot.waitUntil(lambda: panel.view.picture is not None)
    bench.settle()


def test_without_session_bundle_or_graph_it_says_so(bench: Bench) -> None:
    panel = bench.make(GraphPanel)
    assert not panel.view.isVisible()
    session = bench.open_toy()
    wait_for_picture(bench, panel)
    assert panel.view.isVisible()
    bench.open_bundle_of(session)
    assert not panel.view.isVisible()
    assert panel.view.picture is None
    bench.model.close()
    pixels(panel)


def test_shows_where_the_run_is(bench: Bench) -> None:
    panel = bench.make(GraphPanel)
    bench.open_toy()
    wait_for_picture(bench, panel)
    start = panel.view.overlay.progress
    assert start is not None
    assert start.tolist() == [0, 0, 0, 0]
    before = pixels(panel.view)
    bench.do(lambda: bench.model.go_to(250))
    middle = panel.view.overlay.progress
    assert middle is not None
    assert middle[0] == 1
    assert 0 < middle[1] < 1
    assert middle[2:].tolist() == [0, 0]
    assert panel.view.overlay.active == {1}
    assert (pixels(panel.view) != before).any()
    bench.do(bench.model.run)
    end = panel.view.overlay.progress
    assert end is not None
    assert end.tolist() == [1, 1, 1, 1]


def test_click_picks_operator_edge_and_background(bench: Bench) -> None:
    panel = bench.make(GraphPanel, 700, 500)
    bench.open_toy()
    wait_for_picture(bench, panel)
    picture, view = panel.view.picture, panel.view
    assert picture is not None

    def click(x: float, y: float) -> None:
        spot = QPointF(*view.camera.to_screen(x, y)).toPoint()
        bench.qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=spot)
        bench.settle()

    layout = picture.layout
    click(float(layout.x[2]), float(layout.y[2]))
    assert bench.context.selection.current.node == 2
    edge = next(e for e in range(len(layout.source)) if layout.sink[e] == 3 and layout.source[e] == 2)
    middle = layout.path(edge).mean(axis=0)
    click(float(middle[0]), float(middle[1]))
    assert bench.context.selection.current.tensor == 5
    assert view.overlay.tensor == 5
    bench.qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
    assert bench.context.selection.current == NOTHING


def test_flows_are_edges_with_names_and_lead_to_who_made_them(bench: Bench) -> None:
    session = bench.open_toy()
    nodes = tuple(replace(node, inputs=(), outputs=()) for node in session.program.graph.nodes)
    tensors = (
        Tensor(0, "x", (4, 8), "float32", "input"),
        Tensor(1, "y", (4, 8), "float32", "output"),
    )
    flows = (Flow(-1, 0, 0), Flow(0, 2, text="tile"), Flow(1, 2, text="other"), Flow(2, -1, 1))
    graph = Graph("kernel", nodes, tensors, (0,), (1,), flows=flows)
    layout = lay_out_graph(graph)
    ends = list(zip(layout.source.tolist(), layout.sink.tolist(), strict=True))
    assert ends == [(len(nodes), 0), (0, 2), (1, 2), (2, len(nodes) + 1)]
    assert (layout.y[layout.sink] > layout.y[layout.source]).all()
    picture = make_picture(replace(session.program, graph=graph), session.description, layout)
    assert picture.edge_labels == ("4\u00d78", "tile", "other", "4\u00d78")

    panel = bench.make(GraphPanel, 700, 500)
    bench.open_toy()
    wait_for_picture(bench, panel)
    panel.view.show_picture(picture)
    panel.view.fit_all()
    middle = layout.path(2).mean(axis=0)
    spot = QPointF(*panel.view.camera.to_screen(float(middle[0]), float(middle[1]))).toPoint()
    bench.qtbot.mouseClick(panel.view, Qt.MouseButton.LeftButton, pos=spot)
    assert bench.context.selection.current.node == 1


class _Writing(QPainter):
    """Keeps where texts are written."""

    def __init__(self, image: QImage) -> None:
        super().__init__(image)
        self.spots: list[QRectF] = []

    def drawText(self, *given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.spots.append(given[0])


def test_names_on_edges_never_cover_each_other(bench: Bench) -> None:
    session = bench.open_toy()
    count = len(session.program.graph.nodes)
    flows = tuple(
        Flow(a, b, text="a long name of a tile") for a, b in ((0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
    )
    nodes = tuple(replace(node, inputs=(), outputs=()) for node in session.program.graph.nodes)
    graph = Graph("kernel", nodes, (), (), (), flows=flows)
    layout = lay_out_graph(graph)
    picture = make_picture(replace(session.program, graph=graph), session.description, layout)
    image = QImage(900, 600, QImage.Format.Format_RGB32)
    painter = _Writing(image)
    edges = GraphEdgePainter(bench.context.theme, picture, GraphOverlay())
    edges.paint_shapes(painter, GraphCamera(1.0, 100.0, 100.0), np.arange(len(flows)))
    painter.end()
    assert count > 3
    assert 0 < len(painter.spots) < len(flows)
    assert not [(a, b) for a, b in combinations(painter.spots, 2) if a.intersects(b)]


def test_arrow_keys_follow_edges(bench: Bench) -> None:
    panel = bench.make(GraphPanel, 500, 500)
    bench.open_toy()
    wait_for_picture(bench, panel)
    bench.select(node=1)
    bench.qtbot.keyClick(panel.view, Qt.Key.Key_Up)
    assert bench.context.selection.current.node == 0
    bench.settle()
    bench.qtbot.keyClick(panel.view, Qt.Key.Key_Down)
    bench.qtbot.keyClick(panel.view, Qt.Key.Key_Down)
    assert bench.context.selection.current.node in (2, 3)


def test_wheel_zooms_drag_pans_f_fits(bench: Bench) -> None:
    panel = bench.make(GraphPanel, 500, 500)
    bench.open_toy()
    wait_for_picture(bench, panel)
    view = panel.view
    start = view.camera
    view.zoom(2.0, QPointF(10, 10))
    assert view.camera.scale == pytest.approx(2 * start.scale)
    bench.qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=view.rect().center())
    bench.qtbot.mouseMove(view, view.rect().center() * 1.2)
    offset = view.camera.offset_x
    bench.qtbot.mouseRelease(view, Qt.MouseButton.LeftButton)
    assert offset != GraphCamera(1, 0, 0).offset_x
    assert bench.context.selection.current == NOTHING, "a drag selects nothing"
    bench.qtbot.keyClick(view, Qt.Key.Key_F)
    assert view.camera.scale <= 1.0


def test_selection_elsewhere_is_brought_into_view(bench: Bench) -> None:
    panel = bench.make(GraphPanel, 300, 160)
    bench.open_toy()
    wait_for_picture(bench, panel)
    picture = panel.view.picture
    assert picture is not None
    for node in (3, 0):
        bench.select(node=node)
        x, y = panel.view.camera.to_screen(float(picture.layout.x[node]), float(picture.layout.y[node]))
        assert 0 <= x <= panel.view.width()
        assert 0 <= y <= panel.view.height()
        assert panel.view.overlay.selected == node


def test_search_marks_and_selects(bench: Bench) -> None:
    panel = bench.make(GraphPanel)
    bench.open_toy()
    wait_for_picture(bench, panel)
    panel.find_bar.open_bar()
    bench.qtbot.keyClicks(panel.find_bar.line, "add")
    assert panel.view.overlay.found == {1, 2}
    bench.qtbot.keyClick(panel.find_bar.line, Qt.Key.Key_Return)
    bench.settle()
    assert bench.context.selection.current.node == 1
    bench.qtbot.keyClick(panel.find_bar.line, Qt.Key.Key_Return)
    bench.settle()
    assert bench.context.selection.current.node == 2


def test_remembers_direction_and_ignores_damage(bench: Bench) -> None:
    panel = bench.make(GraphPanel)
    panel.restore_state({"direction": "right", "heat": True})
    bench.open_toy()
    wait_for_picture(bench, panel)
    picture = panel.view.picture
    assert picture is not None
    assert picture.layout.direction == "right"
    assert panel.save_state() == {"direction": "right", "heat": True, "follow": True, "fold": False}
    panel.restore_state({"direction": 3})
    assert panel.save_state()["direction"] == ""


def test_heat_is_the_share_of_busy_cycles(bench: Bench) -> None:
    panel = bench.make(GraphPanel)
    session = bench.open_toy()
    wait_for_picture(bench, panel)
    panel.restore_state({"heat": True})
    bench.do(bench.model.run)
    bench.qtbot.waitUntil(lambda: panel.view.overlay.heat is not None)
    assert session.trace is not None
    times = NodeTimes(session.trace, 4)
    times.advance()
    heat = panel.view.overlay.heat
    assert heat is not None
    assert heat.argmax() == times.busy.argmax()
    assert heat.max() == pytest.approx(1.0)


def test_operators_elsewhere_carry_a_badge(bench: Bench) -> None:
    session = bench.open_toy()
    program, layout = session.program, lay_out_graph(session.program.graph)
    assert make_picture(program, session.description, layout).badges == {}
    moved = replace(program, placement={**program.placement, 2: "Host"})
    picture = make_picture(moved, session.description, layout)
    assert picture.badges == {2: "Host"}
    assert picture.estimated == frozenset()


def test_operators_on_the_host_carry_their_reason(bench: Bench) -> None:
    panel = bench.make(GraphPanel, 600, 400)
    session = bench.open_toy()
    wait_for_picture(bench, panel)
    reason = HostReason("no window of 17", "17", "a window of 16")
    notes = (Note("warning", "host-operator", "node 2 runs on the Host", 2, reason),)
    program = replace(session.program, notes=notes)
    panel.view.show_picture(make_picture(program, session.description, lay_out_graph(program.graph)))
    tips = {
        panel.view.tip_at(QPointF(x, y))
        for x in range(0, panel.view.width(), 8)
        for y in range(0, panel.view.height(), 8)
    }
    lines = [line for tip in tips for line in tip.split("\n") if line.startswith("on the Host")]
    assert lines == ["on the Host: no window of 17 (17); to lift it: a window of 16"]


def test_a_far_view_of_a_large_graph_draws_it_all(bench: Bench) -> None:
    panel = bench.make(GraphPanel, 600, 400)
    session = bench.open_toy()
    wait_for_picture(bench, panel)
    graph = chain(3000)
    program = replace(session.program, graph=graph, placement={})
    panel.view.show_picture(make_picture(program, session.description, lay_out_graph(graph)))
    panel.view.fit_all()
    image = pixels(panel.view)
    background = image[2, 2]
    drawn = (image != background).any(axis=(1, 2))
    assert drawn[40:-40].mean() > 0.9, "the chain reaches from top to bottom"


def test_a_step_draws_only_what_changed_and_all_of_that(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = bench.make(GraphPanel)
    bench.open_toy(blocks=12)
    bench.qtbot.waitUntil(lambda: panel.view.picture is not None)
    panel.view.fit_all()
    bench.do(lambda: bench.model.step(20))
    drawn: list[QRect] = []
    whole = panel.view.rect()
    num_partial = 0
    monkeypatch.setattr(panel.view, "update", lambda rect=whole: drawn.append(rect.intersected(whole)))
    for _ in range(30):
        image = panel.view.grab().toImage()
        drawn.clear()
        bench.do(lambda: bench.model.step(3))
        num_partial += bool(drawn) and whole not in drawn
        for rect in drawn:
            panel.view.render(image, rect.topLeft(), QRegion(rect))
        assert image == panel.view.grab().toImage()
    assert num_partial > 5


@pytest.mark.parametrize("skips", [{}, {9: 2, 60: 20, 90: 5}])
def test_a_long_graph_lies_in_bands_that_fill_the_view(skips: dict[int, int]) -> None:
    graph = chain(120, skips)
    layout = lay_out_graph(graph, "down", 1.6)
    assert layout.is_banded
    _, _, width, height = layout.bounds()
    assert 0.7 < width / height < 3.5
    assert overlaps(layout) == 0
    whole, line = fit(layout.bounds(), 800, 500), fit(lay_out_graph(graph).bounds(), 800, 500)
    assert whole.scale > 3 * line.scale
    for edge in range(len(layout.source)):
        way = layout.path(edge)
        a, b = int(layout.source[edge]), int(layout.sink[edge])
        assert way[0].tolist()[0] == pytest.approx(layout.x[a])
        assert way[-1].tolist()[0] == pytest.approx(layout.x[b])
        # Between two bands an edge runs through no box: its upright pieces lie beside them.
        for one, other in pairwise(way[1:-1].tolist()):
            low, high = sorted((one[1], other[1]))
            hit = (np.abs(layout.x - one[0]) < NODE_WIDTH / 2 - 1) & (layout.y > low) & (layout.y < high)
            assert one[0] != other[0] or not hit.any()


def test_a_short_graph_and_a_chosen_direction_stay_in_one_piece() -> None:
    assert not lay_out_graph(chain(10), "down", 1.6).is_banded
    assert not lay_out_graph(chain(120), "down").is_banded
    assert not lay_out_graph(chain(120), "right", 1.6).is_banded


def test_the_map_lies_where_it_covers_no_operator(bench: Bench) -> None:
    panel = bench.make(GraphPanel, 500, 420)
    bench.open_toy(blocks=32)
    bench.settle()
    view = panel.view
    assert view.picture is not None
    layout = view.picture.layout
    places: set[tuple[float, float]] = set()
    for shift in (0, 60, 120, 180):
        # The chain of operators at the right edge of the view, then further in.
        camera = GraphCamera(1.0).centred_on(
            float(layout.x[3]), float(layout.y[3]), 500 + 2 * 180 - shift, 420
        )
        view.set_camera(camera.moved(180 - shift, 0))
        overview = view.overview()
        assert overview is not None
        painter = GraphPainter(view._theme, view.picture, view.overlay)
        covered = [
            box for box in range(layout.num_boxes)
            if painter.box_rect(view.camera, box).intersects(overview.area)
        ]  # fmt: skip
        assert covered == []
        places.add((overview.area.left(), overview.area.top()))
    left = view.overview()
    assert left is not None
    view.set_camera(GraphCamera(1.0).centred_on(float(layout.x[3]) - 160, float(layout.y[3]), 500, 420))
    moved = view.overview()
    assert moved is not None
    assert moved.area.left() < 250, "the chain is at the right, the map at the left"


def test_the_map_leads_through_a_graph_that_is_not_seen_whole(bench: Bench) -> None:
    panel = bench.make(GraphPanel, 500, 420)
    bench.open_toy(blocks=32)
    bench.settle()
    view = panel.view
    view.fit_all()
    assert view.overview() is None, "all can be seen"
    view.set_camera(GraphCamera(2.0))
    overview = view.overview()
    assert overview is not None
    assert QRectF(view.rect()).contains(overview.area)
    spot = QPointF(overview.area.center().x(), overview.area.top() + 8)
    before = bench.context.selection.current
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=spot.toPoint())
    seen = view.camera.to_drawing(view.width() / 2, view.height() / 2)
    wanted = overview.to_drawing(QPointF(spot.toPoint()))
    assert seen == pytest.approx(wanted, abs=1)
    assert bench.context.selection.current == before, "the map picks nothing"
    low = QPointF(overview.area.center().x(), overview.area.bottom() - 4)
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=spot.toPoint())
    QTest.mouseMove(view, low.toPoint())
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=low.toPoint())
    after = view.camera.to_drawing(view.width() / 2, view.height() / 2)
    assert after == pytest.approx(overview.to_drawing(QPointF(low.toPoint())), abs=1)
    assert view.camera.scale == 2.0
    area = overview.area.toAlignedRect()
    corner = pixels(view)[area.top() + 2 : area.bottom() - 2, area.left() + 2 : area.right() - 2]
    assert len(np.unique(corner.reshape(-1, 4), axis=0)) >= 3, "ground, marks and frame"
