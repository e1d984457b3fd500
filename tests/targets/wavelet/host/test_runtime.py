"""Host programs against the machine, from compiling to reading back."""

import json

import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress
from npuviz.targets.wavelet.host.debug_util import debug_util
from npuviz.targets.wavelet.host.device import DeviceError
from npuviz.targets.wavelet.host.finished import forget
from npuviz.targets.wavelet.host.transfers import MemcpyDataType, MemcpyOrder
from npuviz.targets.wavelet.load.compiled import load_run
from npuviz.targets.wavelet.load.loader import open_program
from tests.targets.wavelet.host.programs import compile_folder, start

ARCHS = pytest.mark.parametrize("arch", ["wse2", "wse3"])
SCALE = """
var a = @zeros([4]f32);
var h = @zeros([4]i16);
var a_ptr: [*]f32 = &a;
var h_ptr: [*]i16 = &h;
fn scale(factor: f32, addend: i16) void {
  for (@range(u16, 4)) |i| {
    a[i] = a[i] * factor;
    h[i] = h[i] + addend;
  }
  sys_mod.unblock_cmd_stream();
}
fn stay() void {}
comptime {
  @export_symbol(a_ptr, "a");
  @export_symbol(h_ptr, "h");
  @export_symbol(scale);
  @export_symbol(stay);
}
"""
SCALE_EXPORTS = {
    "a": "[*]f32, true",
    "h": "[*]i16, true",
    "scale": "fn(f32, i16)void",
    "stay": "fn()void",
}


@ARCHS
def test_copies_and_launches(tmp_path, arch):
    out = compile_folder(tmp_path, SCALE, SCALE_EXPORTS, 3, 2, arch)
    runtime = start(out)
    given = np.arange(24, dtype=np.float32)
    runtime.memcpy_h2d(runtime.get_id("a"), given, 0, 0, 3, 2, 4, nonblock=True)
    halves = np.arange(24, dtype=np.uint32)
    narrow = MemcpyDataType.MEMCPY_16BIT
    runtime.memcpy_h2d(runtime.get_id("h"), halves, 0, 0, 3, 2, 4, data_type=narrow)
    runtime.launch("scale", np.float32(2.0), np.int16(-5))
    back = np.zeros(24, np.float32)
    runtime.memcpy_d2h(back, runtime.get_id("a"), 0, 0, 3, 2, 4)
    np.testing.assert_array_equal(back, given * 2)
    words = np.zeros(8, np.uint32)
    column = MemcpyOrder.COL_MAJOR
    task = runtime.memcpy_d2h(
        words, runtime.get_id("h"), 2, 0, 1, 2, 4, data_type=narrow, order=column, nonblock=True
    )
    runtime.task_wait(task)
    assert runtime.is_task_done(task)
    expected = (halves.reshape(2, 3, 4)[:, 2, :] - 5) & 0xFFFF
    np.testing.assert_array_equal(words.reshape(4, 2).T, expected)
    runtime.stop()
    recording = load_run(out)
    assert recording is not None
    assert len(recording.commands) == 5
    assert (tmp_path / "sim.log").is_file()
    assert json.loads((tmp_path / "simfab_traces" / "run.json").read_text())["cycles"] > 0


@ARCHS
def test_the_recorded_run_gives_the_same_end(tmp_path, arch):
    out = compile_folder(tmp_path, SCALE, SCALE_EXPORTS, 2, 1, arch)
    live = debug_util(out)  # before the run, as some hosts do
    with pytest.raises(UsageError, match="has not run yet"):
        live.get_symbol(5, 1, "a", np.float32)
    runtime = start(out)
    runtime.memcpy_h2d(runtime.get_id("a"), np.arange(8, dtype=np.float32), 0, 0, 2, 1, 4)
    runtime.launch("scale", 3.0, 1)
    runtime.launch("scale", 0.5, 1, nonblock=True)
    runtime.stop()
    live.get_symbol(5, 1, "a", np.float32)
    forget(out)
    again = debug_util(out)
    for name, dtype in (("a", np.float32), ("h", np.int16)):
        found = again.get_symbol(5, 1, name, dtype)
        np.testing.assert_array_equal(found, live.get_symbol(5, 1, name, dtype))
    np.testing.assert_array_equal(again.get_symbol(5, 1, "a", np.float32), [6.0, 7.5, 9.0, 10.5])
    assert again._device.machine.cycle == live._device.machine.cycle


def test_a_function_that_never_ends_is_named_with_its_line(tmp_path, monkeypatch):
    pe = "var a: i16 = 1; fn main() void { while (a != 0) { a |= 1; } } comptime { @export_symbol(main); }"
    monkeypatch.setenv("NPUVIZ_CSL_LIMIT", "2000")
    runtime = start(compile_folder(tmp_path, pe, {"main": "fn()void"}))
    with pytest.raises(DeviceError, match=r"after 2000 cycles; .*PE\(0,0\) is in main \(pe\.csl:4\)"):
        runtime.launch("main", nonblock=False)


def test_a_function_that_never_unblocks_is_told(tmp_path):
    out = compile_folder(tmp_path, SCALE, SCALE_EXPORTS)
    runtime = start(out)
    runtime.launch("stay", nonblock=True)
    with pytest.raises(DeviceError, match="opens this run"):
        runtime.memcpy_h2d(runtime.get_id("a"), np.zeros(4, np.float32), 0, 0, 1, 1, 4)
    with pytest.raises(DeviceError):
        runtime.stop()
    recording = load_run(out)
    assert recording is not None
    assert len(recording.commands) == 2


def test_a_last_launch_need_not_unblock(tmp_path, capsys):
    """A published course begins with a program whose only command is such a launch."""
    runtime = start(compile_folder(tmp_path, SCALE, SCALE_EXPORTS))
    runtime.launch("stay", nonblock=False)
    assert "launch of stay of PEs (0, 0) to (0, 0) has ended without unblock" in capsys.readouterr().err
    runtime.stop()
    assert not capsys.readouterr().err


def test_a_launch_that_waits_for_a_word_has_not_ended(tmp_path):
    pe = """const q = @get_input_queue(2); var a = @zeros([1]u32);
    const in = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = q });
    const to = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> a[i] });
    fn main() void { @mov32(to, in, .{ .async = true }); }
    comptime { @initialize_queue(q, .{ .color = @get_color(4) }); @export_symbol(main); }"""
    runtime = start(compile_folder(tmp_path, pe, {"main": "fn()void"}))
    with pytest.raises(DeviceError, match="deadlock"):
        runtime.launch("main", nonblock=False)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda r: r.memcpy_h2d(r.get_id("b"), np.zeros(4, np.float32), 0, 0, 1, 1, 4), "exported: a, h"),
        (lambda r: r.launch("scale", 1.0), "expected 2 arguments"),
        (lambda r: r.launch("scale", 1.0, 1.5), "expected an integer"),
        (lambda r: r.launch("a"), "no exported function"),
        (lambda r: r.memcpy_h2d(0, np.zeros(4, np.float32), 1, 0, 1, 1, 4), "not inside the rectangle"),
        (lambda r: r.memcpy_h2d(9, np.zeros(4, np.float32), 0, 0, 1, 1, 4), "expected an id"),
        (lambda r: r.memcpy_d2h(np.zeros(1, np.float32), np.ones(1), 0, 0, 1, 1, 1), "found ndarray"),
        (lambda r: r.memcpy_h2d(0, np.zeros(3, np.float32), 0, 0, 1, 1, 4), "expected 4 elements"),
        (lambda r: r.memcpy_d2h(np.zeros(4), 0, 0, 0, 1, 1, 4), "32-bit elements"),
        (lambda r: r.memcpy_h2d(24, np.zeros(4, np.float32), 0, 0, 1, 1, 4, streaming=True), "color 0 to 23"),
        (lambda r: r.read_symbol(0, 0, "none"), "no variable"),
        (lambda r: r.load(), "loaded already"),
    ],
)
def test_wrong_calls_are_refused_before_they_reach_the_chip(tmp_path, call, text):
    runtime = start(compile_folder(tmp_path, SCALE, SCALE_EXPORTS))
    with pytest.raises(UsageError, match=text):
        call(runtime)
    runtime.stop()


MOVED = """
var guard = @constants([2]u32, 7);
var a = @zeros([6]f32);
var a_ptr: [*]f32 = &a;
fn move() void {
  a_ptr = @ptrcast([*]f32, &a[4]);
  sys_mod.unblock_cmd_stream();
}
fn back() void {
  a_ptr = &a;
  sys_mod.unblock_cmd_stream();
}
comptime {
  @export_symbol(a_ptr, "a");
  @export_symbol(move);
  @export_symbol(back);
}
"""


@pytest.mark.parametrize("goes_on", ["a[0] += 1.0;", "@fadds(all, all, 1.0);"])
def test_a_copy_is_made_between_two_tasks(tmp_path, goes_on):
    """A function gives the host back before the task that it activated begins, as a public program does."""
    pe = f"""
var a = @zeros([64]f32); var p: [*]f32 = &a;
const all = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{64}} -> a[i] }});
const later = @get_local_task_id(9);
task go_on() void {{ for (@range(i16, 400)) |k| {{ {goes_on} }} }}
fn main() void {{ @activate(later); sys_mod.unblock_cmd_stream(); }}
comptime {{ @bind_local_task(go_on, later); @export_symbol(p, "a"); @export_symbol(main); }}
"""
    runtime = start(compile_folder(tmp_path, pe, {"a": "[*]f32, true", "main": "fn()void"}))
    runtime.launch("main", nonblock=False)
    found = np.zeros(64, np.float32)
    runtime.memcpy_d2h(found, runtime.get_id("a"), 0, 0, 1, 1, 64)
    runtime.stop()
    assert found[0] == 400


def test_a_copy_is_made_between_two_tasks_of_each_pe_by_itself(tmp_path):
    """Tasks of different lengths go on everywhere: hardly ever all PEs are between two at once."""
    pe = """
var a = @zeros([1]f32); var p: [*]f32 = &a;
const layout_mod = @import_module("<layout>");
const later = @get_local_task_id(9);
task go_on() void {
  for (@range(u16, 7 + 3 * layout_mod.get_x_coord())) |k| { a[0] += 1.0; }
  if (a[0] < 9000.0) { @activate(later); }
}
fn main() void { @activate(later); sys_mod.unblock_cmd_stream(); }
comptime { @bind_local_task(go_on, later); @export_symbol(p, "a"); @export_symbol(main); }
"""
    runtime = start(compile_folder(tmp_path, pe, {"a": "[*]f32, true", "main": "fn()void"}, 4, 1))
    runtime.launch("main", nonblock=False)
    last = np.zeros(4, np.float32)
    for _ in range(3):
        found = np.zeros(4, np.float32)
        runtime.memcpy_d2h(found, runtime.get_id("a"), 0, 0, 4, 1, 1)
        assert not (found % (7, 10, 13, 16)).any()
        assert (found > last).all()
        last = found
    runtime.stop()
    assert last.max() < 1000


def test_a_copy_behind_a_stream_waits_for_each_pe_by_itself(tmp_path, monkeypatch):
    """The words of a stream go to and fro in pairs of PEs: one of each is at work, never all are idle."""
    pe = """
param even: bool; param h2d: color;
const place = @import_module("<layout>");
const to = if (even) @get_color(4) else @get_color(5);
const from = if (even) @get_color(5) else @get_color(4);
const given = @get_input_queue(2); const taken = @get_input_queue(3); const sent = @get_output_queue(2);
const out = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = sent });
var a = @zeros([1]f32); var p: [*]f32 = &a;
task begin(word: u32) void { if (even) { @mov32(out, word); } }
task go_on(word: u32) void {
  for (@range(u16, 700 + 150 * place.get_x_coord())) |k| { a[0] += 1.0; }
  @mov32(out, word);
}
comptime {
  @initialize_queue(given, .{ .color = h2d });
  @initialize_queue(taken, .{ .color = from });
  @initialize_queue(sent, .{ .color = to });
  @bind_data_task(begin, @get_data_task_id(given));
  @bind_data_task(go_on, @get_data_task_id(taken));
  const other = if (even) EAST else WEST;
  @set_local_color_config(to, .{ .routes = .{ .rx = .{RAMP}, .tx = .{other} } });
  @set_local_color_config(from, .{ .routes = .{ .rx = .{other}, .tx = .{RAMP} } });
  @export_symbol(p, "a");
}
"""
    monkeypatch.setenv("NPUVIZ_CSL_LIMIT", "100000")
    params = ", .even = x % 2 == 0, .h2d = @get_color(1)"
    runtime = start(compile_folder(tmp_path, pe, {"a": "[*]f32, true"}, 6, 1, params=params))
    found = np.zeros(6, np.float32)
    runtime.memcpy_h2d(1, np.ones(6, np.uint32), 0, 0, 6, 1, 1, streaming=True, nonblock=True)
    runtime.memcpy_d2h(found, runtime.get_id("a"), 0, 0, 6, 1, 1)
    assert (found % (700, 850, 1000, 1150, 1300, 1450) == 0).all()
    assert found.max() < 5000


def test_a_copy_stays_in_the_variable_that_its_pointer_leads_to_now(tmp_path, capsys):
    out = compile_folder(tmp_path, MOVED, {"a": "[*]f32, true", "move": "fn()void", "back": "fn()void"}, 2, 1)
    runtime, values = start(out), np.ones(14, np.float32)
    with pytest.raises(
        UsageError, match=r"to a: 7 elements of 32 bits go beyond a \(\[6\]f32\) of PE \(0, 0\)"
    ):
        runtime.memcpy_h2d(0, values, 0, 0, 2, 1, 7)
    runtime.memcpy_h2d(0, values[:12], 0, 0, 2, 1, 6)
    runtime.launch("move")
    with pytest.raises(UsageError, match=r"to a: 3 elements .* of PE \(1, 0\), which has room for 2$"):
        runtime.memcpy_h2d(0, values[:3], 1, 0, 1, 1, 3)
    with pytest.raises(UsageError, match=r"from a: 20000 elements .* which has room for 2$"):
        runtime.memcpy_d2h(np.zeros(20000, np.float32), 0, 1, 0, 1, 1, 20000)
    assert capsys.readouterr().err == ""
    runtime.memcpy_d2h(values[:3], 0, 1, 0, 1, 1, 3)
    line = "memcpy_d2h from a: 3 elements of 32 bits go beyond a ([6]f32) of PE (1, 0), which has room for 2"
    assert capsys.readouterr().err == f"cs_python: warning: {line}\n"
    runtime.memcpy_d2h(values[:2], 0, 1, 0, 1, 1, 2)
    runtime.memcpy_d2h(values[:4], 0, 1, 0, 1, 1, 4, data_type=MemcpyDataType.MEMCPY_16BIT)
    runtime.launch("back", nonblock=True)  # where the pointer will lead is not known yet: the chip decides
    runtime.memcpy_h2d(0, values[:6], 1, 0, 1, 1, 6)
    runtime.stop()


STREAM = """
const input = @get_input_queue(2);
const output = @get_output_queue(3);
const stream_out = @get_color(@bitcast(u16, sys_mod.MEMCPYD2H_1));
const in_dsd = @get_dsd(fabin_dsd, .{ .extent = 6, .input_queue = input });
const out_dsd = sys_mod.get_streaming_fabout_dsd(stream_out, 6, output);
var ones = @constants([1]i16, 100);
const ones_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> ones[0] });
task main() void {
  @add16(out_dsd, in_dsd, ones_dsd, .{ .async = true });
}
const main_id = @get_local_task_id(8);
comptime {
  @bind_local_task(main, main_id);
  @activate(main_id);
  @initialize_queue(input, .{ .color = @get_color(@bitcast(u16, sys_mod.MEMCPYH2D_1)) });
  @initialize_queue(output, if (@is_arch("wse3")) .{ .color = stream_out } else .{});
}
"""


@ARCHS
def test_streams_pass_through(tmp_path, arch):
    runtime = start(compile_folder(tmp_path, STREAM, {}, 1, 1, arch))
    words = np.arange(6, dtype=np.uint32)
    runtime.memcpy_h2d(1, words, 0, 0, 1, 1, 6, streaming=True, nonblock=True)
    back = np.zeros(6, np.uint32)
    runtime.memcpy_d2h(back, 2, 0, 0, 1, 1, 6, streaming=True)
    np.testing.assert_array_equal(back & 0xFFFF, words + 100)
    runtime.stop()


NOTES = """
const place = @import_module("<layout>");
const prt = @import_module("<simprint>");
const first = @import_module("<debug>", .{ .key = "first", .buffer_size = 20 });
const other = @import_module("<debug>", .{ .key = "other", .buffer_size = 4 });
var x: f32 = -2.5;
fn run() void {
  first.trace_string("begin");
  first.trace_u32(70000);
  first.trace_i16(-3);
  first.trace_f32(x);
  first.trace_bool(true);
  other.trace_timestamp();
  other.trace_timestamp();
  first.trace(-7);
  first.trace(0.5);
  prt.fmt_with_coords("{d} {X} {f} {{}}", .{ @as(u16, 12), @as(u32, 0xBEEF), x });
  prt.fmt("{f}", .{1.5});
  prt.print_string("never ended");
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(run); }
"""


@ARCHS
def test_traces_and_prints(tmp_path, arch):
    out = compile_folder(tmp_path, NOTES, {"run": "fn()void"}, 2, 1, arch)
    runtime = start(out)
    runtime.launch("run")
    runtime.stop()
    reader = debug_util(str(out))
    assert reader.read_trace(5, 1, "first") == ["begin", 70000, -3, -2.5, True, -7, 0.5]
    early, late = reader.read_trace(4, 1, "other")
    assert 0 <= int(early) < int(late)
    lines = (tmp_path / "sim.log").read_text().splitlines()
    texts = [line.split(" ", 1)[1] for line in lines]
    assert "P0.0: 12 BEEF -2.500000 {}" in texts
    assert "P1.0: 12 BEEF -2.500000 {}" in texts
    assert texts.count("1.500000") == 2
    assert not any("never ended" in text for text in texts)
    with pytest.raises(UsageError, match="not in the program"):
        reader.read_trace(0, 0, "first")


COLLECTIVES = """
param c2d;
const along_x = @import_module("<collectives_2d/pe>", .{ .dim_params = c2d.x });
const along_y = @import_module("<collectives_2d/pe>", .{ .dim_params = c2d.y });
param root: u16 = 1;
var data = @zeros([12]u32);
var got = @zeros([12]u32);
var sum = @zeros([3]f32);
var own = @zeros([3]f32);
var data_ptr: [*]u32 = &data;
var got_ptr: [*]u32 = &got;
var sum_ptr: [*]f32 = &sum;
var own_ptr: [*]f32 = &own;
const next_id = @get_local_task_id(20);
var step: u16 = 0;
task next() void {
  step += 1;
  if (step == 1) {
    along_x.broadcast(root, data_ptr, 3, next_id);
  } else if (step == 2) {
    along_y.scatter(root, data_ptr, got_ptr, 3, next_id);
  } else if (step == 3) {
    along_x.gather(root, got_ptr, data_ptr, 3, next_id);
  } else if (step == 4) {
    along_x.reduce_fadds(root, own_ptr, sum_ptr, 3, next_id);
  } else if (step == 5) {
    along_x.reduce_fadds(root, sum_ptr, own_ptr, 3, next_id);
  } else {
    sys_mod.unblock_cmd_stream();
  }
}
fn run() void {
  along_x.init();
  along_y.init();
  @activate(next_id);
}
comptime {
  @bind_local_task(next, next_id);
  @export_symbol(run);
  @export_symbol(data_ptr, "data");
  @export_symbol(got_ptr, "got");
  @export_symbol(sum_ptr, "sum");
  @export_symbol(own_ptr, "own");
}
"""
COLLECTIVES_HEAD = 'const c2d = @import_module("<collectives_2d/params>");'
COLLECTIVES_PARAMS = """, .c2d = c2d.get_params(x, y, .{
  .x_colors = .{ @get_color(4), @get_color(5) },
  .x_entrypoints = .{ @get_local_task_id(10), @get_local_task_id(11) },
  .y_colors = .{ @get_color(6), @get_color(7) },
  .y_entrypoints = .{ @get_local_task_id(12), @get_local_task_id(13) },
}) """


@ARCHS
@pytest.mark.parametrize("root", [0, 1, 3])
def test_collectives(tmp_path, arch, root):
    exports = {"data": "[*]u32, true", "got": "[*]u32, true", "sum": "[*]f32, true", "own": "[*]f32, true"}
    size = 4
    params = f"{COLLECTIVES_PARAMS}, .root = {root}"
    exports["run"] = "fn()void"
    out = compile_folder(tmp_path, COLLECTIVES, exports, size, size, arch, params, COLLECTIVES_HEAD)
    runtime = start(out)
    random = np.random.default_rng(3)
    data = random.integers(0, 1000, (size, size, 12)).astype(np.uint32)
    own = random.integers(0, 50, (size, size, 3)).astype(np.float32)
    runtime.memcpy_h2d(runtime.get_id("data"), data.ravel(), 0, 0, size, size, 12)
    runtime.memcpy_h2d(runtime.get_id("own"), own.ravel(), 0, 0, size, size, 3)
    runtime.launch("run")

    def back(name, count, dtype):
        array = np.zeros(size * size * count, dtype)
        runtime.memcpy_d2h(array, runtime.get_id(name), 0, 0, size, size, count)
        return array.reshape(size, size, count)

    data[:, :, :3] = data[:, root : root + 1, :3]
    scattered = data[root].reshape(size, 4, 3).transpose(1, 0, 2)
    np.testing.assert_array_equal(back("got", 12, np.uint32)[:, :, :3], scattered)
    gathered = back("data", 12, np.uint32)
    np.testing.assert_array_equal(gathered[:, root], scattered.reshape(size, 12))
    others = [x for x in range(size) if x != root]
    np.testing.assert_array_equal(gathered[:, others], data[:, others])
    sums = own.sum(axis=1)
    np.testing.assert_array_equal(back("own", 3, np.float32)[:, root], sums)
    runtime.stop()


def test_functions_are_launched_where_no_host_ran(tmp_path):
    out = compile_folder(tmp_path, SCALE, SCALE_EXPORTS)
    opened = open_program(out, {"launch": "scale:2.5:-3,scale:1:0x10"}, NoProgress())
    assert [command.subject for command in opened.commands] == ["scale", "scale"]
    data = opened.commands[0].data
    assert data is not None
    assert data.tolist() == [0x40200000, 0xFFFD]
    assert "scale, stay" in opened.notes[-1].text
    assert open_program(out, {}, NoProgress()).commands == ()


@pytest.mark.parametrize(
    ("launch", "text"),
    [("a", "expected scale or stay"), ("scale:1", "takes 2 arguments"), ("scale:1:x", "is no i16")],
)
def test_launches_that_cannot_be(tmp_path, launch, text):
    out = compile_folder(tmp_path, SCALE, SCALE_EXPORTS)
    with pytest.raises(UsageError, match=text):
        open_program(out, {"launch": launch}, NoProgress())


ASTRAY = """
const away = @get_color(3);
const queue = @get_output_queue(2);
fn go() void {
  @mov32(@get_dsd(fabout_dsd, .{ .extent = 4, .fabric_color = away, .output_queue = queue }), @as(u32, 7));
  sys_mod.unblock_cmd_stream();
}
comptime {
  @set_local_color_config(away, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ NORTH } } });
  if (@is_arch("wse3")) { @initialize_queue(queue, .{ .color = away }); }
  @export_symbol(go);
}
"""


@ARCHS
def test_words_that_leave_the_rectangle_are_told_at_the_end(tmp_path, arch, capsys):
    runtime = start(compile_folder(tmp_path, ASTRAY, {"go": "fn()void"}, 10, 1, arch))
    runtime.launch("go")
    runtime.stop()
    lines = [line for line in capsys.readouterr().err.splitlines() if "rectangle" in line]
    assert len(lines) == 9
    assert lines[0].startswith("cs_python: warning: ")
    assert "pe.csl:" in lines[0]
    assert "a wavelet of color 3 leaves the rectangle by NORTH: it is dropped, first at cycle" in lines[0]
    assert lines[8] == "cs_python: warning: wavelets leave the rectangle on 2 more PEs, colors or directions"
