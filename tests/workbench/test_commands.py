import pytest

from npuviz.base.errors import SimulationError, UsageError
from npuviz.workbench.commands import Command, CommandRegistry


def test_runs_only_enabled_commands() -> None:
    ran: list[str] = []
    registry = CommandRegistry()
    registry.add(
        Command("a", "A", lambda: ran.append("a")), Command("b", "B", lambda: ran.append("b"), lambda: False)
    )
    assert registry.run("a")
    assert not registry.run("b")
    assert ran == ["a"]


def test_ids_are_unique_and_unknown_ones_are_told() -> None:
    registry = CommandRegistry()
    registry.add(Command("a", "A", lambda: None))
    with pytest.raises(SimulationError):
        registry.add(Command("a", "Other", lambda: None))
    with pytest.raises(UsageError, match="'z'"):
        registry.run("z")


def test_order_is_menu_group_order_title() -> None:
    registry = CommandRegistry()
    registry.add(
        Command("3", "z", lambda: None, menu="File", group=1),
        Command("2", "b", lambda: None, menu="File", order=1),
        Command("1", "a", lambda: None, menu="File", order=1),
        Command("0", "x", lambda: None, menu="File"),
    )
    assert [command.id for command in registry.all()] == ["0", "1", "2", "3"]
