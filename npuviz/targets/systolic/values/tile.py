"""Executes the instructions of one tile on arrays: the contents of its entries, and its stores."""

from collections.abc import Callable
from itertools import islice

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import SystolicTables
from npuviz.targets.systolic.values.plan import Product, ValuePlan
from npuviz.targets.systolic.values.storage import Storage, convert, widen

Contents = dict[int, np.ndarray]
"""Operand word -> contents of the entry."""

_GEMMS = (tk.OP_GEMM, tk.OP_GEMM_PRELOAD)
_STORES = (tk.OP_MOVOUT, tk.OP_MOVOUT_POOL)
_EXACT_DEPTH = (1 << 24) // (255 * 255)


class TileProgram:
    """The rows of a template by kind of instruction; shared by all tiles of the template."""

    def __init__(self, rows: np.ndarray) -> None:
        opcode = rows[:, tk.CODE.op]
        is_gemm, is_store = np.isin(opcode, _GEMMS), np.isin(opcode, _STORES)
        is_load = opcode == tk.OP_MOVIN
        is_picked = is_load & (rows[:, tk.CODE.src0] != 0)
        self.loads: list[list[int]] = rows[is_load & ~is_picked].tolist()
        self.picked_loads: list[list[int]] = rows[is_picked].tolist()
        self.stores: list[list[int]] = rows[is_store].tolist()
        self.vectors: list[list[int]] = rows[~(is_gemm | is_store | is_load)].tolist()
        self.gemm_destinations: np.ndarray = rows[is_gemm, tk.CODE.dst]
        self.product: int = int(rows[is_gemm, tk.CODE.aux][0]) if is_gemm.any() else -1
        self.num_gemms = int(is_gemm.sum())
        self.stages: list[list[list[int]]] = _stages(rows[~(is_load | is_store)].tolist())
        self.is_staged: bool = any(each[0][tk.CODE.op] in _GEMMS for each in self.stages[1:])
        self.load_of: dict[int, list[int]] = {row[tk.CODE.dst]: row for row in rows[is_load].tolist()}


def _stages(rows: list[list[int]]) -> list[list[list[int]]]:
    """Group compute instructions in program order: those of one product together, every other one alone."""
    found: list[list[list[int]]] = []
    for row in rows:
        is_same = (
            bool(found)
            and row[tk.CODE.op] in _GEMMS
            and found[-1][0][tk.CODE.op] in _GEMMS
            and found[-1][0][tk.CODE.aux] == row[tk.CODE.aux]
        )
        if is_same:
            found[-1].append(row)
        else:
            found.append([row])
    return found


class TileValues:
    """Evaluates tiles; `stored` gives the flat DRAM contents of a root tensor."""

    def __init__(self, tables: SystolicTables, plan: ValuePlan, stored: Callable[[int], np.ndarray]) -> None:
        self._tables = tables
        self._plan = plan
        self._stored = stored
        self._programs: dict[tuple[int, int], TileProgram] = {}
        self._chain_end: tuple[int, np.ndarray] | None = None
        self._staged_end: tuple[int, Contents] | None = None

    def program(self, tile: int) -> TileProgram:
        """Return the decoded template of a tile."""
        row = self._tables.tiles[tile]
        key = int(row[tk.TILE.code]), int(row[tk.TILE.count])
        found = self._programs.get(key)
        if found is None:
            found = self._programs[key] = TileProgram(self._tables.code[key[0] : key[0] + key[1]])
        return found

    def loaded(self, tile: int, entry: int) -> np.ndarray | None:
        """Return what the tile's MOVIN brings to an entry, or None if it loads no such entry."""
        row = self.program(tile).load_of.get(entry)
        return None if row is None or row[tk.CODE.src0] else self._load(tile, row)

    def contents(self, tile: int, gemms: int, vectors: int) -> Contents:
        """Return all entries after `gemms` GEMM-type and `vectors` vector instructions of the tile
        retired."""
        program = self.program(tile)
        found: Contents = {row[tk.CODE.dst]: self._load(tile, row) for row in program.loads}
        if program.is_staged:
            found |= self._before_staged(tile)
            self._run_stages(program, gemms, vectors, found)
            return found
        if program.product >= 0:
            self._add_products(tile, program, min(gemms, program.num_gemms), found)
        wide: Contents = {}

        def operand(word: int) -> np.ndarray:
            if word < 0:
                return _wide(found[word])
            if word not in wide:
                wide[word] = _wide(found[word])
            return wide[word]

        for row in program.vectors[:vectors]:
            self._apply(row, operand, found)
        if vectors >= len(program.vectors):
            for row in program.picked_loads:
                found[row[tk.CODE.dst]] = self._load(tile, row, _moved_by(row, found))
        return found

    def _apply(self, row: list[int], operand: Callable[[int], np.ndarray], found: Contents) -> None:
        """Execute one vector instruction."""
        function = self._plan.functions[row[tk.CODE.aux]]
        first = operand(row[tk.CODE.src0])
        second = operand(row[tk.CODE.src1]) if row[tk.CODE.src1] else first
        with np.errstate(all="ignore"):
            result = function.apply(first, second)
            if function.accumulates:
                result = found[row[tk.CODE.dst]] + result
        found[row[tk.CODE.dst]] = result

    def _run_stages(self, program: TileProgram, gemms: int, vectors: int, found: Contents) -> None:
        """Execute products and vector instructions in program order, as far as they retired."""
        for stage in program.stages:
            if stage[0][tk.CODE.op] not in _GEMMS:
                if vectors > 0:
                    self._apply(stage[0], lambda word: _wide(found[word]), found)
                vectors -= 1
                continue
            product = self._plan.products[stage[0][tk.CODE.aux]]
            count = max(0, min(gemms, len(stage))) * product.num_steps // len(stage)
            gemms -= len(stage)
            for word, block in product.blocks.items():
                before = found.get(word) if product.continues else None
                result = np.zeros(product.shape, np.float32) if before is None else before.copy()
                for left, right in islice(product.steps(found.__getitem__), count):
                    add_step(result, left, right)
                found[word] = result[block.row : block.row_end, block.column : block.column_end]

    def _before_staged(self, tile: int) -> Contents:
        """Return the accumulator entries as the tiles before this one in its chain left them."""
        tiles = self._tables.tiles
        if not tiles[tile, tk.TILE.accumulate]:
            return {}
        first = tile - 1
        while tiles[first, tk.TILE.accumulate]:
            first -= 1
        kept: Contents = {}
        if self._staged_end is not None and first <= self._staged_end[0] < tile:
            first, kept = self._staged_end[0] + 1, self._staged_end[1]
        for earlier in range(first, tile):
            program = self.program(earlier)
            found = {row[tk.CODE.dst]: self._load(earlier, row) for row in program.loads} | kept
            self._run_stages(program, program.num_gemms, len(program.vectors), found)
            kept = {word: values for word, values in found.items() if word < 0}
            self._staged_end = (earlier, kept)
        return kept

    def _add_products(self, tile: int, program: TileProgram, gemms: int, found: Contents) -> None:
        """Put the accumulator blocks into `found`, each after its own number of retired steps."""
        product = self._plan.products[program.product]
        steps = self._steps_done(program, product, gemms)
        wanted = set(steps.values())
        start = self._before(tile, product)
        result = np.zeros(product.shape, numpy_dtype(product.dtype)) if start is None else start.copy()
        if 0 in wanted and start is not None:
            _cut(result, product, steps, 0, found)
        for count, (left, right) in enumerate(product.steps(found.__getitem__), start=1):
            if count > max(wanted):
                break
            add_step(result, left, right)
            if count in wanted:
                _cut(result, product, steps, count, found)
        if gemms == program.num_gemms:
            self._chain_end = (tile, result)

    def _steps_done(self, program: TileProgram, product: Product, gemms: int) -> dict[int, int]:
        """Return the steps of the product that each block has seen; a block may take several instructions a
        step."""
        destinations = program.gemm_destinations
        found: dict[int, int] = {}
        for word in product.blocks:
            own = destinations == word
            total, done = int(own.sum()), int(own[:gemms].sum())
            found[word] = done * product.num_steps // total if total else 0
        return found

    def _before(self, tile: int, product: Product) -> np.ndarray | None:
        """Return the accumulated result of the tiles before this one in its chain, None at the start of a
        chain."""
        tiles = self._tables.tiles
        if not tiles[tile, tk.TILE.accumulate]:
            return None
        if self._chain_end is not None and self._chain_end[0] == tile - 1:
            return self._chain_end[1]
        first = tile
        while tiles[first, tk.TILE.accumulate]:
            first -= 1
        result = np.zeros(product.shape, numpy_dtype(product.dtype))
        for earlier in range(first, tile):
            program = self.program(earlier)
            loads = {row[tk.CODE.dst]: self._load(earlier, row) for row in program.loads}
            for left, right in self._plan.products[program.product].steps(loads.__getitem__):
                add_step(result, left, right)
        self._chain_end = (tile - 1, result)
        return result

    def _load(self, tile: int, row: list[int], moved: int = 0) -> np.ndarray:
        storage = self._plan.storages[row[tk.CODE.tensor]]
        data = _rows_of(self._stored(storage.root), storage, self._tables.tiles[tile], row, moved)
        shape = self._plan.shapes[row[tk.CODE.aux]]
        if shape:
            return data.reshape(shape)
        return data.reshape(tuple(size for size in data.shape if size > 1) or (1,))

    def store(self, tile: int, found: Contents, target: Callable[[int], np.ndarray]) -> None:
        """Write what the tile's MOVOUTs store into the flat arrays that `target` gives by root tensor."""
        for row in self.program(tile).stores:
            storage = self._plan.storages[row[tk.CODE.tensor]]
            moved = _moved_by(row, found) if row[tk.CODE.src0] else 0
            place = _rows_of(target(storage.root), storage, self._tables.tiles[tile], row, moved)
            values = found[row[tk.CODE.dst]]
            shape, order = self._plan.orders[row[tk.CODE.aux]]
            if shape:
                values = values.reshape(shape).transpose(order)
            place[...] = convert(values, place.dtype).reshape(place.shape)


def add_step(result: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Accumulate one step; integer results go through float32 where that is exact, else float64."""
    with np.errstate(all="ignore"):
        if result.dtype.kind == "i" and left.shape[1] > _EXACT_DEPTH:
            left, right = left.astype(np.float64), right.astype(np.float64)
        part = left @ right
        result += part if result.dtype == part.dtype else part.astype(result.dtype)


def _cut(result: np.ndarray, product: Product, steps: dict[int, int], count: int, found: Contents) -> None:
    for word, block in product.blocks.items():
        if steps[word] == count:
            found[word] = result[block.row : block.row_end, block.column : block.column_end].copy()


def _wide(values: np.ndarray) -> np.ndarray:
    """Convert contents for the vector unit: to float32, integers stay as they are."""
    return values if values.dtype.kind in "iub" else widen(values)


def _moved_by(row: list[int], found: Contents) -> int:
    """Return the bytes by which the rows of a move lie behind those that its requests assume."""
    return int(found[row[tk.CODE.src0]].reshape(-1)[row[tk.CODE.n]]) - row[tk.CODE.tile_k]


def _rows_of(
    flat: np.ndarray, storage: Storage, tile: np.ndarray, row: list[int], moved: int = 0
) -> np.ndarray:
    """Return a view (n0, n1, elements) of the rows that a MOVIN or MOVOUT of a tile names.

    moved  bytes that picked rows lie behind the address in the program
    """
    item = storage.item_bytes
    first = int(tile[tk.TILE.base + row[tk.CODE.base]]) + row[tk.CODE.offset] + moved
    start = (first - storage.address) // item
    shape = (row[tk.CODE.n0], row[tk.CODE.n1], row[tk.CODE.len] // item)
    steps = (row[tk.CODE.s0] // item, row[tk.CODE.s1] // item, 1)
    last = start + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
    if start < 0 or last >= flat.size:
        raise IndexError(f"rows {start}..{last} outside tensor {storage.root} of {flat.size} elements")
    strides = tuple(step * flat.itemsize for step in steps)
    return np.lib.stride_tricks.as_strided(flat[start:], shape, strides)
