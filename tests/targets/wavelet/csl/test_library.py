"""The libraries: what they compute at compile time, and that every one compiles in a program."""

from pathlib import Path

import pytest

import npuviz.targets.wavelet.csl as csl
from npuviz.targets.wavelet.csl.compiler import compile_program

LIBRARY = Path(csl.__file__).parent / "library"
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1, .MEMCPYD2H_1 = 3 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("run", fn()void);
}
"""
PE = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
%s
fn run() void {
%s
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(run); }
"""


def build(folder, top="", body="", arch="wse3", layout=LAYOUT):
    (folder / "layout.csl").write_text(layout)
    (folder / "pe.csl").write_text(PE % (top, body))
    return compile_program(folder / "layout.csl", arch)


def holds(folder, imports, *conditions):
    asserts = "\n".join(f"  @comptime_assert({condition});" for condition in conditions)
    build(folder, f"{imports}\ncomptime {{\n{asserts}\n}}")


def test_payloads_of_control_wavelets(tmp_path):
    holds(
        tmp_path,
        'const c = @import_module("<control>"); const s = @import_module("<memcpy/memcpy_switches>");',
        "s.ctrl(s.teardown_cmd_1()) == 0x09DF9249",
        # id 31, commands 0 and 1 are advances, all ignored by the compute element
        "s.ctrl(s.switch_cmd_11()) == 0x0B5F9249",
        "c.encode_single_payload(c.opcode.SWITCH_ADV, true, {}, 0) == 0x015F0000",
        "c.encode_single_payload(c.opcode.SWITCH_ADV, false, @get_control_task_id(40), 6) == 0x00680006",
        "c.encode_control_task_payload(@get_control_task_id(40)) == 0x00280000",
        "c.encode_payload(2, [2]c.opcode {c.opcode.NOP, c.opcode.SWITCH_ADV}, [2]bool {true, true}, true, "
        "@get_control_task_id(0)) == 0x0B009249",
    )


def test_directions(tmp_path):
    holds(
        tmp_path,
        'const d = @import_module("<directions>");',
        "d.flip(NORTH) == SOUTH",
        "d.flip(WEST) == EAST",
        "d.flip(RAMP) == RAMP",
        "d.rotate_clockwise(NORTH) == EAST",
        "d.rotate_counterclockwise(NORTH) == WEST",
        "d.dirToTxBits(RAMP) == d.TX_RAMP",
        "d.dirToRxBits(SOUTH) == d.RX_SOUTH",
    )


def test_mathematics_at_compile_time(tmp_path):
    holds(
        tmp_path,
        'const m = @import_module("<math>");',
        "m.sqrt(@as(f32, 2.25)) == 1.5",
        "m.abs(@as(i16, -3)) == 3",
        "m.abs(@as(f32, -3.5)) == 3.5",
        "m.max(@as(i16, 3), 4) == 4",
        "m.sign(@as(f32, -0.5)) == -1.0",
        "m.isNaN(m.NaN_f32)",
        "m.isInf(m.NEGATIVE_INF_f32)",
        "m.NEGATIVE_INF(f32) < 0.0 and m.isInf(m.NEGATIVE_INF(f16))",
        "m.POSITIVE_INF(f16) > 0.0 and m.isInf(m.POSITIVE_INF(f32))",
        "m.isNaN(m.NaN(f16)) and m.isNaN(m.NaN(f32))",
        "!m.isFinite(m.POSITIVE_INF_f16)",
        "m.floor(@as(f32, -1.5)) == -2.0",
        "m.fscale(@as(f32, 3.0), 2) == 12.0",
        "m.inv(@as(f32, 4.0)) == 0.25",
        "m.signbit(@as(f32, -0.0))",
    )


def names():
    return sorted(
        str(path.relative_to(LIBRARY).with_suffix(""))
        for path in LIBRARY.rglob("*.csl")
        if path.parent.name != "tile_config" and path.name not in ("lane.csl",)
    )


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_every_library_is_in_a_program(tmp_path, arch):
    """Programs whose run function uses the functions of every library that runs on a PE."""
    top = """
const math = @import_module("<math>");
const time = @import_module("<time>");
const random = @import_module("<random>");
const place = @import_module("<layout>");
const trace = @import_module("<debug>", .{ .key = "t", .buffer_size = 8 });
const prt = @import_module("<simprint>");
const config = @import_module("<tile_config>");
var stamp = @zeros([3]u16);
var x: f32 = 0.0;
var h: f16 = 0.0;
const c5 = @get_color(5);
"""
    body = """
  time.enable_tsc();
  time.get_timestamp(&stamp);
  time.disable_tsc();
  x = random.random_f32(-1.0, 1.0) + random.random_normal_f32();
  h = random.random_f16(0.0, 1.0);
  x = math.sqrt(x) + math.exp_f32(x) + math.pow(x, x) + math.sig(x) + math.max(x, 1.0);
  trace.trace(place.get_x_coord());
  trace.trace(x);
  trace.trace_string("text");
  trace.trace_timestamp();
  prt.print_string("a");
  prt.print_f32(x);
  prt.print_u32_hex(7);
  prt.fmt("{d} is {X}, {f} {{}}", .{ stamp[0], stamp[1], x });
  prt.fmt_with_coords("none", .{});
  config.color_config.reset_routes(c5, .{ .rx = WEST, .tx = [2]direction { EAST, RAMP } });
  config.switch_config.set_rx_switch_pos1(c5, NORTH);
  config.switch_config.set_ring_mode(c5, true);
  config.switch_config.set_pop_mode(c5, config.switch_config.pop_mode.always_pop);
  config.teardown.exit(c5);
  if (config.teardown.is_pending(config.teardown.get_pending(), c5)) {
    config.switch_config.clear_current_position(config.color_config.get_color_config_addr(c5));
  }
  config.main_thread_priority.update_main_thread_priority(config.main_thread_priority.level.HIGH);
"""
    wafer = build(tmp_path, top, body, arch)
    assert len(wafer.programs[0].code) > 300
    assert any(symbol.name.endswith("npuviz_trace_words") for symbol in wafer.programs[0].symbols)


def test_all_files_are_known_here():
    """Whoever adds a library adds it to a test above, or to one that runs it."""
    known = """collectives_2d/params collectives_2d/pe complex control data_utils debug directions dsd_ops
    empty kernels/fft/fft3d_layout kernels/fft/fft3d_pe kernels/tally/layout kernels/tally/pe layout
    malloc math memcpy/get_params memcpy/memcpy memcpy/memcpy_switches memcpy_multi/get_params
    random simprint string tile_config time timer types"""
    assert names() == sorted(known.split())
