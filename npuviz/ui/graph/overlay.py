"""What lies over the picture of a graph: state of the run, selection, search."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class GraphOverlay:
    """What changes without a new picture.

    progress     (nodes,) float in 0..1, -1 unknown; None: no machine state to show
    active       nodes that are being worked on now
    heat         (nodes,) float in 0..1 colouring the boxes instead of their types, or None
    heat_most    unit cycles that the brightest colour stands for
    selected, hovered  boxes, -1 for none; tensor whose edges are marked, -1 for none
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
