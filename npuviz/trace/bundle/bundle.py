"""Write and open bundles: folders of Parquet parts with a manifest.

The writer works in a hidden folder beside the final place, `.<name>.partial-<pid>`, and renames it
when the run is over. A killed run leaves that folder, which opens like any bundle and says that
it is not complete. An earlier bundle of the same name stays untouched until the run is over.
"""

import os
import queue
import shutil
import threading
import weakref
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from npuviz.base.errors import ExportError, NpuvizError, SimulationError
from npuviz.base.interrupts import shielded
from npuviz.base.names import printable
from npuviz.trace.bundle import manifest
from npuviz.trace.bundle.container import open_container
from npuviz.trace.bundle.page import PageTables
from npuviz.trace.bundle.parts import Columns, before, decode, encode, last_cycle
from npuviz.trace.bundle.publish import publish_folder
from npuviz.trace.bundle.source import BundleSource
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import TraceSchema
from npuviz.trace.source import Resolver
from npuviz.trace.split import Splitter

PAGE_ROWS = 1 << 20
_WAITING_PAGES = 3


def open_bundle(path: str | Path) -> TraceReader:
    """Open a bundle, a zip of one, or the remains of a killed run. Reads the manifest;
    columns are read later.

    Raises FormatError.
    """
    return TraceReader(BundleSource(open_container(Path(path))))


def open_checked_bundle(path: str | Path) -> TraceReader:
    """Open a bundle and read everything in it once, so that no later question can find damage.

    Raises FormatError.
    """
    source = BundleSource(open_container(Path(path)))
    source.check()
    return TraceReader(source)


class BundleWriter:
    """Writes one bundle. Pages are encoded in a separate thread, whose errors are raised at the next call.

    All methods but `abort` raise ExportError if the bundle cannot be written; the partial folder
    is then removed.
    """

    def __init__(self, path: str | Path, schema: TraceSchema, *, page_rows: int = PAGE_ROWS) -> None:
        self.path = Path(os.path.abspath(path))
        self.page_rows = page_rows
        self._manifest = manifest.Manifest(schema)
        self._num_parts = 0
        self._error: NpuvizError | None = None
        self._is_over = False
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(_WAITING_PAGES)
        self._thread: threading.Thread | None = None
        self._splitter = Splitter(schema)
        self._resolve: Resolver | None = None
        if printable(self.path) != str(self.path):
            raise ExportError(f"{self.path}: expected a name in UTF-8, which the readers of Parquet need")
        if self.path.exists() and not (self.path / manifest.MANIFEST_NAME).exists():
            raise ExportError(f"{self.path}: exists and is not a trace bundle; choose another name")
        with shielded():
            self._folder = self._guarded(lambda: _make_partial_folder(self.path))
            # An interrupt may come before a caller has this object and could call `abort`.
            self._leftover = weakref.finalize(self, _remove_own, self._folder, os.getpid())
        self._guarded(lambda: manifest.write_manifest(self._folder, self._manifest))

    @property
    def folder(self) -> Path:
        """Folder of the parts now: the partial folder, or the published bundle."""
        return self.path if self._is_over else self._folder

    def begin(self, resolve: Resolver) -> None:
        """Set the resolver of instructions; call it before the first page."""
        self._resolve = resolve

    def set_model(self, model: Mapping[str, Any]) -> None:
        """Write model.json: what describes the run besides its events, as plain JSON values."""
        data = orjson.dumps(model, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY)
        self._guarded(lambda: manifest.replace_file(self._folder / manifest.MODEL_NAME, data))

    def set_text(self, text: Mapping[str, Any]) -> None:
        """Write text.json: lines and loops of the program's text, as plain values and arrays; none if it is
        larger than readers take."""
        data = orjson.dumps(text, option=orjson.OPT_SERIALIZE_NUMPY)
        if len(data) <= manifest.LARGEST_TEXT_BYTES:
            self._guarded(lambda: manifest.replace_file(self._folder / manifest.TEXT_NAME, data))

    def write_page(self, rows: np.ndarray, horizon: int) -> None:
        """Write event rows (n, 4), which the caller must not change afterwards."""
        self._submit(lambda: self._write_page(rows, horizon))

    def add_part(self, table: manifest.TableName, columns: Columns) -> None:
        """Write columns of one table as they are; interval and counter columns sorted by track."""
        self._submit(lambda: self._add_part(table, columns))

    def truncate(self, cycle: int) -> None:
        """Drop what happened at `cycle` and later from the parts written so far."""
        self._submit(lambda: self._truncate(cycle))

    def close(self, end_cycle: int) -> Path:
        """Write everything, publish the bundle, and return its path."""
        self._submit(lambda: self._finish(end_cycle))
        self._stop_thread()
        self._raise_error()
        with shielded():
            self._guarded(lambda: publish_folder(self._folder, self.path))
            self._is_over = True
            self._leftover.detach()
        return self.path

    def abort(self) -> None:
        """Give up: remove the partial folder. Does nothing after `close`."""
        if self._is_over:
            return
        with shielded():
            self._is_over = True
            self._stop_thread()
            self._leftover()

    def __enter__(self) -> "BundleWriter":
        return self

    def __exit__(self, *failure: object) -> None:
        self.abort()

    # -- errors and the thread --------------------------------------------------------------------

    def _guarded(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except OSError as error:
            failure = ExportError(f"{self.path}: cannot write the trace: {error.strerror or error}")
            self._error = failure
            if hasattr(self, "_leftover"):
                self.abort()
            raise failure from None
        except BaseException:
            if hasattr(self, "_leftover"):
                self.abort()
            raise

    def _submit(self, job: Callable[[], None]) -> None:
        self._raise_error()
        if self._is_over:
            raise SimulationError(f"{self.path}: the bundle is closed already")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="npuviz-bundle", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._error is None and not self._is_over:
                self._error = self._failure_of(job)
            self._jobs.task_done()

    def _failure_of(self, job: Callable[[], None]) -> NpuvizError | None:
        try:
            job()
        except NpuvizError as error:
            return error
        except OSError as error:
            return ExportError(f"{self.path}: cannot write the trace: {error.strerror or error}")
        except Exception as error:
            # A bug: it must reach the caller instead of ending this thread unseen.
            return SimulationError(f"{self.path}: {type(error).__name__} while writing the trace: {error}")
        return None

    def _stop_thread(self) -> None:
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _raise_error(self) -> None:
        if self._error is not None:
            self.abort()
            raise self._error

    # -- jobs, in the thread ----------------------------------------------------------------------

    def _write_page(self, rows: np.ndarray, horizon: int) -> None:
        tables = PageTables(self._manifest.schema, self._resolve)
        for batch in self._splitter.split(rows):
            tables.add(batch)
        for table, columns in tables.columns():
            self._write_part(table, columns)
        end_cycle = max(self._manifest.end_cycle, horizon)
        self._manifest = replace(self._manifest, end_cycle=end_cycle)
        manifest.write_manifest(self._folder, self._manifest)

    def _add_part(self, table: manifest.TableName, columns: Columns) -> None:
        self._write_part(table, columns)
        manifest.write_manifest(self._folder, self._manifest)

    def _write_part(self, table: manifest.TableName, columns: Columns) -> None:
        part = self._store_part(table, columns)
        end_cycle = max(self._manifest.end_cycle, part.last_cycle)
        self._manifest = replace(self._manifest, parts=(*self._manifest.parts, part), end_cycle=end_cycle)

    def _store_part(self, table: manifest.TableName, columns: Columns) -> manifest.Part:
        data = encode(table, columns)
        name = f"{table}-{self._num_parts:06d}.parquet"
        self._num_parts += 1
        with open(self._folder / name, "wb") as file:
            file.write(data)
        rows = len(next(iter(columns.values())))
        return manifest.Part(name, table, rows, len(data), zlib.crc32(data), last_cycle(table, columns))

    def _truncate(self, cycle: int) -> None:
        self._splitter.forget_from(cycle)
        kept: list[manifest.Part] = []
        dropped: list[manifest.Part] = []
        for part in self._manifest.parts:
            if part.last_cycle <= cycle:
                kept.append(part)
                continue
            dropped.append(part)
            path = self._folder / part.file
            columns = before(part.table, decode(str(path), path.read_bytes(), part), cycle)
            if len(next(iter(columns.values()))):
                kept.append(self._store_part(part.table, columns))
        end_cycle = min(self._manifest.end_cycle, cycle)
        self._manifest = replace(self._manifest, parts=tuple(kept), end_cycle=end_cycle)
        manifest.write_manifest(self._folder, self._manifest)
        for part in dropped:
            (self._folder / part.file).unlink()

    def _finish(self, end_cycle: int) -> None:
        end_cycle = max(end_cycle, self._manifest.end_cycle)
        self._manifest = replace(self._manifest, end_cycle=end_cycle, is_complete=True)
        manifest.write_manifest(self._folder, self._manifest)


def _remove_own(folder: Path, owner: int) -> None:
    """Remove a folder, unless this process is a copy (fork) of the one that made it."""
    if os.getpid() == owner:
        with shielded():
            shutil.rmtree(folder, ignore_errors=True)


def _make_partial_folder(place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1000):
        mark = f".{attempt}" if attempt else ""
        folder = place.with_name(f".{place.name}.partial-{os.getpid()}{mark}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise ExportError(f"{place.parent}: holds 1000 unfinished bundles of that name; remove them")
