"""Finds and runs the benchmarks of a checkout, and prints them as one table.

A benchmark is a file `benchmarks/bench_<name>.py` with a docstring and a function
`measure(progress) -> Sequence[Measurement]`.
"""

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.base.progress import NoProgress, Progress

FOLDER = Path(__file__).resolve().parent.parent.parent / "benchmarks"
PREFIX = "bench_"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of the table.

    value  what was measured, in `measure` ("s", "ms", "cycles", "MiB", ...)
    goal   what it should reach, None if there is none; `relation` says on which side
    note   how it was measured, in a few words
    """

    name: str
    value: float
    measure: str
    goal: float | None = None
    relation: Literal["at most", "at least", "exactly"] = "at most"
    note: str = ""

    @property
    def is_reached(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if self.goal is None:
            return None
        if self.relation == "exactly":
            return self.value == self.goal
        return self.value <= self.goal if self.relation == "at most" else self.value >= self.goal


Measure = Callable[[Progress], Sequence[Measurement]]


def benchmark_names(folder: Path = FOLDER) -> list[str]:
    """Names of the benchmarks of this checkout, sorted."""
    return sorted(path.stem.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*.py"))


def run_benchmarks(
    name: str = "", progress: Progress | None = None, folder: Path = FOLDER
) -> list[dict[str, Any]]:
    """Run one benchmark, or all. A benchmark that cannot run here gives a row that says why.

    Raises UsageError for an unknown name, or when this is no checkout.
    """
    known = benchmark_names(folder)
    if not known:
        raise UsageError(f"{folder}: no benchmarks; they come with the source, not with the installed package")
    if name and name not in known:
        raise UsageError(f"unknown benchmark {name!r}; known: {', '.join(known)}")
    chosen = [name] if name else known
    watcher = progress or NoProgress()
    rows: list[dict[str, Any]] = []
    for index, each in enumerate(chosen):
        watcher.report(index / len(chosen), each)
        try:
            rows += [_row(each, measured) for measured in _load(folder, each)(watcher)]
        except NpuvizError as error:
            rows.append({"benchmark": each, "name": each, "value": None, "note": f"cannot run: {error}"})
    return rows


def table_text(rows: Sequence[dict[str, Any]]) -> str:
    """The table as text."""
    lines: list[tuple[str, str, str, str]] = [("what", "measured", "goal", "")]
    for row in rows:
        if row["value"] is None:
            lines.append((row["name"], "-", "", row["note"]))
            continue
        goal = f"{row['relation']} {_number(row['goal'])}" if row["goal"] is not None else ""
        verdict = {True: "reached", False: "MISSED", None: ""}[row["reached"]]
        note = "  ".join(part for part in (verdict, row["note"]) if part)
        lines.append((row["name"], f"{_number(row['value'])} {row['measure']}", goal, note))
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip() for a, b, c, d in lines
    )


def _row(benchmark: str, measured: Measurement) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "name": measured.name,
        "value": measured.value if math.isfinite(measured.value) else None,
        "measure": measured.measure,
        "goal": measured.goal,
        "relation": measured.relation,
        "reached": measured.is_reached,
        "note": measured.note,
    }


def _load(folder: Path, name: str) -> Measure:
    path = folder / f"{PREFIX}{name}.py"
    spec = importlib.util.spec_from_file_location(f"npuviz_benchmark_{name}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.measure


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
