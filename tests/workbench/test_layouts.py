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
from npuviz.workbench.preferences.own_layouts import MAX_LAYOUTS, delete_layout, own_layouts, save_layout
from npuviz.workbench.settings import Settings


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


def test_the_first_layout_follows_from_what_the_machine_is() -> None:
    assert layout_for(frozenset()).name == layout_for({"semaphores"}).name == DEFAULT_LAYOUT
    assert layout_for({"routed fabric"}).name == "fabric"
    assert layout_for(frozenset(), is_recorded=True).name == "profiling"
    assert layout_for({"routed fabric"}, is_recorded=True).name == "fabric"
    assert layout_for({"sweep results"}, is_recorded=True).name == "sweep"


def test_own_layouts_are_kept_by_name_and_the_oldest_gives_way() -> None:
    settings = Settings(None)
    for number in range(MAX_LAYOUTS + 2):
        save_layout(settings, f"mine {number}", {"layout": str(number)})
    assert list(own_layouts(settings)) == [f"mine {n}" for n in range(2, MAX_LAYOUTS + 2)]
    save_layout(settings, "mine 5", {"layout": "other"})
    assert own_layouts(settings)["mine 5"] == {"layout": "other"}
    assert len(own_layouts(settings)) == MAX_LAYOUTS
    delete_layout(settings, "mine 5")
    delete_layout(settings, "nobody")
    assert "mine 5" not in own_layouts(settings)
    for damaged in (5, [], {"a": 3}, {"": {}}):
        settings.set("own_layouts", damaged)
        assert own_layouts(settings) == {}
