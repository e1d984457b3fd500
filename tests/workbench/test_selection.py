from npuviz.workbench.selection import NOTHING, MemoryRange, Selection, SelectionModel


def test_tells_only_when_the_selection_differs() -> None:
    model = SelectionModel()
    heard: list[Selection] = []
    unsubscribe = model.changed.subscribe(heard.append)
    model.set(Selection(node=3))
    model.set(Selection(node=3))
    model.set(Selection(memory=MemoryRange(0, 16, 4)))
    model.clear()
    model.clear()
    unsubscribe()
    model.set(Selection(node=1))
    assert heard == [Selection(node=3), Selection(memory=MemoryRange(0, 16, 4)), NOTHING]
    assert not model.current.is_empty
    assert NOTHING.with_fields(unit=2) == Selection(unit=2)
