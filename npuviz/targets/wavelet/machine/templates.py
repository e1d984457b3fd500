"""Build the initial block of state of every class: nodes with equal programs and channels share a
template."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.spec import WaveletSpec
from npuviz.targets.wavelet.wafer import TIMER, TIMER_CONTROL, Channel, PeProgram

# In the order of the fields of the record FILTER.
FILTER_FIELDS = (
    "count_data", "count_control", "init_counter", "limit1", "limit2", "max_counter", "filter_control",
    "min_idx", "max_idx",
)  # fmt: skip
ALL_COLORS = range(24)
_ROUTER_CALLS = {
    *(isa.S_ROUTE_SET, isa.S_ROUTE_TOGGLE, isa.S_ROUTE_ADD, isa.S_ROUTE_REMOVE, isa.S_SWITCH_SET),
    isa.S_QUEUE_BIND,
}
_ROUTER_WORDS = (0x7F20, 0x7F58)
_ROUTER_BYTES = (0xFE40, 0xFEB0)
"""Addresses of router registers on WSE-2, as `kernels/processor/configuration.py` has them."""
OVERRUN_BYTES = 512
"""Bytes behind the used memory of a program that it may touch; an access further out is a fault."""
REGISTER_LIMIT = 4096
"""Most words for the frames of calls: recursion and function values hide how deep calls go."""


def _integers() -> dict[int, int]:
    return {}


@dataclass
class ClassTemplate:
    """The initial state of one class. Places count words from the start of the block.

    channels, queues  color or queue number -> place
    unset             place of a bit for each of `unset_words`, the addresses of 16-bit words
    """

    words: np.ndarray
    program: int
    memory: int
    registers: int
    registers_size: int
    threads: int
    dsrs: int
    fifos: int
    cursors: int
    rotation: int
    unset: int
    unset_words: range
    channels: dict[int, int] = field(default_factory=_integers)
    queues: dict[int, int] = field(default_factory=_integers)


@dataclass(frozen=True)
class ProgramFacts:
    """The state that a program needs, as found in its code.

    colors      colors that its descriptors name
    is_dynamic  whether it sets routes or queues while it runs
    registers   words for the frames of calls
    stack       bytes for the frames of calls in PE memory
    """

    colors: frozenset[int]
    is_dynamic: bool
    has_async: bool
    has_dsr: bool
    has_map: bool
    registers: int
    stack: int


def program_facts(program: PeProgram, arch: str) -> ProgramFacts:
    """Find out from the functions that a program can reach which state the program needs."""
    code = program.code
    reached = _reached(program)
    rows = _rows_of(program, reached)
    ops = code[rows, isa.C_OP]
    calls = code[rows[ops == isa.OP_SYS], isa.C_IMM]
    words = [*code[rows[ops == isa.OP_LI], isa.C_IMM].tolist(), *(load.word for load in program.dsrs)]
    words += np.frombuffer(program.image[: len(program.image) // 8 * 8].tobytes(), np.int64).tolist()
    operations = program.operations
    settings = code[rows[np.isin(ops, (isa.OP_DSD, isa.OP_DSR_LOAD))], isa.C_IMM]
    settings = [
        *settings[settings >= 0].tolist(),
        *(load.settings for load in program.dsrs if load.settings >= 0),
    ]
    has_async = any(bool(operations[row, isa.O_ASYNC]) for row in settings)
    return ProgramFacts(
        frozenset(_colors_of(words)),
        # Code that writes the color of a descriptor or sets routes may use any color.
        bool(_ROUTER_CALLS.intersection(calls.tolist()))
        or (arch == "wse2" and _names_router(code[rows, isa.C_IMM], program.image))
        or bool(((ops == isa.OP_DSD_SET) & (code[rows, isa.C_IMM] == isa.F_COLOR)).any()),
        has_async,
        bool(program.dsrs) or bool((ops == isa.OP_DSR_LOAD).any()),
        bool(np.isin(ops, (isa.OP_MAP_OPEN, isa.OP_MAP_TEST, isa.OP_MAP_READ, isa.OP_MAP_WRITE)).any()),
        _longest_chain(program, reached, _register_sizes(program, reached), REGISTER_LIMIT) + 2,
        _longest_chain(program, reached, _frame_sizes(program, reached), program.memory_bytes),
    )


def _colors_of(words: Iterable[int]) -> set[int]:
    """Return the colors of words that look like fabric descriptors; a wrong guess costs a few words of
    state."""
    found: set[int] = set()
    for word in words:
        if word & isa.MASK_KIND in (isa.KIND_FABIN, isa.KIND_FABOUT):
            color = (word >> isa.SHIFT_COLOR) & isa.MASK_COLOR
            if color < 24:
                found.add(color)
    return found


def _names_router(numbers: np.ndarray, image: np.ndarray) -> bool:
    """Return whether numbers of the code or 16-bit numbers of the data look like addresses of router
    registers.

    A wrong guess costs state: a channel for every color.
    """
    halves = image[: len(image) // 2 * 2].view(np.uint16)
    return any(
        bool(((found >= low) & (found < high)).any())
        for found in (numbers, halves)
        for low, high in (_ROUTER_WORDS, _ROUTER_BYTES)
    )


def _ends(program: PeProgram) -> dict[int, int]:
    """Return entry of a function -> entry of the next one."""
    entries = [*sorted({f.entry for f in program.functions}), len(program.code)]
    return dict(pairwise(entries))


def _rows_of(program: PeProgram, functions: Sequence[int]) -> np.ndarray:
    ends = _ends(program)
    parts = [
        np.arange(program.functions[f].entry, ends[program.functions[f].entry])
        for f in sorted(functions)
    ]  # fmt: skip
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _callees(program: PeProgram) -> dict[int, tuple[set[int], bool]]:
    ends = _ends(program)
    found: dict[int, tuple[set[int], bool]] = {}
    for number, function in enumerate(program.functions):
        part = program.code[function.entry : ends[function.entry]]
        calls = part[part[:, isa.C_OP] == isa.OP_CALL][:, isa.C_IMM]
        found[number] = set(calls.tolist()), bool((part[:, isa.C_OP] == isa.OP_CALLI).any())
    return found


def _roots(program: PeProgram) -> set[int]:
    roots = {task.function for task in program.tasks}
    roots |= {export.function for export in program.exports if export.function >= 0}
    roots |= set(program.teardown_handlers.values()) | set(program.empty_handlers.values())
    for row in program.rotations:
        roots |= {row[1], row[2]}
    return roots


def _reached(program: PeProgram) -> list[int]:
    callees = _callees(program)
    todo, seen = list(_roots(program)), set[int]()
    while todo:
        number = todo.pop()
        if number in seen or number not in callees:
            continue
        seen.add(number)
        called, is_open = callees[number]
        todo += list(range(len(program.functions))) if is_open else list(called)
    return sorted(seen)


def _register_sizes(program: PeProgram, reached: Sequence[int]) -> dict[int, int]:
    return {f: program.functions[f].num_regs + sk.FRAME.num_words for f in reached}


def _frame_sizes(program: PeProgram, reached: Sequence[int]) -> dict[int, int]:
    return {f: -(-program.functions[f].frame_bytes // 8) * 8 for f in reached}


def _longest_chain(program: PeProgram, reached: Sequence[int], sizes: dict[int, int], most: int) -> int:
    """Return the largest sum of sizes over a chain of calls, at most `most`; `most` if calls are recursive.

    A call of a function value counts as all functions together, and as 256 at least.
    """
    callees = _callees(program)
    longest: dict[int, int] = {}
    open_limit = min(most, max(256, sum(sizes.values())))

    def depth(number: int, above: frozenset[int]) -> int:
        if number in above or len(above) > 200:
            return most if sizes[number] else 0
        if number not in longest:
            called = [depth(each, above | {number}) for each in callees[number][0] if each in sizes]
            if callees[number][1]:
                called.append(open_limit)
            longest[number] = min(most, sizes[number] + max(called, default=0))
        return longest[number]

    return max((depth(root, frozenset()) for root in _roots(program) if root in sizes), default=0)


def memory_in_use(program: PeProgram, facts: ProgramFacts) -> int:
    """Return how many bytes of a PE's memory a program can touch: data, and the deepest stack."""
    return max(len(program.image), min(program.memory_bytes, program.stack_base + facts.stack))


def unset_bits(program: PeProgram) -> tuple[range, np.ndarray]:
    """Return the addresses of 16-bit words from the first to the last variable without a value, and a bit for
    each.

    The bits are (n,) int64 words, the lowest bit first: 1 for words of such variables, except for the buffers
    of FIFOs, which nobody reads before they are filled.
    """
    spans = [(each.address, each.address + each.size_bytes) for each in program.symbols if each.is_unset]
    marks = np.zeros(max((end for _, end in spans), default=0) + 2, np.bool_)
    for begin, end in spans:
        marks[begin:end] = True
    for fifo in program.fifos:
        marks[fifo.address : fifo.address + fifo.size_bytes] = False
    count = len(marks) // 2
    unset = np.flatnonzero(marks[: 2 * count : 2] & marks[1 : 2 * count : 2])
    if not len(unset):
        return range(0), np.zeros(0, np.int64)
    first, last = int(unset[0]), int(unset[-1])
    bits = np.zeros(-(-(last + 1 - first) // 64) * 64, np.bool_)
    bits[unset - first] = True
    return range(2 * first, 2 * last + 2, 2), np.packbits(bits, bitorder="little").view(np.int64)


def make_template(
    spec: WaveletSpec, index: int, program: PeProgram | None, facts: ProgramFacts | None,
    channels: Sequence[Channel],
) -> ClassTemplate:  # fmt: skip
    """Return the template of a class; `index` is the index of its program, -1 without one."""
    builder = _Builder(spec, index, program, facts, channels)
    return builder.build()


class _Builder:
    def __init__(
        self, spec: WaveletSpec, index: int, program: PeProgram | None, facts: ProgramFacts | None,
        channels: Sequence[Channel],
    ) -> None:  # fmt: skip
        self._spec = spec
        self._index = index
        self._program = program
        self._facts = facts
        self._routed = {channel.color: channel for channel in channels}
        self._parts: list[np.ndarray] = []
        self._size = 0

    def _place(self, words: np.ndarray) -> int:
        """Append words, padded to a whole line, and return where they begin."""
        at = self._size
        self._parts += [words, np.zeros(-len(words) % sk.LINE_WORDS, np.int64)]
        self._size += len(words) + -len(words) % sk.LINE_WORDS
        return at

    def _empty(self, size: int) -> int:
        return self._place(np.zeros(size, np.int64))

    def build(self) -> ClassTemplate:
        program, facts = self._program, self._facts
        head = np.zeros(sk.BLOCK.num_words, np.int64)
        self._place(head)
        queues = self._queues()
        places = {number: self._place(words) for number, words in queues.items()}
        colors = {number: int(sk.QUEUE(words).color) for number, words in queues.items()}
        queue_of = {color: number for number, color in colors.items() if color >= 0}
        outputs = self._output_colors()
        channels = {
            color: self._place(self._channel(color, queue_of.get(color, -1), 1 << place))
            for place, color in enumerate(self._colors())
        }
        threads = registers = dsrs = fifos = cursors = rotation = registers_size = unset = 0
        unset_words = range(0)
        if program is not None and facts is not None:
            registers_size = facts.registers
            registers = self._empty(registers_size)
            count = sk.NUM_THREADS if facts.has_async else 1
            threads = self._empty(count * sk.THREAD.num_words)
            if count == 1:
                threads -= sk.MAIN * sk.THREAD.num_words
            dsrs = self._place(self._dsrs()) if facts.has_dsr else 0
            fifos = self._empty(len(program.fifos) * sk.FIFO.num_words)
            cursors = self._empty(8 * sk.OPERAND.num_words) if facts.has_map else 0
            rotation = self._place(np.array([row[4] for row in program.rotations], np.int64))
            unset_words, bits = unset_bits(program)
            unset = self._place(bits) if len(bits) else 0
        memory = self._place(self._memory())
        self._write_head(head, outputs)
        words = np.concatenate(self._parts)
        return ClassTemplate(
            words, self._index, memory, registers, registers_size, threads, dsrs, fifos, cursors, rotation,
            unset, unset_words, channels, places,
        )  # fmt: skip

    # --- queues and channels -------------------------------------------------------------------------

    def _output_colors(self) -> list[int]:
        found = [-1] * 8
        for binding in self._program.queues if self._program else ():
            if binding.is_output and 0 <= binding.queue < 8:
                found[binding.queue] = binding.color
        return found

    def _colors(self) -> list[int]:
        """Return the colors that get a channel: those configured, bound to queues or named by code.

        A program that configures its router gets all of them.
        """
        found = set(self._routed)
        if self._facts is not None:
            if self._facts.is_dynamic:
                return list(ALL_COLORS)
            found |= self._facts.colors
        if self._program is not None:
            found |= {binding.color for binding in self._program.queues if binding.color >= 0}
            if self._spec.arch == "wse2":
                found |= {
                    task.id for task in self._program.tasks if task.kind == isa.ID_DATA and task.id < 24
                }
        return sorted(color for color in found if 0 <= color < 24)

    def _queues(self) -> dict[int, np.ndarray]:
        found: dict[int, np.ndarray] = {}
        if self._program is None:
            return found
        inputs = [binding for binding in self._program.queues if not binding.is_output]
        is_old = self._spec.arch == "wse2"
        for binding in inputs:
            if 0 <= binding.queue < 8:
                number = binding.color if is_old else binding.queue
                found[binding.queue] = self._queue(binding.color, binding.queue, number, binding.priority)
        if self._facts is not None and self._facts.is_dynamic and not is_old:
            for queue in range(8):
                found.setdefault(queue, self._queue(-1, queue, queue, 0))
        if is_old:
            bound = {binding.color for binding in inputs}
            for color in self._colors():
                if color not in bound:
                    found[8 + color] = self._queue(color, 7, color, 0)
        return dict(sorted(found.items()))

    def _queue(self, color: int, queue: int, task: int, priority: int) -> np.ndarray:
        length = self._spec.input_words[queue]
        # The ramp holds a word per cycle of its latency, and one slot is on its way back.
        limit = length + self._spec.ramp + 1
        words = np.zeros(sk.QUEUE.num_words + limit * sk.ENTRY.num_words, np.int64)
        row = sk.QUEUE(words)
        row.color = color
        row.limit = row.room = limit
        row.length = length
        row.last = -1
        row.id = task
        row.thread = -1
        row.priority = priority
        return words

    def _channel(self, color: int, queue: int, bit: int) -> np.ndarray:
        spec = self._spec
        channel = self._routed.get(color)
        is_dynamic = self._facts is not None and self._facts.is_dynamic
        turns = channel is not None and _may_turn(channel)
        slots = spec.buffer_words + (spec.turn if turns else 0) if channel is not None or is_dynamic else 0
        outputs = [k for k, bound in enumerate(self._output_colors()) if bound == color]
        length = spec.output_words[min(outputs[0], len(spec.output_words) - 1)] if outputs else 2
        ramp = length + spec.buffer_words + spec.output_latency + spec.ramp
        words = np.zeros(sk.CHANNEL.num_words + (4 * slots + ramp) * sk.ENTRY.num_words, np.int64)
        row = sk.CHANNEL(words)
        row.color = color
        row.queue = queue
        row.bit = bit
        row.slots = slots
        row.limit = slots
        row.limit_ramp = ramp
        row.served = -1
        for port in range(5):
            row.ports[port].last = -1
        if channel is not None:
            _configure(row, channel)
        return words

    # --- the processor ---------------------------------------------------------------------------------

    def _dsrs(self) -> np.ndarray:
        words = np.full((48, sk.DSR.num_words), -1, np.int64)
        words[:, sk.DSR.word] = 0
        assert self._program is not None
        for load in self._program.dsrs:
            row = sk.DSR(words[load.file * 16 + (load.id & 15)])
            row.word = load.word
            row.settings = load.settings
            if load.settings >= 0:
                given = self._program.operations[load.settings]
                row.activate, row.unblock = given[isa.O_ACTIVATE], given[isa.O_UNBLOCK]
                row.control_id, row.ut = given[isa.O_CONTROL_ID], given[isa.O_UT]
        return words.reshape(-1)

    def _bytes(self) -> int:
        """Return the size of a PE's memory: what a program can touch, and OVERRUN_BYTES that DSDs may
        overrun."""
        assert self._program is not None
        assert self._facts is not None
        used = memory_in_use(self._program, self._facts)
        return max(used, min(self._program.memory_bytes, used + OVERRUN_BYTES))

    def _memory(self) -> np.ndarray:
        if self._program is None:
            return np.zeros(0, np.int64)
        size = self._bytes()
        data = np.zeros(-(-size // 8) * 8, np.uint8)
        data[: len(self._program.image)] = self._program.image
        return data.view(np.int64).copy()

    def _write_head(self, head: np.ndarray, outputs: list[int]) -> None:
        pe = sk.BLOCK(head)
        pe.out[:] = outputs
        pe.task = pe.launch = pe.launch_command = pe.code = pe.line = pe.last = -1
        pe.level = pe.stretch = 1
        pe.prng_state[:] = 0xDEADBEEF & ((1 << 23) - 1)
        program = self._program
        if program is None:
            return
        pe.bytes = self._bytes()
        pe.active = sum(1 << number for number in set(program.activated) if 0 <= number < 63)
        blocked = self._blocked(program)
        pe.blocked = sum(1 << number for number in blocked if 0 <= number < 63)
        for kind, number in program.blocked:
            if kind == isa.ID_UT:
                pe.ut_blocked |= 1 << number
        for kind, number, priority in program.priorities:
            if kind == isa.ID_NONE:
                pe.level = (priority & 3) + 1
            elif priority and number < 63:
                pe.high |= 1 << number
        for word, value in program.config:
            if word == TIMER_CONTROL:
                pe.tsc_stopped = -1 if value & 1 else -pe.tsc
            elif word < TIMER + 3:
                pe.tsc -= value << 16 * (word - TIMER)
                pe.tsc_stopped = -1 if pe.tsc_stopped < 0 else -pe.tsc
        # A color that starts in teardown starts no handler: benchmark-libs/allreduce relies on it (EX).

    def _blocked(self, program: PeProgram) -> set[int]:
        """Return the task ids that start blocked: data ids without a task among them. Ref: TID."""
        bound = {task.id for task in program.tasks}
        found = set(range(24 if self._spec.arch == "wse2" else 8)) - bound
        found -= {number for kind, number in program.unblocked if kind != isa.ID_UT}
        return found | {number for kind, number in program.blocked if kind != isa.ID_UT}


def _may_turn(channel: Channel) -> bool:
    for position in channel.positions:
        if position is None:
            continue
        receive, send = position
        for port in range(1, 5):
            if receive >> port & 1 and send & 0x1E & ~(1 << ((port + 1 & 3) + 1)):
                return True
    return False


def _configure(row: Any, channel: Channel) -> None:
    """Write a configuration into a CHANNEL."""
    row.routed = 1
    for number, position in enumerate(channel.positions[:4]):
        if position is not None:
            row.positions[number] = (position[0] & 0x1F) | ((position[1] & 0x1F) << 8) | (1 << 16)
    row.position = channel.position
    row.is_ring = int(channel.ring)
    row.pop = channel.pop
    row.closed = int(channel.teardown)
    row.swap = channel.swap
    if channel.filter is not None:
        row.filter_kind = int(channel.filter.get("kind", 0)) + 1
        rule = row.filters[0]
        for number, name in enumerate(FILTER_FIELDS):
            rule[number] = int(channel.filter.get(name, 0))
