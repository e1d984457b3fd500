"""Compute the places of boxes and edges of an operator graph, as arrays, outside the window's thread."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from npuviz.program.graph import Graph
from npuviz.ui.graph.bands import Routes, in_bands

NODE_WIDTH = 148.0
NODE_HEIGHT = 40.0
TERMINAL_HEIGHT = 22.0
COLUMN_GAP = 28.0
ROW_GAP = 34.0
SHAPE_GAP = 100.0
"""Width between columns of a graph that flows to the right, for the shape of a tensor."""
Direction = Literal["down", "right"]
FINE_LAYOUT_LIMIT = 1500
"""Most boxes for which the slower ranking with short edges is used: 60 ms instead of 10 ms."""
FINE_ROUTING_LIMIT = 3000
FLOW = -2
"""Flow n of a graph has the number FLOW - n where other edges have a tensor id."""


def longest_routed_span(num_boxes: int) -> int:
    """Return the most ranks that a routed edge may span: each rank costs the layout a dummy box."""
    return 48 if num_boxes <= FINE_ROUTING_LIMIT else 12


@dataclass(frozen=True, slots=True)
class Terminal:
    """A graph input or output, drawn as a separate box."""

    tensor: int
    is_input: bool


@dataclass(frozen=True)
class GraphLayout:
    """A drawing of a graph; boxes are operators first, then terminals.

    x, y           (boxes,) float32 centres, y grows downwards
    source, sink   (edges,) int32 box ids; tensor (edges,) int32 tensor ids, `FLOW` - n for the graph's flow n
    path_start     (edges + 1,) int32 into path_points
    path_points    (points, 2) float32: each edge's path from box border to box border
    num_nodes      number of operators; smaller box ids are node ids
    is_banded      rows stand in bands from left to right
    leader         (boxes,) int32: the box that is drawn for each; for operators of a folded group that of the
                   leader, while their own x, y are NaN
    """

    x: np.ndarray
    y: np.ndarray
    source: np.ndarray
    sink: np.ndarray
    tensor: np.ndarray
    path_start: np.ndarray
    path_points: np.ndarray
    num_nodes: int
    terminals: tuple[Terminal, ...]
    direction: Direction = "down"
    is_banded: bool = False
    leader: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    def drawn(self, box: int) -> int:
        """Return the box that is drawn for a box: itself, or the leader of its folded group."""
        return int(self.leader[box]) if 0 <= box < len(self.leader) else box

    @property
    def num_boxes(self) -> int:
        """Operators and terminals."""
        return len(self.x)

    def bounds(self) -> tuple[float, float, float, float]:
        """Return (left, top, width, height) around all boxes; zeros when there is none."""
        if not self.num_boxes:
            return (0.0, 0.0, 0.0, 0.0)
        left, right = (float(end(self.x)) for end in (np.nanmin, np.nanmax))
        top, bottom = (float(end(self.y)) for end in (np.nanmin, np.nanmax))
        left, right, top, bottom = (
            left - NODE_WIDTH / 2, right + NODE_WIDTH / 2, top - NODE_HEIGHT / 2, bottom + NODE_HEIGHT / 2,
        )  # fmt: skip
        return (left, top, right - left, bottom - top)

    def path(self, edge: int) -> np.ndarray:
        """Return an edge's path as a (points, 2) float32 view."""
        return self.path_points[self.path_start[edge] : self.path_start[edge + 1]]


def lay_out_graph(
    graph: Graph, direction: Direction = "down", aspect: float = 0.0, leader: np.ndarray | None = None
) -> GraphLayout:
    """Arrange a graph so that data flow downwards or to the right.

    aspect  wanted width divided by height of a long drawing, which is cut into bands; 0: do not cut
    leader  (nodes,) the operator whose box is drawn for each; None: each has its box

    A chain of 20 000 operators takes well under a second. The layout library holds the interpreter lock, so a
    caller on another thread still delays the window by that time.
    """
    source, sink, tensor, terminals = _edges_of(graph)
    num_boxes = len(graph.nodes) + len(terminals)
    stands = np.arange(num_boxes, dtype=np.int32)
    if leader is not None:
        stands[: len(leader)] = leader
        source, sink, tensor = _between_groups(stands, source, sink, tensor)
    # Only boxes that are drawn take part, renumbered.
    shown = np.unique(stands)
    number = {box: place for place, box in enumerate(shown.tolist())}
    boxes = source, sink
    source, sink = [number[box] for box in source], [number[box] for box in sink]
    num_nodes = int(np.searchsorted(shown, len(graph.nodes)))
    positions, routes = _positions(len(shown), source, sink)
    is_banded = False
    if direction == "down":
        room = (NODE_WIDTH + COLUMN_GAP, NODE_HEIGHT + ROW_GAP)
        pairs = list(zip(source, sink, strict=True))
        whole = positions
        positions, routes = in_bands(positions, routes, pairs, aspect, room)
        is_banded = positions is not whole
    else:
        positions = _turn(positions)
        routes = {
            pair: [(float(p[0]), float(p[1])) for p in _turn(np.array(w))] for pair, w in routes.items()
        }
    starts, points = _paths(positions, source, sink, routes, num_nodes, direction)
    places = np.full((num_boxes, 2), np.nan, np.float32)
    places[shown] = positions
    return GraphLayout(
        places[:, 0].copy(),
        places[:, 1].copy(),
        np.asarray(boxes[0], dtype=np.int32),
        np.asarray(boxes[1], dtype=np.int32),
        np.asarray(tensor, dtype=np.int32),
        starts,
        points,
        len(graph.nodes),
        tuple(terminals),
        direction,
        is_banded,
        stands,
    )


def _between_groups(
    stands: np.ndarray, source: list[int], sink: list[int], tensor: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """Return the edges between boxes that are drawn, each once, as sources, sinks and tensors."""
    ends = zip(stands[source].tolist(), stands[sink].tolist(), tensor, strict=True)
    rows = list(dict.fromkeys(row for row in ends if row[0] != row[1]))
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _turn(points: np.ndarray) -> np.ndarray:
    """Exchange the axes, so that ranks become columns with room for boxes and shape labels."""
    across = (NODE_WIDTH + SHAPE_GAP) / (NODE_HEIGHT + ROW_GAP)
    down = (NODE_HEIGHT + ROW_GAP / 2) / (NODE_WIDTH + COLUMN_GAP)
    return np.stack([points[:, 1] * across, points[:, 0] * down], axis=1)


def _edges_of(graph: Graph) -> tuple[list[int], list[int], list[int], list[Terminal]]:
    """Return source boxes, sink boxes and tensors of the edges, and the terminals, numbered after the
    nodes.
    """
    terminals: list[Terminal] = []
    producer = {t.id: t.producer for t in graph.tensors if t.producer >= 0}
    for index in graph.inputs:
        if index not in graph.constants and index not in producer:
            producer[index] = len(graph.nodes) + len(terminals)
            terminals.append(Terminal(index, True))
    found: dict[tuple[int, int, int], None] = {}
    for node in graph.nodes:
        for index in node.inputs:
            if index in producer and producer[index] != node.id:
                found[(producer[index], node.id, index)] = None
    ends = {flow.tensor for flow in graph.flows if flow.sink < 0}
    for index in graph.outputs:
        if index in producer or index in ends:
            if index in producer:
                found[(producer[index], len(graph.nodes) + len(terminals), index)] = None
            terminals.append(Terminal(index, False))
    boxes = {(each.tensor, each.is_input): len(graph.nodes) + n for n, each in enumerate(terminals)}
    for number, flow in enumerate(graph.flows):
        source = boxes[flow.tensor, True] if flow.source < 0 else flow.source
        sink = boxes[flow.tensor, False] if flow.sink < 0 else flow.sink
        found[(source, sink, flow.tensor if flow.tensor >= 0 else FLOW - number)] = None
    rows = list(found)
    return [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], terminals


def _ranks(num_boxes: int, source: list[int], sink: list[int]) -> list[int]:
    """Return the rank of each box: the length of the longest path to it from a box without inputs."""
    outgoing: list[list[int]] = [[] for _ in range(num_boxes)]
    waiting = [0] * num_boxes
    for a, b in zip(source, sink, strict=True):
        outgoing[a].append(b)
        waiting[b] += 1
    ready = [box for box in range(num_boxes) if not waiting[box]]
    ranks = [0] * num_boxes
    while ready:
        box = ready.pop()
        for other in outgoing[box]:
            ranks[other] = max(ranks[other], ranks[box] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return ranks


def _positions(num_boxes: int, source: list[int], sink: list[int]) -> tuple[np.ndarray, Routes]:
    """Return centres (boxes, 2) float64, and {(source, sink): bends} of edges that span several ranks."""
    ranks = _ranks(num_boxes, source, sink)
    span = longest_routed_span(num_boxes)
    pairs = sorted({(a, b) for a, b in zip(source, sink, strict=True) if 0 < ranks[b] - ranks[a] <= span})
    parts = _sugiyama(pairs, num_boxes) if pairs else []
    placed = {box for part, _ in parts for box in part}
    for box in range(num_boxes):
        if box not in placed:
            parts.append(({box: (0.0, 0.0)}, {}))
    return _pack(num_boxes, parts)


_Part = tuple[dict[int, tuple[float, float]], Routes]


def _sugiyama(pairs: list[tuple[int, int]], num_boxes: int) -> list[_Part]:
    """Lay out the edges; return (box centres, edge bends) for each connected component."""
    try:
        import fast_sugiyama
    except ImportError:  # wheels are missing for some platforms
        return [_igraph(pairs)]
    boxes = sorted({box for pair in pairs for box in pair})
    number = {box: i for i, box in enumerate(boxes)}
    is_small = num_boxes <= FINE_LAYOUT_LIMIT
    layouts = fast_sugiyama.from_edges(
        [(number[a], number[b]) for a, b in pairs],
        vertex_spacing=NODE_WIDTH + COLUMN_GAP,
        dummy_size=0.25,
        ranking_type="minimize" if is_small else "up",
        transpose=is_small,
        check_layout=False,
    )
    parts: list[_Part] = []
    scale = (NODE_HEIGHT + ROW_GAP) / (NODE_WIDTH + COLUMN_GAP)
    for positions, _, height, edges in layouts:
        place = {int(n): (float(x), (height - float(y)) * scale) for n, (x, y) in positions}
        following = {int(a): int(b) for a, b in edges or () if int(a) >= len(boxes)}
        routes: Routes = {}
        for a, b in edges or ():
            if int(a) < len(boxes) <= int(b):
                chain, at = [int(b)], int(b)
                while (at := following[at]) >= len(boxes):
                    chain.append(at)
                routes[(boxes[int(a)], boxes[at])] = [place[n] for n in chain]
        parts.append(({boxes[n]: xy for n, xy in place.items() if n < len(boxes)}, routes))
    return parts


def _igraph(pairs: list[tuple[int, int]]) -> _Part:
    """Lay out the edges with igraph instead, as one component without bends."""
    import igraph

    boxes = sorted({box for pair in pairs for box in pair})
    number = {box: i for i, box in enumerate(boxes)}
    graph = igraph.Graph(n=len(boxes), edges=[(number[a], number[b]) for a, b in pairs], directed=True)
    layout = graph.layout_sugiyama(hgap=int(NODE_WIDTH + COLUMN_GAP), vgap=int(NODE_HEIGHT + ROW_GAP))
    return ({box: (float(layout[i][0]), float(layout[i][1])) for box, i in number.items()}, {})


def _pack(num_boxes: int, parts: list[_Part]) -> tuple[np.ndarray, Routes]:
    """Place components side by side, in rows as wide as the widest component or a square of all."""
    centres = np.zeros((num_boxes, 2))
    routes: Routes = {}
    step_x, step_y = NODE_WIDTH + COLUMN_GAP, NODE_HEIGHT + ROW_GAP
    sizes: list[tuple[float, float, float, float]] = []
    for place, bends in parts:
        spots = [*place.values(), *(p for way in bends.values() for p in way)]
        left, top = min(p[0] for p in spots), min(p[1] for p in spots)
        sizes.append((left, top, max(p[0] for p in spots) - left, max(p[1] for p in spots) - top))
    area = sum((w + step_x) * (h + step_y) for _, _, w, h in sizes)
    limit = max([w + step_x for _, _, w, _ in sizes] + [area**0.5])
    order = sorted(range(len(parts)), key=lambda i: (-sizes[i][3], min(parts[i][0])))
    at_x = at_y = row_height = 0.0
    for index in order:
        left, top, width, height = sizes[index]
        if at_x and at_x + width + step_x > limit + 0.5:
            at_x, at_y, row_height = 0.0, at_y + row_height, 0.0
        dx, dy = at_x - left, at_y - top
        place, bends = parts[index]
        for box, (x, y) in place.items():
            centres[box] = (x + dx, y + dy)
        for pair, way in bends.items():
            routes[pair] = [(x + dx, y + dy) for x, y in way]
        at_x += width + step_x
        row_height = max(row_height, height + step_y)
    return centres, routes


def _paths(
    centres: np.ndarray,
    source: list[int],
    sink: list[int],
    routes: Routes,
    num_nodes: int,
    direction: Direction,
) -> tuple[np.ndarray, np.ndarray]:
    """Return path_start and path_points of all edges: from the source box's border over bends to the
    sink's.
    """
    starts = np.zeros(len(source) + 1, dtype=np.int32)
    points: list[tuple[float, float]] = []
    spots: list[tuple[float, float]] = [(float(x), float(y)) for x, y in centres.tolist()]
    for edge, (a, b) in enumerate(zip(source, sink, strict=True)):
        (ax, ay), (bx, by) = spots[a], spots[b]
        if direction == "right":
            points.append((ax + NODE_WIDTH / 2, ay))
            points.extend(routes.get((a, b), ()))
            points.append((bx - NODE_WIDTH / 2, by))
        else:
            points.append((ax, ay + (NODE_HEIGHT if a < num_nodes else TERMINAL_HEIGHT) / 2))
            points.extend(routes.get((a, b), ()))
            points.append((bx, by - (NODE_HEIGHT if b < num_nodes else TERMINAL_HEIGHT) / 2))
        starts[edge + 1] = len(points)
    return starts, np.array(points, dtype=np.float32).reshape(-1, 2)
