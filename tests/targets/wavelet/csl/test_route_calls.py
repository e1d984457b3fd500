"""Routes of helpers that many PEs call: the same as if every call were executed by itself."""

from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from npuviz.targets.wavelet.csl.comptime.route_calls import RouteCalls
from tests.targets.wavelet.csl.programs import elaborate

HELPERS = """
param width: u16;
fn opposite(d: direction) direction { return if (d == EAST) WEST else EAST; }
fn plain(x: u16, y: u16, c: color, d: direction) void {
  @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ d } } });
}
fn both(x: u16, y: u16, c: color, other: color, d: direction) void {
  @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ opposite(d) }, .tx = .{ RAMP } } });
  @set_color_config(x, 1 - 1, other, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ d } } });
}
fn by_place(x: u16, y: u16, c: color) void {
  const d = if (x == 0) EAST else WEST;
  @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ d } } });
}
fn hidden(x: u16, y: u16, c: color) void {
  for (@range(u16, 2)) |y| {
    @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  }
}
fn outer(x: u16, y: u16, c: color, other: color) void {
  @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  plain(2, 1, other, EAST);
}
var count: u16 = 0;
fn counts(x: u16, y: u16, c: color) void {
  @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ if (count == 0) EAST else WEST } } });
  count += 1;
}
layout {
  @set_rectangle(width, 2);
  for (@range(u16, width)) |x| {
    for (@range(u16, 2)) |y| {
      @set_tile_code(x, y, "pe.csl", .{});
      %s
    }
  }
}
"""
BODIES = (
    "plain(x, y, @get_color(1), if (y == 0) EAST else WEST); plain(x, y, @get_color(2), SOUTH);",
    "if (y == 1) { both(x, y, @get_color(3), @get_color(4), if (x == 0) EAST else WEST); }",
    "by_place(x, y, @get_color(5));",
    "if (y == 0) { hidden(x, y, @get_color(6)); }",
    "if (x == 0 and y == 0) { outer(x, y, @get_color(7), @get_color(8)); }",
    "counts(x, y, @get_color(9));",
    "const d = if (x % 2 == 0) EAST else WEST; "
    "@set_color_config(x, y, @get_color(10 + y), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ d } } });",
    "var route = .{ .rx = .{ RAMP }, .tx = .{ EAST } }; if (x > 0) { route.tx = .{ WEST }; } "
    "@set_color_config(x, y, @get_color(11), .{ .routes = route });",
)


def _channels(folder: Path, body: str, width: int = 4) -> dict[tuple[int, int], list[tuple[object, ...]]]:
    found = elaborate(folder, {"layout.csl": HELPERS % body, "pe.csl": ""}, width=width)
    return {
        place: [(channel.color, channel.positions, channel.place) for channel in channels]
        for place, channels in found.channels.items()
    }


@pytest.mark.parametrize("body", BODIES)
def test_what_is_remembered_is_what_would_be_executed(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = _channels(tmp_path, body)
    monkeypatch.setattr(RouteCalls, "passing", lambda self, function: None)
    monkeypatch.setattr(RouteCalls, "channel_key", lambda self, node, color, scope: None)
    assert remembered == _channels(tmp_path, body)


def test_calls_that_differ_in_coordinates_are_executed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    keep = RouteCalls.keep
    monkeypatch.setattr(
        RouteCalls, "keep", lambda self, *given: (kept.append(len(given[-1])), keep(self, *given))[1]
    )
    assert len(_channels(tmp_path, BODIES[0], 40)) == 80
    assert kept == [1, 1, 1]  # three kinds of calls: two directions of color 1, one of color 2


def test_a_repeated_call_is_checked_as_the_first_one(tmp_path: Path) -> None:
    twice = BODIES[0] + " if (x == 3 and y == 1) { plain(x, y, @get_color(2), SOUTH); }"
    with pytest.raises(
        SourceError, match=r"color 2 of PE \(3, 1\) is configured twice(.|\n)*called as plain"
    ):
        _channels(tmp_path, twice)
    with pytest.raises(SourceError, match=r"PE \(4, 1\) is outside of the rectangle(.|\n)*called as plain"):
        _channels(tmp_path, "if (y == 1) { plain(x + 1, y, @get_color(1), EAST); }")
    with pytest.raises(SourceError, match="u16"):
        _channels(tmp_path, "plain(if (x == 3) 70000 else 1, y, @get_color(1 + x), EAST);")
