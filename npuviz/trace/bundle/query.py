"""SQL over a bundle, by DuckDB."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.trace.bundle.container import open_container
from npuviz.trace.bundle.manifest import TABLE_NAMES, TableName
from npuviz.trace.bundle.parts import COLUMNS, decode
from npuviz.trace.bundle.source import BundleSource
from npuviz.trace.schema import TraceSchema

MAX_ROWS = 1_000_000
"""Of an answer, which is held in memory as Python values."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Names of the columns and the rows, as plain Python values."""

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
"""
"""Views with names: slices (of intervals), samples (of counters), residence (of lifetimes)."""


def query(path: str | Path, sql: str) -> QueryResult:
    """Run SQL over the tables intervals, counters, flows, lifetimes, tracks, kinds, nodes, tensors and
    memories, and the views slices, samples and residence.

    Raises FormatError (not a bundle, damaged) or UsageError (the SQL is wrong).
    """
    import duckdb

    source = BundleSource(open_container(Path(path)))
    source.verify()
    connection = duckdb.connect(":memory:")
    try:
        for name, table in _name_tables(source.schema).items():
            connection.register(name, table)
        for table in TABLE_NAMES:
            _add_table(connection, source, table)
        connection.execute(_VIEWS)
        try:
            found: Any = connection.execute(sql)
            if found is None:
                raise UsageError("query: no SQL statement given")
            columns = tuple(str(column[0]) for column in found.description or ())
            rows = found.fetchmany(MAX_ROWS + 1)
            if len(rows) > MAX_ROWS:
                raise UsageError(
                    f"query: more than {MAX_ROWS} rows; aggregate, add `limit`, or `copy (...) to`"
                )
            return QueryResult(columns, rows)
        except (duckdb.Error, RuntimeError) as error:
            raise UsageError(f"query: {_one_line(str(error))}") from None
    finally:
        connection.close()


def _add_table(connection: Any, source: BundleSource, table: TableName) -> None:
    """Parts of a folder are read by DuckDB as the query needs them, those of a zip now."""
    import pyarrow as pa

    parts = [part for part in source.manifest.parts if part.table == table]
    if parts and source.path.is_dir():
        files = [str(source.path / part.file) for part in parts]
        connection.read_parquet(files).create_view(table)
        return
    types = COLUMNS[table]
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


def _one_line(text: str) -> str:
    """The message of DuckDB without the picture of the query it appends."""
    return " ".join(text.split("\n\nLINE ")[0].split())
