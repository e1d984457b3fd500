"""Opening a file: a model becomes a session on the target that takes it, a bundle becomes a trace."""

import os
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from npuviz.base.errors import FormatError, UsageError
from npuviz.base.kernels.seldom import seldom_collected
from npuviz.base.late_module import late_module
from npuviz.base.progress import NoProgress, Progress
from npuviz.base.reading import reading
from npuviz.program.recorded_text import RecordedText, plain_text, recorded_text
from npuviz.sim.recording import ProgramResolver, schema_of
from npuviz.sim.target import LoadRequest, Target
from npuviz.workbench.choosing import BUNDLE_MANIFEST, choose_target

if TYPE_CHECKING:
    from npuviz.debug.session import Session
    from npuviz.trace.reader import TraceReader
    from npuviz.workbench.sweep.results import SweepResults

CHECKPOINT_BUDGET_BYTES = 256 << 20


@dataclass(frozen=True)
class OpenOptions:
    """How a file is to be opened; the fields of LoadRequest, and what to record.

    target   id of a target, "" picks by file
    record   folder of a new bundle, None keeps the trace in memory
    is_recording  False records nothing (no timeline)
    keeps_trace  False keeps nothing of a recorded bundle in memory: no timeline until the bundle is opened
    checkpoint_budget_bytes  memory for checkpoints, which make going back quick
    """

    target: str = ""
    preset: str = ""
    config: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    seed: int = 0
    record: Path | None = None
    is_recording: bool = True
    keeps_trace: bool = True
    checkpoint_budget_bytes: int = CHECKPOINT_BUDGET_BYTES

    def request(self, path: Path) -> LoadRequest:
        """Return the request to load a path with these options."""
        return LoadRequest(path, self.preset, self.config, self.settings, self.inputs, self.seed)


@dataclass(frozen=True)
class Opened:
    """An opened file. A model has a session and a target, a bundle a reader only, a sweep its results only.

    seconds  "load" (reading and compiling the model), "compile" (building the machine),
             "warm_up" (kernels)
    text     lines and loops of the program of a bundle, None for anything else
    """

    path: Path
    title: str
    options: OpenOptions
    reader: "TraceReader | None" = None
    session: "Session | None" = None
    target: Target | None = None
    preset: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    sweep: "SweepResults | None" = None
    text: RecordedText | None = None

    @property
    def listing(self) -> object:
        """The program's listing, or what a bundle kept of one; None if there is neither."""
        return self.session.program.listing if self.session is not None else self.text

    def publish(self) -> Path | None:
        """Finish the bundle that is being recorded and give it its name; None if there is none.

        Raises ExportError when it cannot be written. Nothing may run afterwards.
        """
        recorder = self.session.recorder if self.session else None
        if recorder is None or recorder.bundle is None:
            return None
        recorder.close()
        return recorder.bundle.path

    def close(self) -> None:
        """Discard a recorded bundle that was not published. May be called twice, and after `publish`."""
        recorder = self.session.recorder if self.session else None
        if recorder is not None and recorder.bundle is not None:
            recorder.bundle.abort()


def is_bundle(path: Path) -> bool:
    """Return whether the path is a trace bundle: a folder with a manifest, or a zip archive of one."""
    if os.path.isdir(path):
        return os.path.isfile(path / BUNDLE_MANIFEST)
    if not os.path.isfile(path) or not zipfile.is_zipfile(path):
        return False
    with suppress(OSError, FormatError), reading(path), zipfile.ZipFile(path) as archive:
        return any(name.rpartition("/")[2] == BUNDLE_MANIFEST for name in archive.namelist())
    return False


def is_sweep(path: Path) -> bool:
    """Return whether the path holds the results of a sweep: a folder, or the Parquet file in it."""
    if not path.is_dir() and path.suffix != ".parquet":
        return False
    from npuviz.workbench.sweep.results import results_file

    return results_file(path) is not None


def get_ready() -> None:
    """Import in advance what the first opening of a model needs; takes half a second, so call it when
    idle."""
    import numpy as np

    from npuviz.trace.pyramid_kernels import mark_kinds

    with late_module("sympy"):
        import npuviz.onnx.passes.library

        assert npuviz.onnx.passes.library
    # The first kernel that is loaded from the cache also loads numba's tables.
    mark_kinds(np.zeros(1, np.int16), 0, np.zeros(1, np.bool_))


@seldom_collected()
def open_file(path: Path, options: OpenOptions | None = None, progress: Progress | None = None) -> Opened:
    """Open a model or a bundle. Raises NpuvizError, or OSError from reading."""
    chosen = options or OpenOptions()
    watcher = progress or NoProgress()
    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file")
    if is_bundle(path):
        return _open_bundle(path, chosen)
    if is_sweep(path):
        return _open_sweep(path, chosen)
    return _open_model(path, chosen, watcher)


def _open_bundle(path: Path, options: OpenOptions) -> Opened:
    from npuviz.trace.bundle.bundle import open_checked_bundle

    begin = time.perf_counter()
    reader = open_checked_bundle(path)
    text = text_of_bundle(reader)
    seconds = {"load": time.perf_counter() - begin}
    title = reader.schema.title or path.name
    return Opened(path, title, options, reader=reader, seconds=seconds, text=text)


def text_of_bundle(reader: "TraceReader") -> RecordedText | None:
    """Return lines and loops of the program that a bundle was recorded of, None if it has none.

    Raises FormatError. Nothing of the program is run.
    """
    from npuviz.trace.bundle.source import BundleSource

    source = reader.source
    if not isinstance(source, BundleSource) or not source.text:
        return None
    return recorded_text(source.text_file, source.text)


def _open_sweep(path: Path, options: OpenOptions) -> Opened:
    from npuviz.workbench.sweep.results import read_results

    begin = time.perf_counter()
    results = read_results(path)
    return Opened(path, results.name, options, seconds={"load": time.perf_counter() - begin}, sweep=results)


def _open_model(path: Path, options: OpenOptions, progress: Progress) -> Opened:
    from npuviz.debug.session import Session
    from npuviz.trace.bundle.bundle import BundleWriter
    from npuviz.trace.recorder import Recorder

    begin = time.perf_counter()
    target = choose_target(path, options.target, options.preset)
    progress.report(-1.0, "reading and compiling the model")
    with reading(path):
        spec, program = target.load(options.request(path), progress)
    loaded = time.perf_counter()
    progress.report(-1.0, "building the machine")
    machine = target.build(spec, program)
    built = time.perf_counter()
    target.warm_up(progress)
    warm = time.perf_counter()
    recorder = None
    if options.is_recording:
        schema = schema_of(machine.description, program)
        bundle = BundleWriter(options.record, schema) if options.record is not None else None
        if bundle is not None and (text := plain_text(program.listing)) is not None:
            bundle.set_text(text)
        resolver = ProgramResolver(program.listing, machine.description.memories)
        keeps = options.keeps_trace or bundle is None
        recorder = Recorder(schema, resolver, bundle, keeps_in_memory=keeps)
    session = Session(machine, recorder, options.checkpoint_budget_bytes)
    seconds = {"load": loaded - begin, "compile": built - loaded, "warm_up": warm - built}
    preset = options.preset or ("" if options.config else next(iter(target.presets), ""))
    return Opened(path, program.title, options, session.trace, session, target, preset, seconds)
