"""The check that every tile fits into the halves it owns."""

import numpy as np

from npuviz.base.errors import DoesNotFit
from npuviz.base.units import format_bytes
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables, assign_cores


def check_fits(tables: SystolicTables, spec: SystolicSpec) -> None:
    """Raise DoesNotFit for the first tile whose entries overflow its half of a core's SRAM.

    Bytes are counted as the machine counts them: `CODE.size` of the instruction that creates an entry.
    """
    tiles = tables.tiles[tables.tiles[:, tk.TILE.count] > 0]
    if not len(tiles):
        return
    cores = assign_cores(tables, spec.num_cores)[tables.tiles[:, tk.TILE.count] > 0]
    pairs, which = np.unique(tiles[:, [tk.TILE.code, tk.TILE.count]], axis=0, return_inverse=True)
    needs = np.array([_need(tables.code[code : code + count]) for code, count in pairs])
    need = needs[which.reshape(-1)]
    limit = np.array(
        [(spec.spad_half_bytes(core), spec.acc_half_bytes(core)) for core in range(spec.num_cores)]
    )
    over = need > limit[cores]
    bad = np.flatnonzero(over.any(axis=1))
    if len(bad):
        tile, column = bad[0], int(over[bad[0]].argmax())
        memory, key = (("scratchpad", "spad_size"), ("accumulator", "accum_spad_size"))[column]
        layer = tables.layer_names[int(tiles[tile, tk.TILE.layer])]
        raise DoesNotFit(
            f"a tile of layer {layer!r} takes {format_bytes(int(need[tile, column]))} of the {memory}, "
            f"half of it is {format_bytes(int(limit[cores[tile], column]))}; use smaller tiles (mapping "
            f"file) or a larger {key}"
        )


def _need(code: np.ndarray) -> tuple[int, int]:
    """Return the bytes of scratchpad and accumulator entries that one template creates."""
    sizes: dict[int, int] = {}
    for entry, size in code[:, [tk.CODE.dst, tk.CODE.size]].tolist():
        sizes.setdefault(entry, size)
    spad = sum(size for entry, size in sizes.items() if entry > 0)
    return spad, sum(size for entry, size in sizes.items() if entry < 0)
