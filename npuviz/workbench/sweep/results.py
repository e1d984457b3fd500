"""The table of a sweep: a row per run, in a Parquet file with axes, columns and objectives as metadata."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.workbench.sweep.plan import Scalar, SweepPlan, SweepRun
from npuviz.workbench.sweep.values import evaluate, metric

RESULTS_NAME = "results.parquet"
_METADATA = b"npuviz.sweep"
_VERSION = 1
MAX_ROWS = 1_000_000

DONE = "done"
FAILED = "failed"  # npuviz refused the run, or the chip broke: another try would end the same way
BROKEN = "broken"  # the worker died or npuviz has a bug: tried again when the sweep is resumed


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run. `error` is one line, "" for `DONE`; `is_usage`: the error is in the plan."""

    status: str
    summary: dict[str, Any]
    error: str = ""
    is_usage: bool = False


@dataclass(frozen=True, slots=True)
class SweepResults:
    """Results of all runs of a plan, in the order of the plan.

    axes        names of the axes; points[i] are their values in run i
    columns     metrics and derived columns: float64 arrays, NaN where a run has no such number
    objectives  column -> "min" or "max"
    statuses, errors, keys  per run; runs  arguments to open a run again
    """

    name: str
    axes: tuple[str, ...]
    points: tuple[tuple[Scalar, ...], ...]
    columns: Mapping[str, np.ndarray]
    objectives: Mapping[str, str]
    statuses: tuple[str, ...]
    errors: tuple[str, ...]
    keys: tuple[str, ...]
    runs: tuple[SweepRun, ...]

    def __len__(self) -> int:
        return len(self.points)

    def levels(self, axis: int) -> list[Scalar]:
        """Return the values of an axis, in the order of the plan."""
        return list(dict.fromkeys(point[axis] for point in self.points))

    def label(self, run: int) -> str:
        """Describe a run by the values of its axes."""
        pairs = zip(self.axes, self.points[run], strict=True)
        return ", ".join(f"{name} {Path(value).name if name in ('model', 'config') else value}"
                         for name, value in ((n, str(v)) for n, v in pairs))  # fmt: skip


def collect(plan: SweepPlan, keys: Sequence[str], results: Sequence[RunResult]) -> SweepResults:
    """Make the table of results of a plan. keys, results  one for each run"""
    columns = {name: np.full(len(keys), np.nan) for name in (*plan.metrics, *plan.derived)}
    for row, result in enumerate(results):
        values: dict[str, float | None] = {}
        for axis, value in zip(plan.axes, plan.points[row], strict=True):
            for name in axis.name.split(", "):
                values[name] = _as_number(value)
        for name, path in plan.metrics.items():
            values[name] = metric(result.summary, path) if result.status == DONE else None
        for name, text in plan.derived.items():
            values[name] = evaluate(text, values) if result.status == DONE else None
        for name, column in columns.items():
            value = values[name]
            if value is not None:
                column[row] = value
    return SweepResults(
        plan.name,
        tuple(axis.name for axis in plan.axes),
        plan.points,
        columns,
        dict(plan.objectives),
        tuple(result.status for result in results),
        tuple(result.error for result in results),
        tuple(keys),
        plan.runs,
    )


def _as_number(value: Scalar) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def write_results(results: SweepResults, path: Path) -> None:
    """Write the Parquet file, whole or not at all. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"key": list(results.keys), "status": list(results.statuses)}
    names = {name: f"axis.{name}" for name in results.axes}
    for index, name in enumerate(results.axes):
        values = [point[index] for point in results.points]
        is_same = len({type(value) for value in values}) == 1
        columns[names[name]] = values if is_same else [str(value) for value in values]
    for name, column in results.columns.items():
        columns[name if name not in columns else f"metric.{name}"] = pa.array(column, from_pandas=True)
    columns["error"] = list(results.errors)
    columns["run"] = [json.dumps({**asdict(run), "settings": dict(run.settings)}) for run in results.runs]
    about = {
        "version": _VERSION,
        "name": results.name,
        "axes": list(results.axes),
        "columns": list(results.columns),
        "objectives": dict(results.objectives),
        "points": "axis.NAME",
    }
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(about)})
    temporary = path.with_name(f".{path.name}.tmp")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)


def results_file(path: Path) -> Path | None:
    """Return the results file at a path or in a folder, None if there is no Parquet file."""
    if path.is_dir():
        path = path / RESULTS_NAME
    if path.suffix != ".parquet" or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return None
    except OSError:
        return None
    return path


def read_results(path: Path) -> SweepResults:
    """Read a results file, or the one in a folder. Raises FormatError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = results_file(path)
    if found is None:
        raise FormatError(
            path, expected=f"a sweep's {RESULTS_NAME}, or the folder that holds it", found="none"
        )
    try:
        source = pq.ParquetFile(found)
        about = json.loads((source.schema_arrow.metadata or {})[_METADATA])
        if about["version"] != _VERSION or source.metadata.num_rows > MAX_ROWS:
            raise FormatError(found, expected=f"version {_VERSION}", found=str(about["version"])[:20])
        table = source.read()
        return _from_table(table.to_pydict(), about)
    except (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise FormatError(
            found, expected="the results of a sweep", found=f"{type(error).__name__}: {str(error)[:80]}"
        ) from None


def _from_table(values: Mapping[str, Any], about: Mapping[str, Any]) -> SweepResults:
    axes = tuple(str(name) for name in about["axes"])
    count = len(values["key"])
    points = tuple(tuple(values[f"axis.{name}"][row] for name in axes) for row in range(count))
    columns = {}
    for name in about["columns"]:
        given = values[f"metric.{name}"] if f"metric.{name}" in values else values[name]
        columns[str(name)] = np.array([np.nan if value is None else value for value in given], dtype=float)
    objectives = {str(name): str(way) for name, way in about["objectives"].items()}
    if not set(objectives) <= set(columns):
        raise KeyError("objectives")
    return SweepResults(
        str(about["name"]),
        axes,
        points,
        columns,
        objectives,
        tuple(str(value) for value in values["status"]),
        tuple(str(value) for value in values["error"]),
        tuple(str(value) for value in values["key"]),
        tuple(_run_of(text) for text in values["run"]),
    )


def _run_of(text: str) -> SweepRun:
    given = json.loads(text)
    return SweepRun(
        str(given["model"]),
        str(given["target"]),
        str(given["preset"]),
        str(given["config"]),
        tuple(sorted((str(name), str(value)) for name, value in given["settings"].items())),
        int(given["seed"]),
        None if given["until"] is None else int(given["until"]),
    )
