"""The payload of a systolic program: the tables the kernel runs, with their owner."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuviz.targets.systolic.kernels import program_records as tk


@dataclass(frozen=True)
class SystolicTables:
    """Immutable int64 tables; their rows are records of `kernels.program_records`.

    code CODE, tiles TILE, layers LAYER, entries ENTRY_ROOM, launches LAUNCH.
    edges (n, 2): a layer, and one that waits for it, both of one launch; the layers that wait for one are in
    creation order. Launches without edges run layer by layer.
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


def moved_range(tables: SystolicTables, tile: int, code: Sequence[int]) -> tuple[int, int]:
    """Return address and size of the DRAM bytes that a MOVIN or MOVOUT of a tile may touch, from its first
    row to the end of its last: any byte of the tensor if a run picks the rows."""
    if code[tk.CODE.src0] and tables.values is not None:
        storage = tables.values.storages[code[tk.CODE.tensor]]
        return storage.address, storage.size_bytes
    base = int(tables.tiles[tile, tk.TILE.base + code[tk.CODE.base]])
    span = (code[tk.CODE.n0] - 1) * code[tk.CODE.s0] + (code[tk.CODE.n1] - 1) * code[tk.CODE.s1]
    return base + code[tk.CODE.offset], span + code[tk.CODE.len]


def assign_cores(tables: SystolicTables, num_cores: int) -> np.ndarray:
    """Return the core of every tile under the `simple` scheduler: int32 (tiles,).

    A preset core c of layer number L (1-based, counted over the whole run) goes to (c + L) mod cores;
    tiles without one are dealt round robin by a counter that lives for the whole run.
    """
    tiles = tables.tiles
    preset = tiles[:, tk.TILE.core]
    is_dealt = preset < 0
    dealt = np.cumsum(is_dealt) - 1
    core = np.where(is_dealt, dealt, preset + tiles[:, tk.TILE.layer] + 1) % num_cores
    return core.astype(np.int32)


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """One request for a model, whose latency is reported.

    arrival   core cycle in which it arrives
    launches  the launches that serve it, in order; a batch of language requests shares launches
    prompt, output  tokens (language models), else 0
    """

    name: str
    arrival: int
    launches: tuple[int, ...]
    prompt: int = 0
    output: int = 0
