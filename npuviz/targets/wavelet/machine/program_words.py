"""Builds the program words and the root state of a machine from its spec and wafer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.sim.parts.words import zero_words
from npuviz.targets.wavelet.costs import instruction_names, math_names, operation_names
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.payload import code_tables
from npuviz.targets.wavelet.machine.templates import (
    ClassTemplate,
    ProgramFacts,
    make_template,
    memory_in_use,
    program_facts,
)
from npuviz.targets.wavelet.spec import WaveletSpec
from npuviz.targets.wavelet.wafer import Channel, PeProgram, Wafer

MAX_STATE_WORDS = 1 << 33
"""64 GiB: larger wafers are refused. Pages nobody touches take no memory."""
FREE_WORDS = 1 << 17
"""Room beside what nodes need: for commands and their like."""
_LOG_ROWS = 16
"""Rows for the log that a node can have in a cycle: a print, and hazards of an operation and its operands."""
_TASK_IDS = 64


@dataclass(frozen=True)
class Nodes:
    """Places with a program or a route, in the order of rows: (n,) arrays.

    x, y  in the rectangle; class_of  index of its class; grid (rows, columns) node or -1
    """

    x: np.ndarray
    y: np.ndarray
    class_of: np.ndarray
    grid: np.ndarray


class ProgramWords:
    """The immutable words `p` and where things lie in them."""

    def __init__(self, spec: WaveletSpec, wafer: Wafer) -> None:
        self._parts: list[np.ndarray] = []
        self._size = 0
        head = np.zeros(pk.PROGRAM_HEADER, np.int64)
        self._add(head)
        self.code_base, code_at = self._add_code(wafer)
        group_rows = [
            self._program(wafer, program, code_at[number], self.code_base[number])
            for number, program in enumerate(wafer.programs)
        ]
        programs = self._add(np.concatenate(group_rows)) if group_rows else 0
        self.nodes, self.templates, self.used_bytes = _classes(spec, wafer)
        self.starters = _starters(self.nodes, self.templates)
        self.class_at = [self._class(each, programs) for each in self.templates]
        self.class_words_at = np.array(self.class_at, np.int64)
        self._head(head, spec, wafer, programs)
        self.words = zero_words(self._size)
        np.concatenate(self._parts, out=self.words)
        self.words[: pk.PROGRAM_HEADER] = head

    def _add(self, words: np.ndarray) -> int:
        at = self._size
        self._parts.append(np.ascontiguousarray(words, np.int64).reshape(-1))
        self._size += words.size
        return at

    def _add_code(self, wafer: Wafer) -> tuple[list[int], list[int]]:
        tables, of_program = code_tables(wafer)
        bases, at, total = list[int](), list[int](), 0
        for code in tables:
            bases.append(total)
            total += len(code)
            at.append(self._add(code))
        self.num_instructions = total
        return [bases[index] for index in of_program], [at[index] for index in of_program]

    def _program(self, wafer: Wafer, program: PeProgram, code: int, first: int) -> np.ndarray:
        g = np.zeros(pk.GROUP_WORDS, np.int64)
        functions = [[f.entry, f.num_regs, f.frame_bytes, 0] for f in program.functions]
        local = np.full(_TASK_IDS, -1, np.int64)
        data = np.full((_TASK_IDS, pk.TASK_WORDS), -1, np.int64)
        control = np.full((_TASK_IDS, pk.TASK_WORDS), -1, np.int64)
        for task in program.tasks:
            if not 0 <= task.id < _TASK_IDS:
                continue
            if task.kind == isa.ID_LOCAL:
                local[task.id] = task.function
            else:
                row = (data if task.kind == isa.ID_DATA else control)[task.id]
                types = task.arguments[: pk.TASK_WORDS - 2]
                row[: 2 + len(types)] = [task.function, len(types), *types]
        handlers = np.full(24, -1, np.int64)
        for color, function in program.teardown_handlers.items():
            handlers[color] = function
        empty = np.full(16, -1, np.int64)
        for (queue, is_output), function in program.empty_handlers.items():
            empty[queue + 8 * is_output] = function
        fifos = np.zeros((len(program.fifos), pk.FIFO_FIELDS), np.int64)
        for row, fifo in zip(fifos, program.fifos, strict=True):
            row[:8] = [
                fifo.address, fifo.size_bytes, fifo.empty_action, fifo.full_action, fifo.activate_pop,
                fifo.activate_push, fifo.priority, fifo.simd,
            ]  # fmt: skip
        ranges = np.array(_ranges(program), np.int64).reshape(-1, 2)
        values = {
            pk.G_CODE: code,
            pk.G_LENGTH: len(program.code),
            pk.G_FUNCTIONS: self._add(np.array(functions, np.int64)),
            pk.G_NUM_FUNCTIONS: len(functions),
            pk.G_OPERATIONS: self._add(program.operations),
            pk.G_SHAPES: self._add(program.shapes),
            pk.G_LOCAL: self._add(local),
            pk.G_DATA: self._add(data),
            pk.G_CONTROL: self._add(control),
            pk.G_FIFOS: self._add(fifos),
            pk.G_NUM_FIFOS: len(fifos),
            pk.G_STACK: program.stack_base,
            pk.G_BYTES: program.memory_bytes,
            pk.G_FIRST: first,
            pk.G_TEARDOWN: self._add(handlers),
            pk.G_EMPTY: self._add(empty),
            pk.G_HALF: program.half,
            pk.G_ROTATIONS: self._add(np.array(program.rotations, np.int64).reshape(-1, 5)),
            pk.G_NUM_ROTATIONS: len(program.rotations),
            pk.G_NUM_OPERATIONS: len(program.operations),
            pk.G_NUM_SHAPES: len(program.shapes),
            pk.G_SYMBOLS: self._add(ranges),
            pk.G_NUM_SYMBOLS: len(ranges),
        }
        for word, value in values.items():
            g[word] = value
        return g

    def _class(self, template: ClassTemplate, programs: int) -> int:
        words = np.zeros(pk.CLASS_WORDS, np.int64)
        program = programs + template.program * pk.GROUP_WORDS if template.program >= 0 else -1
        template.words[sk.B_PROGRAM] = program
        places = [template.channels[color] for color in sorted(template.channels)]
        values = {
            pk.L_TEMPLATE: self._add(template.words),
            pk.L_SIZE: len(template.words),
            pk.L_PROGRAM: program,
            pk.L_MEMORY: template.memory,
            pk.L_REGISTERS: template.registers,
            pk.L_REGISTERS_SIZE: template.registers_size,
            pk.L_THREADS: template.threads,
            pk.L_DSRS: template.dsrs,
            pk.L_FIFOS: template.fifos,
            pk.L_CURSORS: template.cursors,
            pk.L_ROTATION: template.rotation,
            pk.L_NUM_CHANNELS: len(places),
            pk.L_CHANNEL_LIST: self._add(np.array(places, np.int64)),
        }
        for word, value in values.items():
            words[word] = value
        for color, place in template.channels.items():
            words[pk.L_CHANNEL + color] = place
        for queue, place in template.queues.items():
            words[pk.L_QUEUE + queue] = place
        return self._add(words)

    def _head(self, head: np.ndarray, spec: WaveletSpec, wafer: Wafer, programs: int) -> None:
        costs = np.zeros(128, np.int64)
        for name, number in instruction_names().items():
            costs[number] = spec.cost_of(name)
        maths = np.zeros(32, np.int64)
        for name, number in math_names().items():
            maths[number] = spec.cost_of(name)
        values = {
            pk.P_NODES: self._add(self._node_words(wafer)),
            pk.P_PROGRAMS: programs,
            pk.P_COSTS: self._add(costs),
            pk.P_RATES: self._add(_rates(spec)),
            pk.P_MATH: self._add(maths),
            pk.P_ARCH: 2 if spec.arch == "wse2" else 3,
            pk.P_HOP: spec.hop,
            pk.P_RAMP: spec.ramp,
            pk.P_TURN: spec.turn,
            pk.P_LINK: round(spec.link_interval * 1000),
            pk.P_OUTPUT: spec.output_latency,
            pk.P_LOAD_USE: spec.load_use,
            pk.P_TASK_START: spec.task_start,
            pk.P_DRAIN: spec.drain,
            pk.P_COMPLETE: spec.complete,
            pk.P_BRANCH: spec.branch,
            pk.P_BRANCH_TAKEN: spec.branch_taken,
            pk.P_FLOAT_WAIT: spec.float_wait,
            pk.P_STRIDE_RULE: int(spec.stride_rule == "8/stride"),
            pk.P_HOST_WORD: spec.host_word,
            pk.P_HOST_SETUP: spec.host_setup,
            pk.P_HOST_LAUNCH: spec.host_launch,
            pk.P_SETTLE: spec.settle,
            pk.P_FUSED: int(spec.fmacs_fused),
            pk.P_COLUMNS: max(wafer.fabric[0], wafer.columns),
            pk.P_WINDOW: spec.load_window,
            pk.P_TIMER: spec.timer_read,
            pk.P_PRINT_COST: spec.print_cost,
            pk.P_RECTANGLE: wafer.columns,
            pk.P_GRID: self._add(self.nodes.grid),
            pk.P_SWAP: int(any(c.swap for c in _all_channels(wafer))),
            pk.P_TRACKS: self._add(np.full((len(self.nodes.x), pk.TRACK_WORDS), -1, np.int64)),
        }
        for word, value in values.items():
            head[word] = value

    def _node_words(self, wafer: Wafer) -> np.ndarray:
        nodes = self.nodes
        words = np.full((len(nodes.x), pk.NODE_WORDS), -1, np.int64)
        words[:, pk.NODE_COLUMN] = nodes.x + wafer.offset[0]
        words[:, pk.NODE_ROW] = nodes.y + wafer.offset[1]
        words[:, pk.NODE_CLASS] = np.array(self.class_at, np.int64)[nodes.class_of] if len(nodes.x) else 0
        words[:, pk.NODE_X], words[:, pk.NODE_Y] = nodes.x, nodes.y
        words[self.starters, pk.NODE_SEAT] = np.arange(len(self.starters))
        padded = np.pad(nodes.grid, 1, constant_values=-1)
        for port, (dx, dy) in enumerate(((0, 0), (0, -1), (1, 0), (0, 1), (-1, 0))):
            words[:, pk.NODE_NEIGHBOUR + port] = padded[nodes.y + 1 + dy, nodes.x + 1 + dx]
        return words


def _rates(spec: WaveletSpec) -> np.ndarray:
    words = np.zeros((isa.NUM_OPERATIONS, pk.RATE_WORDS), np.int64)
    for name, number in operation_names().items():
        rate = spec.rate_of(name)
        is_product = name.startswith("fmac")
        flops = 2 if is_product else int(name.startswith(("fadd", "fsub", "fmul", "fmax")))
        words[number, : pk.RATE_REDUCE + 1] = rate.elements, rate.cycles, rate.reduce
        words[number, pk.RATE_FLOPS] = flops
    return words


def _all_channels(wafer: Wafer) -> list[Channel]:
    found = [channel for channels in wafer.channels.values() for channel in channels]
    return found + [channel for program in wafer.programs for channel in program.channels]


def _channel_key(channels: Sequence[Channel]) -> tuple[object, ...]:
    found: list[object] = []
    for c in channels:
        fields = tuple(sorted((c.filter or {}).items()))
        found.append((c.color, c.positions, c.position, c.ring, c.pop, c.teardown, c.swap, fields))
    return tuple(found)


def _classes(spec: WaveletSpec, wafer: Wafer) -> tuple[Nodes, list[ClassTemplate], dict[int, int]]:
    """Nodes of a wafer, the template of each of their classes, and program -> bytes of memory it uses."""
    facts: dict[int, ProgramFacts] = {}
    index_of: dict[tuple[object, ...], int] = {}
    templates: list[ClassTemplate] = []
    grid = np.full((wafer.rows, wafer.columns), -1, np.int64)
    place_of: list[tuple[int, int]] = []
    class_of: list[int] = []
    keys = _known_keys(wafer.channels)
    plain = (np.asarray(wafer.program_of) >= 0).tolist()
    program_of = np.asarray(wafer.program_of).tolist()
    for y in range(wafer.rows):
        for x in range(wafer.columns):
            if not plain[y][x] and (x, y) not in wafer.channels:
                continue
            program = program_of[y][x]
            key = (program, keys.get((x, y), ()))
            if key not in index_of:
                source = wafer.programs[program] if program >= 0 else None
                if source is not None and program not in facts:
                    facts[program] = program_facts(source)
                channels = (*wafer.channels.get((x, y), ()), *(source.channels if source else ()))
                index_of[key] = len(templates)
                templates.append(make_template(spec, program, source, facts.get(program), channels))
            grid[y, x] = len(place_of)
            place_of.append((x, y))
            class_of.append(index_of[key])
    places = np.array(place_of, np.int64).reshape(-1, 2)
    used = {number: memory_in_use(wafer.programs[number], each) for number, each in facts.items()}
    return Nodes(places[:, 0], places[:, 1], np.array(class_of, np.int64), grid), templates, used


def _known_keys(
    channels: Mapping[tuple[int, int], tuple[Channel, ...]],
) -> dict[tuple[int, int], tuple[object, ...]]:
    """Place -> something equal for equal channel settings; the same tuple of channels is looked at once."""
    known: dict[int, tuple[object, ...]] = {}
    found: dict[tuple[int, int], tuple[object, ...]] = {}
    for place, settings in channels.items():
        key = known.get(id(settings))
        if key is None:
            key = known[id(settings)] = _channel_key(settings)
        found[place] = key
    return found


def _ranges(program: PeProgram) -> list[tuple[int, int]]:
    """Begin and end of the variables, rising; of those that share bytes the first one."""
    found: list[tuple[int, int]] = []
    for symbol in sorted(program.symbols, key=lambda symbol: (symbol.address, -symbol.size_bytes)):
        if symbol.size_bytes > 0 and (not found or symbol.address >= found[-1][1]):
            found.append((symbol.address, symbol.address + symbol.size_bytes))
    return found


def log_room(num_nodes: int) -> tuple[int, int]:
    """Words that a cycle may add to the log, and words for rows that are kept aside in it (bands_kernels)."""
    rows = _LOG_ROWS * num_nodes
    chunks = -(-rows // sk.LOG_CHUNK_ROWS) + 1
    return chunks * (1 + sk.LOG_CHUNK_ROWS * sk.LOG_ROW), 1 + rows * sk.ASIDE_ROW


def build_state(spec: WaveletSpec, words: ProgramWords) -> np.ndarray:
    """The root state at cycle 0: (words,) int64, owned by the caller; unused pages take no memory."""
    count = len(words.nodes.x)
    actors = 2 * count
    fan = 1 << sk.FAN_SHIFT
    num_words = -(-actors // fan)
    # To look for the next mark may go one too far, and all bits of a top mark may be set.
    num_tops = num_words // fan**2 + 2
    num_groups = num_tops * fan
    bands = min(sk.MOST_BANDS, max(1, -(-count // sk.NODES_OF_A_BAND)))
    trail = 1 << (-(-spec.trail // bands) - 1).bit_length()
    wheel = sk.HEADER_WORDS + bands * sk.BAND_WORDS
    wheel += -wheel % sk.LINE_WORDS
    groups = wheel + sk.SLOTS * num_words
    tops = groups + sk.SLOTS * num_groups
    nodes = tops + sk.SLOTS * num_tops
    seats = nodes + count
    trails = seats + count
    seen = trails + 4 * trail * bands
    heap = seen + sk.SEEN_WORDS
    heap += -heap % sk.LINE_WORDS
    sizes = np.array([len(template.words) for template in words.templates], np.int64)
    demand = int(sizes[words.nodes.class_of].sum()) if count else 0
    total = heap + demand + FREE_WORDS + sum(log_room(count))
    if total > MAX_STATE_WORDS:
        raise TargetError("the machine's state would take over 64 GiB; use fewer PEs or smaller programs")
    s = zero_words(total)
    values = {
        sk.H_USED: heap,
        sk.H_NODES: nodes,
        sk.H_NODES_COUNT: count,
        sk.H_SEATS: seats,
        sk.H_WHEEL: wheel,
        sk.H_WHEEL_GROUPS: groups,
        sk.H_WHEEL_TOPS: tops,
        sk.H_WHEEL_END: num_words,
        sk.H_WHEEL_TOPS_COUNT: num_tops,
        sk.H_HOST_AT: sk.FAR,
        sk.H_CLOSED_AT: -1,
        sk.H_BANDS: sk.HEADER_WORDS,
        sk.H_BANDS_COUNT: bands,
        # Every seat in the first band, until they are sorted.
        sk.H_BAND_SHIFT: 62,
        sk.H_TRAIL_ROWS: trail,
        sk.H_SEEN: seen,
        sk.H_FINAL: -1,
        sk.H_NOW: -1,
        sk.H_DEMAND: demand,
    }
    for word, value in values.items():
        s[word] = value
    for band in range(bands):
        s[sk.HEADER_WORDS + band * sk.BAND_WORDS + sk.BAND_TRAIL] = trails + 4 * trail * band
    _seat_starters(s, words.starters)
    return s


def _starters(nodes: Nodes, templates: Sequence[ClassTemplate]) -> np.ndarray:
    """(k,) int64: nodes whose programs have active tasks or closed colors; they run from cycle 0 on."""
    starts = [t.program >= 0 and bool(t.words[sk.B_ACTIVE] or t.words[sk.B_TEARDOWN]) for t in templates]
    return np.flatnonzero(np.array(starts, bool)[nodes.class_of])


def _seat_starters(s: np.ndarray, starters: np.ndarray) -> None:
    """Give those that start their seats, and wake them in cycle 0; all others sleep."""
    seats = np.arange(len(starters))
    s[s[sk.H_SEATS] + seats] = -1 - starters
    s[sk.H_SEATS_COUNT] = len(starters)
    s[sk.H_SLOTS] = len(starters) > 0
    places = 2 * seats + 1
    # Slot 0 of the words, and the first of each kind of marks.
    for level, step in ((sk.H_WHEEL, sk.SLOTS), (sk.H_WHEEL_GROUPS, 1), (sk.H_WHEEL_TOPS, 1)):
        np.bitwise_or.at(s, s[level] + (places >> sk.FAN_SHIFT) * step, 1 << (places & sk.FAN_MASK))
        places = np.unique(places >> sk.FAN_SHIFT)
