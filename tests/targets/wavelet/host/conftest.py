"""Host programs leave files where they run: in a folder of the test's own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test in its temporary folder."""
    monkeypatch.chdir(tmp_path)
