"""Files that a script asks of a run: the NEFF of its kernel, traces as bundles, and a report of each."""

import json
import shutil
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz.base.errors import KernelWarning, NpuvizError
from npuviz.targets.neuroncore.nki.lowering import Lowered
from npuviz.targets.neuroncore.spec import NeuronSpec

if TYPE_CHECKING:
    from npuviz.targets.neuroncore.machine.machine import NeuronMachine

REPORTS = "json_reports"


@dataclass(frozen=True)
class Files:
    """Where a run of a kernel is saved. None: not at all.

    neff  file of the program
    traces  bundles; all runs of a kernel are alike, so that several are copies of one
    reports  folder for one JSON file a trace
    """

    neff: Path | None = None
    traces: tuple[Path, ...] = ()
    reports: Path | None = None


def benchmark_files(options: dict[str, Any]) -> Files:
    """Return what the options `save_neff_name` and `save_trace_name` of nki.benchmark and nki.baremetal ask
    for."""
    neff, trace = options.get("save_neff_name"), options.get("save_trace_name")
    return Files(Path(neff) if neff else None, (Path(trace),) if trace else ())


def profile_files(options: dict[str, Any]) -> Files:
    """Return what the options of nki.profile ask for, named as the vendor names them.

    Of `num_execs` executions every `profile_nth` one is traced: the first as `profile.ntff`, the n-th as
    `profile_exec_n.ntff`. Files that are there already stay, with a warning and without new ones, unless
    `overwrite` says otherwise. Raises ValueError where the working directory is missing or not absolute.
    """
    given = options.get("working_directory")
    if given is None or not Path(given).is_absolute():
        raise ValueError(f"nki.profile: working_directory is {given!r}; give it an absolute path")
    folder = Path(given)
    every = max(1, int(options.get("profile_nth", 1)))
    numbers = range(every, max(every, int(options.get("num_execs", 1))) + 1, every)
    name = Path(str(options.get("save_trace_name", "profile.ntff")))
    traces = (name if n == 1 else name.with_name(f"{name.stem}_exec_{n}{name.suffix}") for n in numbers)
    files = Files(
        folder / str(options.get("save_neff_name", "file.neff")),
        tuple(folder / each for each in traces),
        folder / REPORTS,
    )
    known = next((path for path in (files.neff, *files.traces) if path is not None and path.exists()), None)
    if known is not None and not options.get("overwrite"):
        text = f"nki.profile: {known} exists, nothing is written; give overwrite=True to replace it"
        warnings.warn(text, KernelWarning, stacklevel=4)
        return Files()
    return files


@contextmanager
def saving(
    files: Files, name: str, lowered: Lowered, spec: NeuronSpec, machine: "NeuronMachine"
) -> Generator[Path | None]:
    """Write the NEFF, give the place of the bundle to write within, then write its copies and the reports.

    A program that no NEFF holds is a warning. Raises OSError.
    """
    for path in (files.neff, *files.traces):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    for path in files.traces:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
    if files.neff is not None:
        _save_neff(files.neff, lowered, spec, name)
    yield files.traces[0] if files.traces else None
    for path in files.traces[1:]:
        shutil.copytree(files.traces[0], path)
    if files.reports is not None:
        _save_reports(files.reports, files.traces, machine, name)


def _save_neff(path: Path, lowered: Lowered, spec: NeuronSpec, name: str) -> None:
    from npuviz.formats.neff.file import write_neff
    from npuviz.targets.neuroncore.neff.writer import compiled_neff

    try:
        write_neff(compiled_neff(lowered.compiled, spec, name), path)
    except NpuvizError as error:
        warnings.warn(f"{path} was not written: {error}", KernelWarning, stacklevel=6)


def _save_reports(folder: Path, traces: Sequence[Path], machine: "NeuronMachine", name: str) -> None:
    frequency = machine.description.base_clock.frequency_hz
    values = {
        "kernel": name,
        "cycles": machine.cycle,
        "nanoseconds": machine.cycle / frequency * 1e9,
        "counters": dict(machine.summary().counters),
        "simulated_by": "npuviz",
    }
    folder.mkdir(exist_ok=True)
    for path in traces:
        text = json.dumps(values, indent=1, default=float)
        (folder / f"{path.stem}.json").write_text(text + "\n", encoding="utf-8")
