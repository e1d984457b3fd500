"""kill -9 at random moments: while a bundle is written, kernels are compiled, settings are saved."""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.soak import forks
from benchmarks.soak.kernels import kill_compilers
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.programs import TARGETS, bundle_digest, record, warm, what_remains
from npuviz.workbench.settings import Settings

KILLS = {"bundle": 130, "kernels": 20, "settings": 50}
"""Killed runs per target."""
COMPILED = ("systolic", "neuroncore", "rk3588")
"""Killed while kernels compile, too. Those of the wafer take minutes: its runs are killed more often."""
_SETTINGS_SECONDS = 0.05


def run(share: float) -> Iterator[Outcome]:
    """Kill runs of every target."""
    counts = {what: max(1, round(count * share)) for what, count in KILLS.items()}
    for target in TARGETS:
        with tempfile.TemporaryDirectory(prefix="npuviz-soak-") as name:
            folder = Path(name)
            more = 0 if target in COMPILED else counts["kernels"]
            yield kill_writers(target, folder, counts["bundle"] + more)
            yield kill_settings(target, folder, counts["settings"])
    for target in COMPILED:
        yield kill_compilers(target, counts["kernels"])


def kill_writers(target: str, folder: Path, kills: int) -> Outcome:
    """Kill runs that record over an earlier bundle, or with a probability of 0.3 to a new one."""
    outcome = Outcome("kill", f"{target}: kill -9 while a bundle is written")
    choose, bundle = random.Random(f"{target} bundle"), folder / "run.npuviz"
    warm(target)
    first = forks.run(lambda: record(target, bundle), folder)
    if first.code:
        outcome.count(f"the first run failed: {first.error}")
        return outcome
    expected, kinds = bundle_digest(bundle), {"whole": 0, "remains": 0, "refused": 0}
    longest = forks.run(lambda: record(target, bundle), folder).seconds
    while outcome.tried < kills:
        if choose.random() < 0.3:
            shutil.rmtree(bundle, ignore_errors=True)
        was_there = bundle.exists()
        ended = forks.struck(lambda: record(target, bundle), folder, choose.uniform(0, longest))
        if ended.code == 0:
            continue  # it was faster
        fault = "" if ended.code == -9 else f"ended with {ended.code}: {ended.error}"
        fault = fault or _damage(folder, bundle, was_there, expected, kinds)
        outcome.count(fault or _next_run(target, folder, bundle, expected))
    outcome.figures = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return outcome


def _damage(folder: Path, bundle: Path, was_there: bool, expected: str, kinds: dict[str, int]) -> str:
    """Describe damage of a killed run: to the earlier bundle, or remains that neither open nor are
    refused."""
    if was_there and (not bundle.exists() or bundle_digest(bundle) != expected):
        return "the earlier bundle is damaged"
    others = [path for path in folder.iterdir() if path.name not in (bundle.name, "out", "err")]
    strange = [path.name for path in others if not path.name.startswith(f".{bundle.name}.")]
    if strange:
        return f"left {strange}"
    for path in (*others, *([bundle] if bundle.exists() else [])):
        looked = forks.run(lambda path=path: _say(what_remains(path)), folder)
        if looked.code:
            return f"{path.name} does not open: {looked.error[-300:]}"
        kinds[looked.out.strip()] += path != bundle or not was_there
        if path != bundle:
            shutil.rmtree(path)
    return ""


def _say(text: str) -> int:
    print(text, flush=True)
    return 0


def _next_run(target: str, folder: Path, bundle: Path, expected: str) -> str:
    ended = forks.run(lambda: record(target, bundle), folder)
    if ended.code:
        return f"the next run failed with {ended.code}: {ended.error[-300:]}"
    if bundle_digest(bundle) != expected:
        return "the next run wrote something else"
    left = [path.name for path in folder.iterdir() if path.name not in (bundle.name, "out", "err")]
    return f"the next run left {left}" if left else ""


# --- settings


def kill_settings(target: str, folder: Path, kills: int) -> Outcome:
    """Kill programs that save settings all the time: the file must always be one that was saved."""
    outcome = Outcome("kill", f"{target}: kill -9 while settings are saved")
    place, choose = folder / "config", random.Random(f"{target} settings")
    Settings(place / "settings.json").set("number", -1)

    def save() -> int:
        settings = Settings(place / "settings.json")
        for number in range(1 << 30):
            settings.set("layout", "x" * (number % 4000))
            settings.set("number", number)
        return 0

    while outcome.tried < kills:
        ended = forks.struck(save, folder, choose.uniform(0, _SETTINGS_SECONDS))
        fault = "" if ended.code == -9 else f"ended with {ended.code}: {ended.error[-300:]}"
        try:
            found = json.loads((place / "settings.json").read_text())
            if not isinstance(found.get("number"), int):
                fault = f"the settings became {str(found)[:100]}"
        except (OSError, ValueError) as error:
            fault = f"the settings are lost: {error}"
        for path in place.iterdir():
            os.utime(path, (0, 0))
        Settings(place / "settings.json").set("number", 0)
        left = [path.name for path in place.iterdir() if path.name != "settings.json"]
        if left:
            fault = fault or f"leaves {left}"
        outcome.count(fault)
    shutil.rmtree(place)
    return outcome
