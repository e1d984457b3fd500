"""Register command dumps and .rknn files as programs: the registers are all that is executed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_head
from npuviz.formats.rk3588.regcmd.area import Area, Stream, read_regcmd
from npuviz.formats.rk3588.regcmd.shadow import effective_registers
from npuviz.formats.rk3588.rknn.reader import is_rknn
from npuviz.program.graph import Graph
from npuviz.program.program import Note
from npuviz.targets.rk3588.compiler.compiled import Compiled
from npuviz.targets.rk3588.load.areas import (
    ADDRESS_END,
    areas_of,
    buffers_of,
    free_place,
    stream_buffer,
)
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables, Task
from npuviz.targets.rk3588.task.cost import load_of
from npuviz.targets.rk3588.task.work import ENABLE_DPU, ENABLE_PPU, decode_work

TASK_LIMIT = 16384
"""Assumed: no model has more tasks in a plan; each keeps all its registers in memory."""
FIRST_PLACE = 0x1000_0000
"""Where streams are put that do not say where they lie."""
DPU_INTERRUPTS, PPU_INTERRUPTS = 0x300, 0xC00
MOST_NOTES = 8


def load_file(path: Path, spec: RknnSpec) -> Compiled:
    """A dump of register commands (binary or text) or an .rknn file. Raises FormatError."""
    if path.suffix.lower() == ".rknn" or is_rknn(read_head(path, 8)):
        from npuviz.targets.rk3588.load.rknn import load_rknn

        return load_rknn(path, spec)
    return _load_streams(path, spec)


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A stream with where it runs; mask None: by its enables."""

    stream: Stream
    core: int
    job: int
    node: int = -1
    interrupt_mask: int | None = None


def make_tasks(placed: Sequence[PlacedTask]) -> tuple[Task, ...]:
    """Tasks sorted as tables want them, with the registers that each core's groups hold."""
    order = sorted(range(len(placed)), key=lambda n: (placed[n].job, placed[n].core))
    by_core: dict[int, list[int]] = {}
    for number in order:
        by_core.setdefault(placed[number].core, []).append(number)
    registers = {
        number: found
        for numbers in by_core.values()
        for number, found in zip(numbers, effective_registers(placed[n].stream for n in numbers), strict=True)
    }
    tasks: list[Task] = []
    for index, number in enumerate(order):
        each, held = placed[number], registers[number]
        enables = each.stream.tail.enables
        mask = each.interrupt_mask
        tasks.append(
            Task(
                index=index,
                core=each.core,
                job=each.job,
                stream=each.stream.address,
                words=each.stream.packed(),
                registers=held.values,
                changed=held.written,
                work=decode_work(held.values, enables),
                enable_mask=enables,
                interrupt_mask=interrupts_of(enables) if mask is None else mask,
                node=each.node,
            )
        )
    return tuple(tasks)


def interrupts_of(enables: int) -> int:
    """The interrupts that a driver waits for: those of the last block. Ref: MTX, ALLB."""
    if enables & ENABLE_PPU:
        return PPU_INTERRUPTS
    return DPU_INTERRUPTS if enables & ENABLE_DPU else 0


# --- dumps -----------------------------------------------------------------------------------------


def _load_streams(path: Path, spec: RknnSpec) -> Compiled:
    area = read_regcmd(path)
    streams = area.streams()
    if not streams:
        raise FormatError(path, field="register commands", expected="at least one stream", found="none")
    if len(streams) > TASK_LIMIT:
        raise FormatError(
            path, field="register commands", expected=f"at most {TASK_LIMIT} streams", found=str(len(streams))
        )
    base = _base_of(streams, 8 * len(area.words))
    if base is not None:
        streams = _moved(area, base)
    placed, findings = _chained(streams)
    tasks = make_tasks(placed)
    buffers, problems = buffers_of(each for task in tasks for each in areas_of(task, load_of(task, spec)))
    if base is None:
        place = free_place(buffers, 8 * len(area.words), FIRST_PLACE)
        tasks = tuple(replace(task, stream=task.stream + place) for task in tasks)
    else:
        place = base
    buffers.append(stream_buffer("register commands", place, area.words))
    buffers.sort(key=lambda buffer: buffer.address)
    graph = Graph(path.name.split(".")[0], (), (), (), ())
    tables = Tables(spec.cores, tasks, tuple(buffers), max(task.job for task in tasks) + 1)
    return Compiled(graph, tables, notes=_notes([*findings, *problems], base is not None))


def _notes(findings: Sequence[str], is_placed: bool) -> tuple[Note, ...]:
    text = "inputs, weights and operands are zeros: a stream does not say what lies in memory"
    notes = [Note("info", "zeros", text)]
    if not is_placed:
        text = "the file does not say where its streams lie: a free place in memory was taken"
        notes.append(Note("info", "assumed", text))
    notes += [Note("warning", "stream", finding) for finding in findings[:MOST_NOTES]]
    if len(findings) > MOST_NOTES:
        text = f"{len(findings) - MOST_NOTES} more findings about streams are not shown"
        notes.append(Note("warning", "stream", text))
    return tuple(notes)


def _base_of(streams: Sequence[Stream], size: int) -> int | None:
    """Address of the dump's first byte: where the tails lead if each leads to the stream behind it."""
    for stream, behind in pairwise(streams):
        target = stream.tail.next_address
        if target is not None:
            base = target - behind.address
            return base if base >= 0 and base % 16 == 0 and base + size <= ADDRESS_END else None
    return None


def _moved(area: Area, base: int) -> tuple[Stream, ...]:
    return Area(area.words, address=base, file=area.file, at=area.at).streams()


def _chained(streams: Sequence[Stream]) -> tuple[list[PlacedTask], list[str]]:
    """Streams in the order in which tails lead to them, a job for each chain; and what breaks the rules.

    A chain that leads back is run once: how often, the driver says with the number of tasks.
    """
    by_address = {stream.address: number for number, stream in enumerate(streams)}
    following: dict[int, int] = {}
    findings: list[str] = []
    for number, stream in enumerate(streams):
        target = stream.tail.next_address
        if target is None:
            continue
        where = f"stream {number} at {stream.address:#x}"
        if target not in by_address:
            findings.append(
                f"{where} leads to {target:#x}, where the file has no stream: the chain ends there"
            )
            continue
        following[number] = by_address[target]
        amount = streams[by_address[target]].amount
        if stream.tail.next_amount != amount:
            findings.append(f"{where} announces amount {stream.tail.next_amount}, the next has {amount}")
    heads = [number for number in range(len(streams)) if number not in set(following.values())]
    placed: list[PlacedTask] = []
    seen: set[int] = set()
    job = 0
    for head in [*heads, *range(len(streams))]:
        if head in seen:
            continue
        number: int | None = head
        while number is not None and number not in seen:
            seen.add(number)
            placed.append(PlacedTask(streams[number], 0, job))
            number = following.get(number)
        if number is not None:
            findings.append(f"the chain of stream {head} leads back to stream {number}: it is run once")
        job += 1
    return placed, findings
