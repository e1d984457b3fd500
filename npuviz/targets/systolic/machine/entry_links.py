"""Links from instructions that fill entries of scratchpad and accumulator to those that use them.

That follows from the tile's code: entries are filled and read in its order, whatever the times.
"""

import numpy as np

from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.machine.templates import LOAD, STORE, Templates
from npuviz.targets.systolic.tables import SystolicTables

_PRODUCTS = (tk.OP_GEMM, tk.OP_GEMM_PRELOAD)


def entry_links(tables: SystolicTables) -> np.ndarray:
    """Return (k, 2) int64, ordered by consumer: listing indices of an instruction that fills an entry and one
    that uses it."""
    templates = Templates(tables)
    codes = templates.code[:, [tk.CODE.op, tk.CODE.src0, tk.CODE.src1, tk.CODE.dst]].tolist()
    kinds, start = templates.kind.tolist(), 0
    parts: list[np.ndarray] = []
    fills: dict[tuple[int, int], dict[int, int]] = {}
    """By the key of a template: entry -> its last filler, counted from the tile's first instruction."""
    wants: dict[tuple[int, int], dict[int, int]] = {}
    """By the key of a template: entry with a sum that the tile continues -> its first user."""
    for template, end in enumerate(templates.ends.tolist()):
        pairs, filled, wanted = _inside(codes[start:end], kinds[start:end])
        tiles = templates.tiles[template]
        key = int(tiles[0, tk.TILE.code]), int(tiles[0, tk.TILE.count])
        fills[key], wants[key] = filled, wanted
        if pairs:
            made = tiles[:, tk.TILE.first][:, None, None] + np.array(pairs, np.int64)[None]
            parts.append(made.reshape(-1, 2))
        start = end
    parts.append(_continued(tables.tiles, fills, wants))
    found = np.concatenate(parts)
    return found[np.argsort(found[:, 1], kind="stable")]


def _inside(
    codes: list[list[int]], kinds: list[int]
) -> tuple[list[tuple[int, int]], dict[int, int], dict[int, int]]:
    """Return the links of a template, the last filler of each entry, and the first user of each sum that it
    did not begin."""
    pairs: list[tuple[int, int]] = []
    filled: dict[int, int] = {}
    wanted: dict[int, int] = {}
    for place, ((op, first, second, target), kind) in enumerate(zip(codes, kinds, strict=True)):
        if kind == LOAD:
            read: tuple[int, ...] = (first,) if first else ()
        elif kind == STORE:
            read = (target, first) if first else (target,)
        else:
            read = (first, second, target) if op in _PRODUCTS else (first, second)
        for entry in dict.fromkeys(read):
            if entry in filled:
                pairs.append((filled[entry], place))
            elif entry < 0:
                wanted.setdefault(entry, place)
        if kind != STORE and target:
            filled[target] = place
    return pairs, filled, wanted


def _continued(
    tiles: np.ndarray,
    fills: dict[tuple[int, int], dict[int, int]],
    wants: dict[tuple[int, int], dict[int, int]],
) -> np.ndarray:
    """Return links from a tile to the next one, if that continues its sums."""
    found: list[tuple[int, int]] = []
    columns = tiles[:, [tk.TILE.code, tk.TILE.count, tk.TILE.first]].tolist()
    for row in np.flatnonzero(tiles[:, tk.TILE.accumulate]).tolist():
        if row == 0:
            continue
        (code, count, first), (before, length, earlier) = columns[row], columns[row - 1]
        filled = fills.get((before, length), {})
        for entry, place in wants.get((code, count), {}).items():
            if entry in filled:
                found.append((earlier + filled[entry], first + place))
    return np.array(found, np.int64).reshape(-1, 2)
