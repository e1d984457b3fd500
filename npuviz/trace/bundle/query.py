"""Query a bundle with SQL, by DuckDB."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.base.interrupts import ENDLESS_THREAD
from npuviz.base.reading import reading
from npuviz.trace.bundle.container import open_container
from npuviz.trace.bundle.manifest import TABLE_NAMES, TableName
from npuviz.trace.bundle.parts import COLUMNS, check_columns, decode
from npuviz.trace.bundle.source import BundleSource
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import LIFETIME_DTYPE, TraceSchema
from npuviz.trace.source import TraceSource
from npuviz.trace.unit_times import tracks_of_units, unit_label

MAX_ROWS = 1_000_000
"""Most rows of an answer, which is held in memory as Python values."""
MAX_SECONDS = 300.0
"""A query that takes longer is ended."""
GRACE_SECONDS = 2.0
"""Time that an interrupted query gets to end. DuckDB checks for interrupts only between steps, and one call
of a function, such as `levenshtein` of two long texts, is one step: a query that has not ended by then is
abandoned."""
MEMORY_LIMIT = "4GiB"
"""Most memory that DuckDB may use for one query; nothing is spilled to disk."""
_CLOSED: dict[str, Any] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "memory_limit": MEMORY_LIMIT,
    "temp_directory": "",
}
"""Settings of a connection that reaches the tables of the bundle and nothing else: no file, no network,
no extension, no Python variable. Source: DuckDB's page "Securing DuckDB"."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Names of the columns, and the rows as plain Python values."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


_VIEWS = """
create view slices as
  select i.start, i."end", i."end" - i.start as cycles, t.name as track, t.unit, k.name as kind, k.role,
         n.name as node, n.op_type, i.instruction, i.track as track_id, i.kind as kind_id, i.node as node_id
  from intervals i
  left join tracks t on t.id = i.track left join kinds k on k.id = i.kind left join nodes n on n.id = i.node;
create view samples as
  select c.cycle, c.value, t.name as track, t.measure, t.unit, c.track as track_id
  from counters c left join tracks t on t.id = c.track;
create view residence as
  select l.start, l."end", l."end" - l.start as cycles, m.name as memory, l.address, l.size_bytes,
         x.name as tensor, l.instruction, l.memory as memory_id, l.tensor as tensor_id
  from lifetimes l left join memories m on m.id = l.memory left join tensors x on x.id = l.tensor;
create view unit_times as
  with owned as (select unit, id from tracks where kind = 'interval' and unit >= 0),
  spans as (
    select o.unit, i.start, least(i."end", r.end_cycle) as "end", k.role like 'wait-%' as waits
    from intervals i join owned o on o.id = i.track join kinds k on k.id = i.kind cross join run r),
  reached as (
    select *, max("end") over (partition by unit order by start, "end"
                               rows between unbounded preceding and 1 preceding) as before,
           max(case when waits then 0 else "end" end) over (partition by unit order by start, "end"
                               rows between unbounded preceding and 1 preceding) as worked
    from spans),
  covered as (
    select unit, sum(greatest("end" - greatest(start, coalesce(before, 0)), 0)) as both,
           sum(case when waits then 0
               else greatest("end" - greatest(start, coalesce(worked, 0)), 0) end) as busy
    from reached group by unit)
  select n.unit, n.name, r.end_cycle as cycles, coalesce(c.busy, 0)::bigint as busy,
         (coalesce(c.both, 0) - coalesce(c.busy, 0))::bigint as waiting,
         (r.end_cycle - coalesce(c.both, 0))::bigint as idle,
         coalesce(c.busy / nullif(r.end_cycle, 0), 0)::double as share
  from unit_names n cross join run r left join covered c on c.unit = n.unit;
"""
"""Views that add names to ids: slices (of intervals), samples (of counters), residence (of lifetimes);
and unit_times."""


def query(
    path: str | Path, sql: str, *, is_unsafe: bool = False, max_seconds: float = MAX_SECONDS
) -> QueryResult:
    """Run SQL over the tables intervals, counters, flows, lifetimes, tracks, kinds, nodes, tensors,
    memories and hazards, and the views slices, samples, residence and unit_times.

    is_unsafe    the SQL may also read and write files, load extensions and take any memory
    max_seconds  a query that takes longer is ended; 0 for no limit
    Raises FormatError (not a bundle, damaged) or UsageError (the SQL is wrong, reaches outside the
    bundle, or takes too long).
    """
    source = BundleSource(open_container(Path(path)))
    source.verify()
    limits = _Limits(is_unsafe, max_seconds)
    with reading(path, hint="the bundle is damaged"):
        summary = source.model.get("summary")
        hazards = summary.get("hazards") if isinstance(summary, dict) else None
        limits = replace(limits, hazards=hazards if isinstance(hazards, list) else ())
        return _query(source, lambda connection, table: _add_table(connection, source, table), sql, limits)


def query_trace(
    reader: TraceReader,
    sql: str,
    *,
    max_seconds: float = MAX_SECONDS,
    hazards: Callable[[], Sequence[Mapping[str, Any]]] = tuple,
) -> QueryResult:
    """Query an open trace as `query` does; one that is being recorded has what was recorded so far.

    hazards  returns the rows of the table `hazards`, called only if the SQL names it; a bundle has its own
    Raises UsageError, and FormatError for a damaged bundle.
    """
    found = hazards() if "hazards" in sql.casefold() else ()
    source, limits = reader.source, _Limits(False, max_seconds, found)
    if isinstance(source, BundleSource):
        return query(source.path, sql, max_seconds=max_seconds)

    def add(connection: Any, table: TableName) -> None:
        import pyarrow as pa

        columns = columns_of(reader, table)
        types = COLUMNS[table]
        connection.register(table, pa.table({name: columns[name].astype(types[name]) for name in types}))

    return _query(source, add, sql, limits)


@dataclass(frozen=True, slots=True)
class _Limits:
    """What a query may do, see `query`, and the hazards that it can read."""

    is_unsafe: bool
    max_seconds: float
    hazards: Sequence[object] = ()


def _query(
    source: TraceSource, add_table: Callable[[Any, TableName], None], sql: str, limits: _Limits
) -> QueryResult:
    import duckdb

    connection = duckdb.connect(":memory:", config={} if limits.is_unsafe else _CLOSED)
    try:
        tables = _name_tables(source.schema) | _run_tables(source)
        for name, table in (tables | {"hazards": _hazard_table(limits.hazards)}).items():
            connection.register(name, table)
        for table in TABLE_NAMES:
            add_table(connection, table)
        connection.execute(_VIEWS)
        if not limits.is_unsafe:
            connection.execute("set lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return _bounded(connection, sql, limits.max_seconds)


def _bounded(connection: Any, sql: str, max_seconds: float) -> QueryResult:
    """Run a query in a separate thread, which closes the connection, and return its answer.
    Raises as `_asked`."""
    answers: SimpleQueue[QueryResult | BaseException] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_asked(connection, sql))
        except BaseException as error:
            answers.put(error)
        finally:
            connection.close()

    asking = threading.Thread(target=ask, name=ENDLESS_THREAD, daemon=True)
    asking.start()
    try:
        answer = answers.get(timeout=max_seconds or None)
    except Empty:
        connection.interrupt()
        raise UsageError(
            f"query: ended after {max_seconds:g} s; ask for less, or give it more with --timeout"
        ) from None
    except BaseException:
        connection.interrupt()
        raise
    finally:
        asking.join(GRACE_SECONDS)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _asked(connection: Any, sql: str) -> QueryResult:
    """Return the answer of a query. Raises UsageError; exceptions from reading the parts pass."""
    import duckdb
    import pyarrow as pa

    try:
        return _answer(connection.execute(sql))
    except duckdb.PermissionException as error:
        raise UsageError(
            f"query: {_one_line(str(error))}: a query reaches the bundle alone; "
            "--unsafe lets it read and write other files"
        ) from None
    except (duckdb.Error, pa.ArrowException, RuntimeError, ValueError, OverflowError) as error:
        # The last two are raised for values that Python cannot represent, such as a date after the year 9999.
        raise UsageError(f"query: {_one_line(str(error))}") from None


def _answer(found: Any) -> QueryResult:
    if found is None:
        raise UsageError("query: no SQL statement given")
    columns = tuple(str(column[0]) for column in found.description or ())
    rows = found.fetchmany(MAX_ROWS + 1)
    if len(rows) > MAX_ROWS:
        raise UsageError(f"query: more than {MAX_ROWS} rows; aggregate, or add `limit`")
    return QueryResult(columns, rows)


def columns_of(reader: TraceReader, table: TableName) -> dict[str, np.ndarray]:
    """Return all rows of a table of a trace in memory, column by column, sorted as in a bundle."""
    tracks = reader.schema.tracks
    if table in ("flows", "causes"):
        rows = reader.source.flow_view() if table == "flows" else reader.source.cause_view()
        return {name: rows[name] for name in COLUMNS[table]}
    if table == "lifetimes":
        memories = range(len(reader.schema.memory_names))
        found = [reader.source.lifetimes_within(memory, -1, 1 << 62) for memory in memories]
        rows = np.concatenate([np.zeros(0, LIFETIME_DTYPE), *found])
        return {name: rows[name] for name in COLUMNS[table]}
    kind = "interval" if table == "intervals" else "counter"
    views = [(track.id, reader.columns(track.id)) for track in tracks if track.kind == kind]
    names = [name for name in COLUMNS[table] if name != "track"]
    empty = np.zeros(0, np.int64)
    columns = {name: np.concatenate([empty, *(getattr(view, name) for _, view in views)]) for name in names}
    return {"track": np.concatenate([empty, *(np.full(len(view), track) for track, view in views)])} | columns


def _add_table(connection: Any, source: BundleSource, table: TableName) -> None:
    """Register a table: parts of a folder are read as the query needs them, those of a zip now."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    parts = [part for part in source.manifest.parts if part.table == table]
    types = COLUMNS[table]
    if parts and source.path.is_dir():
        for part in parts:
            check_columns(source.path / part.file, part)
        # Files by their exact names: DuckDB's own reader would take `*` and `[` in them for a pattern.
        files = [str(source.path / part.file) for part in parts]
        schema = pa.schema([(name, pa.from_numpy_dtype(dtype)) for name, dtype in types.items()])
        connection.register(table, ds.dataset(files, schema=schema, format="parquet"))
        return
    pieces = [decode(part.file, source.read_part(part.file), part) for part in parts]
    empty = {name: np.zeros(0, dtype=dtype) for name, dtype in types.items()}
    connection.register(table, pa.concat_tables(pa.table(piece) for piece in (empty, *pieces)))


def _name_tables(schema: TraceSchema) -> dict[str, Any]:
    import pyarrow as pa

    tracks, kinds = schema.tracks, schema.kinds
    text = pa.string()
    return {
        "tracks": pa.table(
            {
                "id": pa.array([track.id for track in tracks], pa.int32()),
                "name": pa.array([track.name for track in tracks], text),
                "kind": pa.array([track.kind for track in tracks], text),
                "unit": pa.array([track.unit for track in tracks], pa.int32()),
                "measure": pa.array([track.measure for track in tracks], text),
                "maximum": pa.array([track.maximum for track in tracks], pa.int64()),
            }
        ),
        "kinds": pa.table(
            {
                "id": pa.array([kind.id for kind in kinds], pa.int16()),
                "name": pa.array([kind.name for kind in kinds], text),
                "role": pa.array([kind.role for kind in kinds], text),
                "doc": pa.array([kind.doc for kind in kinds], text),
            }
        ),
        "nodes": pa.table(
            {
                "id": pa.array(range(len(schema.node_names)), pa.int32()),
                "name": pa.array(schema.node_names, text),
                "op_type": pa.array(schema.node_types, text),
            }
        ),
        "tensors": pa.table(
            {
                "id": pa.array(range(len(schema.tensor_names)), pa.int32()),
                "name": pa.array(schema.tensor_names, text),
            }
        ),
        "memories": pa.table(
            {
                "id": pa.array(range(len(schema.memory_names)), pa.int16()),
                "name": pa.array([name for name, _ in schema.memory_names], text),
                "size_bytes": pa.array([size for _, size in schema.memory_names], pa.int64()),
            }
        ),
    }


def _run_tables(source: TraceSource) -> dict[str, Any]:
    """Return the tables that `unit_times` uses: the cycles of the run, and the units that have tracks."""
    import pyarrow as pa

    units = list(tracks_of_units(source.schema))
    return {
        "run": pa.table({"end_cycle": pa.array([source.end_cycle], pa.int64())}),
        "unit_names": pa.table(
            {
                "unit": pa.array(units, pa.int32()),
                "name": pa.array([unit_label(source.schema, unit) for unit in units], pa.string()),
            }
        ),
    }


def _hazard_table(rows: Sequence[object]) -> Any:
    """Return the table of hazards, from rows as in `run --json`; an unknown instruction or cycle is null."""
    import pyarrow as pa

    known = [cast(Mapping[str, Any], row) for row in rows if isinstance(row, Mapping)]
    numbers, texts = ("cycle", "instruction", "other"), ("level", "kind", "unit", "detail", "place", "mend")
    columns: dict[str, Any] = {}
    for name in numbers:
        found = [row.get(name) for row in known]
        columns[name] = pa.array([n if _is_place(n) else None for n in found], pa.int64())
    for name in texts:
        columns[name] = pa.array([str(row.get(name, "")) for row in known], pa.string())
    return pa.table(columns)


def _is_place(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 62


def _one_line(text: str) -> str:
    """Return DuckDB's message without the excerpt of the query that it appends."""
    return " ".join(text.split("\n\nLINE ")[0].split())
