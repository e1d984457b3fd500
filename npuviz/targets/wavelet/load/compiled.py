"""Read and write the folder of a compiled program: the wafer, facts about it for host scripts, a recorded
run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.load.archive import read_record, write_record
from npuviz.targets.wavelet.wafer import HostCommand, Wafer

WAFER_FILE = "npuviz-wafer.npz"
RUN_FILE = "npuviz-run.npz"
OUT_FILE = "out.json"
FAILURE_FILE = "npuviz-failed.txt"
LONGEST_FAILURE = 400
MOST_FAILURES = 100
FORMAT_VERSION = 2


@dataclass(frozen=True)
class Recording:
    """The commands that a host program gave to the chip, in order.

    script  the host program's name, "" if unknown
    """

    commands: tuple[HostCommand, ...]
    script: str = ""


def is_compiled(folder: Path) -> bool:
    """Return whether a folder holds a program that the stand-in for cslc compiled."""
    return (folder / WAFER_FILE).is_file()


def save_wafer(folder: Path, wafer: Wafer, colors: Mapping[str, int] | None = None) -> None:
    """Write the wafer and out.json, and remove the recording of an earlier program.

    colors  those that the command line named. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (RUN_FILE, FAILURE_FILE):
        (folder / name).unlink(missing_ok=True)
    write_record(folder / WAFER_FILE, "wafer", FORMAT_VERSION, wafer)
    text = json.dumps(facts(wafer, colors or {}), indent=1)
    (folder / OUT_FILE).write_text(text + "\n", encoding="utf-8")


def load_wafer(folder: Path) -> Wafer:
    """Read the wafer of a compiled folder. Raises FormatError, or OSError."""
    if not is_compiled(folder):
        raise FormatError(
            folder, expected=f"a compiled program ({WAFER_FILE})", hint="compile it with `npuviz csl cslc`"
        )
    # The check imports the limits of kernels, which the compiler that saves a wafer need not load.
    from npuviz.targets.wavelet.load.wafer_check import check_wafer

    path = folder / WAFER_FILE
    wafer = read_record(path, "wafer", FORMAT_VERSION, Wafer)
    check_wafer(wafer, path)
    return wafer


def save_run(folder: Path, commands: Sequence[HostCommand], script: str = "") -> None:
    """Write the commands that a host program gave to the chip. Raises OSError."""
    write_record(folder / RUN_FILE, "run", FORMAT_VERSION, Recording(tuple(commands), script))


def load_run(folder: Path) -> Recording | None:
    """Read the recorded run of a compiled folder; None without one. Raises FormatError, or OSError."""
    path = folder / RUN_FILE
    if not path.is_file():
        return None
    from npuviz.targets.wavelet.load.wafer_check import check_commands

    recording = read_record(path, "run", FORMAT_VERSION, Recording)
    check_commands(recording.commands, path)
    return recording


def add_failure(path: Path, text: str) -> None:
    """Append the reason why a host program failed to a file, as one line. Raises OSError."""
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(" ".join(text.split())[:LONGEST_FAILURE] + "\n")


def read_failures(path: Path) -> tuple[str, ...]:
    """Read the lines of a file that `add_failure` wrote, none without a file. Raises OSError."""
    if not path.is_file():
        return ()
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = file.read(MOST_FAILURES * LONGEST_FAILURE).splitlines()
    return tuple(line[:LONGEST_FAILURE] for line in lines[:MOST_FAILURES])


def facts(wafer: Wafer, colors: Mapping[str, int]) -> dict[str, object]:
    """Return the contents of out.json: parameters as texts, exported names with their ids, symbols of every
    program."""
    return {
        "params": dict(wafer.params),
        "colors": {name: str(number) for name, number in colors.items()},
        "arch": wafer.arch,
        "rectangle": {"width": wafer.columns, "height": wafer.rows},
        "fabric": {"width": wafer.fabric[0], "height": wafer.fabric[1]},
        "offsets": {"width": wafer.offset[0], "height": wafer.offset[1]},
        "exports": [
            {"id": index, "name": name, "type": type_, "mutable": is_mutable}
            for index, (name, (type_, is_mutable)) in enumerate(wafer.exported.items())
        ],
        "programs": [
            {
                "name": program.name,
                "memory_bytes": program.memory_bytes,
                "code_bytes": program.code_bytes,
                "symbols": [
                    {"name": s.name, "address": s.address, "bytes": s.size_bytes, "type": s.type}
                    for s in program.symbols
                ],
                "tasks": [
                    {"name": t.name, "kind": isa.name_of("ID_", t.kind), "id": t.id} for t in program.tasks
                ],
            }
            for program in wafer.programs
        ],
        "files": list(wafer.files),
    }
