"""Bundles of what a store holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuviz.trace.bundle.bundle import BundleWriter
from npuviz.trace.bundle.page import track_columns
from npuviz.trace.source import TraceSource

_FIRST_CYCLE, _LAST_CYCLE = -(1 << 61), 1 << 61


def save_bundle(source: TraceSource, path: str | Path, model: Mapping[str, Any] | None = None) -> Path:
    """Write everything that a store holds as a bundle. Raises ExportError."""
    schema, end_cycle = source.schema, source.end_cycle
    with BundleWriter(path, schema) as writer:
        if model:
            writer.set_model(model)
        for track in schema.tracks:
            for table, columns in track_columns(source, track):
                writer.add_part(table, columns)
        flows = source.flow_view()
        if len(flows):
            writer.add_part("flows", {name: flows[name] for name in ("cycle", "source", "sink")})
        for memory in range(len(schema.memory_names)):
            rows = source.lifetimes_within(memory, _FIRST_CYCLE, _LAST_CYCLE)
            if len(rows):
                writer.add_part("lifetimes", {name: rows[name] for name in rows.dtype.names or ()})
        return writer.close(end_cycle)
