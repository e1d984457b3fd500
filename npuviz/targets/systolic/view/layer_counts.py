"""Counts the work of each layer of a program from its tables, independent of time."""

from dataclasses import dataclass

import numpy as np

from npuviz.targets.systolic.isa import UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import SystolicTables

_EX, _VEC = UNIT_KINDS.index("EX"), UNIT_KINDS.index("VEC")
_LD, _ST = UNIT_KINDS.index("LD"), UNIT_KINDS.index("ST")


@dataclass(frozen=True)
class LayerCounts:
    """Totals per layer, float64 arrays of one item each.

    macs          multiply-accumulates of the products
    vector_bytes  bytes that vector instructions work on
    loads, stores  bytes that transfers name, blocks of requests not rounded up
    spad_bytes    bytes written to and read from scratchpads: fills, and operands streamed by the array
    acc_bytes     bytes read and written in accumulators by products, vector instructions and stores
    """

    macs: np.ndarray
    vector_bytes: np.ndarray
    loads: np.ndarray
    stores: np.ndarray
    spad_bytes: np.ndarray
    acc_bytes: np.ndarray


def layer_counts(tables: SystolicTables, precision: int) -> LayerCounts:
    """Count the work of every layer of a program."""
    code = tables.code
    kind = UNIT_KIND_OF[code[:, tk.CODE.op]]
    moved = code[:, tk.CODE.n0] * code[:, tk.CODE.n1] * code[:, tk.CODE.len]
    tile_m, tile_k, tile_n = code[:, tk.CODE.tile_m], code[:, tk.CODE.tile_k], code[:, tk.CODE.tile_n]
    macs = np.where(kind == _EX, tile_m * tile_k * tile_n, 0)
    vector = np.where(kind == _VEC, code[:, tk.CODE.vbytes], 0)
    loads, stores = np.where(kind == _LD, moved, 0), np.where(kind == _ST, moved, 0)
    streamed = np.where(kind == _EX, (tile_n * tile_k + tile_m * tile_k) * precision, 0)
    summed = np.where(kind == _EX, 2 * 4 * tile_m * tile_n, 0)
    columns = (macs, vector, loads, stores, loads + streamed, summed + 2 * vector + stores)
    return LayerCounts(*(_per_layer(tables, column) for column in columns))


def _per_layer(tables: SystolicTables, per_row: np.ndarray) -> np.ndarray:
    """Sum a quantity of CODE rows over the tiles of each layer."""
    before = np.concatenate(([0], np.cumsum(per_row)))
    first = tables.tiles[:, tk.TILE.code]
    per_tile = before[first + tables.tiles[:, tk.TILE.count]] - before[first]
    layer = tables.tiles[:, tk.TILE.layer]
    return np.bincount(layer, weights=per_tile.astype(np.float64), minlength=len(tables.layers))
