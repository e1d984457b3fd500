from dataclasses import replace

import pytest

from npuviz.workbench.layouts import (
    DEFAULT_LAYOUT,
    LAYOUTS,
    Cell,
    Layout,
    Row,
    layout_for,
    layout_named,
)
from tests.toy.target import make_machine


def test_restriction_drops_what_is_missing_and_what_becomes_empty() -> None:
    layout = Layout(
        "x", "X", "",
        (Row((Cell(("a", "b"), 1), Cell(("c",), 2)), 3), Row((Cell(("d",), 1),), 1)),
    )  # fmt: skip
    fitted = layout.restricted_to({"b", "c"})
    assert fitted.rows == (Row((Cell(("b",), 1), Cell(("c",), 2)), 3),)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_no_panel_stands_twice(layout: Layout) -> None:
    panels = [panel for row in layout.rows for cell in row.cells for panel in cell.panels]
    assert len(panels) == len(set(panels))
    assert 1 <= len(layout.rows) <= 2
    assert layout_named(layout.name) is layout


def test_a_machine_that_is_a_fabric_begins_in_its_layout() -> None:
    description = make_machine().description
    assert layout_for(None).name == layout_for(description).name == DEFAULT_LAYOUT
    fabric = replace(description, features={"routed fabric": {}})
    assert layout_for(fabric).name == "fabric"
