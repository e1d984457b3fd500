"""Interpret a container's blobs: weights, register commands, tasks, plans for cores, relocation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.regcmd.area import Area
from npuviz.formats.rk3588.regcmd.stream import WORD_BYTES
from npuviz.formats.rk3588.registers import Word, registers
from npuviz.formats.rk3588.rknn.model import (
    PLAN_SLOTS,
    REGCMD_KIND,
    TASK_KIND,
    Rknn,
    RknnGraph,
    RknnTensor,
)
from npuviz.formats.rk3588.task_descriptors import Task, parse_tasks

CORES = (1, 2, 3)
_PC_BASE = (0x0101, 0x0010)


@dataclass(frozen=True, slots=True)
class Plan:
    """One of the alternative ways to run a graph.

    `tasks` are the numbers of the tasks in the table, one range a core; `nodes` gives for each core
    the (node, first task, tasks) in order.
    """

    cores: int
    tasks: tuple[range, ...]
    nodes: tuple[tuple[tuple[int, int, int], ...], ...]


def blob_of(model: Rknn, tensor: RknnTensor) -> bytes:
    """Return the data of a tensor. Raises FormatError if it names a blob that is not there."""
    if not 0 <= tensor.blob < len(model.blobs):
        raise FormatError(
            model.file,
            field=f"tensor {tensor.name!r}, blob",
            expected=f"0 to {len(model.blobs) - 1}",
            found=str(tensor.blob),
        )
    return model.blobs[tensor.blob]


def _only(model: Rknn, graph: RknnGraph, kind: int, name: str) -> tuple[bytes, int]:
    found = [tensor for tensor in graph.tensors if tensor.kind_code == kind]
    if len(found) != 1:
        raise FormatError(
            model.file, field="tensors", expected=f"one tensor of kind {name}", found=str(len(found))
        )
    data = blob_of(model, found[0])
    at = model.blob_offsets[found[0].blob] if model.blob_offsets else 0
    return data, at


def regcmd_area(model: Rknn, graph: RknnGraph) -> Area:
    """Return the register commands as they are in the file, from address 0 on.

    Raises FormatError when the graph has none.
    """
    data, at = _only(model, graph, REGCMD_KIND, "regcmd")
    return Area.of_bytes(data, file=model.file, at=at)


def task_table(model: Rknn, graph: RknnGraph) -> tuple[Task, ...]:
    """Return the tasks of all plans; addresses count from the start of the regcmd area.

    Raises FormatError when the graph has none or the table is wrong.
    """
    data, at = _only(model, graph, TASK_KIND, "task")
    return parse_tasks(data, file=model.file, at=at)


def plans(model: Rknn, graph: RknnGraph) -> tuple[Plan, ...]:
    """Return the plans for one, two and three cores, as far as the table has them.

    Within a plan core 0 has all its tasks first, then core 1, then core 2; within a core the nodes
    follow each other. Files without the number of tasks of each node have one plan for one core with
    all tasks. Raises FormatError when counts, starts and table contradict each other.
    """
    total = len(task_table(model, graph))
    counted = [(number, node) for number, node in enumerate(graph.nodes) if node.task_counts]
    if not counted or not graph.plan_starts:
        return (Plan(1, (range(total),), ((),)),) if total else ()
    for _, node in counted:
        if len(node.task_counts) != PLAN_SLOTS or min(node.task_counts) < 0:
            raise FormatError(
                model.file,
                field=f"node {node.name!r}, task_counts",
                expected=f"{PLAN_SLOTS} numbers from 0 on",
                found=str(node.task_counts),
            )
    found: list[Plan] = []
    slot = 0
    for cores, start in zip(CORES, graph.plan_starts, strict=False):
        ranges: list[range] = []
        nodes: list[tuple[tuple[int, int, int], ...]] = []
        for core in range(cores):
            first = ranges[-1].stop if ranges else start
            place = first
            entries: list[tuple[int, int, int]] = []
            for number, node in counted:
                count = node.task_counts[slot + core]
                if count:
                    entries.append((number, place, count))
                place += count
            ranges.append(range(first, place))
            nodes.append(tuple(entries))
        slot += cores
        if start < 0 or ranges[-1].stop > total:
            raise FormatError(
                model.file,
                field=f"plan for {cores} cores",
                expected=f"tasks 0 to {total - 1} of the table",
                found=f"tasks {start} to {ranges[-1].stop - 1}",
            )
        if any(len(each) for each in ranges):
            found.append(Plan(cores, tuple(ranges), tuple(nodes)))
    return tuple(found)


def relocate(model: Rknn, graph: RknnGraph, addresses: Mapping[str, int], base: int) -> Area:
    """Return the register commands as the chip reads them when the area lies at byte address `base`.

    `addresses` gives the byte address of each tensor that a relocation names. Each word of a
    relocation gets that address plus its offset; next addresses in tails get `base` added. The area
    is new; the model is not changed. Raises FormatError for words outside of the area, words that
    write no address, missing addresses and addresses over 32 bits.
    """
    area = regcmd_area(model, graph)
    words = area.words.copy()
    for entry in graph.relocations:
        where = f"relocation of {entry.tensor!r} at word {entry.word}"
        if entry.word >= len(words):
            raise area.error(where, f"a word of the area of {len(words)} words", str(entry.word))
        unit = _address_unit(area, entry.word, where)
        if entry.tensor not in addresses:
            raise area.error(where, "an address for the tensor", "none", entry.word)
        words[entry.word] = _placed(area, entry.word, addresses[entry.tensor] + entry.offset, unit, where)
    for index in _links(area.words):
        words[index] = _placed(area, index, (int(words[index]) >> 16 & 0xFFFFFFFF) + base, 16, "next address")
    return Area(words, address=base, file=area.file, at=area.at)


def _links(words: np.ndarray) -> list[int]:
    target, offset = _PC_BASE
    hits = (words >> np.uint64(48) == target) & (words & np.uint64(0xFFFF) == offset)
    return [int(index) for index in np.flatnonzero(hits)]


def _address_unit(area: Area, index: int, where: str) -> int:
    """Return the number of bytes of which an address in this word's register must be a multiple."""
    word = Word.unpacked(int(area.words[index]))
    register = registers().find(word.target, word.offset, file=area.file, at=area.at + WORD_BYTES * index)
    kinds = {field.kind for field in register.fields}
    if "address" in kinds:
        return 1
    if "address16" in kinds:
        return 16
    found = f"{register.block} {register.name}"
    raise area.error(where, "a register that holds an address", found, index)


def _placed(area: Area, index: int, value: int, unit: int, where: str) -> int:
    """Return a word of the area with another value, packed."""
    if not 0 <= value < 1 << 32 or value % unit:
        expected = f"an address below 2^32, a multiple of {unit}"
        raise area.error(where, expected, f"{value:#x}", index)
    return replace(Word.unpacked(int(area.words[index])), value=value).packed
