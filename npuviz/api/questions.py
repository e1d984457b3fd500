"""Compute answers of the public API that the text debugger does not have."""

from typing import Any, TypedDict

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.debug.causes import Cause, recorded_why
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.causes import cause_row, chain_answer, losses_answer
from npuviz.onnx.check.rounding import RoundingResult
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.description import MachineDescription
from npuviz.trace.comparison import compare
from npuviz.trace.reader import TraceReader
from npuviz.trace.unit_times import tracks_of_units, unit_label
from npuviz.workbench.accuracy.rows import accuracy_rows
from npuviz.workbench.causes.run import run_causes


class PictureArguments(TypedDict, total=False):
    """How a picture looks: ids of panels ("timeline"), pixels, and "dark" or "light"."""

    panels: tuple[str, ...]
    size: tuple[int, int]
    theme: str


def tensor_answer(program: Program, description: MachineDescription) -> Answer:
    """List the tensors of a program and their places in large memories."""
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


def recorded_why_answer(trace: TraceReader, unit: str, cycle: int | None, until: int | None) -> Answer:
    """Answer `why` from a trace without a machine.
    Raises UsageError for a unit that the trace does not have."""
    schema = trace.schema
    names = {unit_label(schema, each): each for each in tracks_of_units(schema)}
    if unit not in names:
        raise UsageError(f"no unit {echo(unit)!r}; known: {', '.join(list(names)[:8])}")
    labels = {number: name for name, number in names.items()}

    def row(cause: Cause) -> tuple[Any, ...]:
        there = schema.tracks[cause.track].name if cause.track >= 0 else "the run"
        return cause_row(cause, labels.get(cause.unit, there), cause.detail)

    at = cycle if cycle is not None else max(trace.end_cycle - 1, 0)
    if until is not None:
        return losses_answer(trace, (names[unit], unit), (at, until), row)
    chain = recorded_why(trace, names[unit], at)
    if not chain:
        note = "it works, has nothing left to do, or nothing is recorded"
        return Answer({"unit": unit, "cycle": at}, note=note)
    return chain_answer(chain, unit, at, row)


def accuracy_answer(program: Program, check: CheckResult) -> Answer:
    """List the errors of the compared tensors along the depth of the model, with both verdicts."""
    whole = check.end_to_end
    pairs = {
        "is_passed": check.is_passed,
        "tensors": check.num_tensors,
        "not_compared": sum(map(len, check.not_compared.values())),
        "outputs_error": whole.outputs_error if whole is not None else None,
        "allowed": whole.share if whole is not None else None,
        "wrong_operators": check.num_failed,
        "first_wrong": check.first_divergence or None,
        "first_instruction": check.first_instruction if check.first_instruction >= 0 else None,
    }
    found: list[tuple[Any, ...]] = []
    for row in accuracy_rows(program.graph, check):
        numbers = [
            (spread.largest, spread.sqnr, spread.cosine) if spread is not None else (None,) * 3
            for spread in (row.errors.whole, row.errors.own)
        ]
        found.append((row.depth, row.label, row.name, *numbers[0], *numbers[1], row.errors.allowed))
    columns = ("depth", "operator", "tensor", "error", "sqnr_db", "cosine", "own_error", "own_sqnr_db",
               "own_cosine", "allowed")  # fmt: skip
    return Answer(pairs, columns, tuple(found), "tensors")


def rounding_answer(program: Program, found: RoundingResult) -> Answer:
    """List tensors rounded to narrower types, first the one that changes the outputs most."""
    tensors = program.graph.tensors
    rows = tuple(
        (tensors[row.tensor].name, row.kind, row.dtype, row.own.largest, row.own.sqnr, row.outputs)
        for row in sorted(found.rows, key=lambda row: -row.outputs)
    )
    columns = ("tensor", "kind", "type", "error", "sqnr_db", "outputs_error")
    pairs = {"together": dict(found.together), "left_out": list(found.left_out)}
    return Answer(pairs, columns, rows, "tensors")


def comparison_answer(a: TraceReader, b: TraceReader) -> Answer:
    """Compare two traces: where they first differ, and the units that work longer or shorter in B."""
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
    """Break down the critical path: cycles by cause, and its costliest parts described in words."""
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
