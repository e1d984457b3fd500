from pathlib import Path

import pytest

from npuviz.workbench.breakpoint_text import condition_for
from npuviz.workbench.opening import open_file
from npuviz.workbench.selection import MemoryRange, Selection
from tests.workbench.toy_registry import toy_file


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        (Selection(instruction=5, node=0), "instr 5"),
        (Selection(memory=MemoryRange(1, 16, 16)), "write Core[0].SPAD 0x10..0x20"),
        (Selection(node=0, cycles=(3, 9)), 'op "scale"'),
        (Selection(cycles=(3, 9)), "cycle == 3"),
        (Selection(unit=1), None),
        (Selection(), None),
    ],
)
def test_every_text_is_understood_by_the_session(
    tmp_path: Path, selection: Selection, text: str | None
) -> None:
    session = open_file(toy_file(tmp_path)).session
    assert session is not None
    found = condition_for(selection, session.description, session.program)
    assert found == text
    if found is not None:
        assert session.breakpoints.add(found).text == text
