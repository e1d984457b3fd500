from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from npuviz.targets.wavelet.csl.comptime import coercion
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import Scalar
from tests.targets.wavelet.csl.programs import elaborate, globals_of


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (t.U16, t.U32, True),
        (t.U16, t.I32, True),
        (t.U16, t.I16, False),
        (t.I16, t.U32, False),
        (t.I32, t.I16, False),
        (t.F16, t.F32, True),
        (t.F32, t.F16, False),
        (t.pointer(t.array((4,), t.F32)), t.pointer(t.F32, many=True), True),
        (t.pointer(t.F32), t.pointer(t.array((1,), t.F32)), True),
        (t.pointer(t.F32, const=True), t.pointer(t.F32), False),
        (t.pointer(t.F32), t.pointer(t.F32, const=True), True),
        (t.pointer(t.U32), t.pointer(t.ANYOPAQUE), True),
        (t.COLOR, t.U16, False),
    ],
)
def test_implicit_conversion_of_runtime_values(source: t.Type, target: t.Type, expected: bool) -> None:
    assert coercion.converts(source, target) is expected


def test_explicit_conversions(tmp_path: Path) -> None:
    found = globals_of(
        tmp_path,
        """
        const a = @as(i16, -2.9);
        const b = @as(u8, @as(u16, 300));
        const c = @as(bool, 0.5);
        const d = @as(u32, true);
        const e = @bitcast(f32, @as(u32, 0x40490FDB));
        const f = @bitcast(u16, @as(i16, -1));
        const g = @as(f16, 65536.0);
        const h: f32 = @as(f16, 0.1);
        const i = @bitcast(u16, @as(f16, 6.0));
        const j = @get_int(@get_color(5));
        """,
    )
    numbers = {name: value.number for name, value in found.items() if isinstance(value, Scalar)}
    assert numbers == {
        "a": -2,
        "b": 44,
        "c": True,
        "d": 1,
        "f": 65535,
        "i": 0x4600,
        "j": 5,
        "e": 3.1415927410125732,
        "g": float("inf"),
        "h": 0.0999755859375,
    }


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        ("const x: u16 = -1;", "-1 does not fit in u16"),
        ("const x: i16 = 40000;", "holds -32768 to 32767"),
        ("const x: u16 = 1.5;", "expected u16, found comptime_float"),
        ("const x: bool = 1;", "expected bool, found comptime_int"),
        ("const x: color = 3;", "@get_color"),
        ("const x: f16 = @as(f32, 1.0);", "expected f16, found f32"),
        ("const A = @zeros([2]f32); const x: [*]f32 = &A;", "points to a const"),
        ("const S = struct { a: u16 }; const x: S = .{ .b = 1 };", "has no field .b"),
        ("const S = struct { a: u16 }; const x: S = .{};", "field .a of S is missing"),
        ("const x: [2]u16 = [3]u16{1, 2, 3};", r"expected \[2\]u16, found \[3\]u16"),
        ("const x = [2]u16{1, 2, 3};", "2 elements, found 3"),
        ("const x = @as(u16, 1) + @as(f32, 2.0);", "types u16 and f32"),
        ("const x = @bitcast(f32, @as(u16, 1));", "16 bits"),
        ("const x = !@as(u16, 1);", "not defined"),
        ("const x = true + true;", "not defined"),
        ("const x = @as(u16, 1)[0];", "cannot be indexed"),
        ("const A = @zeros([2]u16); const x = A[2];", "index 2 is outside"),
        ("const A = @zeros([2, 2]u16); const x = A[1];", "takes 2 indices"),
        ("const x = undeclared_name;", "not declared"),
        ("const width = 1; const x = widht;", "did you mean width"),
        ("fn f(a: u16) void {} const x = f(1, 2);", "takes 1 arguments, found 2"),
        ("task t() void {} const x = t();", "cannot be called"),
        ("const x = @get_colour(1);", "did you mean @get_color"),
        ("const x = @fmacs(1, 2, 3, 4);", "runs on the PE"),
    ],
)
def test_type_errors(tmp_path: Path, declaration: str, words: str) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        elaborate(tmp_path, {"pe.csl": declaration + "\ncomptime { const used = x; }"})
    assert caught.value.file.endswith("pe.csl")
    assert caught.value.line == 1


def test_unused_wrong_declarations_are_warnings(tmp_path: Path) -> None:
    elaboration = elaborate(tmp_path, {"pe.csl": "const x: u16 = -1;"})
    assert [line for line in elaboration.warnings if "pe.csl:1:16" in line and "does not fit" in line]
