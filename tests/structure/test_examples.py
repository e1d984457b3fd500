"""Random examples: the same commit draws the same ones."""

from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st


def drawn() -> list[int]:
    found: list[int] = []

    @given(st.integers())
    def note(number: int) -> None:
        found.append(number)

    note()
    return found


def test_they_do_not_depend_on_what_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    (tmp_path / "module_of_numbers.py").write_text(f"NUMBERS = {list(range(1 << 40, (1 << 40) + 500))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("module_of_numbers")
    assert drawn() == before
