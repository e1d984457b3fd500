"""What the window says is what `npuviz run --json` says, number by number."""

import json
from pathlib import Path
from typing import Any

import pytest

from npuviz.base.units import format_count
from npuviz.cli.main import main
from npuviz.ui.inspector.panel import InspectorPanel
from npuviz.ui.queues.panel import QueuesPanel
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.samples import sample_entries
from tests.ui.driver import Driver
from tests.ui.shell.test_clicks import own

__all__ = ["own"]

SAMPLES = {entry.options.target: entry for entry in sample_entries() if entry.options.target != "toy"}
"""Each real machine in `make check-all`; `make check` asks the same of the toy."""


def printed(path: Path, options: OpenOptions, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["run", str(path), "--target", options.target, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def compare_numbers(driver: Driver, found: dict[str, Any]) -> int:
    """Compare what is on the screen at the end of the run; returns how many numbers were."""
    driver.model.run_through()
    driver.idle()
    driver.window.selection.clear()
    driver.window.docks.show_panel("inspector")
    driver.qtbot.waitUntil(lambda: all(panel.is_settled for panel in driver.window.docks.panels.values()))
    cycles = found["cycles"]
    assert driver.label("status.cycle") == f"cycle {cycles}"
    assert driver.label("status.events").split(" event")[0] == format_count(found["events"])
    assert driver.window.run_bar.position.text().startswith(
        f"{format_count(cycles)} / {format_count(cycles)} "
    )
    inspector = driver.window.docks.panel("inspector")
    assert isinstance(inspector, InspectorPanel)
    page = inspector.view.page
    units = next(section.table for section in page.sections if section.title == "Units")
    assert units is not None
    count, heading, busy = 3, "", {}
    for name, status, share in units.rows:
        if name.link is None and not status.text:
            heading = name.text
        elif share.text:
            plain = name.text if name.text.startswith(heading) else f"{heading}.{name.text}"
            busy[name.text] = busy[plain] = share.text
    for unit in found["units"]:
        text = busy.get(unit["name"])
        if text is None:
            continue
        shown = text.replace("\u2007", "").replace("\u202f", " ")
        assert shown == f"{100 * unit['utilization']:.1f} %", unit["name"]
        count += 1
    queues = driver.window.docks.panel("queues")
    if isinstance(queues, QueuesPanel) and found["queues"]:
        driver.window.docks.show_panel("queues")
        driver.qtbot.waitUntil(lambda: queues.is_settled)
        peaks = {state.name: state.peak_text for state in queues.table.states}
        for queue in found["queues"]:
            assert peaks[queue["name"]] == format_count(queue["peak"]), queue["name"]
            count += 1
    return count


def test_the_window_says_what_the_command_line_says(
    toy: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert toy.model.opened is not None
    found = printed(toy.model.opened.path, OpenOptions("toy"), capsys)
    assert compare_numbers(toy, found) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("target", SAMPLES)
def test_the_window_says_what_the_command_line_says_on_every_machine(
    own: Driver, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quicker test of the same rule: `test_the_window_says_what_the_command_line_says`."""
    entry = SAMPLES[target]
    found = printed(entry.path, entry.options, capsys)
    own.model.open(entry.path, entry.options)
    own.idle()
    count = compare_numbers(own, found)
    print(target, count, "numbers compared")
    assert count >= 8
