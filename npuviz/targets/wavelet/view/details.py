"""Tables about one processing element: state, tasks, operations, queues, switches, variables."""

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.instruction import DetailTable
from npuviz.sim.fabric import PORT_NAMES
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.description import queue_name
from npuviz.targets.wavelet.view.observe import WAITS, Observer, held_words, operation_name, queue_texts
from npuviz.targets.wavelet.view.variables import SHOWN_VALUES, joined

_KINDS = {isa.ID_LOCAL: "local", isa.ID_DATA: "data", isa.ID_CONTROL: "control"}


def pe_tables(observer: Observer, engine: Engine, node: int) -> tuple[DetailTable, ...]:
    """Everything about a node now."""
    found = [_channels(observer, node)]
    if observer.program_of(node) >= 0:
        found = [
            _state(observer, engine, node), _tasks(observer, engine, node), _operations(observer, node),
            _queues(observer, node), *found, _variables(observer, engine, node),
        ]  # fmt: skip
    return tuple(table for table in found if table.rows)


def _state(observer: Observer, engine: Engine, node: int) -> DetailTable:
    block = observer.block_words(node)
    program = engine.wafer.programs[observer.program_of(node)]
    rows = [
        ("program", program.name, ""),
        ("now", observer.main_state(-1, node).status, ""),
        ("cycles at work", str(int(block[sk.B_BUSY])), "cycles"),
        ("tasks run", str(int(block[sk.B_TASK_COUNT])), ""),
        ("words sent", str(int(block[sk.B_SEQUENCE])), "wavelets"),
        ("memory in use", str(int(block[sk.B_BYTES])), "bytes"),
    ]
    return DetailTable("PE", ("Name", "Value", "Type"), tuple(rows))


def _tasks(observer: Observer, engine: Engine, node: int) -> DetailTable:
    block = observer.block_words(node)
    active, blocked, high = (int(block[w]) for w in (sk.B_ACTIVE, sk.B_BLOCKED, sk.B_HIGH))
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
    mask = int(observer.block_words(node)[sk.B_THREADS])
    rows: list[tuple[str, str, str]] = []
    for number in range(sk.NUM_THREADS):
        if mask >> number & 1:
            thread = observer.thread(node, number)
            wait = WAITS.get(observer.wait(node, number), ("at work", ""))[0]
            left, total = int(thread[sk.T_LEFT]), int(thread[sk.T_TOTAL])
            name = "main thread" if number == sk.MAIN else f"microthread {number}"
            rows.append((name, f"{wait}, {total - left} of {total}", operation_name(int(thread[sk.T_OP]))))
    return DetailTable("Operations", ("Name", "Value", "Type"), tuple(rows))


def _queues(observer: Observer, node: int) -> DetailTable:
    rows: list[tuple[str, str, str]] = []
    for number in range(pk.NUM_QUEUES):
        if observer.class_word(node, pk.L_QUEUE + number):
            words = observer.queue(node, number)
            texts = ", ".join(queue_texts(words)[:4])
            rows.append((queue_name(number), texts or "empty", f"color {int(words[sk.Q_COLOR])}"))
    return DetailTable("Input queues", ("Name", "Value", "Type"), tuple(rows))


def _ports(mask: int) -> str:
    return "+".join(name for port, name in enumerate(PORT_NAMES) if mask >> port & 1) or "none"


def _channels(observer: Observer, node: int) -> DetailTable:
    rows: list[tuple[str, str, str]] = []
    for color, words in observer.channels(node):
        if not words[sk.C_ROUTED]:
            continue
        position = int(words[sk.C_POSITION])
        routes = int(words[sk.C_POSITIONS + position])
        text = f"{_ports(routes & 0x1F)} to {_ports(routes >> 8 & 0x1F)}"
        notes = (
            [f"position {position}"] if (words[sk.C_POSITIONS + 1 : sk.C_POSITIONS + 4] >> 16).any() else []
        )
        notes += ["teardown"] if words[sk.C_CLOSED] else []
        notes += [f"{held_words(words)} words"] if words[sk.C_HELD] else []
        rows.append((f"color {color}", text, ", ".join(notes)))
    return DetailTable("Routes", ("Name", "Value", "Type"), tuple(rows))


def value_text(data: bytes, dtype: str, count: int) -> str:
    """The first values of an array for people."""
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
