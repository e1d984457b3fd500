"""Races of a wafer under other latencies: found where an order is assumed, none where it is not."""

from pathlib import Path

import pytest

from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.target import TARGET
from npuviz.targets.wavelet.wafer import HOST_COPY_OUT, HOST_LAUNCH, HostCommand
from npuviz.workbench.races import recorded
from npuviz.workbench.races.recorded import RecordedRacer
from npuviz.workbench.races.search import has_found, races_report, races_text
from tests.targets.wavelet import samples
from tests.targets.wavelet.csl.programs import write

SEEDS = range(1, 25)
LAYOUT = """const c = @get_color(1);
const d = @get_color(2);
layout {
  @set_rectangle(3, 1);
  for (@range(u16, 3)) |x| { @set_tile_code(x, 0, "pe.csl", .{ .x = x, .c = c, .d = d }); }
  @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
  @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
  @set_color_config(2, 0, d, .{ .routes = .{ .rx = .{RAMP}, .tx = .{WEST} } });
  @set_color_config(1, 0, d, .{ .routes = .{ .rx = .{EAST}, .tx = .{RAMP} } });
  @export_name("start", fn()void);
  @export_name("result", [*]u32, true);
}
"""
PE = """param x: u16; param c: color; param d: color;
const sys = @import_module("<memcpy/memcpy>");
const time = @import_module("<time>");
const from_west = @get_input_queue(2);
const from_east = @get_input_queue(3);
const out = @get_output_queue(2);
const west_id = @get_data_task_id(from_west);
const east_id = @get_data_task_id(from_east);
var result = @zeros([4]u32);
var result_pointer: [*]u32 = &result;
var count: u16 = 0;
var stamp = @zeros([3]u16);
const mine = if (x == 0) c else d;
const word = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = mine, .output_queue = out });
fn got(data: u32) void { %(got)s }
fn seen() void { count += 1; if (count == 2) { sys.unblock_cmd_stream(); } }
task west(data: u32) void { %(west)s seen(); }
task east(data: u32) void { %(east)s seen(); }
fn start() void {
  if (x == 0) { @mov32(word, @as(u32, 7)); sys.unblock_cmd_stream(); }
  if (x == 2) {
    for (@range(u16, 3)) |i| { result[3] += @as(u32, i); }
    @mov32(word, @as(u32, 9));
    sys.unblock_cmd_stream();
  }
}
comptime {
  if (x == 1) {
    @bind_data_task(west, west_id);
    @bind_data_task(east, east_id);
    @initialize_queue(from_west, .{ .color = c });
    @initialize_queue(from_east, .{ .color = d });
  } else {
    @initialize_queue(out, .{ .color = if (x == 0) c else d });
  }
  @export_symbol(start);
  @export_symbol(result_pointer, "result");
}
"""
IN_ORDER = {"got": "result[count] = data;", "west": "got(data);", "east": "got(data);"}
BY_SENDER = {"got": "", "west": "result[0] = data;", "east": "result[1] = data;"}
LAST_ONE = {"got": "result[0] = data + 1;", "west": "got(data);", "east": "got(data);"}
ADDED = {"got": "result[0] += data;", "west": "got(data);", "east": "got(data);"}
TIMED = {
    "got": "",
    "west": "time.enable_tsc(); time.get_timestamp(&stamp);",
    "east": "time.get_timestamp(&stamp); result[0] = @as(u32, stamp[0]);",
}


def _racer(folder: Path, bodies: dict[str, str]) -> RecordedRacer:
    wafer = compile_program(
        write(folder, {"layout.csl": LAYOUT, "pe.csl": PE % bodies}), "wse3", fabric=(10, 3)
    )
    commands = [
        HostCommand(HOST_LAUNCH, "start"),
        HostCommand(HOST_COPY_OUT, "result", (0, 0, 3, 1), 4),
    ]
    return RecordedRacer(TARGET, *make_program(wafer, commands, "test"))


@pytest.mark.parametrize("bodies", [IN_ORDER, LAST_ONE])
def test_an_order_of_wavelets_that_is_assumed_is_found(tmp_path: Path, bodies: dict[str, str]) -> None:
    racer = _racer(tmp_path, bodies)
    results = [racer.at(seed) for seed in SEEDS]
    found = [each for each in results if each.race is not None]
    assert 0 < len(found) < len(results)
    assert len({each.cycles for each in results}) > 4
    assert racer.at(found[0].seed) == found[0]
    report = races_report(Path("order"), racer, results)
    assert has_found(report)
    race = report["races"][0]
    assert race["reader"]["unit"] == "PE(1,0)"
    assert race["nominal"]["value"] != race["other"]["value"]
    text = races_text(report)
    assert f"--set latency_seed={race['seed']}" in text
    assert "PE(1,0)" in text


@pytest.mark.parametrize("bodies", [BY_SENDER, ADDED, TIMED], ids=["by sender", "added", "timed"])
def test_what_does_not_depend_on_the_order_is_no_race(tmp_path: Path, bodies: dict[str, str]) -> None:
    racer = _racer(tmp_path, bodies)
    results = [racer.at(seed) for seed in SEEDS]
    assert not any(each.race or each.stop for each in results)
    assert len({each.cycles for each in results}) > 4


def test_the_samples_have_no_race() -> None:
    for machine in (samples.row_sum(4), samples.heat(3, 3)):
        racer = RecordedRacer(TARGET, machine.engine.spec, machine.program)
        results = [racer.at(seed) for seed in range(1, 9)]
        assert not any(each.race or each.stop for each in results)
        assert len({each.cycles for each in results}) > 4


BETWEEN_TIMES = {
    "got": "result[1] = data;",
    "west": "time.enable_tsc(); time.get_timestamp(&stamp); got(data);",
    "east": "time.get_timestamp(&stamp); result[0] = @as(u32, stamp[0]); result[2] = result[0]; got(data);",
}


def test_results_that_were_not_looked_at_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    racer = _racer(tmp_path, BETWEEN_TIMES)
    assert any(racer.at(seed).race for seed in SEEDS)
    monkeypatch.setattr(recorded, "MOST_CHECKED", 2)
    results = [racer.at(seed) for seed in SEEDS]
    unseen = [each for each in results if each.left]
    assert unseen
    assert not any(each.race or each.stop for each in unseen)
    report = races_report(Path("order"), racer, unseen)
    assert report["other_order"]["after_the_limit"] == len(unseen)
    assert f"Not compared: {len(unseen)} results" in races_text(report)


def test_other_results_that_no_read_explains_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    racer = _racer(tmp_path, IN_ORDER)
    for name in ("_first_read", "_first_result"):
        monkeypatch.setattr(RecordedRacer, name, lambda *_: None)
    results = [racer.at(seed) for seed in SEEDS]
    assert any("with other results" in each.stop for each in results)
    assert has_found(races_report(Path("order"), racer, results))
