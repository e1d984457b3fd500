"""Loops of few rounds are written out, with the same results; others stay loops."""

from pathlib import Path

import pytest

from tests.targets.wavelet.csl.executed import numbers
from tests.targets.wavelet.csl.lowered import code, program


def _operations(folder: Path, text: str) -> list[str]:
    return [line.split()[0] for line in code(program(folder, text))]


@pytest.mark.parametrize(
    "loop",
    [
        "for (@range(i16, 4)) |i| { n += i * m; }",
        "var i: i16 = 0; while (i < 4) : (i += 1) { n += i * m; }",
        "var i: i16 = 3; while (i >= 0) : (i -= 1) { n += i * m; }",
        "for (@range(i16, 3, 9, 2)) |i| { n += i * m; }",
    ],
)
def test_few_rounds_are_written_out(tmp_path: Path, loop: str) -> None:
    names = _operations(tmp_path, f"var n: i16; var m: i16; fn f() void {{ {loop} }}")
    assert "jnz" not in names
    assert names.count("mul.i16") in (3, 4)


@pytest.mark.parametrize(
    "loop",
    [
        "for (@range(i16, 40)) |i| { n += i * m; }",
        "for (@range(i16, 4)) |i| { if (n == 3) { break; } n += i; }",
        "for (@range(i16, 4)) |i| { n += g(i); }",
        "var i: i16 = m; while (i < 4) : (i += 1) { n += i; }",
        "var i: i16 = 0; while (i < 4) : (i += 1) { i += n; }",
        "var i: i16 = 0; while (i < m) : (i += 1) { n += i; }",
        "var i: u16 = 0; while (i != 3) : (i += 2) { n += 1; }",
    ],
)
def test_others_stay_loops(tmp_path: Path, loop: str) -> None:
    text = f"var n: i16; var m: i16; fn g(a: i16) i16 {{ return a * n; }} fn f() void {{ {loop} }}"
    assert "jnz" in _operations(tmp_path, text)


def test_what_wraps_at_run_time_still_wraps(tmp_path: Path) -> None:
    text = "var n: u16 = 0; fn main() void { for (@range(u16, 4)) |i| { n += (i - 1) & 7; } out[0] = n; }"
    assert numbers(tmp_path, text) == [7 + 0 + 1 + 2]


def test_the_counter_keeps_its_last_value(tmp_path: Path) -> None:
    text = """
      var n: i16 = 0;
      fn main() void {
        var i: i16 = 1;
        while (i < 8) : (i += 3) { n += i; if (i == 4) { n += 100; } }
        out[0] = n; out[1] = i;
      }
    """
    assert numbers(tmp_path, text, 2) == [1 + 4 + 7 + 100, 10]


def test_loops_within_loops(tmp_path: Path) -> None:
    text = """
      var a = @zeros([64]i16);
      fn main() void {
        for (@range(i16, 8)) |i| { for (@range(i16, 8)) |j| { a[j * 8 + i] = i * 8 + j; } }
        out[0] = a[1]; out[1] = a[62]; out[2] = a[63];
      }
    """
    assert numbers(tmp_path, text, 3) == [8, 55, 63]


def test_a_product_with_minus_one_is_a_difference(tmp_path: Path) -> None:
    text = "var a: f32; var b: f32; fn f() f32 { var s: f32 = a; s += -1.0 * b; s -= b * -1.0; return s; }"
    names = _operations(tmp_path, text)
    assert [name for name in names if name.endswith("f32") and name[:2] not in ("ld", "mo")] == [
        "sub.f32",
        "add.f32",
    ]


def test_a_negation_behind_a_choice_stays(tmp_path: Path) -> None:
    text = """
      var a: f32 = 2.0; var b: f32 = 3.0; var c: bool = true;
      fn main() void { const d = if (c) -a else b; out[0] = @as(i32, b + d); out[1] = @as(i32, b - -a); }
    """
    assert numbers(tmp_path, text, 2) == [1, 5]


def test_a_negation_that_has_a_name_stays(tmp_path: Path) -> None:
    text = """
      var a: f32 = 3.0; var b: f32 = 5.0;
      fn f(x: f32, y: f32) f32 { const n = -y; const s = x + n; return s * n; }
      fn g(x: f32, y: f32) f32 { var n = y * -1.0; var s = x; s -= n; n = n + s; return n * s; }
      fn main() void { out[0] = @as(i32, f(a, b)); out[1] = @as(i32, g(a, b)); }
    """
    assert numbers(tmp_path, text, 2) == [10, 24]


def test_what_was_negated_outlives_the_loads_of_the_other_operand(tmp_path: Path) -> None:
    text = """
      var a = @zeros([4]f32); var k: i16 = 3;
      fn main() void {
        a[3] = 2.0;
        const twice = a[k & 3] - ((a[k & 3] * -1.0) * -1.0);
        const once = a[k & 3] + -a[(k + 1) & 3];
        out[0] = @as(i32, twice); out[1] = @as(i32, once);
      }
    """
    assert numbers(tmp_path, text, 2) == [0, 2]


ONCE = """const n = %s; var s: i32 = 0; var a = [4]i32 { 5, 6, 7, 8 };
fn g(x: i32) void { s = s * 2 + x; }
fn main() void {
  for (@range(u16, 1)) |i| { g(a[i] + 1); }
  one: for (@range(u16, 2, 2 + B, 1)) |i| {
    for (@range(u16, B)) |j| { if (j == i) continue; if (s > 3) continue :one; g(1000); }
    g(2000);
  }
  for (@range(u16, 3, 3 + B, 1)) |i| { if (a[i] == 8) { g(a[i]); break; } g(3000); }
  var k: u16 = 1;
  while (k < 1 + B) : (k += 4) { g(@as(i32, k)); if (s == 0) break; }
  var l: u16 = 1;
  while (l < 1 + B) : (l += 4) { if (s != 0) break; }
  out[0] = s; out[1] = @as(i32, k); out[2] = @as(i32, l);
}
"""


def test_a_loop_of_one_round_is_its_body(tmp_path: Path) -> None:
    written = ONCE.replace("const n = %s", "const B: u16 = 1")
    rolled = ONCE.replace("const n = %s", "var B: u16 = 1")
    found = numbers(tmp_path, written, 3)
    assert found == numbers(tmp_path, rolled, 3) == [((6 * 2) + 8) * 2 + 1, 5, 1]
    text = "var n: i16; fn g(a: i16) void {{ n += a; }} fn f() void {{ {} }}"
    loop = _operations(
        tmp_path, text.format("for (@range(i16, 5, 6, 1)) |i| { if (n == i) continue; g(i); }")
    )
    assert not {"jnz", "lt.i16"}.intersection(loop)
