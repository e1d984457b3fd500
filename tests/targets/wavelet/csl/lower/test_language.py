"""What programs compute on the machine: each `main` leaves its results in `out`."""

from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from tests.targets.wavelet.csl.executed import numbers

CASES: dict[str, tuple[str, list[int]]] = {
    "loops with continue and break": (
        """
        fn main() void {
          for (@range(i32, 10)) |i| { if (i % 2 == 0) { continue; } out[0] += i; }
          var i: i32 = 0;
          while (i < 10) : (i += 1) { if (i == 3) { continue; } if (i == 6) { break; } out[1] += i; }
          for (@range(i32, 10, 0, -3)) |k| { out[2] += k; }
          for (@range(u16, 7, 5, 1)) |k| { out[3] += 1; }
        }
        """,
        [25, 12, 22, 0],
    ),
    "functions that choose a type": (
        """
        const wide: bool = true;
        fn number() type { if (wide) { return i32; } else { return i16; } }
        fn of(comptime chosen: bool) type { return if (chosen) i32 else i16; }
        var global = @as(number(), 0);
        fn main() void {
          global = @as(number(), 70000);
          const T = number();
          var local: T = 70001;
          var other: of(true) = 70002;
          out[0] = global; out[1] = local; out[2] = other; out[3] = @as(i32, @as(of(wide), 70003));
        }
        """,
        [70000, 70001, 70002, 70003],
    ),
    "labelled loops and blocks": (
        """
        fn main() void {
          rows: for (@range(i32, 10)) |i| {
            for (@range(i32, 10)) |j| { if (i * j > 5) { break :rows; } out[0] += 1; }
          }
          const x: i32 = pick: { if (out[0] > 3) { break :pick out[0] + 1; } break :pick 6; };
          out[1] = x;
        }
        """,
        [16, 17],
    ),
    "f32 multiply-add rounds the product and the sum": (
        """
        var a = [1]f32 { 1.0000001 }; var b = [1]f32 { -1.0000002 };
        const ad = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> a[i] });
        const bd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> b[i] });
        fn main() void { @fmacs(bd, bd, ad, a[0]); out[0] = @bitcast(i32, b[0]); }
        """,
        [0],
    ),
    "a choice takes its type from what it is added to": (
        """
        var n: u32 = 3; var m: i16 = 5; var f: f32 = 1.5;
        fn main() void {
          n += if (m % 2 != 0) 1 else 0; m -= if (n > 9) 1 else 2; f *= if (n == 4) 2.0 else 3.0;
          out[0] = @bitcast(i32, n); out[1] = m; out[2] = @as(i32, f);
        }
        """,
        [4, 3, 3],
    ),
    "division truncates and integers wrap": (
        """
        var a: i16 = -7; var b: i16 = 2; var c: u16 = 0xFFFF; var d: u3 = 6;
        fn main() void {
          out[0] = a / b; out[1] = a % b; c += 2; out[2] = c; d += 3; out[3] = d;
          out[4] = a >> 1; out[5] = ~a; const e: u16 = @bitcast(u16, a); out[6] = e;
          out[7] = @bitcast(i32, @as(u32, e) << 16 | 5);
        }
        """,
        [-3, -1, 1, 1, -4, 6, 0xFFF9, -458747],
    ),
    "floats": (
        """
        var a: f32 = 2.5; var h: f16 = 0.1;
        fn main() void {
          out[0] = @as(i32, a * -2.0 + 0.9); out[1] = @bitcast(i32, a / 2.0);
          const wide: f32 = h; out[2] = @as(i32, wide * 1000000.0);
          out[3] = @as(i32, @bitcast(i16, h + h)); out[4] = if (a > 2.0 and !(a == 3.0)) 1 else 0;
        }
        """,
        [-4, 0x3FA00000, 99975, 0x3266, 1],
    ),
    "arrays of any rank": (
        """
        var m = @zeros([3, 4]i32); const table = [4]i32 { 9, 8, 7, 6 };
        fn main() void {
          for (@range(u16, 3)) |i| { for (@range(u16, 4)) |j| { m[i, j] = @as(i32, i) * 10 + @as(i32, j); } }
          var k: u16 = 1;
          out[0] = m[k, k + 1]; out[1] = m[2, k]; out[2] = table[k] + table[3];
          for (table) |e, i| { out[3] += e * @as(i32, i); }
          var local = [3]i32 { 1, out[0], 3 };
          local[k] += 10; local[0] = local[1] + local[2];
          out[4] = local[0]; out[5] = local[1];
        }
        """,
        [12, 21, 14, 40, 25, 22],
    ),
    "structs by value": (
        """
        const P = struct { x: i32, y: i16, z: [2]u16 };
        var p = P { .x = 1, .y = 2, .z = [2]u16 { 3, 4 } };
        var many: [3]P;
        fn moved(q: P, by: i32) P { return P { .x = q.x + by, .y = q.y, .z = q.z }; }
        fn first(q: P) i32 { p.x = 100; return q.x; }
        fn main() void {
          var q = p; q.x = 50; out[0] = p.x;
          p = P { .x = p.y, .y = @as(i16, p.x), .z = p.z }; out[1] = p.x * 10 + p.y;
          out[2] = first(p); out[3] = p.x;
          var k: u16 = 1;
          many[k] = moved(q, 5); many[2] = many[k]; many[k].z[k] = 9;
          out[4] = many[2].x; out[5] = many[1].z[1]; out[6] = many[2].z[1];
          const pair = .{ q.x, .{ .inner = k } }; out[7] = pair[0] + pair[1].inner;
        }
        """,
        [1, 21, 2, 100, 55, 9, 4, 51],
    ),
    "pointers": (
        """
        var arr = [4]i32 { 1, 2, 3, 4 }; var where: [*]i32; const fixed: *i32 = &arr[2];
        fn bump(p: *i32) void { p.* += 5; }
        fn sum(p: *[4]i32) i32 { var s: i32 = 0; for (p.*) |e| { s += e; } return s + p[0]; }
        fn main() void {
          var x: i32 = 2; bump(&x); out[0] = x;
          where = &arr; where[1] = 20; out[1] = arr[1];
          bump(&arr[3]); fixed.* += 1; out[2] = sum(&arr); out[3] = fixed.*;
        }
        """,
        [7, 20, 35, 4],
    ),
    "recursion and function pointers": (
        """
        fn fact(n: i32) i32 { if (n < 2) { return 1; } return n * fact(n - 1); }
        fn even(n: i32) i32 { if (n == 0) { return 1; } return odd(n - 1); }
        fn odd(n: i32) i32 { if (n == 0) { return 0; } return even(n - 1); }
        fn add(a: i32, b: i32) i32 { return a + b; }
        fn sub(a: i32, b: i32) i32 { return a - b; }
        fn apply(op: fn (i32, i32) i32, a: i32) i32 { return op(a, 1); }
        var op: *const fn (i32, i32) i32 = add;
        fn main() void {
          out[0] = fact(6); out[1] = even(4) * 10 + odd(4); out[2] = op(3, 4);
          op = sub; out[3] = op(3, 4); out[4] = apply(add, 7) * 100 + apply(sub, 7);
        }
        """,
        [720, 10, 7, -1, 806],
    ),
    "enums and switches": (
        """
        const Kind = enum(u16) { A, B = 5, C };
        var kind = Kind.B;
        fn name(k: Kind) i32 { switch (k) { Kind.A => return 1, Kind.B => { return 2; }, else => return 3 } }
        fn main() void {
          out[0] = name(kind); kind = @as(Kind, 1); out[1] = name(kind); out[2] = @get_int(kind);
          var n: u16 = 4;
          out[3] = switch (n) { 0, 1 => 10, 4 => 20, else => 30 };
          if (kind == Kind.C) n += 1 else n -= 1;
          out[4] = n;
        }
        """,
        [2, 3, 1, 20, 5],
    ),
    "compile-time parameters": (
        """
        fn twice(comptime T: type, x: T) T { return x + x; }
        fn size_of(x: anytype) i32 { if (@type_of(x) != void and x > 3) { return @as(i32, x); } return -1; }
        fn member(s: comptime_struct) i32 { return s.a * 2; }
        fn main() void {
          var n: i16 = 21; comptime var total = 0; comptime var i = 0;
          while (i < 4) : (i += 1) { out[3] += i; total += i; }
          out[0] = twice(i16, n) + @as(i32, twice(f32, 0.5)); out[1] = size_of(n) * 100 + size_of({});
          out[2] = member(.{ .a = @as(i32, n) }) + member(.{ .a = 3 }); out[4] = total;
        }
        """,
        [43, 2099, 48, 6, 6],
    ),
    "vectors": (
        """
        var a = [4]f32 { 1.0, 2.0, 3.0, 4.0 }; var b = @constants([4]f32, 10.0); var s: f32 = 0.0;
        const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] });
        var db = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> b[i] });
        fn half(x: f32) f32 { return x / 2.0; }
        fn main() void {
          @fmacs(db, db, da, 2.0); out[0] = @as(i32, b[3]);
          db = @increment_dsd_offset(@set_dsd_length(db, 2), 1, f32); @fmovs(db, 7.0);
          out[1] = @as(i32, b[0]) * 1000 + @as(i32, b[1]) * 100 + @as(i32, b[2]) * 10 + @as(i32, b[3]);
          @fadds(&s, 0.5, da); out[2] = @as(i32, s * 10.0);
          @map(half, da, @set_dsd_base_addr(da, b)); out[3] = @as(i32, b[3] * 10.0);
          @fmovs(@set_dsd_stride(@set_dsd_length(da, 2), 2), -1.0); out[4] = @as(i32, a[0] + a[2]);
        }
        """,
        [18, 12788, 105, 20, -2],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_programs_compute(tmp_path: Path, name: str) -> None:
    text, expected = CASES[name]
    assert numbers(tmp_path, text, len(expected)) == expected


def test_inline_loops_know_their_elements(tmp_path: Path) -> None:
    text = """
      const steps = [3]i16 {4, 5, 6};
      fn main() void {
        inline for (@range(i16, 1, 4, 1)) |i| { out[0] += @as(i32, @constants([i]i16, i)[i - 1]); }
        again: inline for (steps) |step, place| {
          if (place == 1) { continue :again; }
          out[1] += @as(i32, @zeros([step]i16)[0]) + @as(i32, step);
        }
        inline while (false) { out[2] = 1; }
      }
    """
    assert numbers(tmp_path, text, 3) == [6, 10, 0]


def test_an_inline_loop_over_what_only_the_run_knows_is_refused(tmp_path: Path) -> None:
    text = "var n: i16 = 3; fn main() void { inline for (@range(i16, n)) |i| { out[0] = @as(i32, i); } }"
    with pytest.raises(SourceError, match="an inline loop needs what is known at compile time"):
        numbers(tmp_path, text)
