"""Keep what a run leaves behind: its logs, and what its PEs held at the end."""

import json
from contextlib import suppress
from pathlib import Path

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.host.device import Device
from npuviz.targets.wavelet.load.compiled import FAILURE_FILE, add_failure, load_run, load_wafer

LOG_FILE = "sim.log"
TRACE_FOLDER = "simfab_traces"
REPLAY_LIMIT = 200_000_000
_REMEMBERED: dict[Path, Device] = {}
"""Runs that ended in this process, by compiled folder: they need not run again to be read."""
_BEGUN: set[Path] = set()
"""Compiled folders that the host program of this process has loaded."""


def begin(folder: Path) -> None:
    """Note that a host program loads a compiled folder, and remove the failures that an earlier run left
    there."""
    _BEGUN.add(folder.resolve())
    with suppress(OSError):
        (folder / FAILURE_FILE).unlink(missing_ok=True)


def fail(text: str) -> None:
    """Write why the host program failed into every folder that it has loaded."""
    for folder in _BEGUN:
        with suppress(OSError):
            add_failure(folder / FAILURE_FILE, text)


def remember(folder: Path, device: Device) -> None:
    """Keep the end of a run so that this process can read it later."""
    _REMEMBERED[folder.resolve()] = device


def forget(folder: Path) -> None:
    """Drop the end of a run that `remember` kept."""
    _REMEMBERED.pop(folder.resolve(), None)


def final_state(folder: Path) -> Device:
    """Return the end of the last run of a compiled folder, kept by this process or by running it again.

    Raises UsageError when it has not run yet, FormatError, DeviceError.
    """
    known = _REMEMBERED.get(folder.resolve())
    if known is not None:
        return known
    recording = load_run(folder)
    if recording is None:
        raise UsageError(f"{folder}: has not run yet; run its host program first")
    device = Device(load_wafer(folder), {}, REPLAY_LIMIT)
    for command in recording.commands:
        device.submit(command)
    device.finish()
    remember(folder, device)
    return device


def write_logs(folder: Path, device: Device) -> None:
    """Write sim.log and simfab_traces to the current folder, as host scripts expect them. Raises OSError."""
    place = Path.cwd()
    cycle = device.machine.cycle
    lines = [*device.log_lines(), f"@{cycle} npuviz: end of the run of {folder}"]
    (place / LOG_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    traces = place / TRACE_FOLDER
    traces.mkdir(exist_ok=True)
    summary = {"folder": str(folder.resolve()), "cycles": cycle, "commands": len(device.commands)}
    (traces / "run.json").write_text(json.dumps(summary) + "\n", encoding="utf-8")
