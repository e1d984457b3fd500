"""Find the files that a list file names, in the layout of an ONNXim home folder."""

import os
from dataclasses import dataclass
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.base.names import is_named_file

_MAX_ASCENT = 4


@dataclass(frozen=True, slots=True)
class OnnximHome:
    """A folder with `models/`, `models/language_models/`, `traces/` and `configs/`."""

    root: Path

    @classmethod
    def of_list(cls, list_file: Path) -> "OnnximHome":
        """Find the nearest folder above the list file that has `models/`, else $ONNXIM_HOME.

        Raises FormatError when there is neither.
        """
        folders = list(list_file.resolve().parents)[:_MAX_ASCENT]
        given = os.environ.get("ONNXIM_HOME", "")
        for folder in [*folders, *([Path(given)] if given else [])]:
            if (folder / "models").is_dir():
                return cls(folder)
        raise FormatError(
            list_file,
            expected="a folder `models` beside or above it",
            found="none",
            hint="set ONNXIM_HOME to the folder that has it",
        )

    def model(self, name: str) -> Path:
        """Return the path of a model's ONNX file."""
        return self.root / "models" / name / f"{name}.onnx"

    def language_model(self, name: str) -> Path:
        """Return the path of the file with a language model's sizes."""
        return self.root / "models" / "language_models" / f"{name}.json"

    def trace(self, file: str) -> Path:
        """Return the path of a request trace. Raises FormatError for a name that leaves the folder."""
        folder = self.root / "traces"
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise FormatError(folder, expected="the name of a trace in it", found=repr(file[:60]))
        return folder / file

    def is_language_model(self, name: str) -> bool:
        """Whether a name of a list file is that of a language model."""
        return not is_named_file(self.model(name)) and is_named_file(self.language_model(name))
