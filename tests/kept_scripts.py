"""Command scripts of the wafer's samples, run once a process: each starts a compiler and a host program."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from npuviz.targets.wavelet.load import loader
from npuviz.workbench.resources import sample_models_path

_KEPT: dict[tuple[Path, str], tuple[Path, loader.ScriptRun]] = {}


def keep_scripts(temporary: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a sample's script that has run in this process what it made then."""
    real = loader.run_script
    samples = sample_models_path().resolve()

    def run(script: Path, place: Path, seconds: float, settings: str = "") -> loader.ScriptRun:
        if not script.resolve().is_relative_to(samples):
            return real(script, place, seconds, settings)
        key = (script.resolve(), settings)
        if key not in _KEPT:
            made = temporary.mktemp("script")
            _KEPT[key] = made, real(script, made, seconds, settings)
        kept, ran = _KEPT[key]
        shutil.copytree(kept, place, symlinks=True, dirs_exist_ok=True)
        return replace(ran, folder=place / ran.folder.relative_to(kept))

    monkeypatch.setattr(loader, "run_script", run)
