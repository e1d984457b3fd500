"""What is trusted, and for how long."""

from pathlib import Path

from npuviz.workbench.headless.info import describe_file, info_text
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.settings import Settings
from npuviz.workbench.trust import content_digest, is_trusted, trust


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "program"
    (made / "src").mkdir(parents=True)
    (made / "commands_wse3.sh").write_text("cs_python run.py\n")
    (made / "src" / "pe.csl").write_text("task t() void {}\n")
    return made


def test_trust_lasts_as_long_as_the_content(tmp_path: Path) -> None:
    path, settings = folder(tmp_path), Settings(tmp_path / "settings.json")
    assert not is_trusted(settings, path)
    trust(settings, path)
    assert is_trusted(Settings(tmp_path / "settings.json"), path)
    for change in ("src/pe.csl", "run.py"):
        before = (path / change).read_bytes() if (path / change).exists() else None
        (path / change).write_text("print('changed')\n")
        assert not is_trusted(settings, path), change
        (path / change).unlink() if before is None else (path / change).write_bytes(before)
        assert is_trusted(settings, path)
    (path / "src" / "pe.csl").rename(path / "src" / "qe.csl")
    assert not is_trusted(settings, path)


def test_a_copy_somewhere_else_is_not_trusted(tmp_path: Path) -> None:
    settings = Settings()
    trust(settings, folder(tmp_path / "mine"))
    assert not is_trusted(settings, folder(tmp_path / "theirs"))


def test_folders_with_links_out_of_them_are_asked_about_every_time(tmp_path: Path) -> None:
    path, settings = folder(tmp_path), Settings()
    (tmp_path / "outside.py").write_text("")
    (path / "run.py").symlink_to(tmp_path / "outside.py")
    assert content_digest(path) == ""
    trust(settings, path)
    assert not is_trusted(settings, path)


def test_samples_are_trusted_and_nonsense_is_not(tmp_path: Path) -> None:
    assert is_trusted(Settings(), sample_models_path() / "csl" / "heat")
    settings = Settings()
    for nonsense in (3, "all", {"a": 1}, [None, 4]):
        settings.set("trusted", nonsense)
        assert not is_trusted(settings, folder(tmp_path / str(type(nonsense).__name__)))


def test_a_settings_file_cannot_trust_everything(tmp_path: Path) -> None:
    settings = Settings()
    settings.set("trusted", [""])
    assert not is_trusted(settings, folder(tmp_path))


def test_info_runs_nothing(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "commands_wse3.sh").write_text(f"touch {tmp_path / 'mark'}\n")
    found = describe_file(path, OpenOptions("wavelet"))
    assert found["scripts"] == ["commands_wse3.sh"]
    assert "src/pe.csl" in found["files"]
    assert "not compiled" in info_text(found)
    assert not (tmp_path / "mark").exists()
