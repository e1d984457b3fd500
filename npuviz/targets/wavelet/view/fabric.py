"""Answer the fabric panel: states, loads, queue levels, routes and words of an area."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.sim.fabric import (
    FULL,
    NUM_PORTS,
    ROUTE_DTYPE,
    Area,
    ElementState,
    FabricColor,
    FabricShape,
    Glance,
    Hop,
    Level,
    WordPath,
)
from npuviz.targets.wavelet.explain.explainer import Explainer
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.description import Numbering, queue_name
from npuviz.targets.wavelet.view.details import pe_tables
from npuviz.targets.wavelet.view.hits import Hit
from npuviz.targets.wavelet.view.observe import Observer, queue_entries
from npuviz.targets.wavelet.view.words import words_of

OFF, IDLE, RUNNING, WAITING, HELD, HALTED, FAULT = range(7)
STATES = (
    ElementState("off", "off"),
    ElementState("idle", "idle"),
    ElementState("running", "compute"),
    ElementState("waits for data", "wait-empty"),
    ElementState("held back", "wait-queue"),
    ElementState("halted", "control"),
    ElementState("fault", "hazard"),
)
_LEVEL_WORDS = np.array([sk.QUEUE.count, sk.QUEUE.limit, sk.QUEUE.color])
_QUEUE_NAMES = tuple(queue_name(number) for number in range(pk.NUM_QUEUES))
_HOP_KINDS = ("sent", "hop", "taken", "dropped")


class FabricViews:
    """The part of the wafer machine that implements the protocols of npuviz.sim.fabric."""

    engine: Engine
    observer: Observer
    numbering: Numbering
    explainer: Explainer
    _shape: FabricShape | None = None

    # --- shape and areas -------------------------------------------------------------------------------

    @property
    def fabric(self) -> FabricShape:
        """The size of the fabric, its legend and its words for things."""
        if self._shape is None:
            wafer, spec = self.engine.wafer, self.engine.spec
            colors = sorted({c for t in self.engine.program.templates for c, at in t.channels.items()
                             if sk.CHANNEL(t.words, at).routed})  # fmt: skip
            columns = max(wafer.fabric[0], wafer.offset[0] + wafer.columns)
            rows = max(wafer.fabric[1], wafer.offset[1] + wafer.rows)
            program = Area(*wafer.offset, wafer.columns, wafer.rows)
            found = tuple(FabricColor(color) for color in colors)
            self._shape = FabricShape(
                columns, rows, program, STATES, found, spec.load_window, "PE", "wavelet", spec.hop
            )
        return self._shape

    def _nodes_in(self, area: Area) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (nodes, rows, columns) of an area; rows and columns count from its corner."""
        nodes = self.engine.program.nodes
        left, top = self.engine.wafer.offset
        x0, y0 = area.column - left, area.row - top
        low_x, low_y = max(0, x0), max(0, y0)
        part = nodes.grid[low_y : max(low_y, y0 + area.rows), low_x : max(low_x, x0 + area.columns)]
        rows, columns = np.nonzero(part >= 0)
        return part[rows, columns], rows + low_y - y0, columns + low_x - x0

    def _blocks(self, nodes: np.ndarray) -> np.ndarray:
        """Return the words of the blocks of nodes, 0 where nothing has happened."""
        s = self.engine.state
        return s[int(self.observer.wafer.nodes) + nodes]

    def _class_words(self, nodes: np.ndarray, word: int) -> np.ndarray:
        program = self.engine.program
        at = program.class_words_at[program.nodes.class_of[nodes]]
        return self.engine.words[at + word]

    def element_states(self, area: Area) -> np.ndarray:
        """Return (rows, columns) uint8: the state of every element now."""
        found = np.zeros((area.rows, area.columns), np.uint8)
        nodes, rows, columns = self._nodes_in(area)
        s, wafer = self.engine.state, self.observer.wafer
        blocks = self._blocks(nodes)
        has_program = self._class_words(nodes, pk.LAYOUT.code) >= 0
        states = np.where(has_program, IDLE, OFF).astype(np.uint8)
        live = (blocks > 0) & has_program
        b, threads_at = blocks[live], self._class_words(nodes[live], pk.LAYOUT.threads)
        masks = s[b + sk.BLOCK.threads]
        own = np.where(s[b + sk.BLOCK.task] >= 0, RUNNING, IDLE).astype(np.uint8)
        for number in range(sk.MAIN, -1, -1):
            active = (masks >> number & 1) > 0
            if not active.any():
                continue
            at = (b + threads_at + number * sk.THREAD.num_words)[active]
            stalled = s[b[active] + sk.BLOCK.stalled]
            is_held = (stalled | stalled >> sk.STALLED_OUTPUT | s[b[active] + sk.BLOCK.tested]) >> number & 1
            is_held |= s[b[active] + sk.BLOCK.next + number] > int(wafer.cycle)
            waits = np.where(is_held, s[at + sk.THREAD.wait], sk.WAIT_NONE)
            seen = np.full(len(waits), WAITING, np.uint8)
            seen[waits == sk.WAIT_NONE] = RUNNING
            seen[(waits == sk.WAIT_OUTPUT) | (waits == sk.WAIT_FIFO_FULL)] = HELD
            before = own[active]
            # A main thread at work is shown rather than a microthread that waits.
            keep = (before == RUNNING) & (number < sk.MAIN) & ((masks[active] >> sk.MAIN & 1) == 0)
            stays = keep | ((before != IDLE) & (number < sk.MAIN) & (seen != RUNNING))
            own[active] = np.where(stays, before, seen)
        own[s[b + sk.BLOCK.halted] > 0] = HALTED
        states[live] = own
        found[rows, columns] = states
        if int(wafer.status) == sk.STATUS_FAULT:
            found[rows, columns] = np.where(nodes == int(wafer.fault_node), FAULT, states)
        return found

    def link_loads(self, area: Area) -> np.ndarray:
        """Return (rows, columns, ports) uint8: the share of the last window in which each output was busy."""
        found = np.zeros((area.rows, area.columns, NUM_PORTS), np.uint8)
        nodes, rows, columns = self._nodes_in(area)
        s, cycles = self.engine.state, self.engine.spec.load_window
        blocks = self._blocks(nodes)
        live = blocks > 0
        b = blocks[live]
        window, inside = divmod(int(self.observer.wafer.cycle), cycles)
        age = window - s[b + sk.BLOCK.load_start] // cycles
        for port in range(NUM_PORTS):
            words = s[b + sk.BLOCK.links + port * sk.LINK.num_words + sk.LINK.load]
            now, last = words & 0xFFFF_FFFF, words >> 32
            before = np.where(age == 0, last, np.where(age == 1, now, 0))
            share = (np.where(age == 0, now, 0) + before * (1 - inside / cycles)) / cycles
            found[rows[live], columns[live], port] = np.minimum(FULL, np.ceil(share * FULL)).astype(np.uint8)
        return found

    def queue_fill(self, area: Area) -> np.ndarray:
        """Return (rows, columns) uint8: the fill of the fullest input queue."""
        found = np.zeros((area.rows, area.columns), np.uint8)
        nodes, rows, columns = self._nodes_in(area)
        s, blocks = self.engine.state, self._blocks(nodes)
        for number in range(pk.NUM_QUEUES):
            at = self._class_words(nodes, pk.LAYOUT.queue + number)
            has = (at > 0) & (blocks > 0)
            if has.any():
                q = (blocks + at)[has]
                fill = (s[q + sk.QUEUE.count] * FULL // s[q + sk.QUEUE.limit]).astype(np.uint8)
                here = rows[has], columns[has]
                found[here] = np.maximum(found[here], fill)
        return found

    # --- elements --------------------------------------------------------------------------------------

    def _node(self, column: int, row: int) -> int:
        grid = self.engine.program.nodes.grid
        x, y = column - self.engine.wafer.offset[0], row - self.engine.wafer.offset[1]
        return int(grid[y, x]) if 0 <= y < grid.shape[0] and 0 <= x < grid.shape[1] else -1

    def glances(self, area: Area) -> dict[tuple[int, int], Glance]:
        """Return what the elements of an area do now, in a few words, by their (column, row)."""
        nodes, rows, columns = self._nodes_in(area)
        states, off = self.element_states(area), Glance(OFF)
        found = {
            (column, row): off
            for row in range(area.row, area.row + area.rows)
            for column in range(area.column, area.column + area.columns)
        }
        places = zip((columns + area.column).tolist(), (rows + area.row).tolist(), strict=True)
        blocks = self._blocks(nodes)
        levels = self._levels(nodes)
        for place, state, block, main, own in zip(
            places,
            states[rows, columns].tolist(),
            blocks.tolist(),
            self.observer.main_threads(nodes),
            levels,
            strict=True,
        ):
            if state == OFF:
                continue
            found[place] = Glance(state, main.task, main.status, tuple(own)) if block else Glance(state)
        return found

    def _levels(self, nodes: np.ndarray) -> list[list[Level]]:
        """Return the fill of the input queues that each of `nodes` (int) has."""
        queues = self.observer.places_of(nodes, pk.LAYOUT.queue, pk.NUM_QUEUES)
        owners, numbers = np.nonzero(queues)
        words = self.engine.state[queues[owners, numbers][:, None] + _LEVEL_WORDS]
        found: list[list[Level]] = [[] for _ in range(len(nodes))]
        for owner, number, row in zip(owners.tolist(), numbers.tolist(), words.tolist(), strict=True):
            found[owner].append(Level(_QUEUE_NAMES[number], *row))
        return found

    def element_details(self, column: int, row: int) -> Sequence[DetailTable]:
        """Return tables of everything about one element now."""
        node = self._node(column, row)
        return pe_tables(self.observer, self.engine, node) if node >= 0 else ()

    def units_of_element(self, column: int, row: int) -> tuple[int, ...]:
        """Return the units of the description that belong to an element."""
        node = self._node(column, row)
        watched = self.numbering.watched
        return tuple(
            unit
            for unit, position in enumerate(self.numbering.unit_pe)
            if position >= 0 and watched[position].node == node
        )

    def element_of_unit(self, unit: int) -> tuple[int, int] | None:
        """Return (column, row) of the element that a unit belongs to, or None."""
        position = self.numbering.unit_pe[unit] if 0 <= unit < len(self.numbering.unit_pe) else -1
        if position < 0:
            return None
        pe, (left, top) = self.numbering.watched[position], self.engine.wafer.offset
        return pe.x + left, pe.y + top

    # --- routes and words ------------------------------------------------------------------------------

    def routes(self, color: int, area: Area) -> np.ndarray:
        """Return the settings of the routers that route a color now, as rows of `ROUTE_DTYPE`."""
        nodes, rows, columns = self._nodes_in(area)
        if not 0 <= color < pk.NUM_COLORS:
            return np.zeros(0, ROUTE_DTYPE)
        place = self._class_words(nodes, pk.LAYOUT.channel + color)
        found: list[tuple[int, int, int, int, int, int, bool]] = []
        for index in np.flatnonzero(place > 0).tolist():
            node = int(nodes[index])
            channel = sk.CHANNEL(self.observer.block_row(node), int(place[index]))
            if not channel.routed:
                continue
            position = int(channel.position)
            routes = int(channel.positions[position])
            count = int((channel.positions >> 16 > 0).sum())
            x, y = area.column + int(columns[index]), area.row + int(rows[index])
            if count < 2:
                position, count = -1, 0
            is_closed = bool(channel.closed)
            found.append((x, y, routes & 0x1F, routes >> 8 & 0x1F, position, count, is_closed))
        return np.array(found, ROUTE_DTYPE)

    def words(self, area: Area) -> np.ndarray:
        """Return the words on the links and in the routers of an area now, as rows of `WORD_DTYPE`."""
        nodes, rows, columns = self._nodes_in(area)
        return words_of(self.engine, self.observer, nodes, columns + area.column, rows + area.row)

    def _origin(self, identity: int) -> tuple[int, int]:
        nodes, (left, top) = self.engine.program.nodes, self.engine.wafer.offset
        node = identity >> 32
        return (int(nodes.x[node]) + left, int(nodes.y[node]) + top) if node < len(nodes.x) else (-1, -1)

    def word_path(self, word: int) -> WordPath | None:
        """Return the way of a word as far as the trail remembers it; None if it does not."""
        left, top = self.engine.wafer.offset
        rows = self.engine.trail()
        mine = rows[rows[:, 0] == word].tolist()
        if not mine:
            return None
        nodes = self.engine.program.nodes
        hops: list[Hop] = []
        color, payload, ends = -1, 0, 0
        for _, cycle, what, extra in mine:
            node, port, kind = what & 0xFF_FFFF, what >> 24 & 0xF, what >> 28 & 0xF
            color = what >> 56 & 0x1F
            instruction = extra if kind == 0 else -1
            payload = extra if kind else payload
            ends += kind > 1
            source = self.explainer.source(instruction).rstrip(": ")
            hops.append(
                Hop(cycle, int(nodes.x[node]) + left, int(nodes.y[node]) + top, port, _HOP_KINDS[kind],
                    what >> 32 & 0xFF_FFFF, instruction, source)
            )  # fmt: skip
        under_way = self._is_under_way(word)
        return WordPath(
            word, color, bool(payload & sk.MARK_CONTROL), payload & 0xFFFF_FFFF, tuple(hops), under_way
        )

    def is_sent(self, word: int) -> bool:
        """Return whether a word has been sent up to now."""
        node, number = word >> 32, word & 0xFFFF_FFFF
        is_known = 0 <= node < len(self.engine.program.nodes.x)
        return is_known and int(self.observer.block_row(node).sequence) > number

    def words_of_element(self, column: int, row: int) -> Sequence[int]:
        """Return the ids of the words in the router and the queues of an element now, without repetition."""
        node = self._node(column, row)
        if node < 0 or not self.observer.block(node):
            return ()
        found = [
            identity
            for _, channel in self.observer.channels(node)
            for port in range(NUM_PORTS)
            for _, identity, _ in _ring_entries(channel, port)
        ]
        for number, place in enumerate(self.observer.layout(node).queue.tolist()):
            if place:
                found += [int(entry.identity) for entry in queue_entries(self.observer.queue(node, number))]
        return tuple(dict.fromkeys(found))

    def wavelet_text(self, node: int, hit: Hit) -> str:
        """Describe a word that reached the processor of a node in the last cycle: its contents and its
        sender."""
        value = np.array([hit.data], np.uint32).view(np.float32)[0]
        kind = "control wavelet" if hit.is_control else "wavelet"
        text = f"{kind} {hit.data:#010x} (f32 {value:.6g}) of color {hit.color}"
        mark = hit.data | (sk.MARK_CONTROL if hit.is_control else 0)
        number = int(
            sk.CHANNEL(self.observer.block_row(node), self.observer.layout(node).channel[hit.color]).queue
        )
        same = [
            e for e in queue_entries(self.observer.queue(node, number)) if int(e.payload) & sk.MARKED == mark
        ]
        if not same:
            return text
        path = self.word_path(int(same[-1].identity))
        column, row = self._origin(int(same[-1].identity))
        sent = next((hop for hop in path.hops if hop.kind == "sent"), None) if path is not None else None
        by = f" by {sent.source} in cycle {sent.cycle}" if sent is not None and sent.source else ""
        return f"{text}, sent from {self.fabric.label(column, row)}{by}"

    def _is_under_way(self, word: int) -> bool:
        return bool((self.words(self.fabric.whole)["id"] == word).any())


def _ring_entries(channel: Any, port: int) -> list[tuple[int, int, int]]:
    """Return (payload, identity, ready) of the words in a port of a CHANNEL, head first."""
    slots, ring = int(channel.slots), channel.ports[port]
    size = int(channel.limit_ramp) if port == 0 else slots
    first = 4 * slots if port == 0 else (port - 1) * slots
    found: list[tuple[int, int, int]] = []
    for place in range(int(ring.count)):
        entry = sk.ENTRY(channel, sk.CHANNEL.num_words, first + (int(ring.head) + place) % size)
        found.append((int(entry.payload), int(entry.identity), int(entry.ready)))
    return found
