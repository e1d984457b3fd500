"""Make tables of the run so far: roofline, loops, use of the DMA engines, accumulation in PSUM."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from npuviz.base.units import format_count, format_share
from npuviz.program.instruction import DetailTable, Listing
from npuviz.program.source import line_of
from npuviz.sim.bounds import Bound, highest
from npuviz.targets.neuroncore.ids import dma_unit, unit_of
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, NUM_ENGINES, Engine, Space
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.engine import Engine as Machine
from npuviz.targets.neuroncore.view.accumulation import Group, accumulation_groups
from npuviz.targets.neuroncore.view.dma_shapes import DmaShape, DmaShapes, rows_by_line
from npuviz.targets.neuroncore.view.loop_bounds import loop_table
from npuviz.targets.neuroncore.view.observe import Observer
from npuviz.targets.neuroncore.view.sourced_listing import SourcedListing

MAX_LINES = 200
"""Most rows of the table of transfers."""


class Reports:
    """Makes the tables of one machine; analyses the program at the first question."""

    def __init__(self, engine: Machine, observer: Observer, listing: Listing) -> None:
        self._engine, self._observer, self._listing = engine, observer, listing

    def tables(self) -> tuple[DetailTable, ...]:
        """Return all tables that have rows."""
        return tuple(table for table in self._all() if table.rows)

    def empty_tables(self) -> tuple[DetailTable, ...]:
        """Return the tables that have no rows at this cycle."""
        return tuple(table for table in self._all() if not table.rows)

    def _all(self) -> tuple[DetailTable, ...]:
        return self.roofline(), *self.loops(), self.transfers(), self.psum()

    # --- bounds ----------------------------------------------------------------------------------------

    def bounds(self) -> list[Bound]:
        """Return the least cycles for the work begun, of each engine, the PE array, and all DMA engines
        together.
        """
        spec, tables = self._engine.spec, self._engine.tables
        chip = sk.CHIP(self._engine.state)
        found = [
            Bound(
                f"Core[{core}].{ENGINE_NAMES[engine]}",
                self._observer.busy(core * NUM_ENGINES + engine),
                unit_of(core, engine),
                "its instructions, one after the other" + self._limit_text(core, engine),
            )
            for core in range(tables.num_cores)
            for engine in range(NUM_ENGINES)
        ]
        array = spec.matmul_max_contraction * spec.matmul_max_stationary * tables.num_cores
        found.append(
            Bound("PE array", int(chip.macs) / array, unit_of(0, Engine.PE), "a MAC an element and cycle")
        )
        moved, busy = self._dma()
        if not busy.any():
            return [each for each in found if each.cycles]
        unit = dma_unit(spec, *divmod(int(busy.argmax()), spec.num_dma_engines))
        peak = spec.dma_peak_bytes_per_ns * 1e9 / spec.base_hz * len(busy)
        found.append(
            Bound("DMA, full rate", moved / peak, unit, f"{len(busy)} engines, elements for nothing")
        )
        found.append(
            Bound(
                "DMA, these elements", float(busy.mean()), unit, f"if {len(busy)} engines shared them equally"
            )
        )
        return [each for each in found if each.cycles]

    def _limit_text(self, core: int, engine: int) -> str:
        """Return a text about the cycles PE lost at its limited rate after pauses; "" for none."""
        cycles = self._observer.limited(core * NUM_ENGINES + engine)
        return f"; {format_count(cycles)} of it lost to its limit after pauses" if cycles else ""

    def _dma(self) -> tuple[int, np.ndarray]:
        """Return the bytes that all DMA engines moved, and the busy cycles of each."""
        cycle = int(sk.CHIP(self._engine.state).cycle)
        rows = [self._observer.dma_engine(number) for number in range(self._engine.shape.engines)]
        ahead = [int(d.until) - cycle if int(d.queue) >= 0 else 0 for d in rows]
        busy = [int(d.busy) - max(0, late) for d, late in zip(rows, ahead, strict=True)]
        return sum(int(d.bytes) for d in rows), np.array(busy, dtype=np.int64)

    def roofline(self) -> DetailTable:
        """Make the roofline table: the least time of each part of the machine, beside the elapsed time."""
        cycle = int(sk.CHIP(self._engine.state).cycle)
        found = sorted(self.bounds(), key=lambda each: -each.cycles)
        top = highest(found)
        rows = tuple(
            (
                each.name,
                format_count(round(each.cycles)),
                format_share(each.cycles / max(cycle, 1)),
                each.text,
            )
            for each in found
        )
        spec = self._engine.spec
        rate = spec.dma_peak_bytes_per_ns * spec.num_dma_engines
        text = (
            f"{format_share(top.cycles / cycle, 0)} of it by {top.name}"
            if top is not None and cycle
            else "nothing ran"
        )
        title = f"Roofline ({text}; DMA at most {rate:.0f} GB/s a core)"
        return DetailTable(title, ("Part", "Least cycles", "Of the run", "Because"), rows)

    def loops(self) -> tuple[DetailTable, ...]:
        """Make the table of the kernel's loops, with least and actual time; () without a program text."""
        if not isinstance(self._listing, SourcedListing):
            return ()
        rings = self._engine.spec.num_dma_engines
        cycles = np.array([each.cycles for each in self._measured]) / rings
        return (loop_table(self._engine, self._listing, cycles),)

    # --- transfers -------------------------------------------------------------------------------------

    @cached_property
    def _shapes(self) -> list[DmaShape]:
        """All different shapes of the program's transfers."""
        return list(dict.fromkeys(self._measured))

    @cached_property
    def _shape_of(self) -> np.ndarray:
        """Index in `_shapes` of each transfer's shape."""
        places = {shape: place for place, shape in enumerate(self._shapes)}
        return np.array([places[shape] for shape in self._measured], dtype=np.int64)

    @cached_property
    def _measured(self) -> list[DmaShape]:
        """The shape of each transfer."""
        measured = DmaShapes(self._engine.spec, self._engine.tables.queue_sets)
        return [measured.of(transfer) for transfer in self._engine.tables.transfers]

    @cached_property
    def _triggers_of_lines(self) -> dict[str, np.ndarray]:
        """{line: its instructions that start transfers}."""
        found: dict[str, list[int]] = {}
        for index in np.flatnonzero(self._engine.tables.transfer_of >= 0).tolist():
            found.setdefault(self._name(index), []).append(index)
        return {name: np.array(indices, dtype=np.int64) for name, indices in found.items()}

    def transfers(self) -> DetailTable:
        """Make the table of complete transfers by line: number, bytes, element size, share of the peak
        rate.
        """
        tables, log = self._engine.tables, self._engine.log()[:, 0]
        times = np.bincount(-1 - log[log < 0], minlength=len(tables.instructions))
        shapes: dict[str, DmaShape] = {}
        counts: dict[str, int] = {}
        for name, indices in self._triggers_of_lines.items():
            done = indices[times[indices] > 0]
            if len(done):
                kinds, often = np.unique(self._shape_of[tables.transfer_of[done]], return_counts=True)
                each = zip(kinds.tolist(), often.tolist(), strict=True)
                shapes[name] = sum((self._shapes[kind].times(count) for kind, count in each), DmaShape())
                counts[name] = len(done)
        columns = ("Line", "Transfers", "Bytes", "Elements", "Element bytes", "Of peak rate")
        total = sum(shapes.values(), DmaShape())
        title = f"DMA transfers ({format_share(total.efficiency, 0)} of the engines' peak rate)"
        return DetailTable(title, columns, tuple(rows_by_line(shapes, counts, MAX_LINES)))

    def _name(self, index: int) -> str:
        """Return the source line of an instruction, else its operator, else its text."""
        line = line_of(self._listing, index)
        if line:
            return line
        node = int(self._listing.nodes_of(np.array([index]))[0])
        return self._listing.describe(index).text if node < 0 else f"operator {node}"

    # --- PSUM ------------------------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> dict[tuple[int, int], list[Group]]:
        """Accumulation groups of the program by (core, bank), in program order."""
        found: dict[tuple[int, int], list[Group]] = {}
        for group in accumulation_groups(self._engine.spec, self._engine.tables):
            found.setdefault((group.core, group.bank), []).append(group)
        return found

    def psum(self) -> DetailTable:
        """Make the table of the tiles in PSUM now: bank, and the group of products summed up in each."""
        tables, state, shape = self._engine.tables, self._engine.state, self._engine.shape
        rows, spec = tables.allocations, self._engine.spec
        since = state[shape.tiles : shape.tiles + len(rows)]
        alive = np.flatnonzero((since >= 0) & (rows["space"] == Space.PSUM)) if len(rows) else since[:0]
        log = self._engine.log()
        ends = np.full(len(tables.instructions), -1, dtype=np.int64)
        ends[log[log[:, 0] >= 0, 0]] = log[log[:, 0] >= 0, 1]
        found: list[tuple[int, int, tuple[str, ...]]] = []
        for tile in alive.tolist():
            row = rows[tile]
            core, low, high = int(row["core"]), int(row["address"]), int(row["address"] + row["size_bytes"])
            bank = low // spec.psum_bank_bytes
            groups: list[Group] = []
            for group in reversed(self._groups.get((core, bank), ())):
                begun = int(ends[group.products[0]])
                if 0 <= begun < int(since[tile]):
                    break
                if begun >= 0 and low <= group.address < high:
                    groups.append(group)
            label = tables.tile_names[tile] if tables.tile_names else ""
            name = f"Core[{core}] {bank}" if tables.num_cores > 1 else str(bank)
            cells = (name, label or self._name(int(row["first"])), *self._group_cells(groups, ends))
            found.append((core, bank, cells))
        found.sort()
        banks = len({place[:2] for place in found})
        title = f"PSUM ({banks} of {spec.num_psum_banks * tables.num_cores} banks in use)"
        columns = ("Bank", "Tile", "Products", "State", "Opened at", "Groups")
        return DetailTable(title, columns, tuple(cells for _, _, cells in found))

    def _group_cells(self, groups: Sequence[Group], ends: np.ndarray) -> tuple[str, str, str, str]:
        """Return the cells about a tile's groups (latest first): products done, state, name, number of
        groups.
        """
        if not groups:
            return "none", "no products", "", ""
        last = groups[0]
        done = int((ends[last.products] >= 0).sum())
        state = "complete" if done == len(last.products) else "open: more products follow"
        return f"{done} of {len(last.products)}", state, self._name(last.products[0]), str(len(groups))
