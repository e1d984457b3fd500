"""A five-point stencil on a grid of processing elements, as CSL: the load of the wafer benchmark."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from npuviz.base.progress import NoProgress
from npuviz.sim.machine import Machine
from npuviz.sim.target import LoadRequest
from npuviz.targets.wavelet.wafer import Wafer
from npuviz.workbench.choosing import choose_target

SIDE = 64
DEPTH = 64
"""Elements per PE."""
ROUNDS = 3

LAYOUT = """
param side: u16;
param depth: i16;
param rounds: i16;

fn link(x: u16, y: u16, c: color, sends: bool, towards: direction) void {
  const across = if (towards == EAST) WEST else EAST;
  const along = if (towards == NORTH) SOUTH else NORTH;
  const from = if (towards == EAST or towards == WEST) across else along;
  if (sends) {
    @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ towards } } });
  } else {
    @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ from }, .tx = .{ RAMP } } });
  }
}

layout {
  @set_rectangle(side, side);
  for (@range(u16, side)) |x| {
    for (@range(u16, side)) |y| {
      const odd_x = x % 2;
      const odd_y = y % 2;
      @set_tile_code(x, y, "pe.csl", .{
        .depth = depth, .rounds = rounds, .odd_x = odd_x, .odd_y = odd_y,
        .east = x + 1 < side, .west = x > 0, .south = y + 1 < side, .north = y > 0 });
      if (x + 1 < side) {
        link(x, y, @get_color(odd_x), true, EAST);
        link(x, y, @get_color(2 + (odd_x + 1) % 2), false, WEST);
      }
      if (x > 0) {
        link(x, y, @get_color((odd_x + 1) % 2), false, EAST);
        link(x, y, @get_color(2 + odd_x), true, WEST);
      }
      if (y + 1 < side) {
        link(x, y, @get_color(4 + odd_y), true, SOUTH);
        link(x, y, @get_color(6 + (odd_y + 1) % 2), false, NORTH);
      }
      if (y > 0) {
        link(x, y, @get_color(4 + (odd_y + 1) % 2), false, SOUTH);
        link(x, y, @get_color(6 + odd_y), true, NORTH);
      }
    }
  }
}
"""

PE = """
param depth: i16;
param rounds: i16;
param odd_x: u16;
param odd_y: u16;
param east: bool;
param west: bool;
param south: bool;
param north: bool;

var u: [depth]f32 = @constants([depth]f32, 1.0);
var next: [depth]f32 = @zeros([depth]f32);
var from_east: [depth]f32 = @zeros([depth]f32);
var from_west: [depth]f32 = @zeros([depth]f32);
var from_south: [depth]f32 = @zeros([depth]f32);
var from_north: [depth]f32 = @zeros([depth]f32);
var round: i16 = 0;
var waiting: i16 = 0;

const begin_id = @get_local_task_id(8);
const got_east_id = @get_local_task_id(9);
const got_west_id = @get_local_task_id(10);
const got_south_id = @get_local_task_id(11);
const got_north_id = @get_local_task_id(12);
const sent_east_id = @get_local_task_id(13);
const sent_west_id = @get_local_task_id(14);
const sent_south_id = @get_local_task_id(15);
const sent_north_id = @get_local_task_id(16);

const u_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{depth} -> u[i] });
const next_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{depth} -> next[i] });
const east_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{depth} -> from_east[i] });
const west_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{depth} -> from_west[i] });
const south_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{depth} -> from_south[i] });
const north_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{depth} -> from_north[i] });
const in_east = @get_dsd(fabin_dsd, .{ .extent = depth, .input_queue = @get_input_queue(0) });
const in_west = @get_dsd(fabin_dsd, .{ .extent = depth, .input_queue = @get_input_queue(1) });
const in_south = @get_dsd(fabin_dsd, .{ .extent = depth, .input_queue = @get_input_queue(2) });
const in_north = @get_dsd(fabin_dsd, .{ .extent = depth, .input_queue = @get_input_queue(3) });
const out_east = @get_dsd(fabout_dsd, .{ .extent = depth, .output_queue = @get_output_queue(4) });
const out_west = @get_dsd(fabout_dsd, .{ .extent = depth, .output_queue = @get_output_queue(5) });
const out_south = @get_dsd(fabout_dsd, .{ .extent = depth, .output_queue = @get_output_queue(6) });
const out_north = @get_dsd(fabout_dsd, .{ .extent = depth, .output_queue = @get_output_queue(7) });

fn part_done() void {
  waiting -= 1;
  if (waiting == 0) {
    @fmovs(u_dsd, next_dsd);
    round += 1;
    if (round < rounds) {
      @activate(begin_id);
    }
  }
}

task begin() void {
  @fmuls(next_dsd, u_dsd, 0.2);
  if (east) {
    waiting += 2;
    @fmovs(east_dsd, in_east, .{ .async = true, .activate = got_east_id });
    @fmovs(out_east, u_dsd, .{ .async = true, .activate = sent_east_id });
  }
  if (west) {
    waiting += 2;
    @fmovs(west_dsd, in_west, .{ .async = true, .activate = got_west_id });
    @fmovs(out_west, u_dsd, .{ .async = true, .activate = sent_west_id });
  }
  if (south) {
    waiting += 2;
    @fmovs(south_dsd, in_south, .{ .async = true, .activate = got_south_id });
    @fmovs(out_south, u_dsd, .{ .async = true, .activate = sent_south_id });
  }
  if (north) {
    waiting += 2;
    @fmovs(north_dsd, in_north, .{ .async = true, .activate = got_north_id });
    @fmovs(out_north, u_dsd, .{ .async = true, .activate = sent_north_id });
  }
}

task got_east() void { @fmacs(next_dsd, next_dsd, east_dsd, 0.2); part_done(); }
task got_west() void { @fmacs(next_dsd, next_dsd, west_dsd, 0.2); part_done(); }
task got_south() void { @fmacs(next_dsd, next_dsd, south_dsd, 0.2); part_done(); }
task got_north() void { @fmacs(next_dsd, next_dsd, north_dsd, 0.2); part_done(); }
task sent_east() void { part_done(); }
task sent_west() void { part_done(); }
task sent_south() void { part_done(); }
task sent_north() void { part_done(); }

comptime {
  @bind_local_task(begin, begin_id);
  @bind_local_task(got_east, got_east_id);
  @bind_local_task(got_west, got_west_id);
  @bind_local_task(got_south, got_south_id);
  @bind_local_task(got_north, got_north_id);
  @bind_local_task(sent_east, sent_east_id);
  @bind_local_task(sent_west, sent_west_id);
  @bind_local_task(sent_south, sent_south_id);
  @bind_local_task(sent_north, sent_north_id);
  if (rounds > 0) {
    @activate(begin_id);
  }
  if (east) {
    @initialize_queue(@get_input_queue(0), .{ .color = @get_color(2 + (odd_x + 1) % 2) });
    @initialize_queue(@get_output_queue(4), .{ .color = @get_color(odd_x) });
  }
  if (west) {
    @initialize_queue(@get_input_queue(1), .{ .color = @get_color((odd_x + 1) % 2) });
    @initialize_queue(@get_output_queue(5), .{ .color = @get_color(2 + odd_x) });
  }
  if (south) {
    @initialize_queue(@get_input_queue(2), .{ .color = @get_color(6 + (odd_y + 1) % 2) });
    @initialize_queue(@get_output_queue(6), .{ .color = @get_color(4 + odd_y) });
  }
  if (north) {
    @initialize_queue(@get_input_queue(3), .{ .color = @get_color(4 + (odd_y + 1) % 2) });
    @initialize_queue(@get_output_queue(7), .{ .color = @get_color(6 + odd_y) });
  }
}
"""


def write_stencil(folder: Path) -> Path:
    """Write the two CSL files; returns the layout's path."""
    (folder / "pe.csl").write_text(PE, encoding="utf-8")
    path = folder / "layout.csl"
    path.write_text(LAYOUT, encoding="utf-8")
    return path


def stencil(folder: Path, side: int) -> Machine:
    """Build a machine of `side` times `side` PEs that runs ROUNDS rounds, from files written to a folder."""
    settings = {"arch": "wse3", "params": f"side:{side},depth:{DEPTH},rounds:{ROUNDS}"}
    path = write_stencil(folder)
    target = choose_target(path)
    return target.build(*target.load(LoadRequest(path, settings=settings), NoProgress()))


def among_idle(wafer: Wafer, columns: int, rows: int, x: int, y: int) -> Wafer:
    """Return the wafer's programs with their corner at (x, y) of a rectangle of idle PEs."""
    programs = np.full((rows, columns), len(wafer.programs), np.int32)
    programs[y : y + wafer.rows, x : x + wafer.columns] = wafer.program_of
    return replace(
        wafer,
        programs=(*wafer.programs, replace(wafer.programs[0], activated=())),
        program_of=programs,
        channels={(x + column, y + row): found for (column, row), found in wafer.channels.items()},
        columns=columns,
        rows=rows,
        fabric=(columns + 7, rows + 2),
    )
