"""What SDK 2.10 brought, by its release notes and reference: registers before the start, ids of symbols,
comparisons of registers, libraries."""

from pathlib import Path

import pytest

from npuviz.base.errors import NpuvizError
from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.kernels.processor import configuration
from npuviz.targets.wavelet.wafer import TIMER, TIMER_CONTROL, HostCommand
from tests.targets.wavelet.csl.executed import numbers
from tests.targets.wavelet.csl.programs import write
from tests.targets.wavelet.running import HOST_LAUNCH, build, finish, variable

SYMBOLS_LAYOUT = """layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{});
  @export_name("go", fn()void);
  @export_name("A", i16, true);
  @export_name("B", i16, true);
  @export_name("p", [*]f32, true);
}
"""
SYMBOLS = """const sys = @import_module("<memcpy/memcpy>");
var A: i16 = 11;
var B: i16 = 22;
var data = [2]f32 { 1.0, 2.0 };
var p: [*]f32 = &data;
var ids = @zeros([4]u16);
var values = @zeros([3]i16);
fn go() void {
  ids[0] = @get_symbol_id(go);
  ids[1] = @get_symbol_id(A);
  ids[2] = @get_symbol_id(B);
  ids[3] = comptime @get_symbol_id(p);
  values[0] = @get_symbol_value(i16, ids[1]);
  values[1] = @get_symbol_value(i16, ids[2]);
  const words = @get_tensor_ptr(ids[3]);
  values[2] = @bitcast(i16, words[3]);
  sys.unblock_cmd_stream();
}
comptime { @export_symbol(go); @export_symbol(A); @export_symbol(B); @export_symbol(p); }
"""
CIRCLE = """var B = [5]i16 { 1, 2, 3, 4, 5 };
var O = @zeros([7]i16);
const circle = @get_dsd(circbuf_dsd, .{ .base_address = &B, .extent = 7 });
const source = @get_dsr(dsr_src1, 2);
const target = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{7} -> O[i] });
comptime { @load_to_dsr_xdsr(source, @get_xdsr(3), circle); }
"""
CASES = {
    "circular buffer before the start": (
        CIRCLE,
        "@mov16(target, source); out[0] = @as(i32, O[4]); out[1] = @as(i32, O[5]); out[2] = @as(i32, O[6]);",
        [5, 1, 2],
    ),
    "registers": (
        "const d = @get_dsr(dsr_dest, 3); const e = @get_dsr(dsr_dest, 4); const x = @get_xdsr(2);",
        "@comptime_assert(d != e); out[0] = @as(i32, @get_int(d)); out[1] = @as(i32, @get_int(x));",
        [3, 2],
    ),
    "section of a function": ('fn g() linksection("code") i32 { return 4; }', "out[0] = g();", [4]),
    "data_utils": (
        'const d = @import_module("<data_utils>"); var x: u32 = 0xdeadbeef; var y: u64 = 0x500000007;',
        """out[0] = @as(i32, d.lo16(x)); out[1] = @as(i32, d.hi16(x)); out[2] = @as(i32, d.lo32(y));
        out[3] = @as(i32, d.hi32(y));""",
        [0xBEEF, 0xDEAD, 7, 5],
    ),
    "string": (
        'const s = @import_module("<string>");',
        """@comptime_assert(s.fmt("a_{d}, {s} {{{d}}}", .{ 5, "b", -12 }) == "a_5, b {-12}");
        @comptime_assert(s.comptime_int_to_string(0) == "0"); out[0] = 1;""",
        [1],
    ),
    "types": (
        """const y = @import_module("<types>"); const P = packed struct { a: u3, b: u13 };
        comptime { @comptime_assert(y.bits_type_of(f16) == u16); @comptime_assert(y.is_dsr(dsr_src1)); }""",
        """@comptime_assert(y.is_numeric(f32) and !y.is_numeric(bool) and y.is_unsigned_int(u7));
        @comptime_assert(y.is_signed_int(i16) and !y.is_signed_int(u16) and y.is_float16(bf16));
        @comptime_assert(y.is_enabled_float(f16) and !y.is_enabled_float(bf16) and y.is_dsd(fabin_dsd));
        out[0] = comptime y.byte_size_of([3]f32); out[1] = comptime y.bit_size_of(P);
        out[2] = comptime y.word_size_of(f32);""",
        [12, 16, 2],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_documented_parts(name: str, tmp_path: Path) -> None:
    text, main, expected = CASES[name]
    assert numbers(tmp_path, f"{text} fn main() void {{ {main} }}", len(expected)) == expected


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_ids_of_symbols_are_those_of_the_host(arch: str, tmp_path: Path) -> None:
    wafer = compile_program(
        write(tmp_path, {"layout.csl": SYMBOLS_LAYOUT, "pe.csl": SYMBOLS}), arch, fabric=(8, 3)
    )
    names = list(wafer.exported)
    machine = finish(build(wafer, [HostCommand(HOST_LAUNCH, "go")]))
    found = variable(machine, "ids").tolist()
    assert found == [names.index(name) for name in ("go", "A", "B", "p")]
    assert variable(machine, "values").tolist() == [11, 22, 0x4000]


def test_a_register_holds_a_value_before_the_start(tmp_path: Path) -> None:
    text = """comptime { @set_config(0x7e80, 1000); @set_config(0x7e84, 0); @set_config(0x7e84, 1);
      @comptime_assert(@get_config(0x7e84) == 1); }
    fn main() void { out[0] = @as(i32, @get_config(0x7e80)); }"""
    (now,) = numbers(tmp_path, text)
    (still,) = numbers(tmp_path, text.replace("@set_config(0x7e84, 1);", "").replace("== 1", "== 0"))
    assert still == 1000 < now
    assert (TIMER, TIMER_CONTROL) == (configuration.TIMER, configuration.TIMER_CONTROL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("comptime { @set_config(0x7f21, 1); }", "register 0x7f21 is not simulated before the start"),
        ("var a: i16 = 1; fn f() u16 { return @get_symbol_id(a); } comptime { @comptime_assert(f() == 0); }",
         "this is not exported"),
        ('const s = @import_module("<string>"); comptime { const t = s.fmt("{f}", .{ 1.5 }); }',
         "shows numbers with {d}"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(NpuvizError, match=message):
        numbers(tmp_path, f"{text} fn main() void {{ }}")
