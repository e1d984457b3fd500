"""Make tables about one processing element: state, tasks, operations, queues, switches, variables."""

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.instruction import DetailTable
from npuviz.sim.fabric import PORT_NAMES
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.description import queue_name
from npuviz.targets.wavelet.view.main_threads import WAITS, operation_name
from npuviz.targets.wavelet.view.observe import Observer, held_words, queue_texts
from npuviz.targets.wavelet.view.variables import SHOWN_VALUES, joined

_KINDS = {isa.ID_LOCAL: "local", isa.ID_DATA: "data", isa.ID_CONTROL: "control"}


def pe_tables(observer: Observer, engine: Engine, node: int) -> tuple[DetailTable, ...]:
    """Return all tables about a node now, without empty ones."""
    found = [_channels(observer, node)]
    if observer.program_of(node) >= 0:
        found = [
            _state(observer, engine, node), _tasks(observer, engine, node), _operations(observer, node),
            _queues(observer, node), *found, _variables(observer, engine, node),
        ]  # fmt: skip
    return tuple(table for table in found if table.rows)


def _state(observer: Observer, engine: Engine, node: int) -> DetailTable:
    block = observer.block_row(node)
    program = engine.wafer.programs[observer.program_of(node)]
    rows = [
        ("program", program.name, ""),
        ("now", observer.main_state(-1, node).status, ""),
        ("cycles at work", str(int(block.busy)), "cycles"),
        ("tasks run", str(int(block.task_count)), ""),
        ("words sent", str(int(block.sequence)), "wavelets"),
        ("memory in use", str(int(block.bytes)), "bytes"),
    ]
    return DetailTable("PE", ("Name", "Value", "Type"), tuple(rows))


def _tasks(observer: Observer, engine: Engine, node: int) -> DetailTable:
    block = observer.block_row(node)
    active, blocked, high = int(block.active), int(block.blocked), int(block.high)
    rows: list[tuple[str, str, str]] = []
    for task in engine.wafer.programs[observer.program_of(node)].tasks:
        words = [
            word
            for word, mask in (("active", active), ("blocked", blocked), ("high priority", high))
            if task.id < 63 and mask >> task.id & 1 and (word != "active" or task.kind == isa.ID_LOCAL)
        ]
        rows.append((task.name, ", ".join(words) or "ready", f"{_KINDS.get(task.kind, '')} task {task.id}"))
    return DetailTable("Tasks", ("Name", "Value", "Type"), tuple(rows))


def _operations(observer: Observer, node: int) -> DetailTable:
    mask = int(observer.block_row(node).threads)
    rows: list[tuple[str, str, str]] = []
    for number in range(sk.NUM_THREADS):
        if mask >> number & 1:
            thread = observer.thread(node, number)
            wait = WAITS.get(observer.wait(node, number), ("at work", ""))[0]
            left, total = int(thread.left), int(thread.total)
            name = "main thread" if number == sk.MAIN else f"microthread {number}"
            rows.append((name, f"{wait}, {total - left} of {total}", operation_name(int(thread.op))))
    return DetailTable("Operations", ("Name", "Value", "Type"), tuple(rows))


def _queues(observer: Observer, node: int) -> DetailTable:
    rows: list[tuple[str, str, str]] = []
    for number in range(pk.NUM_QUEUES):
        if observer.layout(node).queue[number]:
            queue = observer.queue(node, number)
            texts = ", ".join(queue_texts(queue)[:4])
            rows.append((queue_name(number), texts or "empty", f"color {int(queue.color)}"))
    return DetailTable("Input queues", ("Name", "Value", "Type"), tuple(rows))


def _ports(mask: int) -> str:
    return "+".join(name for port, name in enumerate(PORT_NAMES) if mask >> port & 1) or "none"


def _channels(observer: Observer, node: int) -> DetailTable:
    rows: list[tuple[str, str, str]] = []
    for color, channel in observer.channels(node):
        if not channel.routed:
            continue
        position = int(channel.position)
        routes = int(channel.positions[position])
        text = f"{_ports(routes & 0x1F)} to {_ports(routes >> 8 & 0x1F)}"
        notes = [f"position {position}"] if (channel.positions[1:] >> 16).any() else []
        notes += ["teardown"] if channel.closed else []
        notes += [f"{held_words(channel)} words"] if channel.held else []
        rows.append((f"color {color}", text, ", ".join(notes)))
    return DetailTable("Routes", ("Name", "Value", "Type"), tuple(rows))


def value_text(data: bytes, dtype: str, count: int) -> str:
    """Return the first values of an array as text."""
    try:
        kind = numpy_dtype(dtype)
    except ValueError:
        return ""
    size = min(count, SHOWN_VALUES, len(data) // kind.itemsize)
    values = np.frombuffer(data[: size * kind.itemsize], kind).tolist()
    texts = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
    return joined(texts, count)


def _variables(observer: Observer, engine: Engine, node: int) -> DetailTable:
    data = observer.memory_words(node).view(np.uint8)
    rows: list[tuple[str, str, str]] = []
    for symbol in engine.wafer.programs[observer.program_of(node)].symbols:
        part = data[symbol.address : symbol.address + symbol.size_bytes].tobytes()
        rows.append(
            (symbol.name, value_text(part, symbol.dtype, int(np.prod(symbol.shape or (1,)))), symbol.type)
        )
    return DetailTable("Variables", ("Name", "Value", "Type"), tuple(rows))
