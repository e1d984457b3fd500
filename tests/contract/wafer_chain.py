"""A chain of three processing elements, for the contract suite: tasks, microthreads, links, a reduction."""

from pathlib import Path

from npuviz.sim.target import LoadRequest

LAYOUT = """
const c: color = @get_color(3);
const d: color = @get_color(4);

layout {
  @set_rectangle(3, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .is_first = true, .is_last = false, .inward = d, .outward = c });
  @set_tile_code(1, 0, "pe.csl", .{ .is_first = false, .is_last = false, .inward = c, .outward = d });
  @set_tile_code(2, 0, "pe.csl", .{ .is_first = false, .is_last = true, .inward = d, .outward = c });
  @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
  @set_color_config(1, 0, d, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @set_color_config(2, 0, d, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
}
"""

PE = """
param is_first: bool;
param is_last: bool;
param inward: color;
param outward: color;

const size: i16 = 24;
var x: [size]f32 = @zeros([size]f32);
var total: f32 = 0.0;
const in_queue = @get_input_queue(2);
const out_queue = @get_output_queue(3);
const begin_id: local_task_id = @get_local_task_id(8);
const ready_id: local_task_id = @get_local_task_id(9);
const done_id: local_task_id = @get_local_task_id(10);
const x_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{size} -> x[i] });
const in_dsd = @get_dsd(fabin_dsd, .{ .extent = size, .input_queue = in_queue });
const out_dsd = @get_dsd(fabout_dsd, .{ .extent = size, .output_queue = out_queue });

task begin() void {
  if (is_first) {
    for (@range(i16, size)) |i| {
      x[i] = @as(f32, i) * 0.5;
    }
    @activate(ready_id);
  } else {
    @fmovs(x_dsd, in_dsd, .{ .async = true, .activate = ready_id });
  }
}

task ready() void {
  @fadds(x_dsd, x_dsd, 1.0);
  @fadds(&total, 0.0, x_dsd);
  if (!is_last) {
    @fmovs(out_dsd, x_dsd, .{ .async = true, .activate = done_id });
  } else {
    @activate(done_id);
  }
}

task done() void {
  total += 1.0;
}

comptime {
  @bind_local_task(begin, begin_id);
  @bind_local_task(ready, ready_id);
  @bind_local_task(done, done_id);
  @activate(begin_id);
  if (!is_first) {
    @initialize_queue(in_queue, .{ .color = inward });
  }
  if (!is_last) {
    @initialize_queue(out_queue, .{ .color = outward });
  }
}
"""


def write_chain(folder: Path) -> LoadRequest:
    (folder / "pe.csl").write_text(PE, encoding="utf-8")
    path = folder / "layout.csl"
    path.write_text(LAYOUT, encoding="utf-8")
    return LoadRequest(path, settings={"arch": "wse3"})
