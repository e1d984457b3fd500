import re
from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from tests.targets.wavelet.csl.lowered import program

VECTOR = "var m: [4]f32; const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> m[i] });\n"
QUEUE = "const q = @get_input_queue(2); const r = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = q });\n"

CASES = [
    ("fn f(a: i16, b: u16) i16 { return a + b; }", 1, "operands of + have types i16 and u16"),
    ("fn f(a: i16) i16 { return a + 1.5; }", 1, "operands of + have types i16 and comptime_float"),
    ("fn f(a: i32) i16 { return a; }", 1, "expected i16, found i32; convert with @as(i16, ..)"),
    ("fn f(a: i16) u16 { return a; }", 1, "expected u16, found i16"),
    ("fn f(a: u16) u16 { return a + 70000; }", 1, "70000 does not fit in u16"),
    ("fn f(a: i16) i16 { if (a) { return 1; } return 2; }", 1, "a condition must be bool, found i16"),
    ("fn f(a: i16) i16 { if (a > 1) { return 1; } }", 1, "f can end without giving a i16"),
    ("fn f(a: i16) i16 { a = 2; return a; }", 1, "a is constant"),
    ("const c = [2]i16 { 1, 2 }; fn f(a: u16) void { c[a] = 2; }", 1, "this is constant"),
    ("fn f() void { var x; }", 1, "x needs a type or a value"),
    ("fn f() void { var x = 1; }", 1, "x has type comptime_int, which does not exist at run time"),
    ("fn f() void {\n  const x = 1;\n  const x = 2;\n}", 3, "x is declared twice in this block"),
    ("fn f(a: i16) i16 { return a << a; }", 1, "the amount of << must be unsigned"),
    ("fn f(a: f32) f32 { return a % a; }", 1, "% does not work on f32"),
    ("fn g(a: i16) void {} fn f() void {\n  g(1, 2);\n}", 2, "g takes 1 arguments, found 2"),
    ("task t() void {} fn f() void { t(); }", 1, "t is a task; tasks are activated, not called"),
    ("task t() void {} fn f() void { @activate(t); }", 1, "task t is not bound to an id"),
    ("var x: [3]i16; fn f() i16 { return x[3]; }", 1, "index 3 is outside 0..2"),
    ("var x: [3]i16; fn f(a: u16) i16 { return x[a, a]; }", 1, "expected 1 indices, found 2"),
    ("fn f() void { break; }", 1, "there is no loop around this break"),
    ("fn f(a: u16) void { switch (a) { 0 => return } }", 1, "this switch does not handle every value of u16"),
    ("fn g(comptime n: u16) u16 { return n; } fn f(a: u16) u16 { return g(a); }", 1, "known at compile time"),
    ("fn f(a: u16) void { comptime var i = 0; if (a > 1) { i += 1; } }", 1, "cannot change under a run-time"),
    ("fn f(a: u16) void { for (@range(i16, a)) |i| {} }", 1, "expected i16, found u16"),
    ("fn f(a: u16) u32 { return @bitcast(f32, a); }", 1, "@bitcast needs types of equal width"),
    ("fn f(p: [*]u16) u16 { return p.*; }", 1, "[*]u16 cannot be dereferenced; index it, as in p[0]"),
    (
        VECTOR + "fn f() void { @fmacs(d, d, 1.0); }",
        2,
        "@fmacs has 3 operands; forms: (dsd, dsd, dsd, value)",
    ),
    (VECTOR + "fn f(a: i16) void { @fmacs(d, d, d, a); }", 2, "expected a f32, found i16"),
    (VECTOR + "fn f() void { @fmovs(d, d, .{ .async = true }); }", 2, "needs a fabric operand"),
    (VECTOR + "fn f() void { @fmovs(d, d, .{ .sync = true }); }", 2, "there is no setting sync"),
    (VECTOR + QUEUE + "fn f() void { @fmovs(r, d); }", 3, "a fabin_dsd cannot be a destination"),
    (VECTOR + QUEUE + "fn f() void { @fadds(d, r, r); }", 3, "WSE-3 allows only one fabin_dsd per operation"),
    (
        "task a(x: u16) void {} task b() void {} fn f() void {}\ncomptime {\n"
        "@bind_data_task(a, @get_data_task_id(@get_input_queue(5)));\n"
        "@bind_control_task(b, @get_control_task_id(5)); }",
        4,
        "b and a are bound to id 5: data, local and control tasks share one table of ids",
    ),
    ("fn f() void { for (@range(comptime_int, 1000000000000)) |i| {} }", 1, "runs 1,000,000,000,000 times"),
    (
        "fn g(comptime n: comptime_int) u16 { return g(n + 1); } fn f() u16 { return g(1); }",
        1,
        "calls of g nest",
    ),
    ("fn g(x: anytype) void { g(.{ x, x }); } fn f(q: u16) void { g(q); }", 1, "at most 64 can be passed"),
    ("var big: [30000]f32; fn f(a: u16) f32 { return big[a]; }", 1, "data need 120,000 bytes"),
    (
        "fn f(a: u16) f32 { var big: [30000]f32; return big[a]; }",
        1,
        "local variables of f need 120,000 bytes",
    ),
]


@pytest.mark.parametrize(("text", "line", "message"), CASES, ids=[case[2][:40] for case in CASES])
def test_errors_name_their_place(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(SourceError, match=re.escape(message)) as caught:
        program(tmp_path, text)
    assert caught.value.line == line
    assert caught.value.file.endswith("pe.csl")
