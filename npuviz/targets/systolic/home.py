"""An ONNXim home folder: where models, mappings and traces lie when only their names are known."""

import os
from pathlib import Path

from npuviz.base.errors import FormatError


def home_of(path: Path) -> Path:
    """The home folder of a list file or a hardware file: $ONNXIM_HOME, else the nearest folder above
    the file that has a `models` folder, else the file's own folder."""
    chosen = os.environ.get("ONNXIM_HOME")
    if chosen:
        return Path(chosen)
    for folder in path.resolve().parents:
        if (folder / "models").is_dir():
            return folder
    return path.resolve().parent


def onnx_path(home: Path, name: str) -> Path:
    """Where the ONNX file of a model is."""
    return home / "models" / name / f"{name}.onnx"


def language_model_path(home: Path, name: str) -> Path:
    """Where the sizes of a language model are."""
    return home / "models" / "language_models" / f"{name}.json"


def trace_path(home: Path, name: str) -> Path:
    """Where a request trace is. Raises FormatError for a name that leaves the folder."""
    path = home / "traces" / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise FormatError(path, field="trace_file", expected="a file name", hint="put the file into traces/")
    return path
