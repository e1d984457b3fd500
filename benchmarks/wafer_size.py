"""Sizes of wafers: compiling many elements, recording many, and a whole wafer of 750 x 994.

The whole wafer takes some minutes and about 7 GB of memory.
"""

import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.row import Row
from benchmarks.stencil import DEPTH, LAYOUT, PE, ROUNDS, SIDE
from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS, STOP_WORD, stop_table
from npuviz.sim.target import LoadRequest
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.target import TARGET
from npuviz.workbench.opening import OpenOptions, open_file

COLUMNS, ROWS = 750, 994
"""Elements of the usable fabric of a WSE-2."""
CYCLES = 1000
DISTINCT_SIDE = 16
RECORDED_REPEATS = 3
UNUSED_COLOR = 23
OWN = "param own_x: u16; param own_y: u16;\nvar own: [2]u16 = [2]u16{own_x, own_y};\n"
ALL_ALIKE = """
param width: u16;
param height: u16;
layout {
  @set_rectangle(width, height);
  for (@range(u16, width)) |x| {
    for (@range(u16, height)) |y| {
      @set_tile_code(x, y, "pe.csl", .{});
    }
  }
}
"""
SMALL_KERNEL = """
param times: i16 = %d;
var n: i16 = 0;
var a: [32]f32 = @constants([32]f32, 1.0);
var b: [32]f32 = @constants([32]f32, 2.0);
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{32} -> a[i] });
const b_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{32} -> b[i] });
const go = @get_local_task_id(8);
task run() void {
  @fmacs(a_dsd, a_dsd, b_dsd, 0.5);
  n += 1;
  if (n < times) { @activate(go); }
}
comptime { @bind_local_task(run, go); @activate(go); }
"""
SHORT, LONG = 4, 1000
"""Rounds of the small kernel: few, finished after 200 cycles, or enough to be busy all the time."""


def run() -> list[Row]:
    """Measure everything; some minutes."""
    TARGET.warm_up(NoProgress())
    with TemporaryDirectory() as name:
        folder = Path(name)
        _seconds_to_compile(folder, PE, LAYOUT, 4)
        own = LAYOUT.replace('"pe.csl", .{', '"pe.csl", .{ .own_x = x, .own_y = y,')
        rows = [
            _compiled(f"{SIDE} x {SIDE} elements, 16 programs", folder, PE, LAYOUT, SIDE, 1.5),
            _compiled("16 x 16 elements, 256 programs", folder, OWN + PE, own, DISTINCT_SIDE, 5.0),
            _recorded(folder),
            _armed(folder),
        ]
        for times in (SHORT, LONG):
            rows += _whole(folder, times)
    return rows


def _seconds_to_compile(folder: Path, pe: str, layout: str, side: int) -> float:
    """Measure the processor seconds of compiling a stencil."""
    path = _written(folder / "compiled", pe, layout)
    request = LoadRequest(path, settings={"arch": "wse3", "params": _params(side)})
    begin = time.process_time()
    TARGET.load(request, NoProgress())
    return time.process_time() - begin


def _params(side: int) -> str:
    return f"side:{side},depth:{DEPTH},rounds:{ROUNDS}"


def _written(folder: Path, pe: str, layout: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pe.csl").write_text(pe, encoding="utf-8")
    path = folder / "layout.csl"
    path.write_text(layout, encoding="utf-8")
    return path


def _compiled(what: str, folder: Path, pe: str, layout: str, side: int, goal: float) -> Row:
    seconds = min(_seconds_to_compile(folder, pe, layout, side) for _ in range(2))
    return Row(f"{what}: compiled", seconds, "s", f"{goal:g} s")


def _recorded(folder: Path) -> Row:
    """Measure how much longer a run takes with recording as in the window; the median of several pairs."""
    path = _written(folder / "recorded", PE, LAYOUT)
    options = OpenOptions(target="wavelet", settings={"arch": "wse3", "params": _params(SIDE)})
    ratios: list[float] = []
    for _ in range(RECORDED_REPEATS):
        session = open_file(path, options).session
        bare = open_file(path, options).session
        assert session is not None
        assert bare is not None
        begin = time.perf_counter()
        session.run()
        recorded = time.perf_counter() - begin
        begin = time.perf_counter()
        while not bare.machine.is_finished:
            bare.machine.advance(1 << 40, NO_STOPS, None)
        ratios.append(recorded / (time.perf_counter() - begin))
    return Row(f"{SIDE} x {SIDE} elements, recorded to not", sorted(ratios)[len(ratios) // 2], "x", "1.3 x")


def _armed(folder: Path) -> Row:
    """Measure how much longer a run takes with a breakpoint that never hits; the median of several pairs."""
    path = _written(folder / "recorded", PE, LAYOUT)
    request = LoadRequest(path, settings={"arch": "wse3", "params": _params(SIDE), "watch": "corner"})
    machine = TARGET.build(*TARGET.load(request, NoProgress()))
    start = machine.snapshot()
    ratios: list[float] = []
    for _ in range(RECORDED_REPEATS):
        seconds: list[float] = []
        for stops in (stop_table([(STOP_WORD, UNUSED_COLOR, 0, 0, 0, 1)]), NO_STOPS):
            machine.restore(start)
            begin = time.perf_counter()
            machine.advance(1 << 40, stops, None)
            seconds.append(time.perf_counter() - begin)
        ratios.append(seconds[0] / seconds[1])
    what = f"{SIDE} x {SIDE} elements, with a breakpoint to without"
    return Row(what, sorted(ratios)[len(ratios) // 2], "x", "1.3 x")


def _whole(folder: Path, times: int) -> list[Row]:
    """Measure from the text of a kernel on every element of the wafer to its cycle 1,000."""
    path = _written(folder / "whole", SMALL_KERNEL % times, ALL_ALIKE)
    settings = {"arch": "wse3", "params": f"width:{COLUMNS},height:{ROWS}", "watch": "corner"}
    begin = time.perf_counter()
    machine = TARGET.build(*TARGET.load(LoadRequest(path, settings=settings), NoProgress()))
    assert isinstance(machine, WaveletMachine)
    built = time.perf_counter() - begin
    machine.advance(CYCLES, NO_STOPS, None)
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    doing = "at work for 200 cycles" if times == SHORT else "always at work"
    what = f"{COLUMNS} x {ROWS} elements {doing}"
    goals = ("", "60 s", "8 GB") if times == SHORT else ("", "", "")
    return [
        Row(f"{what}: compiled and built", built, "s", goals[0]),
        Row(f"{what}: to cycle {CYCLES}", seconds, "s", goals[1]),
        Row(f"{what}: memory of the process", memory, "GB", goals[2]),
    ]
