"""Build the program words and the root state of a machine from its spec and wafer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.sim.parts.words import zero_words
from npuviz.targets.wavelet.costs import instruction_names, math_names, operation_names
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.instruction_cycles import instruction_cycles
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
"""Most words of state, 64 GiB: larger wafers are refused. Pages that are never touched take no memory."""
FREE_WORDS = 1 << 17
"""Words of the heap beyond what nodes need, for the states of commands and the like."""
_LOG_ROWS = 16
"""Most log rows of a node in a cycle: a print, and hazards of an operation and its operands."""
_TASK_IDS = 64


@dataclass(frozen=True)
class Nodes:
    """Places with a program or a route, row by row: (n,) arrays.

    x, y      column and row in the rectangle
    class_of  index of the node's class
    grid      (rows, columns) index of the node at each place, -1 if none
    """

    x: np.ndarray
    y: np.ndarray
    class_of: np.ndarray
    grid: np.ndarray


class ProgramWords:
    """The immutable words `program` and where things lie in them."""

    def __init__(self, spec: WaveletSpec, wafer: Wafer) -> None:
        self._parts: list[np.ndarray] = []
        self._size = 0
        self._add(np.zeros(pk.PROGRAM.num_words, np.int64))
        costs = _costs(spec)
        self.code_base, code_at = self._add_code(wafer, costs)
        group_rows = [
            self._program(wafer, program, code_at[number], self.code_base[number])
            for number, program in enumerate(wafer.programs)
        ]
        programs = self._add(np.concatenate(group_rows)) if group_rows else 0
        self.nodes, self.templates, self.used_bytes = _classes(spec, wafer)
        self.starters = _starters(self.nodes, self.templates)
        self.class_at = [self._class(each, programs) for each in self.templates]
        self.class_words_at = np.array(self.class_at, np.int64)
        head = self._head(spec, wafer, programs, costs)
        self.words = zero_words(self._size)
        np.concatenate(self._parts, out=self.words)
        self.words[: pk.PROGRAM.num_words] = head

    def _add(self, words: np.ndarray) -> int:
        at = self._size
        self._parts.append(np.ascontiguousarray(words, np.int64).reshape(-1))
        self._size += words.size
        return at

    def _add_code(self, wafer: Wafer, costs: np.ndarray) -> tuple[list[int], list[tuple[int, int]]]:
        """Add the code of all programs and its cycles to the words.

        Returns per program the listing index of its first instruction, and (place of its code, place of its
        cycles).
        """
        tables, of_program = code_tables(wafer)
        bases, at, total = list[int](), list[tuple[int, int]](), 0
        for code in tables:
            bases.append(total)
            total += len(code)
            at.append((self._add(code), self._add(instruction_cycles(code, costs))))
        return [bases[index] for index in of_program], [at[index] for index in of_program]

    def _program(self, wafer: Wafer, program: PeProgram, code: tuple[int, int], first: int) -> np.ndarray:
        functions = [[f.entry, f.num_regs, f.frame_bytes, 0] for f in program.functions]
        local = np.full(_TASK_IDS, -1, np.int64)
        data = np.full((_TASK_IDS, pk.TASK.num_words), -1, np.int64)
        control = np.full((_TASK_IDS, pk.TASK.num_words), -1, np.int64)
        for task in program.tasks:
            if not 0 <= task.id < _TASK_IDS:
                continue
            if task.kind == isa.ID_LOCAL:
                local[task.id] = task.function
            else:
                row = (data if task.kind == isa.ID_DATA else control)[task.id]
                types = task.arguments[: pk.TASK.num_words - pk.TASK.types]
                row[: 2 + len(types)] = [task.function, len(types), *types]
        handlers = np.full(24, -1, np.int64)
        for color, function in program.teardown_handlers.items():
            handlers[color] = function
        empty = np.full(16, -1, np.int64)
        for (queue, is_output), function in program.empty_handlers.items():
            empty[queue + 8 * is_output] = function
        fifos = np.zeros((len(program.fifos), pk.FIFO_SETTINGS.num_words), np.int64)
        for row, fifo in zip(fifos, program.fifos, strict=True):
            row[: pk.FIFO_SETTINGS.simd + 1] = [
                fifo.address, fifo.size_bytes, fifo.empty_action, fifo.full_action, fifo.activate_pop,
                fifo.activate_push, fifo.priority, fifo.simd,
            ]  # fmt: skip
        ranges = np.array(_ranges(program), np.int64).reshape(-1, pk.VARIABLE.num_words)
        return pk.CODE.make(
            instructions=code[0],
            cycles=code[1],
            length=len(program.code),
            functions=self._add(np.array(functions, np.int64)),
            num_functions=len(functions),
            operations=self._add(program.operations),
            shapes=self._add(program.shapes),
            local=self._add(local),
            data=self._add(data),
            control=self._add(control),
            fifos=self._add(fifos),
            num_fifos=len(fifos),
            stack=program.stack_base,
            bytes=program.memory_bytes,
            first=first,
            teardown=self._add(handlers),
            empty=self._add(empty),
            half=program.half,
            rotations=self._add(np.array(program.rotations, np.int64).reshape(-1, pk.ROTATION.num_words)),
            num_rotations=len(program.rotations),
            num_operations=len(program.operations),
            num_shapes=len(program.shapes),
            symbols=self._add(ranges),
            num_symbols=len(ranges),
        )

    def _class(self, template: ClassTemplate, programs: int) -> int:
        program = programs + template.program * pk.CODE.num_words if template.program >= 0 else -1
        sk.BLOCK(template.words).code = program
        places = [template.channels[color] for color in sorted(template.channels)]
        words = pk.LAYOUT.make(
            template=self._add(template.words),
            size=len(template.words),
            code=program,
            memory=template.memory,
            registers=template.registers,
            registers_size=template.registers_size,
            threads=template.threads,
            dsrs=template.dsrs,
            fifos=template.fifos,
            cursors=template.cursors,
            rotation=template.rotation,
            unset=template.unset,
            unset_begin=template.unset_words.start,
            unset_count=len(template.unset_words),
            num_channels=len(places),
            channel_list=self._add(np.array(places, np.int64)),
        )
        row = pk.LAYOUT(words)
        for color, place in template.channels.items():
            row.channel[color] = place
        for queue, place in template.queues.items():
            row.queue[queue] = place
        return self._add(words)

    def _head(self, spec: WaveletSpec, wafer: Wafer, programs: int, costs: np.ndarray) -> np.ndarray:
        maths = np.zeros(32, np.int64)
        for name, number in math_names().items():
            maths[number] = spec.cost_of(name)
        return pk.PROGRAM.make(
            nodes=self._add(self._node_words(wafer)),
            codes=programs,
            divide=spec.divide_constant,
            costs=self._add(costs),
            rates=self._add(_rates(spec)),
            math=self._add(maths),
            arch=2 if spec.arch == "wse2" else 3,
            unset=int(any(len(each.unset_words) for each in self.templates)),
            seed=spec.latency_seed,
            output=spec.output_latency,
            load_use=spec.load_use,
            drain=spec.drain,
            complete=spec.complete,
            branch=spec.branch,
            branch_taken=spec.branch_taken,
            float_wait=spec.float_wait,
            stride_rule=int(spec.stride_rule == "8/stride"),
            settle=spec.settle,
            fused=int(spec.fmacs_fused),
            columns=max(wafer.fabric[0], wafer.columns),
            window=spec.load_window,
            timer=spec.timer_read,
            load_wait=spec.load_wait,
            print_cost=spec.print_cost,
            rectangle=wafer.columns,
            grid=self._add(self.nodes.grid),
            swap=int(any(c.swap for c in _all_channels(wafer))),
            tracks=self._add(np.full((len(self.nodes.x), pk.TRACKS.num_words), -1, np.int64)),
        )

    def _node_words(self, wafer: Wafer) -> np.ndarray:
        nodes = self.nodes
        words = np.full((len(nodes.x), pk.NODE.num_words), -1, np.int64)
        words[:, pk.NODE.column] = nodes.x + wafer.offset[0]
        words[:, pk.NODE.row] = nodes.y + wafer.offset[1]
        words[:, pk.NODE.layout] = np.array(self.class_at, np.int64)[nodes.class_of] if len(nodes.x) else 0
        words[:, pk.NODE.x], words[:, pk.NODE.y] = nodes.x, nodes.y
        words[self.starters, pk.NODE.seat] = np.arange(len(self.starters))
        padded = np.pad(nodes.grid, 1, constant_values=-1)
        for port, (dx, dy) in enumerate(((0, 0), (0, -1), (1, 0), (0, 1), (-1, 0))):
            words[:, pk.NODE.neighbour + port] = padded[nodes.y + 1 + dy, nodes.x + 1 + dx]
        return words


def _costs(spec: WaveletSpec) -> np.ndarray:
    """Return (128,) int64: cycles per OP_ number."""
    costs = np.zeros(128, np.int64)
    for name, number in instruction_names().items():
        costs[number] = spec.cost_of(name)
    return costs


def _rates(spec: WaveletSpec) -> np.ndarray:
    words = np.zeros((isa.NUM_OPERATIONS, pk.RATE.num_words), np.int64)
    for name, number in operation_names().items():
        rate = spec.rate_of(name)
        is_product = name.startswith("fmac")
        flops = 2 if is_product else int(name.startswith(("fadd", "fsub", "fmul", "fmax")))
        words[number, : pk.RATE.reduce + 1] = rate.elements, rate.cycles, rate.reduce
        words[number, pk.RATE.two] = rate.two_sources
        words[number, pk.RATE.banks] = rate.is_by_bank
        words[number, pk.RATE.flops] = flops
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
    """Return the nodes of a wafer, the template of each class, and program -> bytes of memory that it
    uses."""
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
                    facts[program] = program_facts(source, spec.arch)
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
    """Return place -> a key that is equal for equal channel settings; each tuple of channels is looked at
    once."""
    known: dict[int, tuple[object, ...]] = {}
    found: dict[tuple[int, int], tuple[object, ...]] = {}
    for place, settings in channels.items():
        key = known.get(id(settings))
        if key is None:
            key = known[id(settings)] = _channel_key(settings)
        found[place] = key
    return found


def _ranges(program: PeProgram) -> list[tuple[int, int, int]]:
    """Return (begin, end, 1 for i16) of the variables, rising; of variables that share bytes only the
    first."""
    found: list[tuple[int, int, int]] = []
    for symbol in sorted(program.symbols, key=lambda symbol: (symbol.address, -symbol.size_bytes)):
        if symbol.size_bytes > 0 and (not found or symbol.address >= found[-1][1]):
            is_signed = int(symbol.dtype == "int16")
            found.append((symbol.address, symbol.address + symbol.size_bytes, is_signed))
    return found


def log_room(num_nodes: int) -> tuple[int, int]:
    """Return the words that a cycle may add to the log, and the words for rows that are kept aside in it
    (bands.py)."""
    rows = _LOG_ROWS * num_nodes
    chunks = -(-rows // sk.LOG_CHUNK_ROWS) + 1
    return chunks * (1 + sk.LOG_CHUNK_ROWS * sk.LOG_ROW.num_words), 1 + rows * sk.ASIDE_ROW.num_words


def build_state(spec: WaveletSpec, words: ProgramWords) -> np.ndarray:
    """Return the root state at cycle 0: (words,) int64, owned by the caller; unused pages take no memory."""
    count = len(words.nodes.x)
    actors = 2 * count
    fan = 1 << sk.FAN_SHIFT
    num_words = -(-actors // fan)
    # The search for the next mark may look one word too far, and all bits of a top mark may be set.
    num_tops = num_words // fan**2 + 2
    num_groups = num_tops * fan
    bands = min(sk.MOST_BANDS, max(1, -(-count // sk.NODES_OF_A_BAND)))
    trail = 1 << (-(-spec.trail // bands) - 1).bit_length()
    wheel = sk.WAFER.num_words + bands * sk.BAND.num_words
    wheel += -wheel % sk.LINE_WORDS
    groups = wheel + sk.SLOTS * num_words
    tops = groups + sk.SLOTS * num_groups
    nodes = tops + sk.SLOTS * num_tops
    seats = nodes + count
    trails = seats + count
    seen = trails + sk.STAGE.num_words * trail * bands
    heap = seen + sk.SEEN_WORDS
    heap += -heap % sk.LINE_WORDS
    sizes = np.array([len(template.words) for template in words.templates], np.int64)
    demand = int(sizes[words.nodes.class_of].sum()) if count else 0
    total = heap + demand + FREE_WORDS + sum(log_room(count))
    if total > MAX_STATE_WORDS:
        raise TargetError("the machine's state would take over 64 GiB; use fewer PEs or smaller programs")
    s = zero_words(total)
    s[: sk.WAFER.num_words] = sk.WAFER.make(
        used=heap,
        nodes=nodes,
        nodes_count=count,
        seats=seats,
        wheel=wheel,
        wheel_groups=groups,
        wheel_tops=tops,
        wheel_end=num_words,
        wheel_tops_count=num_tops,
        host_at=sk.FAR,
        closed_at=-1,
        bands=sk.WAFER.num_words,
        bands_count=bands,
        # Every seat in the first band, until they are sorted.
        band_shift=62,
        trail_rows=trail,
        seen=seen,
        final=-1,
        now=-1,
        demand=demand,
        **_latencies(spec),
    )
    for band in range(bands):
        sk.BAND(s, sk.WAFER.num_words, band).trail = trails + sk.STAGE.num_words * trail * band
    _seat_starters(s, words.starters)
    return s


def _latencies(spec: WaveletSpec) -> dict[str, int]:
    """Return the cycles of words, tasks and the host, by field of the root record; a run can change them."""
    return {
        "hop": spec.hop,
        "ramp": spec.ramp,
        "turn": spec.turn,
        "link": round(spec.link_interval * 1000),
        "task_start": spec.task_start,
        "host_word": spec.host_word,
        "host_setup": spec.host_setup,
        "host_launch": spec.host_launch,
    }


def _starters(nodes: Nodes, templates: Sequence[ClassTemplate]) -> np.ndarray:
    """Return (k,) int64: nodes whose programs have active tasks or closed colors; they run from cycle 0
    on."""
    starts = [
        t.program >= 0 and bool(sk.BLOCK(t.words).active or sk.BLOCK(t.words).teardown) for t in templates
    ]
    return np.flatnonzero(np.array(starts, bool)[nodes.class_of])


def _seat_starters(s: np.ndarray, starters: np.ndarray) -> None:
    """Give the nodes that start their seats, and wake them in cycle 0; all others sleep."""
    seats = np.arange(len(starters))
    wafer = sk.WAFER(s)
    s[wafer.seats + seats] = -1 - starters
    wafer.seats_count = len(starters)
    wafer.slots[0] = len(starters) > 0
    places = 2 * seats + 1
    # Slot 0 of the words, and the first of each kind of marks.
    for level, step in ((wafer.wheel, sk.SLOTS), (wafer.wheel_groups, 1), (wafer.wheel_tops, 1)):
        np.bitwise_or.at(s, level + (places >> sk.FAN_SHIFT) * step, 1 << (places & sk.FAN_MASK))
        places = np.unique(places >> sk.FAN_SHIFT)
