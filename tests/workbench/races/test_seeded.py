"""Programs for the wafer that lack an order, one of each kind, beside whole ones: which of them races finds.

Each of them gives the right results at the nominal latencies.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.target import TARGET
from npuviz.targets.wavelet.wafer import HOST_COPY_OUT, HOST_LAUNCH, HostCommand
from npuviz.workbench.races.recorded import RecordedRacer
from tests.targets.wavelet.csl.programs import write

SEEDS = range(1, 25)
ROUTES = """
  @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
  @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
  @set_color_config(2, 0, d, .{ .routes = .{ .rx = .{RAMP}, .tx = .{WEST} } });
  @set_color_config(1, 0, d, .{ .routes = .{ .rx = .{EAST}, .tx = .{RAMP} } });
"""
LAYOUT = """const c = @get_color(1);
const d = @get_color(2);
layout {
  @set_rectangle(3, 1);
  for (@range(u16, 3)) |x| { @set_tile_code(x, 0, "pe.csl", .{ .x = x, .c = c, .d = d }); }
  %s
  @export_name("start", fn()void);
  @export_name("result", [*]u32, true);
}
"""
PE = """param x: u16; param c: color; param d: color;
const sys = @import_module("<memcpy/memcpy>");
const in = @get_input_queue(2);
const in2 = @get_input_queue(3);
const oq = @get_output_queue(2);
const end_id = @get_local_task_id(9);
const next_id = @get_local_task_id(10);
var result = @zeros([4]u32);
var result_pointer: [*]u32 = &result;
var buf = @constants([64]u32, 5);
var other = @zeros([32]u32);
const buffer = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{32} -> buf[i] });
const others = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{32} -> other[i] });
const mine = if (x == 2) d else c;
const sent = @get_dsd(fabout_dsd, .{ .extent = 32, .fabric_color = mine, .output_queue = oq });
const one = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = mine, .output_queue = oq });
const taken = @get_dsd(fabin_dsd, .{ .extent = 32, .input_queue = in });
const taken2 = @get_dsd(fabin_dsd, .{ .extent = 32, .input_queue = in2 });
fn wait(rounds: u16) void {
  var k: u16 = 0;
  while (k < rounds) : (k += 1) { result[3] += @as(u32, k & 1); }
}
fn sum(of: *[32]u32) u32 {
  var s: u32 = 0;
  for (@range(u16, 32)) |i| { s += (of.*)[i]; }
  return s;
}
%s
fn start() void { if (x == 0) { west(); } else { if (x == 1) { middle(); } else { east(); } } }
comptime {
  @export_symbol(start);
  @export_symbol(result_pointer, "result");
}
"""
QUEUES = """
comptime {
  if (x == 1) {
    @initialize_queue(in, .{ .color = c });
    @initialize_queue(in2, .{ .color = d });
  } else { @initialize_queue(oq, .{ .color = mine }); }
}
"""


@dataclass(frozen=True)
class Seeded:
    """A program with `%s` where the order is made, what leaves it to chance there, and what makes it."""

    text: str
    racy: str
    whole: str


PROGRAMS = {
    "two tasks whose order is that of their activation": Seeded(
        QUEUES
        + """
const early = %s;
fn west() void { @mov32(sent, buffer, .{ .async = true, .activate = end_id }); }
fn east() void { wait(4); @mov32(sent, buffer, .{ .async = true, .activate = end_id }); }
fn middle() void {
  @mov32(buffer, taken, .{ .async = true, .activate = end_id });
  @mov32(others, taken2, .{ .async = true, .activate = next_id });
}
var count: u16 = 0;
fn make() void { result[1] = result[0] * 2 + sum(&other); }
fn both() void { count += 1; if (count == 2) { if (!early) { make(); } sys.unblock_cmd_stream(); } }
task end() void { if (x == 1) { result[0] = 7; both(); } else { sys.unblock_cmd_stream(); } }
task next() void { if (early) { make(); } both(); }
comptime { @bind_local_task(end, end_id); @bind_local_task(next, next_id); }
""",
        "true",
        "false",
    ),
    "a buffer that is overwritten before it is sent": Seeded(
        QUEUES
        + """
fn west() void { @mov32(sent, buffer, .{ .async = true, .activate = end_id }); %s }
fn east() void { sys.unblock_cmd_stream(); }
fn middle() void { @mov32(others, taken, .{ .async = true, .activate = end_id }); }
task end() void { if (x == 1) { result[0] = sum(&other); } buf[31] = 9; sys.unblock_cmd_stream(); }
comptime { @bind_local_task(end, end_id); }
""",
        "wait(4); buf[31] = 9;",
        "wait(4);",
    ),
    "a receive whose end nobody waits for": Seeded(
        QUEUES
        + """
fn west() void { @mov32(sent, buffer); sys.unblock_cmd_stream(); }
fn east() void { sys.unblock_cmd_stream(); }
fn middle() void { %s }
fn finish() void { result[0] = sum(&other); sys.unblock_cmd_stream(); }
task end() void { finish(); }
comptime { @bind_local_task(end, end_id); }
""",
        "@mov32(others, taken, .{ .async = true }); wait(6); finish();",
        "@mov32(others, taken, .{ .async = true, .activate = end_id });",
    ),
    "a task that should be blocked until its data are there": Seeded(
        QUEUES
        + """
fn west() void { @mov32(sent, buffer); sys.unblock_cmd_stream(); }
fn east() void { sys.unblock_cmd_stream(); }
fn middle() void {
  @mov32(others, taken, .{ .async = true, .unblock = end_id });
  wait(6);
  @activate(end_id);
}
task end() void { result[0] = sum(&other); sys.unblock_cmd_stream(); }
comptime { @bind_local_task(end, end_id); %s }
""",
        "",
        "@block(end_id);",
    ),
    "a host that goes on before the result is there": Seeded(
        QUEUES
        + """
const early = %s;
fn west() void { sys.unblock_cmd_stream(); wait(2); @mov32(sent, buffer, .{ .async = true }); }
fn east() void { sys.unblock_cmd_stream(); }
fn middle() void {
  @mov32(others, taken, .{ .async = true, .activate = end_id });
  if (early) { sys.unblock_cmd_stream(); }
}
task end() void { wait(1); result[0] = other[31]; if (!early) { sys.unblock_cmd_stream(); } }
comptime { @bind_local_task(end, end_id); }
""",
        "true",
        "false",
    ),
    "a start that is taken for common": Seeded(
        QUEUES
        + """
const from_data = @get_data_task_id(in);
comptime { @bind_data_task(got, from_data); }
fn west() void { %s wait(4); @mov32(one, @as(u32, 7)); sys.unblock_cmd_stream(); }
fn east() void { sys.unblock_cmd_stream(); }
fn middle() void { result[0] = 0; }
task got(data: u32) void { result[0] += data; sys.unblock_cmd_stream(); }
""",
        "",
        "wait(60);",
    ),
}


def _racer(folder: Path, program: Seeded, middle: str) -> RecordedRacer:
    folder.mkdir()
    files = {"layout.csl": LAYOUT % ROUTES, "pe.csl": PE % (program.text % middle)}
    wafer = compile_program(write(folder, files), "wse3", fabric=(10, 3))
    commands = [HostCommand(HOST_LAUNCH, "start"), HostCommand(HOST_COPY_OUT, "result", (0, 0, 3, 1), 4)]
    return RecordedRacer(TARGET, *make_program(wafer, commands, "test"))


def _results(racer: RecordedRacer) -> list[list[int]]:
    """What the host gets at the nominal latencies: the first two words of each PE; others count rounds."""
    machine = TARGET.build(racer.spec, racer.program)
    assert isinstance(machine, WaveletMachine)
    assert machine.advance(100_000, NO_STOPS, None).kind is StopKind.FINISHED
    found = machine.result(1)
    assert found is not None
    return found.reshape(3, 4)[:, :2].tolist()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_missing_order_is_found_though_the_results_are_right(tmp_path: Path, name: str) -> None:
    program = PROGRAMS[name]
    racy, whole = (
        _racer(tmp_path / word, program, text)
        for word, text in (("racy", program.racy), ("whole", program.whole))
    )
    assert _results(racy) == _results(whole)
    assert any(found.race or found.stop for found in map(racy.at, SEEDS))
    assert not any(found.race or found.stop for found in map(whole.at, SEEDS))
