"""Rules of the window that its sources can be read for."""

from pathlib import Path

import pytest

UI = Path(__file__).resolve().parents[2] / "npuviz" / "ui"
SOURCES = sorted(UI.rglob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(UI)))
def test_text_is_cut_at_its_end(source: Path) -> None:
    """Paths of files alone may lose their middle, in the dialog about trust."""
    text = source.read_text()
    assert "ElideMiddle" not in text
    assert "elide_middle" not in text or source.name == "trust.py"
