"""`export` and `extern`: one variable or function, named in several modules of a PE's program."""

from pathlib import Path

import pytest

from npuviz.targets.wavelet.csl.syntax.errors import CslSourceError
from tests.targets.wavelet.csl.executed import numbers

MAIN = """
const part = @import_module("part.csl");
export var shared: [4]i16 = [4]i16 {1, 2, 3, 4};
export fn twice(x: i16) i16 { return 2 * x; }
fn main() void {
  shared[1] = 20;
  part.add();
  out[0] = @as(i32, shared[0]);
  out[1] = @as(i32, shared[1]);
  out[2] = @as(i32, part.total());
  out[3] = @as(i32, part.four());
}
"""
PART = """
extern var shared: [4]i16;
extern fn twice(x: i16) i16;
const all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> shared[i] });
fn add() void { @add16(all, all, 5); }
fn total() i16 {
  var sum: i16 = 0;
  for (@range(i16, 4)) |i| { sum += shared[i]; }
  return sum;
}
fn four() i16 { return twice(2); }
"""


def _numbers(folder: Path, main: str = MAIN, part: str = PART) -> list[int]:
    (folder / "part.csl").write_text(part)
    return numbers(folder, main, 4)


def test_an_extern_variable_is_the_exported_one(tmp_path: Path) -> None:
    assert _numbers(tmp_path) == [6, 25, 6 + 25 + 8 + 9, 4]


def test_modules_share_what_a_third_exports(tmp_path: Path) -> None:
    (tmp_path / "store.csl").write_text("export var shared: [4]i16 = @constants([4]i16, 7);")
    main = MAIN.replace("export var shared: [4]i16 = [4]i16 {1, 2, 3, 4};", "extern var shared: [4]i16;")
    assert _numbers(tmp_path, main + 'const store = @import_module("store.csl");') == [
        12,
        25,
        12 + 25 + 24,
        4,
    ]


def test_a_link_name_joins_different_names(tmp_path: Path) -> None:
    main = MAIN.replace("export var shared: [4]i16 =", 'export var shared: [4]i16 linkname("one") =')
    part = PART.replace("extern var shared: [4]i16;", 'extern var mine: [4]i16 linkname("one");')
    assert _numbers(tmp_path, main, part.replace("shared[i]", "mine[i]"))[1:3] == [25, 48]


@pytest.mark.parametrize(
    ("main", "part", "said"),
    [
        (
            MAIN.replace("export var", "var"),
            PART,
            "extern shared: nothing that runs on this PE exports shared",
        ),
        (MAIN, PART.replace("var shared: [4]i16", "var shared: [5]i16"), "is [5]i16, the exported shared is"),
        (
            MAIN,
            PART.replace("extern fn twice(x: i16)", "extern fn twice(x: i32)"),
            "extern twice is fn(i32) i16",
        ),
        (MAIN.replace("export fn", "fn"), PART, "part.twice has no body"),
    ],
)
def test_what_nothing_exports_alike_is_told(tmp_path: Path, main: str, part: str, said: str) -> None:
    with pytest.raises(CslSourceError) as found:
        _numbers(tmp_path, main, part)
    assert said in str(found.value)
    assert "part.csl:" in str(found.value)


def test_an_extern_that_nothing_uses_needs_no_export(tmp_path: Path) -> None:
    assert _numbers(tmp_path, MAIN, PART + "extern var elsewhere: u16;")[0] == 6
