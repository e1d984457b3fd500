"""Conditions of writing: full disks, read-only folders, two runs at once, a window that reads at the same
time."""

import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.soak import forks
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.programs import TARGETS, arguments, bundle_digest, record, warm, what_remains
from npuviz.cli.main import main
from npuviz.workbench.settings import Settings

FULL_DISKS, READ_ONLY, PAIRS, LOOKS = 40, 5, 20, 20
"""Tries of each condition per target."""
EXPORTS = ("perfetto", "csv", "parquet")


def run(share: float) -> Iterator[Outcome]:
    """Test every condition on every target."""
    for target in TARGETS:
        warm(target)
        with tempfile.TemporaryDirectory(prefix="npuviz-soak-") as name:
            folder = Path(name)
            first = forks.run(lambda target=target, folder=folder: record(target, folder / "first"), folder)
            if first.code:
                yield Outcome("conditions", f"{target}: the first run", 1, 0, "", [first.error])
                continue
            size = sum(path.stat().st_size for path in (folder / "first").iterdir())
            yield full_disks(target, folder, size, max(1, round(FULL_DISKS * share)))
            yield read_only(target, folder, max(1, round(READ_ONLY * share)))
            yield pairs(target, folder, max(1, round(PAIRS * share)))
            yield looked_at(target, folder, max(1, round(LOOKS * share)))


@contextmanager
def disk(options: str) -> Generator[Path]:
    """Mount a small separate file system in memory. Raises PermissionError where mounting is not allowed."""
    folder = Path(tempfile.mkdtemp(prefix="npuviz-soak-disk-"))
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            raise PermissionError(f"mounting takes root: {found.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=False)
    finally:
        folder.rmdir()


def refusal(ended: forks.Ended) -> str:
    """Describe what is wrong about the refusal of a command, "" if nothing is."""
    if ended.code != 2:
        return f"ended with {ended.code}: {ended.error[-300:]}"
    if not ended.error.startswith("npuviz: error: ") or ended.error.count("\n") != 1:
        return f"more than one line: {ended.error[-300:]}"
    return "an internal error" + ended.error[-300:] if "internal error" in ended.error else ""


def full_disks(target: str, folder: Path, size: int, count: int) -> Outcome:
    """Run with a disk too full for bundle or export, at many sizes, and save settings on a full disk."""
    outcome = Outcome("conditions", f"{target}: a full disk, at random sizes")
    choose, refused = random.Random(f"{target} disk"), 0
    try:
        while outcome.tried < count:
            room = choose.randrange(4096, max(8192, round(1.5 * size)))
            with disk(f"size={room}") as place:
                kind = choose.choice(("record", "over", *EXPORTS))
                out, before = place / "out", ""
                if kind == "over":
                    shutil.copytree(folder / "first", out, copy_function=_copy_what_fits)
                    before = bundle_digest(out)
                options = ("--record", str(out))
                if kind in EXPORTS:
                    options = ("--export", f"{kind}:{out}")
                command = ["run", *arguments(target), "--json", *options]
                ended = forks.run(lambda command=command: main(command), folder)
                refused += ended.code == 2
                outcome.count(_after_full_disk(ended, place, before) if ended.code else "")
    except PermissionError as error:
        outcome.count(str(error))
    outcome.figures = f"{refused} refused, the others had room"
    return outcome


def _copy_what_fits(source: str, target: str) -> None:
    try:
        shutil.copy(source, target)
    except OSError:
        Path(target).unlink(missing_ok=True)


def _after_full_disk(ended: forks.Ended, place: Path, before: str) -> str:
    left = sorted(path.name for path in place.iterdir())
    if left != (["out"] if before else []):
        return f"left {left}"
    if before and bundle_digest(place / "out") != before:
        return "the earlier bundle is damaged"
    settings = place / "settings.json"
    with suppress(OSError), (place / "rest").open("wb", 0) as file:
        while file.write(bytes(4096)):
            pass
    Settings(settings).set("theme", "dark")
    if settings.exists() and Settings(settings).get("theme") != "dark":
        return "half a settings file"
    return refusal(ended)


def read_only(target: str, folder: Path, count: int) -> Outcome:
    """Run with bundle or export in a folder without write permission."""
    outcome = Outcome("conditions", f"{target}: a read-only folder")
    try:
        with disk("ro") as place:
            for _ in range(count):
                for options in (("--record",), *(("--export", kind) for kind in EXPORTS)):
                    out = str(place / "out")
                    last = (options[0], f"{options[1]}:{out}") if len(options) > 1 else (*options, out)
                    command = ["run", *arguments(target), "--json", *last]
                    ended = forks.run(lambda command=command: main(command), folder)
                    outcome.count(refusal(ended))
    except PermissionError as error:
        outcome.count(str(error))
    return outcome


def pairs(target: str, folder: Path, count: int) -> Outcome:
    """Run twice into one bundle at the same time: each run makes a whole bundle, and one of them stays."""
    outcome = Outcome("conditions", f"{target}: two runs into one bundle")
    choose, bundle, expected = (
        random.Random(f"{target} pairs"),
        folder / "two",
        bundle_digest(folder / "first"),
    )
    places = [folder / "one-of-two", folder / "other-of-two"]
    for place in places:
        place.mkdir(exist_ok=True)
    for _ in range(count):
        if choose.random() < 0.5:
            shutil.rmtree(bundle, ignore_errors=True)
        begin, started = time.monotonic(), list[int]()
        for place in places:
            started.append(forks.start(lambda: record(target, bundle), place))
            time.sleep(choose.uniform(0, 0.05))
        ends = [forks.finish(pid, place, begin) for pid, place in zip(started, places, strict=True)]
        fault = next((f"{end.code}: {end.error[-300:]}" for end in ends if end.code), "")
        if not fault and bundle_digest(bundle) != expected:
            fault = "the bundle is that of neither"
        left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        outcome.count(fault or (f"left {left}" if left else ""))
    shutil.rmtree(bundle, ignore_errors=True)
    return outcome


# --- a window on a bundle that is being written


def looked_at(target: str, folder: Path, count: int) -> Outcome:
    """Let a window open a bundle, and the finished part of the next one, while runs write them."""
    outcome = Outcome("conditions", f"{target}: a window on a bundle that is being written")
    bundle, stop = folder / "seen", folder / "stop"
    shutil.copytree(folder / "first", bundle)

    def write() -> int:
        while not stop.exists():
            if record(target, bundle):
                return 1
        return 0

    writer_folder = folder / "writer"
    writer_folder.mkdir()
    begin, pid = time.monotonic(), forks.start(write, writer_folder)
    ended = forks.run(lambda: _look(bundle, count), folder)
    stop.touch()
    written = forks.finish(pid, writer_folder, begin)
    outcome.tried = count
    outcome.figures = ended.out.splitlines()[-1] if ended.out else ""
    if written.code or ended.code:
        outcome.faults.append(" ".join((written.error[-300:] + ended.error[-300:]).split()))
    outcome.good = count if not outcome.faults else max(0, count - 1)
    if what_remains(bundle) != "whole":
        outcome.faults.append("the bundle in the end is not whole")
    stop.unlink()
    return outcome


def _look(bundle: Path, count: int) -> int:
    """Open the existing bundles repeatedly in a window; returns 1 if an error other than a message was
    raised."""
    import sys

    from npuviz.ui.shell.application import Application
    from npuviz.workbench.opening import OpenOptions

    failures: list[str] = []
    sys.excepthook = lambda *error: failures.append(repr(error[1]))
    application = Application(Settings(None))
    window = application.new_window()
    window.resize(1280, 800)
    window.show()
    partial = opened = 0
    for number in range(count):
        parts = sorted(bundle.parent.glob(f".{bundle.name}.partial-*"))
        path = parts[0] if parts and number % 2 else bundle
        partial += path != bundle
        window.open(path, OpenOptions())
        end = time.monotonic() + 10
        while time.monotonic() < end and (window.model.is_busy or not window.isVisible()):
            application.qt.processEvents()
        for _ in range(20):
            application.qt.processEvents()
        opened += window.model.reader is not None
    application.close()
    print(f"{opened} shown, {partial} of those asked for were half written", flush=True)
    print("\n".join(failures), file=sys.stderr)
    return 1 if failures else 0
