"""Streams of the host: which overlap, and what becomes of words that nobody takes."""

from pathlib import Path

import numpy as np
import pytest

from npuviz.sim.stop import StopKind
from npuviz.targets.wavelet.wafer import HOST_COPY_OUT, HOST_PORT_IN, HOST_STREAM_IN, HostCommand
from tests.targets.wavelet.running import variable
from tests.targets.wavelet.small import run

ROUTES = """
  @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
  @set_color_config(0, 0, d, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
"""
NOTES = """
var seen = @zeros([8]u32);
var count: u16 = 0;
task take(word: u32) void { seen[count] = word; count += 1; }
task also(word: u32) void { seen[count] = word; count += 1; }
comptime {
  @bind_data_task(take, @get_data_task_id(c));
  @bind_data_task(also, @get_data_task_id(d));
  %s
}
fn main() void {}
"""


def _stream(kind: int, color: int, words: list[int]) -> HostCommand:
    data = np.array(words, np.uint32).reshape(1, 1, -1)
    return HostCommand(kind, color, (0, 0, 1, 1), len(words), data, nonblock=True)


@pytest.mark.parametrize(("kind", "overlap"), [(HOST_STREAM_IN, False), (HOST_PORT_IN, True)])
def test_streams_share_the_channels_of_memcpy_and_ports_do_not(
    kind: int, overlap: bool, tmp_path: Path
) -> None:
    commands = [_stream(kind, 1, [1, 2, 3, 4]), _stream(kind, 2, [9])]
    stop, machine = run(tmp_path, NOTES % "", 1, ROUTES, "wse2", commands)
    assert stop.kind is StopKind.FINISHED
    seen = variable(machine, "seen").tolist()[:5]
    assert sorted(seen) == [1, 2, 3, 4, 9]
    assert (seen[-1] != 9) == overlap


def test_a_stream_that_nobody_takes_is_a_deadlock_at_once(tmp_path: Path) -> None:
    commands = [_stream(HOST_STREAM_IN, 1, list(range(40)))]
    text = NOTES % "@block(@get_data_task_id(c));"
    stop, machine = run(tmp_path, text, 1, ROUTES, "wse2", commands)
    assert stop.kind is StopKind.DEADLOCK
    assert machine.cycle < 1000


def test_words_enter_as_soon_as_a_full_queue_has_room(tmp_path: Path) -> None:
    text = (
        (NOTES % "")
        .replace("[8]u32", "[40]u32")
        .replace(
            "task take(word: u32) void {",
            "var k: u16 = 0; task take(word: u32) void { while (k < 9) : (k += 1) {} k = 0;",
        )
    )
    stop, machine = run(tmp_path, text, 1, ROUTES, "wse2", [_stream(HOST_STREAM_IN, 1, list(range(40)))])
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "seen").tolist() == list(range(40))


def test_a_copy_comes_after_the_tasks_that_a_stream_started(tmp_path: Path) -> None:
    """They take longer here than a copy takes to come."""
    text = (NOTES % '@export_symbol(pointer, "seen");').replace(
        "task take(word: u32) void {",
        "var pointer: [*]u32 = &seen; var k: u16 = 0; "
        "task take(word: u32) void { while (k < 99) : (k += 1) {} k = 0;",
    )
    routes = ROUTES + '@export_name("seen", [*]u32, true);'
    commands = [
        _stream(HOST_STREAM_IN, 1, [1, 2, 3, 4]),
        HostCommand(HOST_COPY_OUT, "seen", (0, 0, 1, 1), 8),
    ]
    stop, machine = run(tmp_path, text, 1, routes, "wse2", commands)
    assert stop.kind is StopKind.FINISHED
    copied = machine.result(1)
    assert copied is not None
    assert copied.ravel().tolist() == [1, 2, 3, 4, 0, 0, 0, 0]
