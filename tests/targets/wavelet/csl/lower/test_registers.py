"""Routes and switches behind the router registers that pointers reach on WSE-2."""

from pathlib import Path

import pytest

from npuviz.sim.stop import StopKind
from npuviz.targets.wavelet.kernels import records as sk
from tests.targets.wavelet.running import variable
from tests.targets.wavelet.small import run

ROUTES = """
  @set_color_config(0, 0, c, .{
    .routes = .{ .rx = .{WEST}, .tx = .{NORTH} },
    .switches = .{ .pos1 = .{ .rx = RAMP }, .ring_mode = true, .pop_mode = .{ .always_pop = true } },
  });
  @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
"""
TEXT = """
const route_address: u16 = 2 * (0x7f20 + @get_int(c));
const switch_address: u16 = 2 * (0x7f40 + @get_int(c));
const send = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = @get_output_queue(2) });
var before = @zeros([2]u16);
var after = @zeros([2]u16);
var got: u32 = 0;
task take(word: u32) void { got = word; sys.unblock_cmd_stream(); }
comptime { if (x == 1) { @bind_data_task(take, @get_data_task_id(c));
  @initialize_queue(@get_input_queue(2), .{ .color = c }); } }
fn main() void {
  if (x == 0) {
    before[0] = @bitcast(*u16, route_address).*;
    before[1] = @bitcast(*u16, switch_address).*;
    // Position 1 has no port for a while; that it is an input stays.
    @bitcast(*u16, switch_address).* = (before[1] & 0xfff8) | 5;
    @bitcast(*u16, switch_address).* = (@bitcast(*u16, switch_address).* & 0xfff8) | 4;
    // From the ramp to the east, then the switch to position 1, which keeps that output.
    @bitcast(*u16, route_address).* = (before[0] & 0xfc00) | 0x200 | 0x2;
    @bitcast(*u16, switch_address).* = @bitcast(*u16, switch_address).* | 0x2000;
    after[0] = @bitcast(*u16, route_address).*;
    after[1] = @get_config(0x7f40 + @get_int(c));
    @mov32(send, @as(u32, 77));
    sys.unblock_cmd_stream();
  }
}
"""


def test_registers_have_the_bits_of_the_chip_and_routes_follow(tmp_path: Path) -> None:
    stop, machine = run(tmp_path, TEXT, 2, ROUTES, "wse2")
    assert stop.kind is StopKind.FINISHED, stop
    # Input west, output north, pop mode 1; position 1 is input 4 (ramp), 2 and 3 invalid, ring.
    assert variable(machine, "before").tolist() == [0x20 | 0x8 | 1 << 12, 0xC | 0x50 | 0x500 | 1 << 12]
    assert variable(machine, "after").tolist() == [
        0x200 | 0x2 | 1 << 12,
        0xC | 0x50 | 0x500 | 1 << 12 | 1 << 13,
    ]
    assert variable(machine, "got", 1) == 77


@pytest.mark.parametrize(
    ("arch", "access", "reason"),
    [
        ("wse3", "@bitcast(*u16, @as(u16, 0xfe42)).*", "memory access at 0xfe42"),
        ("wse2", "@get_config(0x7a00)", "configuration register 0x7a00 is not simulated"),
    ],
)
def test_other_registers_are_a_fault(arch: str, access: str, reason: str, tmp_path: Path) -> None:
    stop, _ = run(tmp_path, f"var v: u16 = 0; fn main() void {{ v = {access}; }}", arch=arch)
    assert stop.kind is StopKind.FAULT
    assert reason in stop.detail


UNROUTED = """
const config = @import_module("<tile_config>");
const routes: u16 = config.addresses.COLOR_CONFIG + @get_int(c) * config.word_size;
// A pointer that is known when compiling.
const place: *u16 = @bitcast(*u16, routes);
const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c });
const in = @get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = c });
var got = @zeros([1]u32);
const got_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> got[i] });
fn main() void {
  if (x == 0) { place.* |= 0x200 | 0x2; @mov32(out, @as(u32, 9)); }
  else { place.* |= 0x20 | 0x10; @mov32(got_dsd, in); }
  sys.unblock_cmd_stream();
}
"""


def test_a_color_is_routed_by_its_register_alone(tmp_path: Path) -> None:
    stop, machine = run(tmp_path, UNROUTED, 2, arch="wse2")
    assert stop.kind is StopKind.FINISHED, stop
    assert variable(machine, "got", 1).tolist() == [9]


def test_registers_of_input_queues_hold_the_priority_of_their_microthread(tmp_path: Path) -> None:
    text = """
    const queue_3: u16 = 2 * (0x7f58 + 3);
    var seen = @zeros([2]u16);
    fn main() void {
      seen[0] = @bitcast(*u16, queue_3).*;
      @bitcast(*u16, queue_3).* |= 0x200;
      seen[1] = @bitcast(*u16, queue_3).*;
      sys.unblock_cmd_stream();
    }
    """
    stop, machine = run(tmp_path, text, arch="wse2")
    assert stop.kind is StopKind.FINISHED, stop
    assert variable(machine, "seen").tolist() == [0, 0x200]
    levels = int(machine.engine.state[machine.observer.block(0) + sk.BLOCK.levels])
    assert levels & (sk.EACH_LEVEL << 3) == 1 << (3 + sk.LEVEL_BITS * sk.TOP_LEVEL)
    stop, _ = run(tmp_path, text.replace("0x200", "0x400"), arch="wse2")
    assert "configuration register 0x7f5b is not simulated" in stop.detail


def test_words_of_the_processor_are_swapped_where_both_axes_are(tmp_path: Path) -> None:
    routes = """
    const both = .{ .rx = .{RAMP}, .tx = .{EAST}, .color_swap_x = true, .color_swap_y = true };
    for (@range(u16, 2)) |i| {
      @set_color_config(0, 0, @get_color(4 + i), .{ .routes = both });
      @set_color_config(1, 0, @get_color(4 + i), .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
    }
    """
    text = """
    const sent = @get_color(4);
    const taken = @get_color(5);
    const q = @get_input_queue(2);
    const out = @get_dsd(fabout_dsd,
      .{ .extent = 2, .fabric_color = sent, .output_queue = @get_output_queue(2) });
    const in = @get_dsd(fabin_dsd, .{ .extent = 2, .fabric_color = taken, .input_queue = q });
    var buf = [2]u32 { 5, 6 };
    const mem = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> buf[i] });
    comptime { if (x == 1) { @initialize_queue(q, .{ .color = taken }); } }
    fn main() void {
      if (x == 0) { @mov32(out, mem); } else { buf[0] = 0; buf[1] = 0; @mov32(mem, in); }
      sys.unblock_cmd_stream();
    }
    """
    stop, machine = run(tmp_path, text, 2, routes, "wse2")
    assert stop.kind is StopKind.FINISHED, stop
    assert variable(machine, "buf", 1).tolist() == [5, 6]


def test_pointers_reach_the_time_stamp_counter(tmp_path: Path) -> None:
    text = """
    const config = @import_module("<tile_config>");
    var stamps = @zeros([4]u16);
    fn low() u16 { return @bitcast(*u16, config.addresses.TIMESTAMP_COUNTER).*; }
    fn run(value: u16) void { @bitcast(*u16, config.addresses.PERF_COUNTER_CONTROL).* = value; }
    fn main() void {
      run(7);
      for (@range(u16, config.target.tsc_size_words)) |i| {
        @bitcast(*u16, config.target.addresses.TIMESTAMP_COUNTER + config.word_size * i).* = 0;
      }
      stamps[0] = low();
      stamps[1] = low();
      run(0);
      stamps[2] = low();
      stamps[3] = low();
    }
    """
    _, machine = run(tmp_path, text)
    first, second, third, fourth = variable(machine, "stamps").tolist()
    assert 0 < first < second < third == fourth < 100
