"""Turn one page of event rows into the tables of a bundle."""

import numpy as np

from npuviz.base.errors import SimulationError
from npuviz.trace.bundle.manifest import TableName
from npuviz.trace.lifetimes import resolve_lifetimes
from npuviz.trace.schema import TraceSchema
from npuviz.trace.series import cause_columns
from npuviz.trace.source import Resolver
from npuviz.trace.split import SplitRows


class PageTables:
    """Collects the split batches of one page into columns of the five tables."""

    def __init__(self, schema: TraceSchema, resolve: Resolver | None) -> None:
        if resolve is None:
            raise SimulationError("a page came before BundleWriter.begin")
        self._schema = schema
        self._resolve = resolve
        self._flow_key = len(schema.tracks)
        self._cause_key = self._flow_key + 1 + len(schema.memory_names)
        self._groups: dict[int, list[tuple[np.ndarray, ...]]] = {}

    def add(self, batch: SplitRows) -> None:
        """Add a copy of a batch."""
        for key, place in batch.groups():
            columns = (batch.first, batch.second, batch.third, batch.code)
            self._groups.setdefault(key, []).append(tuple(column[place].copy() for column in columns))

    def columns(self) -> list[tuple[TableName, dict[str, np.ndarray]]]:
        """Return the tables that have rows, with their columns."""
        keys = sorted(self._groups)
        tracks = self._schema.tracks
        found: list[tuple[TableName, dict[str, np.ndarray]]] = []
        intervals = [key for key in keys if key < self._flow_key and tracks[key].kind == "interval"]
        if intervals:
            start, end, instruction, kind = self._joined(intervals)
            node = np.full(len(start), -1, dtype=np.int32)
            known = np.flatnonzero(instruction >= 0)
            node[known] = self._resolve.nodes_of(instruction[known])
            columns = {"start": start, "end": end, "kind": kind, "node": node, "instruction": instruction}
            found.append(("intervals", {"track": self._owners(intervals), **columns}))
        counters = [key for key in keys if key < self._flow_key and tracks[key].kind == "counter"]
        if counters:
            cycle, value, _, _ = self._joined(counters)
            found.append(("counters", {"track": self._owners(counters), "cycle": cycle, "value": value}))
        if self._flow_key in self._groups:
            cycle, source, sink, _ = self._joined([self._flow_key])
            order = np.argsort(cycle, kind="stable")
            found.append(("flows", {"cycle": cycle[order], "source": source[order], "sink": sink[order]}))
        if self._cause_key in self._groups:
            cycle, packed, source, track = self._joined([self._cause_key])
            found.append(("causes", cause_columns(cycle, packed, source, track)))
        memories = [key for key in keys if self._flow_key < key < self._cause_key]
        if memories:
            start, end, instruction, bank = self._joined(memories)
            memory = (self._owners(memories) - self._flow_key - 1).astype(np.int16)
            rows = resolve_lifetimes(self._resolve, memory, start, end, bank, instruction)
            found.append(("lifetimes", {name: rows[name] for name in rows.dtype.names or ()}))
        return found

    def _joined(self, keys: list[int]) -> list[np.ndarray]:
        pieces = [piece for key in keys for piece in self._groups[key]]
        return [np.concatenate(columns) for columns in zip(*pieces, strict=True)]

    def _owners(self, keys: list[int]) -> np.ndarray:
        counts = [sum(len(piece[0]) for piece in self._groups[key]) for key in keys]
        return np.repeat(np.array(keys, dtype=np.int32), counts)
