"""The contents of a drawn operator graph, without colours: layout, labels, badges, and the changing
overlay.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from npuviz.base.names import elide_end
from npuviz.base.units import format_shape
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.ui.graph.groups import Group, outermost
from npuviz.ui.graph.layout import FLOW, NODE_HEIGHT, NODE_WIDTH, TERMINAL_HEIGHT, GraphLayout


@dataclass(frozen=True)
class GraphPicture:
    """Everything the painter needs, by box or edge of the layout.

    titles, subtitles  (boxes,) texts; op_types of operators, "" for terminals
    badges             box -> short word, e.g. where it was placed
    estimated          boxes whose cost is an assumption
    edge_labels        (edges,) shapes of the tensors, names of other flows
    reasons            box -> why it runs on the Host
    folded             boxes that stand for a group of operators
    """

    layout: GraphLayout
    titles: tuple[str, ...] = ()
    subtitles: tuple[str, ...] = ()
    op_types: tuple[str, ...] = ()
    badges: dict[int, str] = field(default_factory=dict[int, str])
    estimated: frozenset[int] = frozenset()
    edge_labels: tuple[str, ...] = ()
    reasons: dict[int, str] = field(default_factory=dict[int, str])
    folded: frozenset[int] = frozenset()

    def box_at(self, x: float, y: float) -> int:
        """Return the box at a point of the drawing, -1 if there is none."""
        layout = self.layout
        if not layout.num_boxes:
            return -1
        half = np.full(layout.num_boxes, NODE_HEIGHT / 2, dtype=np.float32)
        half[layout.num_nodes :] = TERMINAL_HEIGHT / 2
        inside = (np.abs(layout.x - x) <= NODE_WIDTH / 2) & (np.abs(layout.y - y) <= half)
        found = np.flatnonzero(inside)
        return int(found[0]) if len(found) else -1

    def edge_at(self, x: float, y: float, distance: float) -> int:
        """Return the edge that passes within `distance` of a point, -1 if none does."""
        points, starts = self.layout.path_points, self.layout.path_start
        if len(points) < 2:
            return -1
        a, b = points[:-1].astype(np.float64), points[1:].astype(np.float64)
        along = b - a
        length = np.maximum(1e-9, (along**2).sum(axis=1))
        part = np.clip(((x - a[:, 0]) * along[:, 0] + (y - a[:, 1]) * along[:, 1]) / length, 0, 1)
        gap = np.hypot(a[:, 0] + part * along[:, 0] - x, a[:, 1] + part * along[:, 1] - y)
        gap[starts[1:-1] - 1] = np.inf  # from the end of one edge to the start of the next
        best = int(np.argmin(gap))
        return int(np.searchsorted(starts, best, side="right")) - 1 if gap[best] <= distance else -1

    def neighbor(self, box: int, key: str) -> int:
        """Return the box that an arrow key leads to; the same box if there is none in that direction.

        Along the flow a key follows an edge, across it goes to the next box of the same rank.
        """
        layout = self.layout
        if not 0 <= box < layout.num_boxes:
            return 0 if layout.num_boxes else -1
        ahead, behind = ("right", "left") if layout.direction == "right" else ("down", "up")
        if key == ahead:
            return self._nearest(box, layout.sink[layout.source == box])
        if key == behind:
            return self._nearest(box, layout.source[layout.sink == box])
        rank, cross = (layout.x, layout.y) if layout.direction == "right" else (layout.y, layout.x)
        offset = cross - cross[box]
        wanted = offset > 0.5 if key in ("right", "down") else offset < -0.5
        same = np.flatnonzero((np.abs(rank - rank[box]) < 1.0) & wanted)
        return int(same[np.argmin(np.abs(offset[same]))]) if len(same) else box

    def _nearest(self, box: int, candidates: np.ndarray) -> int:
        if not len(candidates):
            return box
        layout = self.layout
        gap = np.hypot(layout.x[candidates] - layout.x[box], layout.y[candidates] - layout.y[box])
        return int(candidates[np.argmin(gap)])

    def find(self, text: str, after: int, backward: bool = False) -> int:
        """Return the next box whose title or name contains a text, by id, starting over at the end; -1 if
        none.
        """
        wanted = text.casefold().strip()
        total = self.layout.num_boxes
        if not wanted:
            return -1
        for offset in range(1, total + 1):
            box = (after + (-offset if backward else offset)) % total
            if wanted in self.titles[box].casefold() or wanted in self.subtitles[box].casefold():
                return box
        return -1


@dataclass
class GraphOverlay:
    """What is drawn over a picture and changes while it stays.

    progress     (nodes,) float in 0..1, -1 unknown; None: no machine state to show
    active       boxes of the operators that units work on now
    heat         (nodes,) float in 0..1 colouring the boxes instead of their types, or None
    heat_most    unit cycles that the brightest colour stands for
    selected, hovered  boxes, -1 for none
    tensor       tensor whose edges are marked, -1 for none
    found        boxes that match a search
    """

    progress: np.ndarray | None = None
    active: frozenset[int] = frozenset()
    heat: np.ndarray | None = None
    heat_most: int = 0
    selected: int = -1
    hovered: int = -1
    tensor: int = -1
    found: frozenset[int] = field(default_factory=frozenset)


def make_picture(
    program: Program,
    description: MachineDescription | None,
    layout: GraphLayout,
    folded: Iterable[Group] = (),
) -> GraphPicture:
    """Make the picture of a laid-out program: labels, badges and estimates."""
    graph = program.graph
    uncertain = {u.group for u in description.units if u.estimated} if description else set()
    uncertain |= {u.name for u in description.units if u.estimated} if description else set()
    uncertain.discard("")
    doubted = {note.node for note in program.notes if note.code == "host-operator"}
    usual = _usual_place(program)
    titles = [node.op_type for node in graph.nodes]
    subtitles = [node.name for node in graph.nodes]
    badges: dict[int, str] = {}
    estimated: set[int] = set()
    for node in graph.nodes:
        place = program.placement.get(node.id, "")
        if place and place != usual and _group(place) != _group(usual):
            badges[node.id] = place
        if place in uncertain or node.id in doubted:
            estimated.add(node.id)
            badges.setdefault(node.id, place or "assumed")
    op_types, groups = [node.op_type for node in graph.nodes], outermost(tuple(folded))
    for group in groups:
        leader, titles[group.leader] = group.leader, group.name
        subtitles[leader] = f"{len(group.nodes)} operators"
        # A group has the colour of its commonest type, and is estimated if one of its operators is.
        op_types[leader] = Counter(op_types[node] for node in group.nodes).most_common(1)[0][0]
        places = {badges[node] for node in group.nodes if node in badges}
        badges.pop(leader, None)
        if places:
            badges[leader] = ", ".join(sorted(places))
        if estimated & set(group.nodes):
            estimated.add(leader)
    for terminal in layout.terminals:
        tensor = graph.tensors[terminal.tensor]
        titles.append(elide_end(tensor.name, 40))
        subtitles.append("input" if terminal.is_input else "output")
    labels = tuple(
        graph.flows[FLOW - number].text if number <= FLOW else format_shape(graph.tensors[number].shape)
        for number in layout.tensor.tolist()
    )
    return GraphPicture(
        layout,
        tuple(titles),
        tuple(subtitles),
        tuple(op_types),
        badges,
        frozenset(estimated),
        labels,
        {note.node: str(note.reason) for note in program.notes if note.reason is not None},
        frozenset(group.leader for group in groups),
    )


def _group(place: str) -> str:
    """Return a place without its number: `Core[0]` and `Core[1]` count as one place."""
    return place.partition("[")[0]


def _usual_place(program: Program) -> str:
    """Return the commonest place of operators; only operators elsewhere get a badge."""
    counts: dict[str, int] = {}
    for place in program.placement.values():
        counts[place] = counts.get(place, 0) + 1
    return max(counts, key=lambda place: (counts[place], place)) if counts else ""
