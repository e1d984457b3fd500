"""Real data that is not the project's to ship: it lies beside the checkout, in ../shared/real."""

from pathlib import Path

import pytest

REAL = Path(__file__).resolve().parents[2] / "shared" / "real"


def shared_folder(name: str) -> Path:
    """A folder of the shared data. Skips the whole test module, and says so, where it is absent."""
    folder = REAL / name
    if not folder.is_dir():
        pytest.skip(f"needs {folder}, which is not there", allow_module_level=True)
    return folder
