"""Session files: written and read again, and everything wrong with them in one line."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.sessions.bookmarks import Bookmark, BookmarkList, read_bookmarks, stored
from npuviz.workbench.sessions.file import (
    SUFFIX,
    SavedSession,
    Source,
    difference,
    find_source,
    read_session,
    source_of,
    write_session,
)


def saved_in(folder: Path) -> tuple[Path, SavedSession]:
    models = folder / "models"
    models.mkdir()
    (models / "net.onnx").write_bytes(b"weights")
    (models / "chip.json").write_bytes(b"{}")
    out = folder / f"look{SUFFIX}"
    saved = SavedSession(
        source_of(models / "net.onnx", out),
        source_of(models / "chip.json", out),
        OpenOptions("systolic", "tpuv4", settings={"batch": "2"}, seed=7),
        1234,
        (("cycle == 5", True), ('op "final square"', False)),
        (Bookmark(5, 5, "here", digit=1), Bookmark(10, 20, "slow\nvery", "Core[0].EX", "GEMM  conv1")),
        {"name": "profiling", "shown": ["timeline"], "panels": {"timeline": {"row_height": 30}}},
    )
    write_session(out, saved)
    return out, saved


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    out, saved = saved_in(tmp_path)
    assert read_session(out) == saved
    assert saved.source == Source("models/net.onnx", sha256(b"weights").hexdigest())
    # A colleague learns nothing of where it lies here.
    assert str(tmp_path) not in out.read_text()


def test_a_source_is_found_where_it_was_or_beside_the_session(tmp_path: Path) -> None:
    out, saved = saved_in(tmp_path)
    assert find_source(saved.source, out) == tmp_path / "models/net.onnx"
    elsewhere = tmp_path / "colleague"
    elsewhere.mkdir()
    moved = out.rename(elsewhere / out.name)
    assert find_source(saved.source, moved) is None
    (elsewhere / "net.onnx").write_bytes(b"other weights")
    found = find_source(saved.source, moved)
    assert found is not None
    assert found == elsewhere / "net.onnx"
    assert difference(saved.source, found) == (
        "net.onnx is not the file the session was made with: its content differs."
    )
    found.write_bytes(b"weights")
    assert difference(saved.source, found) == ""
    assert difference(Source("net.onnx", ""), found) == ""


def test_folders_are_told_apart_by_all_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "a.csl").write_text("a")
    source = source_of(folder, tmp_path / "x")
    assert difference(source, folder) == ""
    (folder / "b.csl").write_text("b")
    assert difference(source, folder) != ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"npuviz_session": 2}, "a newer npuviz wrote it"),
        ({"npuviz_session": None}, "expected 1"),
        ({"sources": []}, "sources"),
        ({"sources": [{"role": "config", "path": "x"}]}, "one model"),
        ({"sources": [{"role": "model", "path": "x\0y"}]}, "sources.0.path"),
        ({"sources": [{"role": "model", "path": "x", "sha256": "abc"}]}, "sha256"),
        ({"cycle": -1}, "cycle"),
        ({"cycle": "5"}, "cycle"),
        ({"settings": {"a": 5}}, "settings.a"),
        ({"breakpoints": [{"condition": 3}]}, "breakpoints.0.condition"),
        ({"layout": {"panels": {"timeline": []}}}, "layout.panels.timeline"),
        ({"run": "rm -rf"}, "run"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    out, _ = saved_in(tmp_path)
    data = json.loads(out.read_text())
    out.write_text(json.dumps({**data, **change}))
    with pytest.raises(FormatError) as caught:
        read_session(out)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cut_and_damaged_files_are_refused_in_one_line(tmp_path: Path) -> None:
    out, _ = saved_in(tmp_path)
    data = out.read_bytes()
    for end in range(0, len(data) - 2, 7):
        out.write_bytes(data[:end])
        with pytest.raises(FormatError) as caught:
            read_session(out)
        assert "\n" not in str(caught.value)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["first", "last", "note", "track", "label", "digit", "x"]), inner, max_size=7
        )
    ),
    max_leaves=20,
)


@given(_values)
def test_bookmarks_from_anything_make_sense(kept: object) -> None:
    for bookmark in read_bookmarks(kept):
        assert 0 <= bookmark.first <= bookmark.last
        assert -1 <= bookmark.digit <= 9
        assert read_bookmarks(stored([bookmark])) == [bookmark]


def test_a_place_and_a_digit_have_one_bookmark_and_notes_stay() -> None:
    marks = BookmarkList()
    told: list[int] = []
    marks.changed.subscribe(lambda: told.append(len(marks.all)))
    marks.add(Bookmark(50, 50, "why?"))
    marks.add(Bookmark(50, 50, digit=3))
    assert marks.all == (Bookmark(50, 50, "why?", digit=3),)
    marks.add(Bookmark(7, 9, digit=3))
    assert [each.first for each in marks.all] == [7]
    marks.write(marks.all[0], "  because ")
    assert [*marks.all] == [Bookmark(7, 9, "because", digit=3)]
    marks.remove(Bookmark(1, 1))
    assert told == [1, 1, 1, 1]
