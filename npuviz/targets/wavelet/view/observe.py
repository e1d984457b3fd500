"""What the state says, in the words of the machine contract: queues, units, activities, totals."""

import numpy as np

from npuviz.sim.machine import Activity, QueueEntry, RunSummary, UnitState
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.dsd.steps import KIND_OPERATION, KIND_SCALAR
from npuviz.targets.wavelet.kernels.router.link import KIND_LINK
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.description import (
    COMMANDS_TITLE,
    COUNTERS,
    ROUTER,
    Numbering,
    queue_name,
    unit_name,
)
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.wafer import HOST_COPY_IN, HOST_COPY_OUT, HOST_LAUNCH, HOST_STREAM_IN

MEMORY_BYTES = 49_152
"""Memory of a PE. Ref: APP."""
WAITS = {
    sk.WAIT_INPUT: ("waits for words", "wait-empty"),
    sk.WAIT_OUTPUT: ("held back", "wait-queue"),
    sk.WAIT_FIFO_EMPTY: ("FIFO empty", "wait-empty"),
    sk.WAIT_FIFO_FULL: ("FIFO full", "wait-queue"),
    sk.WAIT_BLOCKED: ("blocked", "wait-dependency"),
}
_HOST_WORDS = {
    HOST_COPY_IN: "copy to",
    HOST_COPY_OUT: "copy from",
    HOST_LAUNCH: "launch",
    HOST_STREAM_IN: "stream in",
}
_ID_WORDS = {k.ID_LOCAL: "local task", k.ID_DATA: "data task", k.ID_CONTROL: "control task",
             k.ID_COLOR: "teardown of color", k.ID_OUTPUT_QUEUE: "empty queue"}  # fmt: skip


def held_words(words: np.ndarray) -> int:
    """Words in the buffers of a channel, whose words are given."""
    return int(words[sk.C_PORTS + sk.R_COUNT : sk.C_PORTS + 5 * sk.PORT_WORDS : sk.PORT_WORDS].sum())


def operation_name(number: int) -> str:
    """Name of a DSD operation."""
    return isa.name_of("D_", number)


class Observer:
    """Reads an engine's state for people; never changes it."""

    def __init__(self, engine: Engine, listing: WaveletListing, numbering: Numbering) -> None:
        self._engine = engine
        self._listing = listing
        self._numbering = numbering

    @property
    def state(self) -> np.ndarray:
        """The root state."""
        return self._engine.state

    def block(self, node: int) -> int:
        """Word of a node's block, 0 while nothing has happened there."""
        return int(self.state[int(self.state[sk.H_NODES]) + node])

    def class_word(self, node: int, word: int) -> int:
        """A word of a node's class: a place within its block."""
        words = self._engine.words
        c = int(words[int(words[pk.P_NODES]) + node * pk.NODE_WORDS + pk.NODE_CLASS])
        return int(words[c + word])

    def block_words(self, node: int) -> np.ndarray:
        """The words of a node's block (a view); its template while nothing has happened there."""
        b = self.block(node)
        size = self.class_word(node, pk.L_SIZE)
        if b:
            return self.state[b : b + size]
        start = self.class_word(node, pk.L_TEMPLATE)
        return self._engine.words[start : start + size]

    def memory_words(self, node: int) -> np.ndarray:
        """The memory of a node (a view), int64."""
        block = self.block_words(node)
        start = self.class_word(node, pk.L_MEMORY)
        return block[start : start + -(-int(block[sk.B_BYTES]) // 8)]

    def thread(self, node: int, number: int) -> np.ndarray:
        """The words of a thread (a view)."""
        start = self.class_word(node, pk.L_THREADS) + number * sk.THREAD_WORDS
        return self.block_words(node)[start : start + sk.THREAD_WORDS]

    def wait(self, node: int, number: int) -> int:
        """What a thread with an operation waits for now: a WAIT_ code."""
        b = self.block_words(node)[: sk.BLOCK_HEADER]
        stalled = int(b[sk.B_STALLED])
        is_held = (stalled | stalled >> sk.STALLED_OUTPUT | int(b[sk.B_TESTED])) >> number & 1
        if is_held or int(b[sk.B_NEXT + number]) > int(self.state[sk.H_CYCLE]):
            return int(self.thread(node, number)[sk.T_WAIT])
        return sk.WAIT_NONE

    def queue(self, node: int, number: int) -> np.ndarray:
        """The words of an input queue (a view)."""
        block = self.block_words(node)
        start = self.class_word(node, pk.L_QUEUE + number)
        return block[start : start + sk.Q_RING + int(block[start + sk.Q_LIMIT]) * sk.ENTRY_WORDS]

    # --- queues ----------------------------------------------------------------------------------------

    def queue_length(self, queue: int) -> int:
        """Words in a queue of the description."""
        position, number = self._numbering.queues[queue]
        return int(self.queue(self._numbering.watched[position].node, number)[sk.Q_COUNT])

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Entries of a queue now, head first."""
        position, number = self._numbering.queues[queue]
        words = self.queue(self._numbering.watched[position].node, number)
        return [QueueEntry(text) for text in queue_texts(words)]

    # --- units -----------------------------------------------------------------------------------------

    def unit_states(self) -> list[UnitState]:
        """What every unit does now, by unit id."""
        found = [self._host_state()]
        for unit, position in enumerate(self._numbering.unit_pe):
            if position < 0:
                continue
            part = self._numbering.unit_part[unit]
            node = self._numbering.watched[position].node
            if part == ROUTER:
                found.append(self._router_state(unit, node))
            elif part < 0:
                found.append(self.main_state(unit, node))
            else:
                found.append(self._thread_state(unit, node, part))
        return found

    def _host_state(self) -> UnitState:
        s = self.state
        for index in range(int(s[sk.H_OLDEST]), int(s[sk.H_NEXT])):
            state, left, start, _ = self._engine.command_state(index)
            if state == 1:
                command = self._engine.commands[index]
                detail = f"{left} PEs left" if left else ""
                text = f"{_HOST_WORDS.get(command.kind, 'stream out')} {command.subject}"
                return UnitState(0, text, "idle", detail, -1, start)
        return UnitState(0, "idle", "idle")

    def task_name(self, node: int) -> str:
        """Name of the task that runs on a node, "" if none."""
        block = self.block_words(node)
        if int(block[sk.B_TASK]) < 0:
            return ""
        frame = self.class_word(node, pk.L_REGISTERS)
        number = int(block[frame + 4])
        program = self._engine.wafer.programs[self.program_of(node)]
        return program.functions[number].name

    def program_of(self, node: int) -> int:
        """Index of a node's program, -1 if it has none."""
        words = self._engine.words
        g = self.class_word(node, pk.L_PROGRAM)
        return (g - int(words[pk.P_PROGRAMS])) // pk.GROUP_WORDS if g >= 0 else -1

    def main_state(self, unit: int, node: int) -> UnitState:
        """What the main thread of a node does."""
        block = self.block_words(node)
        if int(block[sk.B_HALTED]):
            return UnitState(unit, "halted", "control", "the program stopped this PE")
        name = self.task_name(node)
        if not name:
            return UnitState(unit, "idle", "idle")
        line, since = int(block[sk.B_LINE]), int(block[sk.B_TASK_START])
        task = int(block[sk.B_TASK])
        what = _ID_WORDS.get(task >> 16, "launched")
        if int(block[sk.B_THREADS]) >> sk.MAIN & 1:
            text, role = self._operation(node, sk.MAIN)
            return UnitState(unit, text, role, name, line, since)
        if int(block[sk.B_MAP_WAIT]) > 0:
            return UnitState(unit, "@map waits", "wait-empty", name, line, since)
        return UnitState(unit, name, "control", f"{what} {task & 0xFFFF}", line, since)

    def _operation(self, node: int, number: int) -> tuple[str, str]:
        thread = self.thread(node, number)
        name = operation_name(int(thread[sk.T_OP]))
        wait = WAITS.get(self.wait(node, number))
        if wait is not None:
            return f"{name}: {wait[0]}", wait[1] if wait[1] == "wait-empty" else "control"
        return f"{name}, {int(thread[sk.T_LEFT])} left", "compute"

    def _thread_state(self, unit: int, node: int, number: int) -> UnitState:
        if not int(self.block_words(node)[sk.B_THREADS]) >> number & 1:
            return UnitState(unit, "free", "idle")
        text, role = self._operation(node, number)
        thread = self.thread(node, number)
        return UnitState(unit, text, role, "", int(thread[sk.T_LINE]), int(thread[sk.T_START]))

    def channels(self, node: int) -> list[tuple[int, np.ndarray]]:
        """(color, words) of the channels of a node, by color."""
        block = self.block_words(node)
        found: list[tuple[int, np.ndarray]] = []
        for color in range(24):
            start = self.class_word(node, pk.L_CHANNEL + color)
            if start:
                size = sk.CHANNEL_HEADER + sk.ENTRY_WORDS * int(
                    4 * block[start + sk.C_SLOTS] + block[start + sk.C_LIMIT_RAMP]
                )
                found.append((color, block[start : start + size]))
        return found

    def _router_state(self, unit: int, node: int) -> UnitState:
        held = [(color, held_words(words)) for color, words in self.channels(node) if words[sk.C_HELD]]
        if not held:
            return UnitState(unit, "empty", "idle")
        detail = ", ".join(f"color {color}: {count}" for color, count in held)
        return UnitState(unit, f"{sum(count for _, count in held)} words", "move-out", detail)

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> instruction it takes next."""
        found: dict[int, int] = {}
        for unit, position in enumerate(self._numbering.unit_pe):
            if position < 0 or self._numbering.unit_part[unit] >= 0:
                continue
            node = self._numbering.watched[position].node
            block = self.block_words(node)
            if int(block[sk.B_TASK]) >= 0:
                index = self._listing.first_of_program[self.program_of(node)] + int(block[sk.B_PC])
                if 0 <= index < len(self._listing):
                    found[unit] = index
        return found

    # --- what is under way -------------------------------------------------------------------------------

    def activities(self) -> list[Activity]:
        """Intervals that the trace does not hold yet."""
        s = self.state
        found: list[Activity] = []
        if int(s[sk.H_STATUS]) == sk.STATUS_FINISHED:
            return found
        cycle = int(s[sk.H_CYCLE])
        for position, pe in enumerate(self._numbering.watched):
            if self.block(pe.node):
                block = self.block_words(pe.node)
                found += self._threads_under_way(position, pe.node, block, cycle)
                found += self._links_under_way(position, pe.ports, block, cycle)
        return found

    def _threads_under_way(self, position: int, node: int, block: np.ndarray, cycle: int) -> list[Activity]:
        found: list[Activity] = []
        threads = int(block[sk.B_THREADS])
        for number in range(sk.NUM_THREADS):
            part = pk.K_MAIN if number == sk.MAIN else pk.K_THREAD + number
            track = self._numbering.track_of.get((position, part), -1)
            if threads >> number & 1 and track >= 0:
                thread = self.thread(node, number)
                start, line = int(thread[sk.T_START]), int(thread[sk.T_LINE])
                if start < cycle:
                    kind = KIND_OPERATION + int(thread[sk.T_OP])
                    found.append(Activity(track, start, -1, kind, self._listing.node_of(line), line))
        start = int(block[sk.B_RUN_START])
        track = self._numbering.track_of.get((position, pk.K_MAIN), -1)
        if int(block[sk.B_TASK]) >= 0 and not threads >> sk.MAIN & 1 and start < cycle and track >= 0:
            line = int(block[sk.B_LINE])
            found.append(Activity(track, start, -1, KIND_SCALAR, self._listing.node_of(line), -1))
        return found

    def _links_under_way(
        self, position: int, ports: tuple[int, ...], block: np.ndarray, cycle: int
    ) -> list[Activity]:
        found: list[Activity] = []
        for port in ports:
            link = block[sk.B_LINKS + port * sk.LINK_WORDS :]
            end = int(link[sk.LINK_END])
            track = self._numbering.track_of.get((position, pk.K_LINK + port), -1)
            if end and track >= 0:
                kind = KIND_LINK + int(link[sk.LINK_COLOR])
                start = int(link[sk.LINK_START])
                found.append(Activity(track, start, end if end < cycle else -1, kind, -1, -1))
        return found

    def summary(self) -> RunSummary:
        """Totals so far."""
        units: list[tuple[str, int]] = []
        queues: list[tuple[str, int, int]] = []
        memories: list[tuple[str, int, int]] = []
        for pe in self._numbering.watched:
            block = self.block_words(pe.node)
            if pe.program >= 0:
                units.append((unit_name(pe, -1), int(block[sk.B_BUSY])))
                used = self._engine.program.used_bytes[pe.program]
                memories.append((f"{pe.name}.memory", used, MEMORY_BYTES))
        for position, number in self._numbering.queues:
            pe = self._numbering.watched[position]
            words = self.queue(pe.node, number)
            queues.append((f"{pe.name}.{queue_name(number)}", int(words[sk.Q_PEAK]), int(words[sk.Q_LIMIT])))
        counters = {title: self._engine.counter(word) for word, title, _ in COUNTERS.values()}
        counters[COMMANDS_TITLE] = int(self.state[sk.H_DONE])
        return RunSummary(tuple(units), tuple(queues), tuple(memories), counters)


def queue_texts(words: np.ndarray) -> list[str]:
    """The words of an input queue for people, head first."""
    found: list[str] = []
    limit, head = int(words[sk.Q_LIMIT]), int(words[sk.Q_HEAD])
    for place in range(int(words[sk.Q_COUNT])):
        at = sk.Q_RING + (head + place) % limit * sk.ENTRY_WORDS
        payload = int(words[at])
        mark = "control " if payload & sk.MARK_CONTROL else ""
        found.append(f"{mark}{payload & 0xFFFF_FFFF:#010x}")
    return found
