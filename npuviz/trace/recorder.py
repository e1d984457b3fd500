"""Record a run: take events from a machine, keep them for readers, and hand pages to a bundle."""

from typing import Protocol

import numpy as np

from npuviz.trace.bundle.bundle import BundleWriter
from npuviz.trace.schema import TraceSchema
from npuviz.trace.source import Resolver
from npuviz.trace.split import empty_rows
from npuviz.trace.store import TraceStore


class EventRows(Protocol):
    """The buffer that `drain` empties: npuviz.sim.events.EventBuffer, which this package may not import."""

    rows: np.ndarray
    count: np.ndarray


class Recorder:
    """Drains event buffers into a store and, if there is one, into a bundle.

    keeps_in_memory  False for a headless run that writes a bundle and never reads back: the store
                     stays empty, so memory does not grow with the run
    """

    def __init__(
        self,
        schema: TraceSchema,
        resolve: Resolver,
        bundle: BundleWriter | None = None,
        *,
        keeps_in_memory: bool = True,
    ) -> None:
        self.schema = schema
        self.bundle = bundle
        self.num_events = 0
        self.resolve = resolve
        self._store = TraceStore(schema, resolve)
        self._keeps_in_memory = keeps_in_memory
        self._horizon = 0
        self._page = empty_rows(0)
        self._page_used = 0
        if bundle is not None:
            bundle.begin(resolve)

    @property
    def store(self) -> TraceStore:
        """The recorded events, for a TraceReader."""
        return self._store

    @property
    def horizon(self) -> int:
        """Cycle up to which the trace is recorded."""
        return self._horizon

    def mark(self, cycle: int) -> None:
        """Declare that the machine has run to `cycle` and that all events before it were drained."""
        self._horizon = max(self._horizon, cycle)
        self._store.mark(cycle)

    def drain(self, buffer: EventRows) -> None:
        """Take all rows out of the buffer. Raises ExportError if the bundle cannot be written."""
        count = int(buffer.count[0])
        if count == 0:
            return
        rows = buffer.rows[:count]
        if self._keeps_in_memory:
            self._store.append(rows)
        if self.bundle is not None:
            self._append_to_page(self.bundle, rows)
        self.num_events += count
        buffer.count[0] = 0

    def truncate(self, cycle: int) -> None:
        """Drop everything that happened at `cycle` and later, because a write has changed history."""
        self._store.truncate(cycle)
        self._horizon = min(self._horizon, cycle)
        if self.bundle is not None:
            self._seal(self.bundle)
            self.bundle.truncate(cycle)
        if self._keeps_in_memory:
            self.num_events = self._store.num_events

    def close(self) -> None:
        """Write the rest and publish the bundle; does nothing without a bundle."""
        if self.bundle is not None:
            self._seal(self.bundle)
            self.bundle.close(self._horizon)

    def _append_to_page(self, bundle: BundleWriter, rows: np.ndarray) -> None:
        done = 0
        while done < len(rows):
            if self._page_used == len(self._page):
                self._seal(bundle)
                self._page = empty_rows(bundle.page_rows)
            count = min(len(rows) - done, len(self._page) - self._page_used)
            self._page[self._page_used : self._page_used + count] = rows[done : done + count]
            self._page_used += count
            done += count

    def _seal(self, bundle: BundleWriter) -> None:
        """Hand the page to the bundle; the next row begins a new one."""
        if self._page_used:
            bundle.write_page(self._page[: self._page_used], self._horizon)
        self._page = empty_rows(0)
        self._page_used = 0
