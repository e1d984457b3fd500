"""Finds the files that ship with npuviz, in the wheel or in a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _find(packed: str, checkout: str) -> Path:
    inside = _PACKAGE / packed
    return inside if inside.is_dir() else _PACKAGE.parent / checkout


def resource_path(name: str) -> Path:
    """Return the path of a file under resources/, for example "themes/dark.toml"."""
    return _find("_resources", "resources") / name


def sample_models_path() -> Path:
    """Return the folder of the sample models; it may be missing in a stripped installation."""
    return _find("_sample_models", "sample_models")


def manual_path() -> Path:
    """Return the folder of the documentation's pages; it may be missing in a stripped installation."""
    return _find("_docs", "docs")
