"""Bundles of what a store holds."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.trace.bundle.bundle import BundleWriter
from npuviz.trace.bundle.parts import TableName
from npuviz.trace.schema import Track
from npuviz.trace.source import TraceSource

_FIRST_CYCLE, _LAST_CYCLE = -(1 << 61), 1 << 61
_PIECE_ROWS = 1 << 22


def save_bundle(source: TraceSource, path: str | Path, model: Mapping[str, Any] | None = None) -> Path:
    """Write everything that a store holds as a bundle. Raises ExportError."""
    schema, end_cycle = source.schema, source.end_cycle
    with BundleWriter(path, schema) as writer:
        if model:
            writer.set_model(model)
        for track in schema.tracks:
            for table, columns in _track_columns(source, track):
                writer.add_part(table, columns)
        flows = source.flow_view()
        if len(flows):
            writer.add_part("flows", {name: flows[name] for name in ("cycle", "source", "sink")})
        for memory in range(len(schema.memory_names)):
            rows = source.lifetimes_within(memory, _FIRST_CYCLE, _LAST_CYCLE)
            if len(rows):
                writer.add_part("lifetimes", {name: rows[name] for name in rows.dtype.names or ()})
        return writer.close(end_cycle)


def _track_columns(source: TraceSource, track: Track) -> Iterator[tuple[TableName, dict[str, np.ndarray]]]:
    """The rows of one track as columns of its table, in pieces that fit a part."""
    if track.kind == "counter":
        table: TableName = "counters"
        view = source.counter_view(track.id)
        columns = {"cycle": view.cycle, "value": view.value}
    else:
        table = "intervals"
        rows = source.interval_view(track.id)
        node, instruction = rows.details(np.arange(len(rows.start), dtype=np.int64))
        columns = {"start": rows.start, "end": rows.end, "kind": rows.kind}
        columns |= {"node": node, "instruction": instruction}
    count = len(next(iter(columns.values())))
    for begin in range(0, count, _PIECE_ROWS):
        piece = {name: column[begin : begin + _PIECE_ROWS] for name, column in columns.items()}
        owner = np.full(len(next(iter(piece.values()))), track.id, dtype=np.int32)
        yield table, {"track": owner, **piece}
