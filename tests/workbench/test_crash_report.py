from pathlib import Path

import pytest

from npuviz.workbench.crash_report import MAX_REPORTS, report_directory, write_report


def make_error() -> Exception:
    try:
        raise ZeroDivisionError("here")
    except ZeroDivisionError as error:
        return error


def test_a_report_says_what_and_where() -> None:
    path = write_report(make_error(), ["npuviz", "run"])
    assert path is not None
    text = path.read_text()
    assert "ZeroDivisionError: here" in text
    assert "make_error" in text
    assert "'run'" in text


def test_old_reports_go() -> None:
    for _ in range(MAX_REPORTS + 3):
        write_report(make_error())
    assert len(list(report_directory().iterdir())) == MAX_REPORTS


def test_a_folder_that_cannot_be_written_is_no_second_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert write_report(make_error()) is None
