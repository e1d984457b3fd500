from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from npuviz.targets.wavelet.csl.comptime import evaluator as comptime
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue
from npuviz.targets.wavelet.csl.comptime.values import PointerValue, Scalar, TypeValue
from tests.sweeps import quick
from tests.targets.wavelet.csl.programs import elaborate, globals_of, numbers


def test_arithmetic_and_types(tmp_path: Path) -> None:
    found = globals_of(
        tmp_path,
        """
        const a: u16 = 7;
        const b = a * 3 - 1;
        const c: i16 = -7 / 2;
        const d: i16 = -7 % 3;
        const e: f32 = 0.1 + 0.2;
        const f = @as(u16, 70000 - 65536) >> 2;
        const g: i16 = a;
        const h = ~@as(u8, 1);
        """,
    )
    assert found["b"] == Scalar(t.U16, 20)
    assert found["c"] == Scalar(t.I16, -3)
    assert found["d"] == Scalar(t.I16, -1)
    assert found["e"] == Scalar(t.F32, 0.30000001192092896)
    assert found["f"] == Scalar(t.U16, 1116)
    assert found["g"] == Scalar(t.I16, 7)
    assert found["h"] == Scalar(t.U8, 254)


def test_loops_arrays_and_functions(tmp_path: Path) -> None:
    found = numbers(
        tmp_path,
        """
        fn squares(n: u16) [4]u32 {
          var out = @zeros([4]u32);
          var i: u16 = 0;
          while (i < n) : (i += 1) {
            if (i == 2) { continue; }
            out[i] = @as(u32, i) * @as(u32, i);
          }
          return out;
        }
        fn sum(p: *[4]u32) u32 {
          var total: u32 = 0;
          for (p.*) |x, k| { total += x + k; }
          return total;
        }
        fn run() u32 {
          var local = squares(4);
          const copy = local;
          local[0] = 100;
          return sum(&local) + copy[0];
        }
        fn odd(n: u16) u16 {
          var count: u16 = 0;
          for (@range(u16, 0, n, 1)) |i| {
            if (i > 6) { break; }
            if (i % 2 == 1) count += 1;
          }
          return count;
        }
        fn down() i16 {
          var last: i16 = 0;
          for (@range(i16, 5, 0, -2)) |i| { last = i; }
          return last;
        }
        const table = squares(4);
        const total = run();
        const odds = odd(100);
        const lowest = down();
        const none = @range(u16, 0);
        """.replace("const none = @range(u16, 0);", ""),
    )
    assert found["table"] == [0, 1, 0, 9]
    assert found["total"] == 100 + 1 + 9 + 0 + 1 + 2 + 3
    assert found["odds"] == 3
    assert found["lowest"] == 1


def test_untaken_branches_are_not_checked(tmp_path: Path) -> None:
    found = numbers(
        tmp_path,
        """
        const a = if (@is_arch("wse2")) 1 else undeclared;
        const b = if (@is_arch("wse3")) nothing.here else 2;
        const c = @is_arch("wse2") or missing(3);
        const d = switch (@as(u16, 3)) { 0 => nope, 1, 3 => 5, else => alsonot };
        """,
    )
    assert found == {"a": 1, "b": 2, "c": True, "d": 5}


def test_structs_enums_and_defaults(tmp_path: Path) -> None:
    found = numbers(
        tmp_path,
        """
        const Mode = enum(u16) { off, on = 5, next, more = 1 };
        const S = struct { a: u16, b: f32 = 0.5, m: Mode };
        fn make(x: u16) S { return S{ .m = Mode.on, .a = x }; }
        const s = make(3);
        const b = s.b;
        const m = @as(u16, Mode.next);
        const back = @as(Mode, 5) == Mode.on;
        const t = .{4, 5, 6};
        const t1 = t[1];
        const joined = @concat_structs(.{ .x = 1 }, .{ .y = 2 });
        const y = @field(joined, "y");
        const has = @has_field(joined, "z");
        """,
    )
    assert found["s"] == {"a": 3, "b": 0.5, "m": 5}
    assert (found["b"], found["m"], found["back"], found["t1"]) == (0.5, 2, True, 5)
    assert (found["y"], found["has"]) == (2, False)


def test_types_as_values(tmp_path: Path) -> None:
    found = globals_of(
        tmp_path,
        """
        const T: type = if (@is_arch("wse2")) f16 else f32;
        fn pick(comptime wide: bool) type { if (wide) { return u32; } return u16; }
        var a = @zeros([3, 2]T);
        const n = @element_count(@type_of(a));
        const r = @rank([1, 2, 3]u16);
        const dims = @dimensions([4, 6]f32);
        const same = @is_same_type(@element_type(@type_of(a)), f16);
        var z: pick(true) = 1;
        """,
    )
    kind = found["T"]
    assert isinstance(kind, TypeValue)
    assert kind.denotes is t.F16
    assert found["n"] == Scalar(t.U32, 6)
    assert found["r"] == Scalar(t.U16, 3)
    assert found["same"] == Scalar(t.BOOL, True)
    assert found["z"] == Scalar(t.U32, 1)


def test_generic_functions(tmp_path: Path) -> None:
    found = globals_of(
        tmp_path,
        """
        fn double(x: anytype) @type_of(x) { return x + x; }
        fn as_type(T: type, x: anytype) T { return @as(T, x); }
        const a = double(@as(u16, 4));
        const b = double(@as(f32, 1.5));
        const c = as_type(i32, 2.9);
        """,
    )
    assert found["a"] == Scalar(t.U16, 8)
    assert found["b"] == Scalar(t.F32, 3.0)
    assert found["c"] == Scalar(t.I32, 2)


def test_pointers_know_their_target_and_offset(tmp_path: Path) -> None:
    found = globals_of(
        tmp_path,
        """
        var A = @zeros([4, 5]f32);
        var p: [*]f32 = &A;
        const q = &A[2, 1];
        const r = @ptrcast([*]u16, &A);
        """,
    )
    q = found["q"]
    assert isinstance(q, PointerValue)
    assert q.offset == 4 * (2 * 5 + 1)
    assert q.kind is t.pointer(t.F32)
    assert q.target is not None
    assert q.target.storage_name == "A"
    p = found["p"]
    assert isinstance(p, PointerValue)
    assert p.kind is t.pointer(t.F32, many=True)
    r = found["r"]
    assert isinstance(r, PointerValue)
    assert r.kind.pointee is t.U16


def test_declaration_order_does_not_matter(tmp_path: Path) -> None:
    found = numbers(tmp_path, "const a = b + 1; const b = f(); fn f() u16 { return c; } const c = 4;")
    assert found == {"a": 5, "b": 4, "c": 4}


def test_modules_are_separate_instances(tmp_path: Path) -> None:
    files = {
        "pe.csl": """
            const one = @import_module("part.csl", .{ .n = 1 });
            const two = @import_module("part.csl", .{ .n = 2, .f = twice });
            fn twice(x: u16) u16 { return x * 2; }
            const a = one.value;
            const b = two.value;
            const c = two.get(10);
        """,
        "part.csl": """
            param n: u16;
            param f: fn(u16) u16 = same;
            fn same(x: u16) u16 { return x; }
            var memory = @zeros([n]f32);
            const value = f(n + 4);
            fn get(x: u16) u16 { return f(x) + n; }
        """,
    }
    elaboration = elaborate(tmp_path, files)
    code = elaboration.codes[0]
    values = {}
    for name in "abc":
        entry = code.root.member(name)
        assert entry is not None
        assert not isinstance(entry, FunctionValue)
        value = elaboration.comptime.global_value(entry)
        assert isinstance(value, Scalar)
        values[name] = value.number
    assert values == {"a": 5, "b": 12, "c": 22}
    assert [instance.name for instance in code.registry.instances] == ["", "one", "two"]


def test_tasks_and_functions_are_values(tmp_path: Path) -> None:
    found = globals_of(
        tmp_path,
        """
        param callback: task () void = main;
        task main() void {}
        const f: *const fn(u16) u16 = g;
        fn g(x: u16) u16 { return x + 1; }
        const called = f(3);
        """,
    )
    callback = found["callback"]
    assert isinstance(callback, FunctionValue)
    assert callback.is_task
    assert found["called"] == Scalar(t.U16, 4)


def test_comptime_blocks_change_initial_values(tmp_path: Path) -> None:
    found = numbers(tmp_path, "var a = @zeros([3]u16); comptime { a[1] = 7; var i = 2; a[i] = 9; }")
    assert found["a"] == [0, 7, 9]


def test_strings(tmp_path: Path) -> None:
    found = numbers(tmp_path, 'const s = @strcat("ab", "c"); const n = @strlen(s); const a = @get_array(s);')
    assert (found["n"], found["a"]) == (3, [97, 98, 99])


def test_labelled_block_as_value(tmp_path: Path) -> None:
    found = numbers(
        tmp_path, "const a = blk: { var i = 0; while (true) : (i += 1) { if (i == 4) { break :blk i; } } };"
    )
    assert found["a"] == 4


_LARGE = """fn f(t: [400000]f32) f32 { return t[0]; }
const t = @constants([400000]f32, 0.5);
comptime { var s: f32 = 0.0; """


@quick(but=["*.a = x, .b = x*", "*@concat_structs(s, s)*"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fn f(n: u16) u16 { return f(n); } comptime { const x = f(1); }", "nested deeper"),
        ("comptime { while (true) {} }", "endless loop"),
        ("const a: u16 = b; const b: u16 = a; comptime { const c = a; }", "depends on itself"),
        ("comptime { var x = 1; while (true) { x = x * x + 3; } }", "more than"),
        ('const m = @import_module("pe.csl");', "import each other"),
        ("var a: [9999999, 9999999]u8; comptime { const b = @type_of(a); }", "elements"),
        ("comptime { const x: u16 = 1 << 100000000; }", "shift"),
        ("comptime { const x = 1 / 0; }", "division by zero"),
        ('comptime { var s = "ab"; while (true) { s = @strcat(s, s); } }', "a string of"),
        ("fn f(x: anytype) void { f(.{ x, x }); } comptime { f(1); }", "more than 100000 fields"),
        ("fn f(x: anytype) void { f(.{ .a = x, .b = x }); } comptime { f(1); }", "more than 100000 fields"),
        (
            "fn f(T: type) void { const S = struct { a: T, b: T }; f(S); } comptime { f(u16); }",
            "more than 100000 fields",
        ),
        ("fn f(T: type) void { f([2]T); } comptime { f(u16); }", "nested deeper"),
        ("fn f(T: type) void { f(*T); } comptime { f(u16); }", "nested deeper"),
        ("fn f(x: anytype) void { f(&x); } comptime { f(1); }", "nested deeper"),
        (
            "fn f(s: anytype) void { f(@concat_structs(s, s)); } comptime { f(.{1, 2}); }",
            "more than 100000 fields",
        ),
        (_LARGE + "for (@range(u32, 9000)) |i| { for (t) |v| { s += v; } } }", "10000 calls and loop rounds"),
        (_LARGE + "for (@range(u32, 9000)) |i| { s += f(t); } }", r"pe.csl:\d+:\d+: .*more work than"),
        (_LARGE + "for (@range(u32, 9000)) |i| { var q = t; q[3] = s; } }", "more work than"),
        (_LARGE + "while (s < 1.0) { " + "s = s * 0.5; " * 300 + "} }", "more work than"),
    ],
)
def test_what_never_ends_or_is_too_large_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(comptime, "MAX_STEPS", 10_000)
    monkeypatch.setattr(comptime, "MAX_WORK", 400_000)
    with pytest.raises(SourceError, match=words) as caught:
        elaborate(tmp_path, {"pe.csl": text})
    assert "\n" not in str(caught.value)


def test_deeply_nested_expression_is_one_error_or_a_value(tmp_path: Path) -> None:
    text = "comptime { const x = " + "-" * 30000 + "1; }"
    with pytest.raises(SourceError, match="nested too deeply"):
        elaborate(tmp_path, {"pe.csl": text})
