from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from npuviz.targets.wavelet.csl import frontend
from npuviz.targets.wavelet.csl.syntax.errors import CslSourceError
from tests.targets.wavelet.csl.programs import elaborate, write


def test_import_paths(tmp_path: Path) -> None:
    (tmp_path / "more" / "kit").mkdir(parents=True)
    (tmp_path / "more" / "kit" / "tool.csl").write_text("const answer = 42;")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.csl").write_text('const up = @import_module("../outer.csl"); const n = up.n;')
    text = """
    const tool = @import_module("<kit/tool>");
    const inner = @import_module("sub/inner.csl");
    comptime { @comptime_assert(tool.answer + inner.n == 45); }
    """
    path = write(tmp_path, {"pe.csl": text, "outer.csl": "const n = 3;"})
    found = frontend.elaborate(path, "wse2", import_paths=[tmp_path / "more"])
    assert [Path(file.path).name for file in found.files] == [
        "layout.csl",
        "pe.csl",
        "tool.csl",
        "inner.csl",
        "outer.csl",
    ]
    with pytest.raises(SourceError, match="no file <kit/tool>"):
        frontend.elaborate(path, "wse2")


def test_errors_carry_their_line(tmp_path: Path) -> None:
    with pytest.raises(CslSourceError) as caught:
        elaborate(tmp_path, {"pe.csl": "\ncomptime { const c: u16 = nothing; }"})
    error = caught.value
    assert (error.line, error.column) == (2, 27)
    assert error.source_line == "comptime { const c: u16 = nothing; }"
    assert error.source_line[error.caret.index("^") :].startswith("nothing")


def test_text_that_is_not_text(tmp_path: Path) -> None:
    path = write(tmp_path, {})
    (tmp_path / "pe.csl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceError, match="not text in UTF-8"):
        frontend.elaborate(path, "wse2")


@pytest.mark.parametrize("name", ["", ".", "/", "a\0b", "<>", "<../../x>"])
def test_strange_file_names(tmp_path: Path, name: str) -> None:
    text = 'const m = @import_module("' + name.replace("\0", r"\x00") + '");'
    with pytest.raises(SourceError, match="no file"):
        elaborate(tmp_path, {"pe.csl": text})


def test_declared_twice_and_two_layouts(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="a is declared twice; first at"):
        elaborate(tmp_path, {"pe.csl": "const a = 1;\nfn a() void {}"})
    with pytest.raises(SourceError, match="second"):
        elaborate(tmp_path, {"pe.csl": "", "layout.csl": "layout {} layout {}"})


def test_parameters_have_the_phase_of_their_place(tmp_path: Path) -> None:
    text = (
        "var v: u16 = 3; const c = v; const p = @is_comptime(); comptime { @comptime_assert(p and c == 3); }"
    )
    elaborate(tmp_path, {"pe.csl": text})


def test_values_from_json(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text('{"n:u16": 3, "list": [1, 2.5], "deep": {"on": true, "text": "ab"}}')
    text = """
    const v = @import_comptime_value(comptime_struct, "v.json");
    const T = struct { a: u16 };
    comptime {
      @comptime_assert(@is_same_type(@type_of(v.n), u16) and v.n == 3);
      @comptime_assert(v.list[1] == 2.5 and v.deep.on and @strlen(v.deep.text) == 2);
    }
    """
    elaborate(tmp_path, {"pe.csl": text})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("null", "null"),
        ('{"a:banana": 1}', "not a type"),
        ("3", "expected comptime_struct"),
    ],
)
def test_wrong_json(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "v.json").write_text(content)
    text = 'comptime { const v = @import_comptime_value(comptime_struct, "v.json"); }'
    with pytest.raises(SourceError, match=words):
        elaborate(tmp_path, {"pe.csl": text})
