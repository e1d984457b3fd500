"""What is refused about a list file before any of its models is read."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from npuviz.base.errors import FormatError, TargetError, UsageError
from npuviz.formats.onnxim.home import OnnximHome
from npuviz.formats.onnxim.workloads import ModelEntry


def refuse_dimensions(dimensions: Mapping[str, int]) -> None:
    """A language model has no symbolic dimensions. Raises UsageError."""
    for name in dimensions:
        raise UsageError(
            f"--set {name[:60]}: no setting has this name, and a language model has no dimensions to set; "
            "its sizes are in its JSON file"
        )


def check_entries(path: Path, entries: Sequence[ModelEntry], home: OnnximHome) -> None:
    """Refuse lists that cannot run: a model that is nowhere, a language model beside others."""
    for entry in entries:
        if not home.model(entry.name).is_file() and not home.is_language_model(entry.name):
            raise FormatError(
                path,
                field=f"model {entry.name!r}",
                expected=f"the file {home.model(entry.name)}",
                found="none",
            )
    if len(entries) > 1 and any(home.is_language_model(entry.name) for entry in entries):
        raise TargetError(
            f"{path}: a language model runs alone, this list has {len(entries)} models; "
            "give each its own list file"
        )
