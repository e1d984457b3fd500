"""Convert the parts of a bundle: numpy columns to and from Parquet bytes.

pyarrow is imported on first use: a window that opens a model does not pay for it.
"""

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.base.reading import reading
from npuviz.trace.bundle.manifest import Part, TableName

COLUMNS: dict[TableName, dict[str, type]] = {
    "intervals": {
        "track": np.int32,
        "start": np.int64,
        "end": np.int64,
        "kind": np.int16,
        "node": np.int32,
        "instruction": np.int64,
    },
    "counters": {"track": np.int32, "cycle": np.int64, "value": np.int64},
    "flows": {"cycle": np.int64, "source": np.int64, "sink": np.int64},
    "causes": {
        "track": np.int32,
        "cycle": np.int64,
        "kind": np.int16,
        "done": np.int64,
        "source": np.int64,
    },
    "lifetimes": {
        "memory": np.int16,
        "address": np.int64,
        "size_bytes": np.int64,
        "start": np.int64,
        "end": np.int64,
        "tensor": np.int32,
        "instruction": np.int64,
    },
}
"""Columns of every table. Interval and counter parts are sorted by track, then by cycle."""

ROW_GROUP_ROWS = 1 << 20

Columns = Mapping[str, np.ndarray]


def encode(table: TableName, columns: Columns) -> bytes:
    """Return the Parquet bytes of one part: zstd, integers of eight bytes as packed differences."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = COLUMNS[table]
    arrays = {
        name: pa.array(np.ascontiguousarray(columns[name], dtype=dtype)) for name, dtype in types.items()
    }
    wide = [name for name, dtype in types.items() if dtype is np.int64]
    narrow: Any = [name for name in types if name not in wide]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table(arrays),
        sink,
        compression="zstd",
        compression_level=1,
        use_dictionary=narrow,
        column_encoding=dict.fromkeys(wide, "DELTA_BINARY_PACKED"),
        row_group_size=ROW_GROUP_ROWS,
    )
    return sink.getvalue().to_pybytes()


def last_cycle(table: TableName, columns: Columns) -> int:
    """Return the Part.last_cycle of columns."""
    name = "end" if table in ("intervals", "lifetimes") else "cycle"
    values = columns[name]
    if len(values) == 0:
        return 0
    return int(values.max()) + (0 if name == "end" else 1)


def before(table: TableName, columns: Columns, cycle: int) -> dict[str, np.ndarray]:
    """Return the rows that remain when history is cut at `cycle`."""
    ends = table in ("intervals", "lifetimes")
    keep = columns["end"] <= cycle if ends else columns["cycle"] < cycle
    return {name: values[keep] for name, values in columns.items()}


def check_bytes(file: str, data: Any, part: Part) -> None:
    """Compare size and checksum of a part's bytes. Raises FormatError."""
    size = len(memoryview(data))
    if size != part.size_bytes:
        raise FormatError(file, expected=f"{part.size_bytes} bytes", found=f"{size}", hint=_HINT)
    if (found := zlib.crc32(data)) != part.crc32:
        raise FormatError(
            file, field="checksum", expected=f"{part.crc32:08x}", found=f"{found:08x}", hint=_HINT
        )


def check_columns(path: Path, part: Part) -> None:
    """Compare rows, names and types of a part's columns with those of its table. Raises FormatError."""
    import pyarrow.parquet as pq

    with reading(path, hint=_HINT), pq.ParquetFile(path) as parquet:
        rows, schema = parquet.metadata.num_rows, parquet.schema_arrow
    if rows != part.rows:
        raise FormatError(path, expected=f"{part.rows} rows", found=f"{rows}", hint=_HINT)
    _check_types(str(path), schema, COLUMNS[part.table], list(COLUMNS[part.table]))


def _check_types(file: str, schema: Any, types: Mapping[str, type], names: Sequence[str]) -> None:
    """Compare the columns of a Parquet file with their expected types before they are read."""
    import pyarrow as pa

    for name in names:
        place = schema.get_field_index(name)
        if place < 0 or schema.field(place).type != pa.from_numpy_dtype(types[name]):
            raise FormatError(file, field=f"column {name}", expected=np.dtype(types[name]).name, hint=_HINT)


def decode(file: str, data: Any, part: Part, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Decode columns of a part from its bytes (bytes or a pyarrow Buffer), read-only. Raises FormatError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_bytes(file, data, part)
    types = COLUMNS[part.table]
    wanted = list(types if names is None else names)
    with reading(file, hint=_HINT):
        parquet = pq.ParquetFile(pa.BufferReader(data))
        if parquet.metadata.num_rows != part.rows:
            found = f"{parquet.metadata.num_rows}"
            raise FormatError(file, expected=f"{part.rows} rows", found=found, hint=_HINT)
        _check_types(file, parquet.schema_arrow, types, wanted)
        table = parquet.read(columns=wanted)
    columns: dict[str, np.ndarray] = {}
    for name in wanted:
        if table.column(name).null_count:
            raise FormatError(file, field=f"column {name}", expected="no empty values", hint=_HINT)
        columns[name] = table.column(name).to_numpy()
        columns[name].flags.writeable = False
    return columns


_HINT = "the bundle is damaged: record it again"
