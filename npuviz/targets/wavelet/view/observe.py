"""Read the state of a wafer in terms of the machine contract: queues, units, activities, totals."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from npuviz.sim.machine import Activity, Peak, QueueEntry, RunSummary, UnitState
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.causes import KIND_OPERATION, KIND_SCALAR
from npuviz.targets.wavelet.kernels.origins import KIND_WAIT
from npuviz.targets.wavelet.kernels.router.link import CYCLE_BITS, KIND_LINK
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view import description
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.view.main_threads import MainThread, main_threads, operation_text
from npuviz.targets.wavelet.wafer import HOST_COPY_IN, HOST_COPY_OUT, HOST_LAUNCH, STREAMS_IN

NUM_LINKS = 4
"""Links of a router, without its ramp."""
NODES_AT_ONCE = 4096
"""Nodes whose records are read together."""
UNITS_AT_ONCE = 64
"""Main threads that are read together while units are asked for one by one."""
MEMORY_BYTES = 49_152
"""Memory of a PE. Ref: APP."""
_HOST_WORDS = {
    HOST_COPY_IN: "copy to",
    HOST_COPY_OUT: "copy from",
    HOST_LAUNCH: "launch",
    **dict.fromkeys(STREAMS_IN, "stream in"),
}


def held_words(channel: Any) -> int:
    """Return how many words the buffers of a CHANNEL hold."""
    return sum(int(channel.ports[port].count) for port in range(5))


def queue_entries(queue: Any) -> list[Any]:
    """Return the ENTRY of each word in an input QUEUE, head first."""
    head, limit = int(queue.head), int(queue.limit)
    return [sk.ENTRY(queue, sk.QUEUE.ring, (head + place) % limit) for place in range(int(queue.count))]


class Observer:
    """Read an engine's state for people; never changes it, except for `note_written`."""

    def __init__(self, engine: Engine, listing: WaveletListing, numbering: description.Numbering) -> None:
        self._engine = engine
        self._listing = listing
        self._numbering = numbering
        self._nodes = int(pk.PROGRAM(engine.words).nodes)
        self._layouts: dict[int, Any] = {}
        self._state = engine.state
        self._wafer = sk.WAFER(self._state)

    @property
    def wafer(self) -> Any:
        """The header of the root state."""
        state = self._engine.state
        if state is not self._state:
            # The state was made larger, or replaced by a snapshot.
            self._state, self._wafer = state, sk.WAFER(state)
        return self._wafer

    def block(self, node: int) -> int:
        """Return the word of a node's block, 0 while nothing has happened there."""
        return int(self._engine.state[int(self.wafer.nodes) + node])

    def layout(self, node: int) -> Any:
        """Return where things lie in a node's block: the LAYOUT of its class."""
        words = self._engine.words
        place = int(words[self._nodes + node * pk.NODE.num_words + pk.NODE.layout])
        found = self._layouts.get(place)
        if found is None:
            found = self._layouts[place] = pk.LAYOUT(words, place)
        return found

    def block_row(self, node: int) -> Any:
        """Return a node's BLOCK; its template while nothing has happened there."""
        b = self.block(node)
        if b:
            return sk.BLOCK(self._engine.state, b)
        return sk.BLOCK(self._engine.words, int(self.layout(node).template))

    def memory_words(self, node: int) -> np.ndarray:
        """Return the memory of a node (a view), int64."""
        block = self.block_row(node)
        start = block.first_word + int(self.layout(node).memory)
        return block.all_words[start : start + -(-int(block.bytes) // 8)]

    def note_written(self, node: int, first: int, behind: int) -> None:
        """Mark bytes of a node's memory as written; the node must have a block of its own."""
        layout, block = self.layout(node), self.block_row(node)
        if not int(layout.unset):
            return
        start = block.first_word + int(layout.unset)
        words = block.all_words[start : start + -(-int(layout.unset_count) // 64)]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        low = max((first - int(layout.unset_begin)) >> 1, 0)
        bits[low : max((behind - int(layout.unset_begin) + 1) >> 1, low)] = 0
        words[:] = np.packbits(bits, bitorder="little").view(np.int64)

    def thread(self, node: int, number: int) -> Any:
        """Return a THREAD of a node."""
        return sk.THREAD(self.block_row(node), int(self.layout(node).threads), number)

    def wait(self, node: int, number: int) -> int:
        """Return what a thread with an operation waits for now: a WAIT_ code."""
        block = self.block_row(node)
        stalled = int(block.stalled)
        is_held = (stalled | stalled >> sk.STALLED_OUTPUT | int(block.tested)) >> number & 1
        if is_held or int(block.next[number]) > int(self.wafer.cycle):
            return int(self.thread(node, number).wait)
        return sk.WAIT_NONE

    def queue(self, node: int, number: int) -> Any:
        """Return an input QUEUE of a node."""
        return sk.QUEUE(self.block_row(node), int(self.layout(node).queue[number]))

    def channel(self, node: int, color: int) -> Any | None:
        """Return the CHANNEL of a color at a node, None without one."""
        start = int(self.layout(node).channel[color]) if 0 <= color < pk.NUM_COLORS else 0
        return sk.CHANNEL(self.block_row(node), start) if start else None

    def channels(self, node: int) -> list[tuple[int, Any]]:
        """Return (color, CHANNEL) of all channels of a node, by color."""
        block, places = self.block_row(node), self.layout(node).channel.tolist()
        return [(color, sk.CHANNEL(block, place)) for color, place in enumerate(places) if place]

    def held_channels(self, node: int) -> list[tuple[int, Any]]:
        """Return (color, CHANNEL) of the channels of a node whose buffers hold words, by color."""
        block, places = self.block_row(node), self.layout(node).channel
        held = block.all_words[block.first_word + places + sk.CHANNEL.held]
        colors = np.flatnonzero((places > 0) & (held != 0)).tolist()
        return [(color, sk.CHANNEL(block, int(places[color]))) for color in colors]

    def held_at(self, nodes: np.ndarray) -> np.ndarray:
        """Return which of `nodes` (int) have words in buffers of channels: bool for each."""
        return self._any_of(nodes, pk.LAYOUT.channel, pk.NUM_COLORS, sk.CHANNEL.held)

    def queued_at(self, nodes: np.ndarray) -> np.ndarray:
        """Return which of `nodes` (int) have words in input queues: bool for each."""
        return self._any_of(nodes, pk.LAYOUT.queue, pk.NUM_QUEUES, sk.QUEUE.count)

    def places_of(self, nodes: np.ndarray, first: int, number: int) -> np.ndarray:
        """Return (len(nodes), number) words of the records whose places stand in layouts from `first` on; 0
        for none."""
        words = self._engine.words
        blocks = self._engine.state[int(self.wafer.nodes) + nodes][:, None]
        layouts = words[self._nodes + nodes * pk.NODE.num_words + pk.NODE.layout]
        at = words[layouts[:, None] + first + np.arange(number)]
        return np.where((at > 0) & (blocks > 0), blocks + at, 0)

    def _any_of(self, nodes: np.ndarray, places: int, number: int, word: int) -> np.ndarray:
        """Return for each node whether `word` is not 0 in any of its `number` records, whose places begin at
        `places` in layouts."""
        s, found = self._engine.state, np.zeros(len(nodes), np.bool_)
        for first in range(0, len(nodes), NODES_AT_ONCE):
            at = self.places_of(nodes[first : first + NODES_AT_ONCE], places, number)
            # Word 0 of the state is read for records that do not exist.
            holds = (at > 0) & (s[at + word * (at > 0)] != 0)
            found[first : first + NODES_AT_ONCE] = holds.any(axis=1)
        return found

    # --- queues ----------------------------------------------------------------------------------------

    def queue_length(self, queue: int) -> int:
        """Return how many words a queue of the description holds."""
        position, number = self._numbering.queues[queue]
        return int(self.queue(self._numbering.watched[position].node, number).count)

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Return the entries of a queue now, head first."""
        position, number = self._numbering.queues[queue]
        queue_row = self.queue(self._numbering.watched[position].node, number)
        words = [int(entry.identity) for entry in queue_entries(queue_row)]
        return [QueueEntry(text, word=word) for text, word in zip(queue_texts(queue_row), words, strict=True)]

    # --- units -----------------------------------------------------------------------------------------

    def unit_states(self) -> Iterator[UnitState]:
        """Yield what every unit does now, by unit id; a few are read at a time, because a wafer has many."""
        yield self._host_state()
        mains: list[MainThread] = []
        nodes = [pe.node for pe in self._numbering.watched]
        held: list[bool] = []
        for unit, position in enumerate(self._numbering.unit_pe):
            if position < 0:
                continue
            part = self._numbering.unit_part[unit]
            node = nodes[position]
            if part == description.ROUTER:
                while position >= len(held):
                    held += self.held_at(np.array(nodes[len(held) : len(held) + UNITS_AT_ONCE])).tolist()
                yield self._router_state(unit, node) if held[position] else UnitState(unit, "empty", "idle")
            elif part < 0:
                while position >= len(mains):
                    mains += self.main_threads(np.array(nodes[len(mains) : len(mains) + UNITS_AT_ONCE]))
                yield mains[position].state_of(unit)
            elif int(self.block_row(node).threads) >> part & 1:
                yield self._thread_state(unit, node, part)
            else:
                yield UnitState(unit, "free", "idle")

    def _host_state(self) -> UnitState:
        wafer = self.wafer
        for index in range(int(wafer.oldest), int(wafer.next)):
            state, left, start, _ = self._engine.command_state(index)
            if state == 1:
                detail = f"{left} PEs left" if left else ""
                return UnitState(0, self.command_text(index), "idle", detail, -1, start)
        return UnitState(0, "idle", "idle")

    def command_text(self, index: int) -> str:
        """Return what a command of the host does: "copy to A", "launch compute"."""
        command = self._engine.commands[index]
        return f"{_HOST_WORDS.get(command.kind, 'stream out')} {command.subject}"

    def task_name(self, node: int) -> str:
        """Return the name of the task that runs on a node, "" if none."""
        return self.main_threads(np.array([node]))[0].task

    def program_of(self, node: int) -> int:
        """Return the index of a node's program, -1 if it has none."""
        code = int(self.layout(node).code)
        first = int(pk.PROGRAM(self._engine.words).codes)
        return (code - first) // pk.CODE.num_words if code >= 0 else -1

    def main_state(self, unit: int, node: int) -> UnitState:
        """Return what the main thread of a node does."""
        return self.main_threads(np.array([node]))[0].state_of(unit)

    def main_threads(self, nodes: np.ndarray) -> list[MainThread]:
        """Return what the main threads of nodes (int) do, in the same order."""
        blocks = self._engine.state[int(self.wafer.nodes) + nodes]
        return main_threads(self._engine, nodes, blocks, int(self.wafer.cycle))

    def _thread_state(self, unit: int, node: int, number: int) -> UnitState:
        thread = self.thread(node, number)
        text, role = operation_text(int(thread.op), self.wait(node, number), int(thread.left))
        return UnitState(unit, text, role, "", int(thread.line), int(thread.start))

    def _router_state(self, unit: int, node: int) -> UnitState:
        held = [(color, held_words(row)) for color, row in self.held_channels(node)]
        detail = ", ".join(f"color {color}: {count}" for color, count in held)
        return UnitState(unit, f"{sum(count for _, count in held)} words", "move-out", detail)

    def next_instructions(self) -> dict[int, int]:
        """Return unit id -> the instruction that it runs next."""
        found: dict[int, int] = {}
        for unit, position in enumerate(self._numbering.unit_pe):
            if position < 0 or self._numbering.unit_part[unit] >= 0:
                continue
            node = self._numbering.watched[position].node
            block = self.block_row(node)
            if int(block.task) >= 0:
                index = self._listing.first_of_program[self.program_of(node)] + int(block.pc)
                if 0 <= index < len(self._listing):
                    found[unit] = index
        return found

    # --- what is under way -------------------------------------------------------------------------------

    def activities(self) -> list[Activity]:
        """Return the intervals under way, which the trace does not hold yet."""
        wafer = self.wafer
        found: list[Activity] = []
        if int(wafer.status) == sk.STATUS_FINISHED:
            return found
        cycle = int(wafer.cycle)
        s = self._engine.state
        blocks = s[int(wafer.nodes) + self._watched_nodes]
        works = (s[blocks + sk.BLOCK.threads] > 0) | (s[blocks + sk.BLOCK.task] >= 0)
        places = np.flatnonzero((blocks > 0) & works)
        columns = (s[blocks[places] + word].tolist() for word in _DOING_WORDS)
        for row in map(_Doing, places.tolist(), *columns):
            found += self._operations_under_way(row, cycle)
            if row.task >= 0 and not row.threads >> sk.MAIN & 1:
                found += self._task_under_way(row, cycle)
        return found + self._links_under_way(cycle)

    def _operations_under_way(self, row: "_Doing", cycle: int) -> list[Activity]:
        found: list[Activity] = []
        node = self._numbering.watched[row.position].node
        for number in range(sk.NUM_THREADS) if row.threads else ():
            if not row.threads >> number & 1:
                continue
            part = pk.TRACKS.main if number == sk.MAIN else pk.TRACKS.thread + number
            track = self._numbering.track_of.get((row.position, part), -1)
            if track >= 0:
                thread = self.thread(node, number)
                line = int(thread.line)
                for first, last, kind in _pieces(thread, cycle):
                    found.append(Activity(track, first, last, kind, self._listing.node_of(line), line))
        return found

    def _task_under_way(self, row: "_Doing", cycle: int) -> list[Activity]:
        """Return the intervals of a task that runs no operation: work, and a wait in the middle of it."""
        track = self._numbering.track_of.get((row.position, pk.TRACKS.main), -1)
        if row.run_start >= cycle or track < 0:
            return []
        found: list[Activity] = []
        wait, node = self._main_wait(row, cycle), self._listing.node_of(row.line)
        until = row.map_since if wait else -1
        if until < 0 or row.run_start < until:
            found.append(Activity(track, row.run_start, until, KIND_SCALAR, node, -1))
        since = max(row.run_start, until)
        if wait and since < cycle:
            found.append(Activity(track, since, -1, KIND_WAIT + wait, node, row.line))
        return found

    def _main_wait(self, row: "_Doing", cycle: int) -> int:
        """Return the WAIT_ number of what the main thread waits for in the middle of a task."""
        waits = row.map_wait
        if waits == 0 or row.map_since >= cycle:
            return sk.WAIT_NONE
        if waits < 0:
            return sk.WAIT_SLOT
        kind = int(sk.OPERAND(self._engine.state, waits).kind)
        # Memory never waits, and @map takes no FIFOs.
        return sk.WAIT_INPUT if kind == sk.KIND_INPUT else sk.WAIT_OUTPUT

    def _links_under_way(self, cycle: int) -> list[Activity]:
        places, s = self._link_places, self._engine.state
        blocks = s[int(self.wafer.nodes) + places.nodes]
        # Word 0 of the state is read where there is no block.
        ends = np.where(blocks > 0, s[np.where(blocks > 0, blocks + places.words + sk.LINK.end, 0)], 0)
        used = np.flatnonzero(ends)
        at, ends = blocks[used] + places.words[used], ends[used]
        planned = np.where(ends < cycle, ends, -1)
        kinds = KIND_LINK + s[at + sk.LINK.color]
        columns = places.tracks[used], s[at + sk.LINK.start], planned, kinds
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Activity(track, start, end, kind, -1, -1) for track, start, end, kind in rows]

    @cached_property
    def _watched_nodes(self) -> np.ndarray:
        return np.array([pe.node for pe in self._numbering.watched], np.int64)

    @cached_property
    def _link_places(self) -> "_LinkPlaces":
        """Where the words of the links that have a track lie."""
        rows = [
            (track, pe.node, sk.BLOCK.links + port * sk.LINK.num_words)
            for position, pe in enumerate(self._numbering.watched)
            for port in pe.ports
            if (track := self._numbering.track_of.get((position, pk.TRACKS.link + port), -1)) >= 0
        ]
        return _LinkPlaces(*np.array(rows, np.int64).reshape(-1, 3).T)

    def summary(self) -> RunSummary:
        """Return the totals so far."""
        queues: list[tuple[str, int, int]] = []
        memories: list[tuple[str, int, int]] = []
        for pe in self._numbering.watched:
            if pe.program >= 0:
                used = self._engine.program.used_bytes[pe.program]
                memories.append((f"{pe.name}.memory", used, MEMORY_BYTES))
        for position, number in self._numbering.queues:
            pe = self._numbering.watched[position]
            row = self.queue(pe.node, number)
            queues.append((f"{pe.name}.{description.queue_name(number)}", int(row.peak), int(row.limit)))
        counters = {title: self._engine.counter(word) for word, title, _ in description.COUNTERS.values()}
        counters[description.COMMANDS_TITLE] = int(self.wafer.done)
        return RunSummary(self._unit_times(), tuple(queues), tuple(memories), counters)

    def peaks(self) -> list[Peak]:
        """Return the words that links have carried, and the most that they could have."""
        wafer = self.wafer
        cycles = int(wafer.final if int(wafer.status) == sk.STATUS_FINISHED else wafer.now + 1)
        pace = 1000 / max(1, int(wafer.link))
        links = NUM_LINKS * int(wafer.nodes_count) * max(cycles, int(wafer.cycle)) * pace
        hops = self._engine.counter(sk.BAND.hops)
        return [Peak("links", hops, links, "words")]

    def _unit_times(self) -> tuple[tuple[str, int, int], ...]:
        """Return name, busy and waiting cycles of every watched unit that has tracks."""
        names, nodes, words, waits, shifts, unit_of = self._unit_words
        state = self._engine.state
        blocks = state[int(self.wafer.nodes) + nodes]
        busy = np.where(blocks > 0, state[blocks + words], 0) >> shifts
        waiting = np.where((blocks > 0) & (waits > 0), state[blocks + waits], 0)
        for each in self.activities():
            if each.track in unit_of:
                until = each.planned_end if each.planned_end >= 0 else int(self.wafer.cycle)
                total = waiting if each.kind >= KIND_WAIT else busy
                total[unit_of[each.track]] += until - each.start
        return tuple(zip(names, busy.tolist(), waiting.tolist(), strict=True))

    @cached_property
    def _unit_words(self) -> "_UnitWords":
        """Where the cycles of units are counted."""
        names: list[str] = []
        rows: list[tuple[int, int, int, int]] = []
        unit_of: dict[int, int] = {}
        for position, part in zip(self._numbering.unit_pe, self._numbering.unit_part, strict=True):
            if position < 0:
                continue
            pe = self._numbering.watched[position]
            if part == description.ROUTER and not pe.ports:
                continue
            if part == description.ROUTER:
                rows.append((pe.node, sk.BLOCK.linked, 0, CYCLE_BITS))
            elif part < 0:
                unit_of[self._numbering.track_of[position, pk.TRACKS.main]] = len(rows)
                rows.append((pe.node, sk.BLOCK.occupied, sk.BLOCK.waited, 0))
            else:
                unit_of[self._numbering.track_of[position, pk.TRACKS.thread + part]] = len(rows)
                first = int(self.layout(pe.node).threads) + part * sk.THREAD.num_words
                rows.append((pe.node, first + sk.THREAD.occupied, first + sk.THREAD.waited, 0))
            names.append(description.unit_name(pe, part))
        nodes, words, waits, shifts = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return _UnitWords(names, nodes, words, waits, shifts, unit_of)


class _UnitWords(NamedTuple):
    """Where the cycles of units are counted: words in the blocks of their nodes, and shifts of the busy ones.

    waiting   word of the waiting cycles, 0: none
    unit_of   track -> index of the unit whose only track it is and which may have an interval under way
    """

    names: list[str]
    nodes: np.ndarray
    busy: np.ndarray
    waiting: np.ndarray
    shifts: np.ndarray
    unit_of: dict[int, int]


class _LinkPlaces(NamedTuple):
    """Tracks of links, their nodes, and the words of their LINK in the block: (n,) int64 each."""

    tracks: np.ndarray
    nodes: np.ndarray
    words: np.ndarray


class _Doing(NamedTuple):
    """What the main thread and the operations of a watched node do: words of its BLOCK, by their names."""

    position: int
    threads: int
    task: int
    run_start: int
    line: int
    map_wait: int
    map_since: int


_DOING_WORDS = tuple(getattr(sk.BLOCK, name) for name in _Doing._fields[1:])


def _pieces(thread: Any, cycle: int) -> list[tuple[int, int, int]]:
    """Return the intervals of a THREAD under way that are not recorded yet: start, end (-1: not ended),
    kind."""
    kind, resumed, expected = KIND_OPERATION + int(thread.op), int(thread.resumed), int(thread.expected)
    paused, why = int(thread.paused), int(thread.why)
    found = [(paused, resumed, KIND_WAIT + int(thread.reason))] if paused else []
    waits = why != sk.WAIT_NONE and expected < cycle
    if resumed < (expected if waits else cycle):
        found.append((resumed, expected if waits else -1, kind))
    if waits:
        found.append((expected, -1, KIND_WAIT + why))
    return found


def queue_texts(queue: Any) -> list[str]:
    """Return the words of an input QUEUE as texts, head first."""
    found: list[str] = []
    for entry in queue_entries(queue):
        payload = int(entry.payload)
        mark = "control " if payload & sk.MARK_CONTROL else ""
        found.append(f"{mark}{payload & 0xFFFF_FFFF:#010x}")
    return found
