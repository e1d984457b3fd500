"""What the vendor's pages on types, DSDs, builtins and libraries document, run on a PE."""

from pathlib import Path

import pytest

from npuviz.base.errors import NpuvizError
from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand
from tests.targets.wavelet.csl.executed import numbers
from tests.targets.wavelet.csl.programs import write
from tests.targets.wavelet.running import build, finish, variable

UNION = "const U = union { f: f32, i: u32 };"
STRUCTS = """const P = struct { x: i32, y: i32 };
var ps = @constants([3]P, P{ .x = 1, .y = 2 });
"""
ARRAYS = """
var a = [8]i16 {1, 2, 3, 4, 5, 6, 7, 8};
var b = @zeros([8]i16);
var h = [4]f16 {1.0, -2.0, 3.5, 4.0};
const A = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> a[i] });
const B = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> b[i] });
const H = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> h[i] });
var buf = @zeros([8]i16);
const fifo = @allocate_fifo(buf);
"""
TIMER = """const timer = @import_module("<timer>", .{ .timerCount = 2 });"""
MATH = """const math = @import_module("<math>");"""
COLOR = """const red = @get_color(3);
const config = @import_module("<tile_config>");
comptime { @set_local_color_config(red, .{ .routes = .{ .rx = WEST, .tx = RAMP } }); }
"""
QUEUES = """const config = @import_module("<tile_config>");
const iq = config.input_queue_status;
const oq = config.output_queue_status;
"""
FILTERS = """const filters = @import_module("<tile_config>").filters;
const red = @get_color(3);
comptime {
  @set_local_color_config(red, .{ .routes = .{ .rx = WEST, .tx = RAMP }, .filter = .{
    .kind = .{ .counter = true }, .count_data = true, .limit1 = 5, .max_counter = 4 } });
  @comptime_assert(@get_filter_id(red) == 0);
}
"""
CASES = {
    "union": (
        UNION,
        "var u = U{ .f = 1.0 }; out[0] = @as(i32, u.i >> 23); u.i = 0x40000000; out[1] = @as(i32, u.f);",
        [127, 2],
    ),
    "unions that travel": (
        UNION
        + """var u = U{ .f = 1.0 };
        fn take(x: U) u32 { return x.i >> 28; }
        fn make(f: f32) U { return U{ .f = f }; }""",
        "u.i = 0x40000000; out[0] = @as(i32, take(u)); var v = make(3.0); out[1] = @as(i32, v.i >> 20);",
        [4, 0x404],
    ),
    "union at compile time": (
        UNION,
        "comptime { var u = U{ .f = 1.0 }; u.i = 5; @comptime_assert(u.i == 5); } out[0] = 1;",
        [1],
    ),
    "extern and packed": (
        """const E = extern struct { a: i16, b: i32 };
        const P = packed struct { x: i16, y: f32 };
        const Q = packed union { x: i16, y: u16 };""",
        """var e = E{ .a = 3, .b = 5 }; out[0] = e.b; var p = P{ .x = 3, .y = 1.0 };
        const words = @ptrcast([*]u16, &p); out[1] = @as(i32, words[2]);
        var q = Q{ .x = -1 }; out[2] = @as(i32, q.y);""",
        [5, 0x3F80, 65535],
    ),
    "field of a known pointer": (
        STRUCTS,
        "const p = &ps[2]; p.x = 9; out[0] = ps[2].x; out[1] = p.y;",
        [9, 2],
    ),
    "range keeps its bounds": (
        "",
        """var n: i16 = 3; const r = @range(i16, n); n = 10;
        for (r) |i| { out[0] += 1; } out[1] = @as(i32, @range_stop(r));""",
        [3, 3],
    ),
    "exported tensors": ("", "out[0] = if (@has_exported_tensors()) 1 else 0;", [1]),
    "conversion of a scalar to a pointer": (
        "",
        """var z: i16 = 0; @fs2xp16(&z, @as(f32, 7.9)); out[0] = @as(i32, z);
        @fh2xp16(&z, @as(f16, -3.5)); out[1] = @as(i32, z);""",
        [7, -3],
    ),
    "sum of f16 in an f32": (
        ARRAYS,
        "var s: f32 = 0.0; @faddhs(&s, @as(f32, 1.0), H); out[0] = @as(i32, s * 10.0);",
        [75],
    ),
    "lengths of a FIFO": (
        ARRAYS,
        """@set_fifo_write_length(fifo, 3); out[0] = if (@mov16(fifo, A)) 1 else 0;
        const three = @set_dsd_length(B, 3);
        @set_fifo_read_length(fifo, 3); out[1] = if (@mov16(three, fifo)) 1 else 0; out[2] = @as(i32, b[2]);
        @set_fifo_read_length(fifo, 3); out[3] = if (@mov16(three, fifo)) 1 else 0;""",
        [1, 1, 3, 0],
    ),
    "scalar from a FIFO that runs empty": (
        ARRAYS,
        """var s: i16 = 77; @set_fifo_write_length(fifo, 1); @mov16(fifo, A);
        @set_fifo_read_length(fifo, 4); out[0] = if (@mov16(&s, fifo)) 1 else 0; out[1] = @as(i32, s);""",
        [0, 77],
    ),
    "complex": (
        """const c = @import_module("<complex>");""",
        """const x = c.get_complex_64(1.0, 2.0); const p = c.multiply_complex(x, x);
        out[0] = @as(i32, p.real); out[1] = @as(i32, p.imag);
        const s = c.add_complex_32(c.get_complex(@as(f16, 3.0), @as(f16, 4.0)), c.get_complex_32(1.0, 1.0));
        out[2] = @as(i32, s.real); out[3] = @as(i32, c.subtract_complex_64(x, p).real);
        @comptime_assert(@is_same_type(c.complex(f16), c.complex_32));""",
        [-3, 4, 4, 4],
    ),
    "malloc": (
        """const mem = @import_module("<malloc>", .{ .buffer_num_words = 16, .asserts_enabled = true });""",
        """var p = mem.malloc(i32, 4); p[0] = 3; p[3] = 5; var q = mem.malloc_f16(3); q[0] = 2.0;
        out[0] = p[0] + p[3]; out[1] = if (mem.has_enough_space(i32, 3)) 1 else 0;
        out[2] = if (mem.has_enough_words(5)) 1 else 0; mem.free();
        out[3] = if (mem.has_enough_double_words(8)) 1 else 0; var r = mem.malloc_u32(1); r[0] = 9;
        out[4] = p[0];""",
        [8, 0, 1, 1, 9],
    ),
    "timer": (
        TIMER,
        """var e: timer.timerType = @zeros([3]u16); timer.start(0); timer.start(1); timer.stop(0);
        var k: i16 = 0; while (k < 50) : (k += 1) { out[2] += 1; } timer.stop(1);
        timer.elapsed(0, &e); out[0] = if (e[0] > 0 and e[0] < 100 and e[1] == 0) 1 else 0;
        timer.elapsed(1, &e); out[1] = if (e[0] > 100) 1 else 0;""",
        [1, 1, 50],
    ),
    "sign of unsigned numbers": (
        """const math = @import_module("<math>");""",
        """var c: u16 = 3; out[0] = @as(i32, math.sign(c)); var d: i64 = -5; out[1] = @as(i32, math.sign(d));
        var z: f16 = 0.0; out[2] = @as(i32, math.sign(z));""",
        [1, -1, 0],
    ),
    "states of queues": (
        QUEUES,
        """const s = iq.get(); out[0] = if (iq.is_empty(s, @get_input_queue(3))) 1 else 0;
        out[1] = if (iq.all_full(s)) 1 else 0; out[2] = if (iq.none_full(s)) 1 else 0;
        out[3] = if (oq.all_empty(oq.get())) 1 else 0; out[4] = @as(i32, iq.get_raw());""",
        [1, 0, 1, 1, 255],
    ),
    "place and types of tile_config": (
        QUEUES,
        """out[0] = @as(i32, config.get_fabric_coord(config.fabric_coord.X));
        @comptime_assert(config.target_name == "wse3");
        var d: config.double_reg_type = 70000; out[1] = @as(i32, d);
        config.exceptions.set_exception_mask(config.exceptions.FP_OVERFLOW & config.exceptions.FP_INVALID);
        config.control_transform.set_mask(0);""",
        [0, 70000],
    ),
    "switches of tile_config": (
        COLOR + "const s = config.switch_config;",
        """s.set_ring_mode(red, s.ring_mode.RING_MODE); s.set_pop_mode(red, s.pop_mode.ALWAYS_POP);
        s.set_switch_pos(s.switch_pos.POS3, red, NORTH, s.switch_select.INPUT);
        s.set_rxtx_switch_pos(s.switch_pos.POS1, red, EAST, WEST);
        s.clear_current_position(s.get_switch_config_addr(red, s.switch_status)); out[0] = 1;""",
        [1],
    ),
    "filters by id": (
        FILTERS,
        """filters.set_active_limit(0, 5); filters.set_max_counter(0, 4);
        filters.set_counter(0, 1); out[0] = 1;""",
        [1],
    ),
    "filters of WSE-3 in half wavelets": (
        FILTERS,
        """const state = filters.counter_filter_state;
        out[0] = @as(i32, filters.get_pass_count(0)); out[1] = @as(i32, filters.get_drop_count(0));
        filters.set_counter_and_state(0, 0, state.DROP); out[2] = @as(i32, @as(u16, filters.get_state(0)));
        filters.set_pass_count(0, 4); filters.set_drop_count(0, 6);
        filters.set_counter_and_state(0, 4, state.DROP);
        out[3] = @as(i32, filters.get_counter_value(0)); out[4] = @as(i32, filters.get_drop_count(0));
        filters.set_counter_value(0, 2); filters.set_state(0, state.PASS);
        out[5] = @as(i32, filters.get_counter_value(0)); out[6] = @as(i32, @as(u16, filters.get_state(0)));
        filters.set_pass_count(0, 8); out[7] = @as(i32, filters.get_drop_count(0));""",
        [10, 2, 1, 4, 6, 2, 0, 6],
    ),
    "differences that saturate": (
        MATH,
        """var a: i16 = -30000; var b: i16 = 30000; var u: u16 = 3; var w: u16 = 5; var l: i32 = 2000000000;
        out[0] = @as(i32, math.subsat(a, b)); out[1] = @as(i32, math.subsat(b, a));
        out[2] = @as(i32, math.subsat(u, w)); out[3] = @as(i32, math.subsat(w, u));
        out[4] = math.subsat(l, 0 - l); out[5] = math.subsat(0 - l, l); out[6] = @as(i32, math.subsat(b, b));
        var h: f16 = 65504.0; out[7] = @as(i32, math.subsat(h, 0.0 - h));
        out[8] = @as(i32, math.subsat_f16(0.0 - h, h));
        var s: f32 = 3.0e38; out[9] = if (math.isFinite(math.subsat_f32(s, 0.0 - s))) 1 else 0;
        out[10] = if (math.isInf(math.subsat(math.POSITIVE_INF_f32, s))) 1 else 0;
        out[11] = @as(i32, math.subsat(s, s)); var m: i64 = -9000000000000000000;
        out[12] = if (math.subsat(m, 0 - m) == @as(i64, 0) - 9223372036854775807 - 1) 1 else 0;""",
        [-32768, 32767, 0, 2, 2147483647, -2147483648, 0, 65504, -65504, 1, 1, 0, 1],
    ),
    "integers without bits": (
        "const P = packed struct { a: u4, nothing: u0, b: i12, none: i0 };",
        """var z: u0 = 0; var n: i0 = 0; var p = P{ .a = 5, .nothing = 0, .b = -3, .none = 0 };
        out[0] = @as(i32, z); p.nothing = z; p.none = n; out[1] = @as(i32, p.b); out[2] = @as(i32, p.a);
        out[3] = @as(i32, p.nothing); out[4] = @as(i32, p.none); var w: u16 = 7;
        out[5] = @as(i32, @as(u0, w));
        @comptime_assert(@as(u0, 0) == 0);""",
        [0, -3, 5, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_documented(name: str, tmp_path: Path) -> None:
    head, body, expected = CASES[name]
    assert numbers(tmp_path, f"{head}\nfn main() void {{\n{body}\n}}\n", len(expected)) == expected


def test_directions_of_a_color_change_one_by_one(tmp_path: Path) -> None:
    """The route register of WSE-2 shows what the functions of `color_config` did."""
    body = """
    var c = red; const cc = config.color_config; const io = cc.fabric_io;
    const at = cc.get_color_config_addr(c);
    out[0] = @as(i32, @get_config(at));
    cc.set_io_direction(c, io.TX_EAST); out[1] = @as(i32, @get_config(at));
    cc.toggle_io_direction(at, io.RX_WEST); out[2] = @as(i32, @get_config(at));
    cc.clear_io_direction(red, io.TX_RAMP); out[3] = @as(i32, @get_config(at));
    """
    found = numbers(tmp_path, f"{COLOR}\nfn main() void {{{body}}}\n", 4, "wse2")
    ramp, east, from_west = 1 << 4, 1 << 1, 1 << 5
    assert found == [ramp | from_west, ramp | east | from_west, ramp | east, east]


TALLY_LAYOUT = """
const tally = @import_module("<kernels/tally/layout>", .{
  .kernel_height = 2, .kernel_width = 2, .phase2_tally = 8, .output_color = @get_color(0),
  .colors = [3]color{@get_color(1), @get_color(2), @get_color(3)} });
layout {
  @set_rectangle(2, 3);
  for (@range(u16, 2)) |x| {
    @set_tile_code(x, 0, "top.csl", .{ .takes = x == 1 });
    for (@range(u16, 2)) |y| { @set_tile_code(x, y + 1, "pe.csl", .{ .params = tally.get_params(x, y) }); }
  }
  @export_name("go", fn()void);
}
"""
TALLY_PE = """param params: comptime_struct; const sys = @import_module("<memcpy/memcpy>");
const tally = @import_module("<kernels/tally/pe>", @concat_structs(params, .{
  .input_queues = [2]u16{2, 3}, .output_queues = [2]u16{4, 5} }));
fn go() void { tally.bump_tally(2); tally.signal_completion(); sys.unblock_cmd_stream(); }
comptime { @export_symbol(go); }
"""
TALLY_TOP = """param takes: bool; const sys = @import_module("<memcpy/memcpy>");
const queue = @get_input_queue(2); var sum: u32 = 0;
task take(word: u32) void { sum = word; sys.unblock_cmd_stream(); }
fn go() void { if (!takes) { sys.unblock_cmd_stream(); } }
comptime {
  @bind_data_task(take, if (@is_arch("wse3")) @get_data_task_id(queue) else @get_data_task_id(@get_color(0)));
  @initialize_queue(queue, .{ .color = @get_color(0) });
  if (takes) { @set_local_color_config(@get_color(0), .{ .routes = .{ .rx = SOUTH, .tx = RAMP } }); }
  @export_symbol(go);
}
"""


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_a_tally_without_a_callback_sends_its_sum_north(arch: str, tmp_path: Path) -> None:
    files = {"layout.csl": TALLY_LAYOUT, "pe.csl": TALLY_PE, "top.csl": TALLY_TOP}
    wafer = compile_program(write(tmp_path, files), arch, fabric=(9, 5))
    machine = finish(build(wafer, [HostCommand(HOST_LAUNCH, "go")]))
    assert variable(machine, "sum", 1, 0) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{UNION} fn main() void {{ var u = U{{ .f = 1.0, .i = 3 }}; }}", "takes one field, found 2"),
        (f"{UNION} fn main() void {{ const u = U{{ .f = 1.0 }}; out[0] = @as(i32, u.i); }}", "no field .i"),
        (
            "const P = packed struct { a: u3, b: u13 }; var p = P{ .a = 1, .b = 2 };"
            "fn main() void { const q = &p.b; out[0] = @as(i32, q.*); }",
            "a field of a packed type has no address",
        ),
        (
            "const P = packed union { a: u3, b: u13 }; fn main() void { const p = P{ .a = 1 }; }",
            "the fields of a packed union have one width, found 3, 13 bits",
        ),
        (
            "const P = packed struct { a: comptime_int }; fn main() void { const p = P{ .a = 1 }; }",
            "a packed type has no field of type comptime_int",
        ),
        (
            'const c = @import_module("<tile_config>"); comptime { c.control_transform.set_mask(2); }'
            "fn main() void {}",
            "mask 0x2 of control_transform is not simulated",
        ),
    ],
)
def test_what_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(NpuvizError, match=message):
        numbers(tmp_path, text)
