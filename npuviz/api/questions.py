"""Answers of the public API that the text debugger does not have."""

from typing import TypedDict

from npuviz.debug.console.answer import Answer
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.trace.reader import TraceReader
from npuviz.workbench.causes.run import run_causes
from npuviz.workbench.compare import compare


class PictureArguments(TypedDict, total=False):
    """How a picture looks: ids of panels ("timeline"), pixels, and "dark" or "light"."""

    panels: tuple[str, ...]
    size: tuple[int, int]
    theme: str


def tensor_answer(program: Program, description: MachineDescription) -> Answer:
    """Tensors of a program and their places in large memories."""
    memories = {memory.id: memory.name for memory in description.memories}
    places = {place.tensor: place for place in program.memory_map.allocations}
    rows = tuple(
        (
            tensor.name,
            tensor.kind,
            list(tensor.shape),
            tensor.dtype,
            *((memories[place.memory], f"{place.address:#x}", place.size_bytes) if place else (None,) * 3),
        )
        for tensor in program.graph.tensors
        for place in (places.get(tensor.id),)
    )
    columns = ("tensor", "kind", "shape", "dtype", "memory", "address", "bytes")
    return Answer(columns=columns, rows=rows, name="tensors")


def comparison_answer(a: TraceReader, b: TraceReader) -> Answer:
    """Where two traces first differ, and the units that work for longer or shorter in B."""
    found = compare(a, b)
    pairs = {
        "is_equal": found.is_equal,
        "cycles_a": found.end_a,
        "cycles_b": found.end_b,
        "first_difference": found.first_divergence,
        "track": found.track or None,
        "only_a": list(found.only_a) or None,
        "only_b": list(found.only_b) or None,
    }
    rows = tuple((unit.name, unit.busy_a, unit.busy_b, unit.busy_b - unit.busy_a) for unit in found.units)
    return Answer(pairs, ("track", "busy_a", "busy_b", "change"), rows, "tracks")


MOST_PARTS = 8


def explanation_answer(trace: TraceReader, program: Program | None) -> Answer:
    """Cycles of the critical path by cause, and its costliest parts with what they are in words."""
    found = run_causes(trace, program)
    pairs = {"cycles": found.cycles} | {cause: cycles for cause, cycles in found.by_cause.items() if cycles}
    rows = tuple(
        (
            cost.cause,
            cost.name,
            cost.cycles,
            round(cost.cycles / max(found.cycles, 1), 4),
            cost.text(found.cycles),
        )
        for cost in found.costs[:MOST_PARTS]
    )
    return Answer(pairs, ("cause", "units", "cycles", "share", "text"), rows, "parts")
