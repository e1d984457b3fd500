"""Runs the program of each target, and checks that the bundle of a run is whole."""

import atexit
import contextlib
import hashlib
import importlib
import os
import shutil
import tempfile
import threading
from functools import cache
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.base.progress import NoProgress
from npuviz.cli.main import main
from npuviz.trace.bundle.bundle import open_bundle
from npuviz.workbench.choosing import choose_target

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
SMALL = SAMPLES / "systolic_2x16x16.json"
HEAT = SAMPLES / "csl" / "heat"
TARGETS = ("systolic", "neuroncore", "rk3588", "wavelet")


@cache
def arguments(target: str) -> tuple[str, ...]:
    """Return the arguments of `npuviz run` for the program of a target; the wafer's is compiled once, into
    /tmp."""
    found = {
        "systolic": (str(SAMPLES / "tiny_cnn.onnx"), "--config", str(SMALL)),
        "neuroncore": (str(SAMPLES / "tiny_cnn.onnx"), "--target", "neuroncore"),
        "rk3588": (str(SAMPLES / "tiny_cnn_int8.onnx"), "--target", "rk3588"),
    }
    return found.get(target) or (str(_compiled_wafer()),)


def _compiled_wafer() -> Path:
    from npuviz.sim.target import LoadRequest
    from npuviz.targets.wavelet.load.compiled import save_run, save_wafer
    from npuviz.targets.wavelet.machine.payload import WaferPayload

    folder = Path(tempfile.mkdtemp(prefix="npuviz-soak-heat-")) / "heat"
    atexit.register(_remove, folder.parent, os.getpid())
    _, program = choose_target(HEAT, "wavelet").load(LoadRequest(HEAT), NoProgress())
    payload = program.payload
    assert isinstance(payload, WaferPayload)
    save_wafer(folder, payload.wafer)
    save_run(folder, payload.commands)
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def warm(target: str) -> None:
    """Load everything that a run needs, also kernels, so that forks of this process have it.

    Raises RuntimeError where that fails or leaves threads, which a fork would not have.
    """
    with open(os.devnull, "w") as nowhere:
        with contextlib.redirect_stdout(nowhere):
            code = main(["run", *arguments(target), "--record", "none", "--json"])
        for name in ("pyarrow.parquet", "npuviz.trace.bundle.page", "npuviz.trace.bundle.query"):
            importlib.import_module(name)
    threads = threading.active_count()
    if code or threads > 1:
        raise RuntimeError(f"{target}: exit code {code}, {threads} threads")


def record(target: str, bundle: Path) -> int:
    """Run a target's program into a bundle; returns the exit code."""
    return main(["run", *arguments(target), "--record", str(bundle), "--json"])


def look_through(bundle: Path) -> bool:
    """Read everything in a bundle, as a window does; returns whether the run has finished.

    Raises NpuvizError, in one line.
    """
    reader = open_bundle(bundle)
    for track in reader.schema.tracks:
        if track.kind == "counter":
            reader.source.counter_view(track.id)
        else:
            reader.intervals(track.id, (0, reader.end_cycle + 1))
    for memory in range(len(reader.schema.memory_names)):
        reader.source.lifetimes_within(memory, 0, 1 << 62)
    reader.source.flow_view()
    return reader.is_complete


def bundle_digest(bundle: Path) -> str:
    """Return a hash of a bundle's data about a run, without the times of the simulation."""
    total = hashlib.sha256()
    for part in sorted(bundle.glob("*.parquet")):
        total.update(part.name.encode() + part.read_bytes())
    return total.hexdigest()


def what_remains(bundle: Path) -> str:
    """Return "whole", "remains" or "refused" for a bundle, by opening it. Other errors are raised."""
    try:
        return "whole" if look_through(bundle) else "remains"
    except FormatError as error:
        if "\n" in str(error):
            raise
        return "refused"
