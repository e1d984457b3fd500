import json
import os
from pathlib import Path
from typing import Any

import pytest

from npuviz.workbench import settings as module
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.recent import MAX_RECENT, recent_files, remember
from npuviz.workbench.settings import Settings


def test_values_survive_a_new_start(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "settings.json"
    Settings(path).set("theme", "light")
    assert Settings(path).get("theme") == "light"
    Settings(path).set("theme", None)
    assert Settings(path).get("theme", "none") == "none"


def test_a_damaged_file_counts_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    for damage in (b"{", b"[1, 2]", b"\xff\xfe\x00", b""):
        path.write_bytes(damage)
        settings = Settings(path)
        assert settings.get("theme") is None
        assert recent_files(settings) == []
    path.write_text('{"recent_files": {"a": 1}}')
    assert recent_files(Settings(path)) == []


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    settings = Settings(blocked / "settings.json")
    settings.set("theme", "dark")
    assert settings.get("theme") == "dark"


def test_recent_files_newest_first_without_doubles_or_lost_ones(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "settings.json")
    files = [tmp_path / f"{number}.onnx" for number in range(MAX_RECENT + 3)]
    for file in files:
        file.touch()
        remember(settings, file, OpenOptions())
    remember(settings, files[5], OpenOptions())
    recent = [each.path for each in recent_files(settings)]
    assert recent[0] == files[5]
    assert len(recent) == MAX_RECENT
    assert recent.count(files[5]) == 1
    files[5].unlink()
    assert files[5] not in [each.path for each in recent_files(settings)]


def test_a_recent_file_keeps_its_machine_and_settings(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    model = tmp_path / "model.onnx"
    model.touch()
    remember(Settings(path), model, OpenOptions("systolic", settings={"batch": "4"}))
    remember(Settings(path), model, OpenOptions("rk3588"))
    kept = recent_files(Settings(path))
    assert [each.detail for each in kept] == ["rk3588", "systolic, batch=4"]
    assert kept[1].options.settings == {"batch": "4"}


def test_recent_files_of_older_versions_and_nonsense(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"recent_files": [str(tmp_path), 3, {"path": 4}, {"path": "", "target": 1}]}))
    assert [each.path for each in recent_files(Settings(path))] == [tmp_path]


def test_what_killed_programs_left_goes_with_the_next_save(tmp_path: Path) -> None:
    """But not what another program is writing now."""
    old, new = (tmp_path / f"{module.PREFIX}{name}" for name in ("old", "new"))
    old.write_text("{")
    new.write_text("{")
    os.utime(old, (0, 0))
    Settings(tmp_path / "settings.json").set("theme", "light")
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, "settings.json"]


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    settings = Settings(path)
    settings.set("theme", "light")

    def full(_values: object, file: Any, **_options: object) -> None:
        file.write("{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.json, "dump", full)
    settings.set("theme", "dark")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert Settings(path).get("theme") == "light"
