"""Opening, running a little and closing, two hundred times for every kind of file."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.soak.measures import Held, held
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.programs import SAMPLES, SMALL, arguments, record
from npuviz.workbench.headless.compiling import compile_file
from npuviz.workbench.opening import OpenOptions, open_file

COUNT = 200
_UNTIL = 500
"""Cycles of each run."""


def run(share: float) -> Iterator[Outcome]:
    """Open and close every kind of file repeatedly."""
    with tempfile.TemporaryDirectory(prefix="npuviz-soak-") as name:
        for kind, path, options in _files(Path(name)):
            yield open_and_close(kind, path, options, max(20, round(COUNT * share)))


def _files(folder: Path) -> Iterator[tuple[str, Path, OpenOptions]]:
    cnn, int8 = SAMPLES / "tiny_cnn.onnx", SAMPLES / "tiny_cnn_int8.onnx"
    yield "ONNX, systolic array", cnn, OpenOptions("systolic", config=SMALL)
    yield "ONNX, NeuronCore", cnn, OpenOptions("neuroncore")
    yield "ONNX, RK3588", int8, OpenOptions("rk3588")
    yield "compiled wafer", Path(arguments("wavelet")[0]), OpenOptions("wavelet")
    for suffix, target, model in ((".neff", "neuroncore", cnn), (".regcmd", "rk3588", int8)):
        compile_file(model, folder / f"file{suffix}", OpenOptions(target))
        yield suffix, folder / f"file{suffix}", OpenOptions()
    record("systolic", folder / "bundle")
    yield "bundle", folder / "bundle", OpenOptions()
    shutil.make_archive(str(folder / "packed"), "zip", folder / "bundle")
    yield "bundle in a zip archive", folder / "packed.zip", OpenOptions()


def open_and_close(kind: str, path: Path, options: OpenOptions, count: int) -> Outcome:
    """Open a file, run or read it, and close it again."""
    outcome = Outcome("cycles", f"{kind}: opened and closed")
    first: Held | None = None
    begin, digests = time.monotonic(), set[str]()
    for number in range(count):
        try:
            digests.add(_once(path, options))
            outcome.count()
        except Exception as error:
            outcome.count(f"{type(error).__name__}: {error}")
        if number == count // 10:
            first = held()
    last = held()
    if first is not None:
        outcome.figures = f"{first.until(last)}, {(time.monotonic() - begin) / 60:.1f} minutes"
        if grown := first.growth(last):
            outcome.good -= 1
            outcome.faults.append(grown)
    if len(digests) > 1:
        outcome.good -= 1
        outcome.faults.append(f"{len(digests)} different digests")
    return outcome


def _once(path: Path, options: OpenOptions) -> str:
    opened = open_file(path, options)
    try:
        if opened.session is not None:
            opened.session.run(_UNTIL)
            return opened.session.machine.digest()
        reader = opened.reader
        assert reader is not None
        lengths = [
            len(reader.source.interval_view(track.id).start)
            for track in reader.schema.tracks
            if track.kind == "interval"
        ]
        return str((reader.end_cycle, lengths))
    finally:
        opened.close()
