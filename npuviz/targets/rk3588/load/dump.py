"""Load a dump of register commands as a program: its registers are all that is executed."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.regcmd.area import Area, read_regcmd
from npuviz.formats.rk3588.regcmd.stream import Stream
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
from npuviz.targets.rk3588.load.placed_tasks import FIRST_PLACE, TASK_LIMIT, PlacedTask, make_tasks
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables
from npuviz.targets.rk3588.task.cost import cost_of

MOST_NOTES = 8


def load_dump(path: Path, spec: RknnSpec) -> Compiled:
    """Load the streams of a dump, binary or text. Raises FormatError."""
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
    buffers, problems = buffers_of(each for task in tasks for each in areas_of(task, cost_of(task, spec)))
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
    """Return the address of the dump's first byte, given that the first tail with an address leads to the
    next stream.

    None if no tail has an address, or the result is impossible.
    """
    for stream, behind in pairwise(streams):
        target = stream.tail.next_address
        if target is not None:
            base = target - behind.address
            return base if base >= 0 and base % 16 == 0 and base + size <= ADDRESS_END else None
    return None


def _moved(area: Area, base: int) -> tuple[Stream, ...]:
    return Area(area.words, address=base, file=area.file, at=area.at).streams()


def _chained(streams: Sequence[Stream]) -> tuple[list[PlacedTask], list[str]]:
    """Return streams in the order in which tails lead to them, a job for each chain, and sentences about
    broken rules.

    A chain that leads back is run once: only the driver knows how often, by the number of tasks.
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
