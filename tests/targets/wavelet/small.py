"""Small CSL programs of a row of PEs, compiled and run: for hazards, deadlocks and bad input."""

from collections.abc import Sequence
from pathlib import Path

from npuviz.sim.machine import Hazard
from npuviz.sim.stop import NO_STOPS, StopReason
from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand, Wafer
from tests.targets.wavelet.csl.programs import write
from tests.targets.wavelet.samples import machine_of

LAYOUT = """const c = @get_color(1);
const d = @get_color(2);
layout {
  @set_rectangle(%(width)d, 1);
  for (@range(u16, %(width)d)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .x = x, .c = c, .d = d });
  }
  %(routes)s
  @export_name("start", fn()void);
}
"""
HEAD = """param x: u16; param c: color; param d: color;
const sys = @import_module("<memcpy/memcpy>");
"""
START = """
fn start() void { main(); }
comptime { @export_symbol(start); }
"""
EASTWARD = """
  @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
  @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
"""
WESTWARD = """
  @set_color_config(1, 0, d, .{ .routes = .{ .rx = .{RAMP}, .tx = .{WEST} } });
  @set_color_config(0, 0, d, .{ .routes = .{ .rx = .{EAST}, .tx = .{RAMP} } });
"""
LIMIT = 1_000_000


def compiled(folder: Path, pe: str, width: int = 1, routes: str = "", arch: str = "wse3") -> Wafer:
    """A row of PEs that all run `pe`, with params x, c, d and a `main` that the host launches."""
    files = {"layout.csl": LAYOUT % {"width": width, "routes": routes}, "pe.csl": HEAD + pe + START}
    return compile_program(write(folder, files), arch, fabric=(width + 7, 3))


def run(
    folder: Path, pe: str, width: int = 1, routes: str = "", arch: str = "wse3",
    commands: Sequence[HostCommand] = (HostCommand(HOST_LAUNCH, "start"),),
) -> tuple[StopReason, WaveletMachine]:  # fmt: skip
    """Compile, launch, and run to the end."""
    machine = machine_of(compiled(folder, pe, width, routes, arch), list(commands))
    return machine.advance(LIMIT, NO_STOPS, None), machine


def line_with(text: str, part: str) -> int:
    """Line in pe.csl of the line of a program text that holds a part."""
    return next(number for number, line in enumerate((HEAD + text).splitlines(), 1) if part in line)


def of_kind(machine: WaveletMachine, kind: str) -> list[Hazard]:
    """Hazards of one kind."""
    return [hazard for hazard in machine.hazards() if hazard.kind == kind]
