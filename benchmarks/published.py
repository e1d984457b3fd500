"""Compares simulated cycle totals of wafer programs with published ones: ratios, and the median distance
from 1.

The programs are written from the published descriptions; nothing is fitted to the totals. FAB is the WSE-3
characterisation named in docs/wavelet.md (the vendor's simulator), HPDC the model of collectives there
(WSE-2).
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.published_kernels import KERNELS
from benchmarks.row import Row
from npuviz.base.errors import SimulationError
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.target import TARGET
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand

LIMIT = 10_000_000
LAYOUT = """
layout {
  @set_rectangle(%(width)d, 1);
  for (@range(u16, %(width)d)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{
      .x = x, .last = x + 1 == %(width)d, .blue = @get_color(1), .red = @get_color(2) });
    const even = x %% 2 == 0;
    const out = if (even) @get_color(1) else @get_color(2);
    const in = if (even) @get_color(2) else @get_color(1);
    if (x + 1 < %(width)d) {
      @set_color_config(x, 0, out, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
    }
    if (x > 0) {
      @set_color_config(x, 0, in, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
    }
  }
  @export_name("start", fn()void);
}
"""
PE = """
param x: u16; param last: bool; param blue: color; param red: color;
const sys = @import_module("<memcpy/memcpy>");
const time = @import_module("<time>");
var t0 = @zeros([3]u16);
var t1 = @zeros([3]u16);
%(globals)s
fn start() void {
  time.enable_tsc();
  time.get_timestamp(&t0);
  %(body)s
}
fn done() void {
  time.get_timestamp(&t1);
  sys.unblock_cmd_stream();
}
comptime { @export_symbol(start); }
"""
HALVES = """
var a = @zeros([4096]f16); var b = @zeros([4096]f16); var y = @zeros([4096]f16);
const a_all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4096} -> a[i] });
const b_all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4096} -> b[i] });
const y_all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4096} -> y[i] });
const a_tile = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{16} -> a[i] });
const y_tile = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{16} -> y[i] });
const starts = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{256} -> first[i] });
var first = @constants([256]i16, 0);
fn tile(k: i16) void {
  const at = @increment_dsd_offset(y_tile, k, f16);
  @fmach(at, at, @increment_dsd_offset(a_tile, k, f16), 2.0);
}
"""
INTEGERS = """
var a = @zeros([2048]i16); var b = @zeros([2048]i16);
const a_all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2048} -> a[i] });
const b_all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2048} -> b[i] });
"""
SINGLES = HALVES.replace("f16", "f32").replace("4096", "1024").replace("@fmach", "@fmacs")
CHAIN = """
const iq = @get_input_queue(2); const oq = @get_output_queue(3);
var a = @zeros([%(words)d]f32);
const in = @get_dsd(fabin_dsd, .{ .extent = %(words)d, .input_queue = iq });
const out = @get_dsd(fabout_dsd, .{ .extent = %(words)d, .output_queue = oq });
const a_all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{%(words)d} -> a[i] });
const received_id = @get_local_task_id(10); const sent_id = @get_local_task_id(11);
task received() void {
  if (last) { done(); } else { @fmovs(out, a_all, .{ .async = true, .activate = sent }); }
}
task sent() void { done(); }
comptime {
  @bind_local_task(received, received_id);
  @bind_local_task(sent, sent_id);
  const even = x %% 2 == 0;
  if (!last) { @initialize_queue(oq, .{ .color = if (even) blue else red }); }
  if (x > 0) { @initialize_queue(iq, .{ .color = if (even) red else blue }); }
}
"""
CHAIN_BODY = """
  if (x == 0) { @fmovs(out, a_all, .{ .async = true, .activate = sent }); }
  else { @fmovs(a_all, in, .{ .async = true, .activate = received }); }
"""


REDUCE = """
const iq = @get_input_queue(2); const oq = @get_output_queue(3);
const from = if (x %% 2 == 0) red else blue; const to = if (x %% 2 == 0) blue else red;
var a = @constants([%(words)d]f32, 1.0);
const in = @get_dsd(fabin_dsd, .{ .extent = %(words)d, .fabric_color = from, .input_queue = iq });
const out = @get_dsd(fabout_dsd, .{ .extent = %(words)d, .fabric_color = to, .output_queue = oq });
const a_all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{%(words)d} -> a[i] });
comptime { if (x > 0) { @initialize_queue(iq, .{ .color = from }); } }
"""
REDUCE_BODY = """
  if (x == 0) { @fmovs(out, a_all); } else if (last) { @fadds(a_all, a_all, in); }
  else { @fadds(out, a_all, in); }
  done();
"""


@dataclass(frozen=True)
class Total:
    """A published total: cycles from the start on the first PE of a row to the end on the last one."""

    name: str
    cycles: float
    globals: str
    body: str
    width: int = 1
    arch: str = "wse3"


def _chain(stages: int, words: int) -> Total:
    """Make a store-and-forward chain. The formula is FAB's, which is within 4 % of its measurements."""
    cycles = 1.001 * stages * words + 16.1 * stages + 16.5
    name = f"store and forward, {stages} stages of {words} words"
    return Total(name, cycles, CHAIN % {"words": words}, CHAIN_BODY, stages + 1)


def _reduce(pes: int, words: int) -> Total:
    """Make a reduction along a chain. The model is HPDC's: a word per cycle, and for each PE the ramp of 2
    cycles twice, one cycle of work and one hop."""
    name = f"reduction along a chain of {pes} PEs, {words} words (WSE-2)"
    return Total(name, words + 6 * (pes - 1), REDUCE % {"words": words}, REDUCE_BODY, pes, "wse2")


WHILE = "var k: i16 = 0; while (k < 4096) : (k += 16) { tile(k); } done();"
TOTALS = (
    Total("f16 multiply-add of 4096", 1040, HALVES, "@fmach(y_all, y_all, a_all, 2.0); done();"),
    Total("the same, while over tiles of 16", 4617, HALVES, WHILE),
    Total("the same, @map over tiles of 16", 2840, HALVES, "@map(tile, starts); done();"),
    Total("f16 addition of 4096", 4096 / 3.96 + 9, HALVES, "@faddh(y_all, a_all, b_all); done();"),
    Total("i16 addition of 2048", 514, INTEGERS, "@add16(a_all, a_all, b_all); done();"),
    Total("f32 multiply-add of 1024", 17 + 2 * 1024, SINGLES, "@fmacs(y_all, y_all, a_all, 2.0); done();"),
    *(_chain(stages, words) for stages, words in ((1, 64), (2, 64), (4, 64), (8, 64), (8, 512))),
    *(_reduce(pes, words) for pes, words in ((16, 256), (64, 64), (64, 1024))),
    *(Total(*kernel) for kernel in KERNELS),
)


def measure(total: Total) -> int:
    """Simulate the program of a total, and return its cycles by its own timer. Raises SimulationError if it
    does not end."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "layout.csl"
        path.write_text(LAYOUT % {"width": total.width}, encoding="utf-8")
        text = PE % {"globals": total.globals, "body": total.body}
        (Path(folder) / "pe.csl").write_text(text, encoding="utf-8")
        wafer = compile_program(path, total.arch, fabric=(total.width + 7, 3))
    machine = TARGET.build(*make_program(wafer, [HostCommand(HOST_LAUNCH, "start")]))
    assert isinstance(machine, WaveletMachine)
    stop = machine.advance(LIMIT, NO_STOPS, None)
    if stop.kind is not StopKind.FINISHED:
        raise SimulationError(f"{total.name}: {stop.kind} at cycle {stop.cycle}: {stop.detail}")
    begin, end = (_stamp(machine, place, name) for place, name in ((0, "t0"), (total.width - 1, "t1")))
    return end - begin


def _stamp(machine: WaveletMachine, column: int, name: str) -> int:
    program = machine.wafer.programs[int(machine.wafer.program_of[0, column])]
    symbol = next(symbol for symbol in program.symbols if symbol.name == name)
    parts = np.frombuffer(machine.read_symbol(column, 0, symbol), "<u2").astype(np.int64)
    return int(parts @ (1, 1 << 16, 1 << 32))


def run() -> list[Row]:
    """Compute every ratio simulated / published, then the median distance from 1."""
    ratios = [(total, measure(total) / total.cycles) for total in TOTALS]
    rows = [Row(f"{total.name}: published {total.cycles:.0f}", ratio, "x", "0.85..1.15")
            for total, ratio in ratios]  # fmt: skip
    distance = median(abs(ratio - 1) for _, ratio in ratios)
    return [*rows, Row("median distance from the published totals", 100 * distance, "%", "<= 7 %")]
