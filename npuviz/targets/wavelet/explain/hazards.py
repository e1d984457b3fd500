"""Describe hazards in sentences with source lines: rules that the hardware leaves to the programmer.

The kernels log most of them when they happen. What shows only at the end (words that nothing takes, tasks
that stay blocked) is read from the state of a machine that has ended or can do nothing any more.
wavelet-fabric.md section 11 has the table; the letters in comments are its ids.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from npuviz.sim.fabric import PORT_NAMES
from npuviz.sim.machine import Hazard
from npuviz.targets.wavelet.explain.places import Places
from npuviz.targets.wavelet.explain.waits import held_ports, why_held
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.log_numbers import (
    LAST_BIAS,
    LAST_SHIFT,
    LOG_ABSORBED,
    LOG_BOUNDS,
    LOG_CONTROL_UNBOUND,
    LOG_EARLY_READ,
    LOG_EARLY_WRITE,
    LOG_LEFT,
    LOG_LENGTHS,
    LOG_MIXED,
    LOG_NO_ADVANCE,
    LOG_NO_INDEX,
    LOG_OUTPUT_BUSY,
    LOG_PRINT,
    LOG_QUEUE_BUSY,
    LOG_REBOUND,
    LOG_THREAD_BUSY,
    LOG_TWO_ARRIVALS,
    LOG_TWO_WRITES,
    LOG_UNBOUND_TASK,
    LOG_UNWRITTEN,
    LOG_WRAPPED,
    RACE_SHIFT,
)
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.observe import Observer, held_words, queue_entries
from npuviz.targets.wavelet.wafer import HOST_COPY_IN, HOST_LAUNCH, Symbol

MOST_OF_A_KIND = 64
"""Most hazards of one kind that are listed at the end: a million PEs may share one mistake."""
BLOCKS_AT_ONCE = 1 << 14
"""Elements whose records are read in one step: bounds the memory for a whole wafer."""
_ENDED = (sk.STATUS_FINISHED, sk.STATUS_DEADLOCK)
LEAVES = "leaves-rectangle"
"""Kind of hazard: a wavelet leaves the rectangle, where no PE takes it."""
_LOGGED = {
    int(code): text
    for code, text in {
        LOG_CONTROL_UNBOUND: (  # C1
            "control-unbound",
            "a control wavelet names task id {value}, to which no control task is bound: it is dropped",
        ),
        LOG_THREAD_BUSY: (  # Q1
            "thread-busy",
            "{thread} has a live operation: on the chip two corrupt each other; here the start waits",
        ),
        LOG_LENGTHS: (  # O2
            "operand-lengths",
            "the operands of this operation have different lengths; one has {value} elements",
        ),
        LOG_ABSORBED: (  # T2
            "activation-absorbed",
            "task {task} is active already and has not run: this activation has no effect",
        ),
        LOG_NO_INDEX: (  # O1
            "missing-index",
            "an operand has wavelet_index_offset and the operation gives no .index",
        ),
        LOG_TWO_ARRIVALS: (  # R2
            "two-arrivals",
            "two wavelets of color {value} arrive in one cycle from different directions",
        ),
        LOG_QUEUE_BUSY: ("queue-busy", "input queue {value} is read by two live operations"),  # Q1
        LOG_OUTPUT_BUSY: ("queue-busy", "{queue}color {low} is written by two live operations"),  # Q1
        LOG_REBOUND: (
            "queue-not-empty",
            "{direction} queue {queue_id} gets color {low} while it holds words",
        ),  # Q2
        LOG_MIXED: (  # Q2
            "queue-not-empty",
            "{queue}color {low} is sent while the queue still holds words of another color",
        ),
        LOG_NO_ADVANCE: (  # C2
            "switch-stays",
            "SWITCH_ADV on color {value} at the last position without ring_mode has no effect",
        ),
        LOG_WRAPPED: (
            "overflow",
            "the {what} of two {integer} numbers does not fit in {integer}: it wraps",
        ),
        LOG_UNWRITTEN: (
            "unwritten",
            "reads {variable}, which nobody has written: it has no initial value",
        ),
        LOG_LEFT: (
            LEAVES,
            "a wavelet of color {low} leaves the rectangle by {port}: it is dropped",
        ),
        LOG_UNBOUND_TASK: (
            "task-unbound",
            "id {value} is activated and no local task is bound to it",
        ),  # T1
    }.items()
}
_RACES = {
    int(code): text
    for code, text in {
        LOG_EARLY_READ: (
            "early-read",
            "reads {what} while {other} is still writing it on another thread: wait for its end "
            "(.activate or .unblock), or read what has arrived",
        ),
        LOG_EARLY_WRITE: (
            "early-overwrite",
            "overwrites {what} while {other} is still reading it on another thread: wait for its end",
        ),
        LOG_TWO_WRITES: (
            "unordered-writes",
            "writes {what} while {other} is still writing it on another thread: no order is fixed",
        ),
    }.items()
}
_ROUTED = (LOG_TWO_ARRIVALS, LOG_NO_ADVANCE, LOG_LEFT)
"""Kinds whose value has a color in its low bits and whose source line is the color's configuration."""


_RESULTS = {isa.OP_ADD: "sum", isa.OP_SUB: "difference", isa.OP_MUL: "product"}
_WARNINGS = frozenset(
    (
        *("words-left", "teardown-left", "control-unbound", "control-blocked", "switch-stays"),
        *("task-blocked", "thread-blocked", "operand-lengths", "activation-absorbed"),
        *("upper-half-lost", "print-left", LEAVES, "overflow", "unwritten"),
    )
)
"""Kinds that are warnings: results may be as the program intends. Ref: wavelet-fabric.md section 11, W."""


class Hazards:
    """Read hazards out of an engine's state."""

    def __init__(self, engine: Engine, observer: Observer, places: Places) -> None:
        self._engine = engine
        self._observer = observer
        self._places = places
        self._wide_copies: dict[int, bool] = {}

    def all(self) -> list[Hazard]:
        """Return the hazards up to now, by cycle; equal ones of one place and instruction are named once."""
        found = [*self._logged(), *self._copies()]
        if int(self._observer.wafer.status) in _ENDED:
            found += self._at_the_end()
        return sorted(found, key=lambda hazard: hazard.cycle)

    def lost(self) -> list[Hazard]:
        """Return words that left the rectangle, once for each PE, color and direction."""
        return [hazard for hazard in self._logged() if hazard.kind == LEAVES]

    # --- while it runs -----------------------------------------------------------------------------------

    def _logged(self) -> Iterator[Hazard]:
        seen: set[tuple[int, int, int, int]] = set()
        for cycle, node, kind, value, instruction in self._engine.log_rows():
            is_known = kind == LOG_BOUNDS or kind in _LOGGED or kind in _RACES
            if not is_known or (node, kind, value, instruction) in seen:
                continue
            seen.add((node, kind, value, instruction))
            if kind == LOG_BOUNDS:
                word, text = "out-of-bounds", self._bounds(node, value)  # O3
            elif kind in _RACES:
                word, text = _RACES[kind][0], self._race(node, kind, value)
            else:
                word, text = _LOGGED[kind]
                text = text.format(**self._words(node, value))
            source = self._places.source(instruction)
            if kind in _ROUTED:
                source = self._places.route_source(self._observer.program_of(node), node, value & 0xFF)
            yield self._hazard(cycle, node, word, text, source, instruction)

    def _hazard(
        self, cycle: int, node: int, kind: str, text: str, source: str = "", instruction: int = -1
    ) -> Hazard:
        name = self._places.name(node)
        start = f"{source}: " if source else ""
        return _made(cycle, name, instruction, kind, f"{start}{name}: {text}")

    def _words(self, node: int, value: int) -> dict[str, str | int]:
        queue = value >> 8 & 0xFF
        return {
            "value": value,
            "low": value & 0xFF,
            "port": PORT_NAMES[min(queue, len(PORT_NAMES) - 1)],
            "queue": f"output queue {queue}: " if queue < 8 else "",
            "queue_id": queue,
            "direction": "output" if value >> 16 & 1 else "input",
            "thread": "the main thread" if value == sk.MAIN else f"microthread {value}",
            "task": self._task_name(node, value),
            "what": _RESULTS.get(value & 0xFF, ""),
            "integer": "i32" if queue == isa.T_I32 else "i16",
            "variable": self._element_at(node, value),
        }

    def _task_name(self, node: int, number: int) -> str:
        program = self._observer.program_of(node)
        tasks = self._engine.wafer.programs[program].tasks if program >= 0 else ()
        names = [task.name for task in tasks if task.kind == isa.ID_LOCAL and task.id == number]
        return f"{names[0]} (id {number})" if names else str(number)

    def _element_at(self, node: int, address: int) -> str:
        """Return the name of the variable at an address, with the index of the element if it has several."""
        symbol = self._symbol_at(node, address)
        if symbol is None:
            return f"memory at {address:#x}"
        size = symbol.size_bytes // max(prod(symbol.shape), 1)
        number = (address - symbol.address) // max(size, 1)
        return f"{symbol.name}[{number}]" if symbol.shape else symbol.name

    def _symbol_at(self, node: int, address: int) -> Symbol | None:
        symbols = self._engine.wafer.programs[self._observer.program_of(node)].symbols
        return next((s for s in symbols if s.address <= address < s.address + s.size_bytes), None)

    def _bounds(self, node: int, value: int) -> str:
        base, last = value & (1 << LAST_SHIFT) - 1, (value >> LAST_SHIFT) - LAST_BIAS
        symbol = self._symbol_at(node, base)
        if symbol is None:
            return f"a DSD begins at {base:#x} and ends at {last:#x}, outside its variable"
        way = (
            f"{last - symbol.address - symbol.size_bytes} bytes behind its end"
            if last > base
            else "before its begin"
        )
        if last == symbol.address + symbol.size_bytes:
            way = "just behind its end"
        where = f"{symbol.address:#x}..{symbol.address + symbol.size_bytes:#x}"
        return f"a DSD over {symbol.name} ({symbol.type} at {where}) has its last element at {last:#x}, {way}"

    def _race(self, node: int, kind: int, value: int) -> str:
        """Describe two threads of a PE that share memory: what both touch, and the line of the other one."""
        base, line = value & (1 << RACE_SHIFT) - 1, (value >> RACE_SHIFT) - 1
        symbol = self._symbol_at(node, base)
        what = symbol.name if symbol is not None else f"memory at {base:#x}"
        other = self._places.source(line) or "an operation"
        return _RACES[kind][1].format(what=what, other=other)

    def _copies(self) -> Iterator[Hazard]:
        """Yield 16-bit copies whose words have upper halves, which are dropped (H3)."""
        for index, command in enumerate(self._engine.commands):
            if command.kind != HOST_COPY_IN or not command.is_16bit or command.data is None:
                continue
            if index not in self._wide_copies:
                self._wide_copies[index] = bool((np.asarray(command.data).astype(np.uint32) >> 16).any())
            state, _, start, _ = self._engine.command_state(index)
            if state and self._wide_copies[index]:
                text = (
                    f"host command {index}: a 16-bit copy to {command.subject} has words with upper halves: "
                )
                yield _made(start, "host", -1, "upper-half-lost", text + "they are dropped")

    # --- at the end --------------------------------------------------------------------------------------

    def _at_the_end(self) -> list[Hazard]:
        counts: dict[str, int] = {}
        found: list[Hazard] = []
        for hazard in self._left_over():
            counts[hazard.kind] = counts.get(hazard.kind, 0) + 1
            if counts[hazard.kind] <= MOST_OF_A_KIND:
                found.append(hazard)
        return found

    def _left_over(self) -> Iterator[Hazard]:
        s, program = self._engine.state, self._engine.program
        blocks = s[int(self._observer.wafer.nodes) + np.arange(len(program.nodes.x))]
        for index, template in enumerate(program.templates):
            nodes = np.flatnonzero((program.nodes.class_of == index) & (blocks > 0))
            b = blocks[nodes]
            for at, color, place in _filled(s, b, template.channels, sk.CHANNEL.held):
                yield from self._channel(int(nodes[at]), color, sk.CHANNEL(s, place))
            if template.program < 0:
                continue
            for at, number, place in _filled(s, b, template.queues, sk.QUEUE.count):
                yield self._queue(int(nodes[at]), number, sk.QUEUE(s, place))
            is_blocked = (s[b + sk.BLOCK.active] & s[b + sk.BLOCK.blocked]) | (
                s[b + sk.BLOCK.threads] & s[b + sk.BLOCK.ut_blocked] & 0xFF
            )
            for at in np.flatnonzero(is_blocked).tolist():
                yield from self._blocked(int(nodes[at]))
            if int(self._observer.wafer.status) == sk.STATUS_DEADLOCK:
                at_rest = (s[b + sk.BLOCK.task] < 0) & (s[b + sk.BLOCK.threads] == 0)
                for at in np.flatnonzero(at_rest & (s[b + sk.BLOCK.launch_command] >= 0)).tolist():
                    yield self._stream(int(nodes[at]))
        yield from self._open_lines()

    def _end(self) -> int:
        return int(self._observer.wafer.cycle)

    def _channel(self, node: int, color: int, channel: Any) -> Iterator[Hazard]:
        routes = int(channel.positions[int(channel.position)])
        count, ports = held_words(channel), held_ports(channel)
        kind = ""
        if int(channel.closed):
            kind = "teardown-left"  # R6
        elif not int(channel.routed):
            kind = "words-left"  # R4
        elif not any(routes >> port & 1 for port in ports):
            kind = "route-refused"  # R1
        elif routes >> 8 & 1 and int(channel.queue) < 0:
            kind = "words-left"  # R4
        if kind:
            names = " and ".join(PORT_NAMES[port] for port in ports)
            text = f"{_words(count)} of color {color} from {names} stay in the router: {why_held(channel)}"
            source = self._places.route_source(self._observer.program_of(node), node, color)
            yield self._hazard(self._end(), node, kind, text, source)

    def _queue(self, node: int, number: int, queue: Any) -> Hazard:
        """Describe words in a queue that neither an operation nor a task takes (R4); C1 if a control word is
        first."""
        head, identity, color = queue_entries(queue)[0], int(queue.id), int(queue.color)
        program = self._engine.wafer.programs[self._observer.program_of(node)]
        kind, why = "words-left", "no operation reads them"
        if int(head.payload) & sk.MARK_CONTROL:
            kind, why = "control-blocked", "the first is a control wavelet"
        is_bound = any(task.kind == isa.ID_DATA and task.id == identity for task in program.tasks)
        if 0 <= identity < 63 and int(self._observer.block_row(node).blocked) >> identity & 1:
            why += f" and data task id {identity} is blocked"
        elif not is_bound:
            why += f" and no data task is bound to id {identity}"
        name = f"input queue {number}" if number < 8 else "the queue"
        text = f"{_words(int(queue.count))} stay in {name} of color {color}: {why}"
        return self._hazard(self._end(), node, kind, text)

    def _blocked(self, node: int) -> Iterator[Hazard]:
        block = self._observer.block_row(node)
        tasks = int(block.active) & int(block.blocked)
        threads = int(block.threads) & int(block.ut_blocked) & 0xFF
        for number in range(63):
            if tasks >> number & 1:
                text = f"task {self._task_name(node, number)} is active and stays blocked"
                yield self._hazard(self._end(), node, "task-blocked", text)  # U1
        for number in range(8):
            if threads >> number & 1:
                line = int(self._observer.thread(node, number).line)
                text = f"microthread {number} is blocked and has an operation that cannot go on"
                yield self._hazard(
                    self._end(), node, "thread-blocked", text, self._places.source(line), line
                )  # U1

    def _stream(self, node: int) -> Hazard:
        """Describe a launched function that ended on a PE without releasing the host (H1)."""
        command = self._engine.commands[int(self._observer.block_row(node).launch_command)]
        program = self._engine.wafer.programs[self._observer.program_of(node)]
        export = next((e for e in program.exports if e.name == command.subject), None)
        source, line = "", -1
        if command.kind == HOST_LAUNCH and export is not None and export.function >= 0:
            code = pk.CODE(self._engine.words, int(self._observer.layout(node).code))
            line = int(code.first) + program.functions[export.function].entry
            source = self._places.source(line)
        text = (
            f"{command.subject} has ended here, nothing runs, and unblock_cmd_stream() was not called: "
            "the next host command waits for ever"
        )
        return self._hazard(self._end(), node, "stream-blocked", text, source, line)

    def _open_lines(self) -> Iterator[Hazard]:
        """Yield printed text without its newline, which the vendor's tools drop silently (H3)."""
        open_lines: dict[int, str] = {}
        for _, node, kind, value, _ in self._engine.log_rows():
            if kind == LOG_PRINT:
                open_lines[node] = "" if value == 10 else open_lines.get(node, "") + chr(value)
        for node, text in open_lines.items():
            if text:
                yield self._hazard(
                    self._end(), node, "print-left", f"printed {text[:60]!r} without a newline"
                )


def _filled(
    words: np.ndarray, blocks: np.ndarray, places: Mapping[int, int], field: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (index of the block, key, word) of the records at `places` of blocks whose word `field` is above
    0."""
    keys, offsets = list(places), np.fromiter(places.values(), np.int64, len(places))
    for first in range(0, len(blocks), BLOCKS_AT_ONCE):
        records = offsets[:, None] + blocks[None, first : first + BLOCKS_AT_ONCE]
        for which, at in zip(*np.nonzero(words[records + field] > 0), strict=True):
            yield first + int(at), keys[which], int(records[which, at])


def _made(cycle: int, unit: str, instruction: int, kind: str, text: str) -> Hazard:
    return Hazard(cycle, unit, instruction, kind, text, "warning" if kind in _WARNINGS else "error")


def _words(count: int) -> str:
    return "1 word" if count == 1 else f"{count} words"
