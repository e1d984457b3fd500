"""Groups fold to one box each: the flow stays, what is inside is found, and its state is that of all."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu

from npuviz.ui.graph.groups import MOST_LEVELS, Group, groups_of, leaders_of, outermost
from npuviz.ui.graph.layout import lay_out_graph
from npuviz.ui.graph.panel import GraphPanel
from npuviz.workbench.opening import OpenOptions, open_file
from tests.ui.graph.test_panel import chain, overlaps
from tests.ui.panel_bench import Bench, bench

__all__ = ["bench"]

SAMPLES = Path(__file__).parents[3] / "sample_models"
RESNET = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"


def test_a_network_without_names_folds_where_paths_part_and_meet() -> None:
    graph = chain(20, {5: 1, 12: 8})
    groups = groups_of(graph)
    # Paths part behind node 1 and meet in node 5, part behind 8 and meet in 12.
    assert [group.nodes for group in groups] == [tuple(range(2, 6)), tuple(range(9, 13))]
    assert groups_of(chain(20)) == ()


def test_names_tell_groups_that_no_path_leaves_and_enters_again() -> None:
    graph = chain(9)
    names = ["a.x", "a.y", "a.z", "b.x", "b.y", "b.z", "b", "c.x", "c.y"]
    nodes = tuple(replace(node, name=name) for node, name in zip(graph.nodes, names, strict=True))
    groups = groups_of(replace(graph, nodes=nodes))
    assert [(group.name, group.nodes) for group in groups] == [("a", (0, 1, 2)), ("b", (3, 4, 5, 6))]
    names[4] = "a.w"
    nodes = tuple(replace(node, name=name) for node, name in zip(graph.nodes, names, strict=True))
    # Each is left for the other and entered again: neither can be one box.
    assert groups_of(replace(graph, nodes=nodes)) == ()
    names[4] = "b.y"
    nodes = tuple(
        replace(node, name=f"/model/{name.replace('.', '/')}/Relu")
        for node, name in zip(graph.nodes, names, strict=True)
    )
    assert [group.name for group in groups_of(replace(graph, nodes=nodes))] == ["a", "b"]


def test_groups_lie_in_groups() -> None:
    graph = chain(12)
    names = [f"/net/enc/{block}/{part}/op" for block in ("0", "1") for part in "aaabbb"]
    nodes = tuple(replace(node, name=name) for node, name in zip(graph.nodes, names, strict=True))
    graph = replace(graph, nodes=nodes)
    groups = groups_of(graph)
    assert [group.name for group in groups] == ["0", "0/a", "0/b", "1", "1/a", "1/b"]
    assert [group.nodes for group in outermost(groups)] == [tuple(range(6)), tuple(range(6, 12))]
    without = frozenset(groups) - {groups[0]}
    assert sorted(group.name for group in outermost(without)) == ["0/a", "0/b", "1"]
    assert leaders_of(graph, without).tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6, 6, 6, 6]


def test_names_of_any_depth_are_read() -> None:
    graph = chain(1500)
    nodes = tuple(replace(node, name="/a" * (1500 - node.id) + "/x") for node in graph.nodes)
    groups = groups_of(replace(graph, nodes=nodes))
    assert len(groups) <= MOST_LEVELS


@pytest.mark.parametrize("direction", ["down", "right"])
def test_the_flow_between_folded_groups_stays(direction: str) -> None:
    graph = chain(20, {5: 1, 12: 8})
    groups = groups_of(graph)
    layout = lay_out_graph(graph, direction, 0.0, leaders_of(graph, groups))  # pyright: ignore[reportArgumentType]
    along = layout.x if direction == "right" else layout.y
    assert (along[layout.sink] > along[layout.source]).all()
    drawn = ~np.isnan(layout.x)
    assert int(drawn.sum()) == layout.num_boxes - 3 - 3
    assert overlaps(replace(layout, x=layout.x[drawn], y=layout.y[drawn])) == 0
    assert not np.isnan(layout.bounds()).any()
    assert set(layout.source.tolist()) | set(layout.sink.tolist()) == set(np.flatnonzero(drawn).tolist())


def test_folding_in_the_panel(bench: Bench) -> None:
    panel = bench.make(GraphPanel, width=700, height=600)
    opened = open_file(RESNET, OpenOptions("systolic"))
    bench.model.show_opened(opened)
    bench.qtbot.waitUntil(lambda: panel.view.picture is not None)
    groups = panel._groups
    assert len(groups) == 16, "the residual blocks"
    bench.qtbot.mouseClick(panel.bar.fold, Qt.MouseButton.LeftButton)
    bench.qtbot.waitUntil(lambda: "folded" in panel.bar.status.text())
    picture = panel.view.picture
    assert picture is not None
    assert int((~np.isnan(picture.layout.x)).sum()) < 60
    panel.view.grab()
    # An operator inside is shown by the box of its group, and searching goes on to the next one.
    block = groups[3]
    bench.select(node=block.nodes[2])
    assert panel.view.overlay.selected == block.leader
    panel.search("Conv")
    first = bench.context.selection.current.node
    panel.search("Conv")
    assert bench.context.selection.current.node != first
    # A group is as far as its operators are together.
    bench.do(bench.model.run_through)
    assert panel.view.overlay.progress is not None
    assert panel.view.overlay.progress[block.leader] == 1.0
    panel._fold(panel._folded - {block})
    bench.qtbot.waitUntil(lambda: "15 groups" in panel.bar.status.text())
    assert panel.view.overlay.selected >= 0
    panel.bar.fold.click()
    bench.qtbot.waitUntil(lambda: panel.bar.status.text().endswith("operators"))
    assert not np.isnan(panel.view.picture.layout.x).any()  # pyright: ignore[reportOptionalMemberAccess]
    # Two blocks as one group around both: it unfolds to them, each of them to its operators.
    outer = Group("stage", groups[0].nodes + groups[1].nodes)
    panel._groups = (outer, *groups)
    panel.bar.fold.click()
    bench.qtbot.waitUntil(lambda: "15 groups" in panel.bar.status.text())
    choose_folding(panel, outer.leader, f"Unfold stage, {len(outer.nodes)} operators")
    bench.qtbot.waitUntil(lambda: "16 groups" in panel.bar.status.text())
    choose_folding(panel, groups[0].leader, f"Unfold {groups[0].name}, {len(groups[0].nodes)} operators")
    bench.qtbot.waitUntil(lambda: "15 groups" in panel.bar.status.text())
    choose_folding(panel, groups[0].nodes[1], f"Fold stage, {len(outer.nodes)} operators")
    bench.qtbot.waitUntil(lambda: not np.isnan(panel.view.picture.layout.x[outer.leader]))  # pyright: ignore[reportOptionalMemberAccess]


def choose_folding(panel: GraphPanel, box: int, text: str) -> None:
    menu = QMenu()
    panel._add_folding(menu, box)
    found = {action.text(): action for action in menu.actions()}
    found[text].trigger()
