"""The payload of a systolic program: the tables the kernel runs, with their owner."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SystolicTables:
    """Immutable int64 tables; word positions in `tables_kernels`.

    code (n, CODE_WORDS), tiles (n, TILE_WORDS), layers (n, LAYER_WORDS), entries (n, ENTRY_WORDS),
    launches (n, LAUNCH_WORDS). edges (n, 2): a layer, and one that waits for it, both of one launch; the
    layers that wait for one are in creation order. Launches without edges run layer by layer.
    `layer_names` one per layer. `values` is the values engine's plan,
    or None where the program's contents are not computed (parity mode).
    """

    code: np.ndarray
    tiles: np.ndarray
    layers: np.ndarray
    entries: np.ndarray
    launches: np.ndarray
    layer_names: tuple[str, ...]
    values: Any = None
    edges: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
