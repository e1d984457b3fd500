from pathlib import Path

from npuviz.workbench.settings import MAX_RECENT, Settings


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
        assert settings.recent_files() == []
    path.write_text('{"recent_files": {"a": 1}}')
    assert Settings(path).recent_files() == []


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
        settings.add_recent_file(file)
    settings.add_recent_file(files[5])
    recent = settings.recent_files()
    assert recent[0] == files[5]
    assert len(recent) == MAX_RECENT
    assert recent.count(files[5]) == 1
    files[5].unlink()
    assert files[5] not in settings.recent_files()
