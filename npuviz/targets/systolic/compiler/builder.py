"""Collects layers, tile templates and tiles into the tables that the kernel runs.

Use, layer by layer, in the order in which the scheduler starts them:

    builder = ProgramBuilder()
    builder.begin_layer("conv1", node=3)
    act = builder.scratchpad_entry(("act", 0), address=0, size=8192)      # operand words
    out = builder.accumulator_entry(("out", 0, 0), address=0, size=4096)

    def write(t: Template) -> None:            # called only when the layer has no template of this key
        t.movin(act, Rows(base=0, offset=0, length=256, n0=32, s0=512), size=8192, tensor=5)
        t.gemm((act, weight), out, rows=32, tile=(8, 8, 32), size=4096, tensor=7)
        t.movout(out, Rows(base=1, offset=0, length=512), tensor=7)

    full = builder.template(("full", 32, 32), write)                      # template id
    builder.add_tile(full, bases=(a, b), core=0, coord=(n, m, c))         # one tile, or
    builder.add_tiles(ids, bases, cores=..., accumulate=..., coords=...)  # thousands at once
    builder.end_layer()
    tables = builder.finish()
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from npuviz.base.errors import DoesNotFit, SimulationError
from npuviz.targets.systolic.compiler.template import Template
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import SystolicTables

MAX_TILES = 1 << 22
MAX_CODE_ROWS = 1 << 22
"""Beyond these a program is refused: they bound its tables to a few hundred MiB."""


class _LayerEntries:
    """Entries of one kind (scratchpad or accumulator) of the layer being built, numbered densely."""

    def __init__(self) -> None:
        self.ids: dict[Hashable, int] = {}
        self.rows: list[list[int]] = []

    def number(self, key: Hashable, address: int, size: int) -> int:
        """Return the number of the entry `key`, and make the entry if the layer does not have it yet."""
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = len(self.rows)
            self.rows.append([address, size])
        elif size > self.rows[found][1]:
            self.rows[found][1] = size
        return found

    def placed_rows(self) -> list[list[int]]:
        """Return ENTRIES rows; entries without an address follow each other behind all others."""
        end = max((address + size for address, size in self.rows if address >= 0), default=0)
        for row in self.rows:
            if row[0] < 0:
                row[0], end = end, end + row[1]
        return self.rows


class ProgramBuilder:
    """Builds SystolicTables; the module's docstring shows its use.

    Cost: a template is stored once, however many layers and tiles use it (templates with equal rows
    share their CODE rows program-wide); a tile costs one TILE row.
    """

    def __init__(self) -> None:
        self._code: list[np.ndarray] = []
        self._code_rows = 0
        self._template_at: list[tuple[int, int]] = []
        self._by_content: dict[bytes, int] = {}
        self._tiles: list[np.ndarray] = []
        self._tile_starts: list[int] = []
        self._num_tiles = 0
        self._layers: list[tuple[int, ...]] = []
        self._layer_names: list[str] = []
        self._entry_rows: list[list[int]] = []
        self._launches: list[tuple[int, int, int, int]] = []
        self._edges: list[tuple[int, int]] = []
        self._open: tuple[str, int, int] | None = None
        self._scratchpad = _LayerEntries()
        self._accumulator = _LayerEntries()
        self._by_key: dict[Hashable, int] = {}

    @property
    def num_layers(self) -> int:
        """Layers ended so far; inside a layer also the index of that layer."""
        return len(self._layers)

    @property
    def num_tiles(self) -> int:
        """Tiles added so far."""
        return self._num_tiles

    def begin_launch(self, earliest: int = 0, delay: int = 0, partition: int = 0) -> None:
        """Start a group of layers that may start at core tick `earliest` at the earliest, and not
        before `delay` ticks after the tick in which the group before it ended. `partition` matters to the
        scheduler `partition_cpu` only.

        Without a call, all layers form one launch that may start at tick 0.
        """
        self._require_closed("begin_launch")
        self._launches.append((len(self._layers), earliest, delay, partition))

    def add_edges(self, edges: Sequence[tuple[int, int]]) -> None:
        """Tell which layers (indices, of one launch) wait for which: pairs (layer, one that waits for it).

        The layers that wait for one are given in creation order. Under `simple` they change nothing.
        """
        self._edges += edges

    def begin_layer(self, name: str, node: int = -1) -> int:
        """Open a layer (graph node id, or -1) and return its index. Entry and template keys start afresh."""
        self._require_closed("begin_layer")
        self._open = (name, node, self._num_tiles)
        self._scratchpad, self._accumulator, self._by_key = _LayerEntries(), _LayerEntries(), {}
        return len(self._layers)

    def end_layer(self) -> None:
        """Close the layer. A layer without tiles would never end and is refused."""
        name, node, first = self._require_open("end_layer")
        count = self._num_tiles - first
        if count == 0:
            raise SimulationError(f"layer {name!r} has no tiles; give it a skip tile")
        spad, acc = self._scratchpad.placed_rows(), self._accumulator.placed_rows()
        self._append_layer(name, (first, count, node, 0, len(self._entry_rows), len(spad), len(acc), -1))
        self._entry_rows += spad
        self._entry_rows += acc
        self._open = None

    def add_host_layer(self, name: str, node: int, cycles: int) -> int:
        """Add a layer that runs on the Host unit for `cycles` > 0 cycles; returns its index.

        Its one instruction is numbered after all tile instructions (see `listing`).
        """
        self._require_closed("add_host_layer")
        row = (self._num_tiles, 0, node, max(1, cycles), len(self._entry_rows), 0, 0, -1)
        self._append_layer(name, row)
        return len(self._layers) - 1

    def repeat_layer(self, source: int, name: str, node: int, shifts: Sequence[int]) -> int:
        """Add a copy of an earlier layer whose base addresses are moved by `shifts` bytes; returns its index.

        shifts  per base of a tile, as many as the layer uses
        """
        self._require_closed("repeat_layer")
        row = self._layers[source]
        tiles = self._tiles_between(row[0], row[0] + row[1])
        tiles[:, tk.TILE.layer] = len(self._layers)
        tiles[:, tk.TILE.base : tk.TILE.base + len(shifts)] += np.array(shifts, dtype=np.int64)
        first = self._num_tiles
        self._append_tiles(tiles)
        self._append_layer(name, (first, row[1], node, *row[3:]))
        return len(self._layers) - 1

    def _tiles_between(self, first: int, end: int) -> np.ndarray:
        """Return a copy of the rows of tiles first .. end - 1."""
        at = bisect_right(self._tile_starts, first) - 1
        parts: list[np.ndarray] = []
        while first < end:
            start, rows = self._tile_starts[at], self._tiles[at]
            parts.append(rows[first - start : end - start])
            first, at = start + len(rows), at + 1
        return np.concatenate(parts)

    def add_skip_layer(self, name: str, node: int = -1, num_tiles: int = 1) -> int:
        """Add a layer of skip tiles (no work, reported at once); returns its index."""
        index = self.begin_layer(name, node)
        self.add_skip_tiles(num_tiles)
        self.end_layer()
        return index

    def add_skip_tiles(self, num_tiles: int = 1) -> None:
        """Add tiles without work to the open layer."""
        self._require_open("add_skip_tiles")
        tiles = np.zeros((num_tiles, tk.TILE.num_words), dtype=np.int64)
        tiles[:, tk.TILE.layer] = len(self._layers)
        tiles[:, tk.TILE.core] = -1
        tiles[:, tk.TILE.skip] = 1
        self._append_tiles(tiles)

    def scratchpad_entry(self, key: Hashable, address: int, size: int) -> int:
        """Return the operand word of the layer's scratchpad entry `key` (k + 1); `address` is inside the
        half.

        The first address given for a key stays; the size kept is the largest one. Entries with
        address -1 are laid out by the builder behind all others.
        """
        self._require_open("scratchpad_entry")
        return self._scratchpad.number(key, address, size) + 1

    def accumulator_entry(self, key: Hashable, address: int, size: int) -> int:
        """Return the operand word of the layer's accumulator entry `key` (-(k + 1)); as
        `scratchpad_entry`."""
        self._require_open("accumulator_entry")
        return -(self._accumulator.number(key, address, size) + 1)

    def template(self, key: Hashable, write: Callable[[Template], None]) -> int:
        """Return the id of the template `key` of this layer; `write` fills it if the layer does not have it
        yet.

        `key` must determine the rows that `write` makes within the layer.
        """
        self._require_open("template")
        found = self._by_key.get(key)
        if found is None:
            template = Template()
            write(template)
            found = self._by_key[key] = self._intern(template.array())
        return found

    def _intern(self, rows: np.ndarray) -> int:
        if self._code_rows + len(rows) > MAX_CODE_ROWS:
            raise DoesNotFit(f"the program has more than {MAX_CODE_ROWS} different instructions")
        digest = hashlib.blake2b(rows.tobytes(), digest_size=16).digest()
        found = self._by_content.get(digest)
        if found is None:
            found = self._by_content[digest] = len(self._template_at)
            self._template_at.append((self._code_rows, len(rows)))
            self._code.append(rows)
            self._code_rows += len(rows)
        return found

    def add_tile(
        self,
        template: int,
        bases: Sequence[int] = (),
        *,
        core: int = -1,
        accumulate: bool = False,
        fused: int = 0,
        coord: Sequence[int] = (),
    ) -> int:
        """Add one tile and return its program-wide index; meaning of the arguments: `add_tiles`."""
        self.add_tiles(
            np.array([template]),
            np.array([bases], dtype=np.int64).reshape(1, len(bases)),
            cores=np.array([core]),
            accumulate=np.array([accumulate]),
            fused=np.array([fused]),
            coords=np.array([coord], dtype=np.int64).reshape(1, len(coord)),
        )
        return self._num_tiles - 1

    def add_tiles(
        self,
        templates: np.ndarray,
        bases: np.ndarray,
        *,
        cores: np.ndarray | int = -1,
        accumulate: np.ndarray | bool = False,
        fused: np.ndarray | int = 0,
        coords: np.ndarray | None = None,
    ) -> None:
        """Add n tiles in order.

        templates   (n,) template ids; a template without instructions makes a skip tile
        bases       (n, up to 8) int64 base byte addresses
        cores       preset core index, -1: dealt round robin
        accumulate  whether the tile continues the accumulation of the tile before it
        fused       number of the fused operation inside attention, 0 elsewhere
        coords      (n, up to 6) block coordinates, free for the compiler
        """
        self._require_open("add_tiles")
        # Only those that are used: there are as many templates as a large model has operators.
        used, place = np.unique(templates, return_inverse=True)
        rows = [self._template_at[template] for template in used.tolist()]
        at = np.array(rows, dtype=np.int64).reshape(-1, 2)[place]
        tiles = np.zeros((len(templates), tk.TILE.num_words), dtype=np.int64)
        tiles[:, tk.TILE.layer] = len(self._layers)
        tiles[:, tk.TILE.code] = at[:, 0]
        tiles[:, tk.TILE.count] = at[:, 1]
        tiles[:, tk.TILE.core] = cores
        tiles[:, tk.TILE.accumulate] = accumulate
        tiles[:, tk.TILE.skip] = at[:, 1] == 0
        tiles[:, tk.TILE.fused] = fused
        tiles[:, tk.TILE.base : tk.TILE.base + bases.shape[1]] = bases
        if coords is not None:
            tiles[:, tk.TILE.coord : tk.TILE.coord + coords.shape[1]] = coords
        self._append_tiles(tiles)

    def finish(self, values: Any = None) -> SystolicTables:
        """Return the finished tables; `values` is the plan of the values engine. The builder is used up."""
        self._require_closed("finish")
        tiles = _stack(self._tiles, tk.TILE.num_words)
        counts = tiles[:, tk.TILE.count]
        tiles[:, tk.TILE.first] = np.cumsum(counts) - counts
        layers = np.array(self._layers, dtype=np.int64).reshape(-1, tk.LAYER.num_words)
        host = np.flatnonzero(layers[:, tk.LAYER.host_cycles] > 0)
        layers[host, tk.LAYER.instruction] = int(counts.sum()) + np.arange(len(host))
        entries = np.array(self._entry_rows, dtype=np.int64).reshape(-1, tk.ENTRY_ROOM.num_words)
        tables = SystolicTables(
            _stack(self._code, tk.CODE.num_words),
            tiles,
            layers,
            entries,
            self._launch_table(),
            tuple(self._layer_names),
            values,
            np.array(self._edges, dtype=np.int64).reshape(-1, 2),
        )
        for table in (
            tables.code,
            tables.tiles,
            tables.layers,
            tables.entries,
            tables.launches,
            tables.edges,
        ):
            table.setflags(write=False)
        return tables

    def _launch_table(self) -> np.ndarray:
        starts = self._launches
        if not starts or starts[0][0] > 0:
            starts = [(0, 0, 0, 0), *starts]
        ends = [start[0] for start in starts[1:]] + [len(self._layers)]
        rows = [(first, end - first, *rest) for (first, *rest), end in zip(starts, ends, strict=True)]
        return np.array(rows, dtype=np.int64).reshape(-1, tk.LAUNCH.num_words)

    def _append_layer(self, name: str, row: tuple[int, ...]) -> None:
        self._layers.append(row)
        self._layer_names.append(name)

    def require_tiles(self, count: int, name: str = "") -> None:
        """Raise DoesNotFit when `count` more tiles are too many. name  of the layer, if none is open"""
        if self._num_tiles + count > MAX_TILES:
            name = self._open[0] if self._open else name
            raise DoesNotFit(
                f"layer {name!r} is cut into {count} tiles, those before it into {self._num_tiles}, and "
                f"{MAX_TILES} are allowed in all; "
                "use larger tiles or a smaller model"
            )

    def _append_tiles(self, tiles: np.ndarray) -> None:
        self.require_tiles(len(tiles))
        self._tile_starts.append(self._num_tiles)
        self._tiles.append(tiles)
        self._num_tiles += len(tiles)

    def _require_open(self, what: str) -> tuple[str, int, int]:
        if self._open is None:
            raise SimulationError(f"{what} outside begin_layer .. end_layer")
        return self._open

    def _require_closed(self, what: str) -> None:
        if self._open is not None:
            raise SimulationError(f"{what} inside layer {self._open[0]!r}, which has no end_layer")


def _stack(parts: list[np.ndarray], words: int) -> np.ndarray:
    if not parts:
        return np.zeros((0, words), dtype=np.int64)
    return np.ascontiguousarray(np.concatenate(parts))
