"""Export traces to plain tables with names instead of ids:
CSV and Parquet, for spreadsheets and notebooks."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from npuviz.base.errors import ExportError
from npuviz.base.progress import Progress
from npuviz.export.exporter import CycleWindow, replacing, whole_or
from npuviz.trace.bundle.manifest import MANIFEST_NAME
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import Track
from npuviz.trace.unit_times import unit_label, unit_times

TableName = Literal["slices", "counters", "flows", "lifetimes", "units"]
TABLE_NAMES: tuple[TableName, ...] = ("slices", "counters", "flows", "lifetimes", "units")


@dataclass(frozen=True)
class TableExporter:
    """Writes tables as CSV or as Parquet.

    form    "csv" or "parquet"
    tables  tables to write; an `out` that ends in the suffix gets the first one, anything else is a
            folder that gets a file for each
    """

    form: Literal["csv", "parquet"]
    tables: tuple[TableName, ...] = TABLE_NAMES

    @property
    def name(self) -> str:
        """Name of the format."""
        return self.form

    @property
    def suffix(self) -> str:
        """Usual file ending."""
        return f".{self.form}"

    @property
    def title(self) -> str:
        """Name of the format for menus."""
        return "CSV tables" if self.form == "csv" else "Parquet tables"

    def export(self, reader: TraceReader, window: CycleWindow | None, out: Path, progress: Progress) -> None:
        """Write what overlaps the window, whole rows only."""
        window = whole_or(window, reader)
        if out.suffix.lower() == self.suffix:
            with replacing(out) as path:
                self._write(reader, window, self.tables[0], path, progress)
            return
        if (out / MANIFEST_NAME).exists():
            raise ExportError(f"{out}: cannot write: expected another folder, this one is a trace bundle")
        is_new = not out.exists()
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExportError(f"{out}: cannot make the folder: {error.strerror}") from None
        try:
            # No table gets its final name before all of them are written.
            with ExitStack() as stack:
                for table in self.tables:
                    path = stack.enter_context(replacing(out / f"{table}{self.suffix}"))
                    self._write(reader, window, table, path, progress)
        except BaseException:
            if is_new:
                with suppress(OSError):
                    out.rmdir()
            raise

    def _write(
        self, reader: TraceReader, window: CycleWindow, table: TableName, path: Path, progress: Progress
    ) -> None:
        import pyarrow as pa
        import pyarrow.csv as csv
        import pyarrow.parquet as pq

        schema = pa.schema(_FIELDS[table])
        with open(path, "wb") as file:
            writer: Any = (
                csv.CSVWriter(file, schema) if self.form == "csv" else pq.ParquetWriter(file, schema)
            )
            with writer:
                for fraction, columns in _batches(reader, window, table):
                    progress.report(fraction, f"writing {table}")
                    writer.write_table(pa.table(columns, schema=schema))
        progress.report(1.0, "done")


CSV = TableExporter("csv")
PARQUET = TableExporter("parquet")

_FIELDS: dict[TableName, list[tuple[str, str]]] = {
    "slices": [
        ("track", "string"),
        ("unit", "int32"),
        ("kind", "string"),
        ("role", "string"),
        ("node", "string"),
        ("op_type", "string"),
        ("start", "int64"),
        ("end", "int64"),
        ("cycles", "int64"),
        ("instruction", "int64"),
    ],
    "counters": [("track", "string"), ("measure", "string"), ("cycle", "int64"), ("value", "int64")],
    "flows": [("cycle", "int64"), ("source", "int64"), ("sink", "int64")],
    "lifetimes": [
        ("memory", "string"),
        ("address", "int64"),
        ("size_bytes", "int64"),
        ("tensor", "string"),
        ("start", "int64"),
        ("end", "int64"),
        ("instruction", "int64"),
    ],
    "units": [
        ("unit", "int32"),
        ("name", "string"),
        ("cycles", "int64"),
        ("busy", "int64"),
        ("waiting", "int64"),
        ("idle", "int64"),
        ("share", "double"),
    ],
}
_BATCH_ROWS = 1 << 18
_Batch = tuple[float, dict[str, Any]]


def _batches(reader: TraceReader, window: CycleWindow, table: TableName) -> Iterator[_Batch]:
    """Yield the columns of a table piece by piece, with the fraction done."""
    tracks = reader.schema.tracks
    if table == "slices":
        for track in tracks:
            if track.kind == "interval":
                yield from _slices(reader, window, track)
    elif table == "counters":
        for track in tracks:
            if track.kind == "counter":
                yield from _counter(reader, window, track)
    elif table == "flows":
        rows = reader.flows(window, limit=1 << 62)
        yield 0.0, {name: np.ascontiguousarray(rows[name]) for name in ("cycle", "source", "sink")}
    elif table == "units":
        yield 0.0, _units(reader, window)
    else:
        for memory, (name, _) in enumerate(reader.schema.memory_names):
            yield from _lifetimes(reader, window, memory, name)


def _slices(reader: TraceReader, window: CycleWindow, track: Track) -> Iterator[_Batch]:
    schema = reader.schema
    columns = reader.interval_columns(track.id)
    first = int(np.searchsorted(columns.end, np.int64(window[0]), side="right"))
    last = int(np.searchsorted(columns.start, np.int64(window[1])))
    kinds = {kind.id: kind for kind in schema.kinds}
    kind_names = _lookup([kinds[k].name if k in kinds else "" for k in range(schema.num_kinds)])
    roles = _lookup([kinds[k].role if k in kinds else "" for k in range(schema.num_kinds)])
    nodes, types = _lookup(schema.node_names), _lookup(schema.node_types)
    for begin in range(first, last, _BATCH_ROWS):
        rows = slice(begin, min(begin + _BATCH_ROWS, last))
        start, end = columns.start[rows], columns.end[rows]
        yield (
            track.id / len(schema.tracks),
            {
                "track": [track.name] * len(start),
                "unit": np.full(len(start), track.unit, dtype=np.int32),
                "kind": kind_names.of(columns.kind[rows]),
                "role": roles.of(columns.kind[rows]),
                "node": nodes.of(columns.node[rows]),
                "op_type": types.of(columns.node[rows]),
                "start": start,
                "end": end,
                "cycles": end - start,
                "instruction": columns.instruction[rows],
            },
        )


def _counter(reader: TraceReader, window: CycleWindow, track: Track) -> Iterator[_Batch]:
    columns = reader.counter_columns(track.id)
    first, last = np.searchsorted(columns.cycle, np.array(window, dtype=np.int64))
    for begin in range(int(first), int(last), _BATCH_ROWS):
        rows = slice(begin, min(begin + _BATCH_ROWS, int(last)))
        count = rows.stop - rows.start
        yield (
            track.id / len(reader.schema.tracks),
            {
                "track": [track.name] * count,
                "measure": [track.measure] * count,
                "cycle": columns.cycle[rows],
                "value": columns.value[rows],
            },
        )


def _units(reader: TraceReader, window: CycleWindow) -> dict[str, Any]:
    """Return the times of the units within the window, as far as the trace goes."""
    times = unit_times(reader, (window[0], max(window[0], min(window[1], reader.end_cycle))))
    return {
        "unit": np.array(list(times), dtype=np.int32),
        "name": [unit_label(reader.schema, unit) for unit in times],
        **{
            column: [getattr(time, column) for time in times.values()]
            for column in ("cycles", "busy", "waiting", "idle", "share")
        },
    }


def _lifetimes(reader: TraceReader, window: CycleWindow, memory: int, name: str) -> Iterator[_Batch]:
    rows = reader.lifetimes(memory, window)
    if len(rows):
        numbers = {
            column: np.ascontiguousarray(rows[column])
            for column in ("address", "size_bytes", "start", "end", "instruction")
        }
        tensors = _lookup(reader.schema.tensor_names).of(rows["tensor"])
        yield 0.0, {"memory": [name] * len(rows), "tensor": tensors, **numbers}


class _Names:
    """Names by id; an id without a name gives an empty text."""

    def __init__(self, names: np.ndarray) -> None:
        self._names = names

    def of(self, ids: np.ndarray) -> np.ndarray:
        last = len(self._names) - 1
        return self._names[np.where((ids >= 0) & (ids < last), ids, last)]


def _lookup(names: tuple[str, ...] | list[str]) -> _Names:
    return _Names(np.array([*names, ""], dtype=object))
