from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.wafer import Channel
from tests.targets.wavelet.csl.programs import elaborate

RAMP, NORTH, EAST, SOUTH, WEST = (1 << port for port in range(5))


def channel(folder: Path, config: str, arch: str = "wse2", color: int = 1) -> Channel:
    text = f"comptime {{ @set_local_color_config(@get_color({color}), {config}); }}"
    return elaborate(folder, {"pe.csl": text}, arch).codes[0].registry.channels[0]


def test_switch_positions_replace_one_half(tmp_path: Path) -> None:
    found = channel(
        tmp_path,
        """.{ .routes = .{ .rx = RAMP, .tx = .{NORTH, RAMP} },
              .switches = .{ .pos1 = .{ .tx = WEST }, .pos2 = .{ .rx = .{EAST} },
                .pos3 = .{ .invalid = true },
                .current_switch_pos = 2, .ring_mode = true, .pop_mode = .{ .pop_on_advance = true } } }""",
    )
    assert found.positions == ((RAMP, NORTH | RAMP), (RAMP, WEST), (EAST, WEST), None)
    assert (found.position, found.ring, found.pop) == (2, True, isa.POP_ON_ADVANCE)


def test_masks(tmp_path: Path) -> None:
    found = channel(
        tmp_path,
        f""".{{ .routes = @as(u16, {WEST | (RAMP | EAST) << 5}), .switches = .{{ .pos1 = @as(u16, {RAMP}),
             .pos2 = {SOUTH << 5}, .pos3 = 0, .ring_mode = false, .current_switch_pos = 1,
             .pop_mode = .{{ .always_pop = true }} }} }}""",
    )
    assert found.positions == ((WEST, RAMP | EAST), (RAMP, RAMP | EAST), (RAMP, SOUTH), None)
    assert found.pop == isa.POP_ALWAYS


def test_filters_swap_and_teardown(tmp_path: Path) -> None:
    found = channel(
        tmp_path,
        """.{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP}, .color_swap_x = true }, .teardown = true,
              .filter = .{ .kind = .{ .counter = true }, .count_data = true,
                .limit1 = 14, .fast_mode = 1 } }""",
    )
    assert (found.swap, found.teardown) == (1, True)
    assert found.filter == {"kind": 0, "count_data": 1, "limit1": 14}


@pytest.mark.parametrize(
    ("config", "arch", "color", "words"),
    [
        (".{}", "wse2", 1, "needs .routes"),
        (".{ .routes = .{ .rx = .{UP} } }", "wse2", 1, "UP is not declared"),
        (".{ .routes = .{ .rx = .{3} } }", "wse2", 1, "expected RAMP"),
        (".{ .route = .{} }", "wse2", 1, "did you mean routes"),
        (".{ .routes = .{}, .switches = .{ .current_switch_pos = 1 } }", "wse2", 1, "not given"),
        (".{ .routes = .{}, .switches = .{ .pos1 = .{ .tx = EAST } } }", "wse3", 10, "cannot have switches"),
        (".{ .routes = .{ .rx = .{EAST, WEST} } }", "wse3", 1, "one direction"),
        (".{ .routes = .{}, .switches = .{ .pos1 = .{ .tx = EAST, .rx = WEST } } }", "wse2", 1, "not both"),
        (".{ .routes = .{}, .filter = .{ .kind = .{ .range = true } } }", "wse2", 1, "min_idx"),
        (".{ .routes = .{}, .filter = .{ .count_data = true } }", "wse2", 1, "needs a .kind"),
        (".{ .routes = 1024 }", "wse2", 1, "route mask"),
    ],
)
def test_wrong_configurations(tmp_path: Path, config: str, arch: str, color: int, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        channel(tmp_path, config, arch, color)


def test_dangling_and_fighting_routes_are_warnings(tmp_path: Path) -> None:
    layout = """
    layout {
      @set_rectangle(3, 1);
      for (@range(u16, 3)) |x| { @set_tile_code(x, 0, "pe.csl", .{}); }
      const c = @get_color(2);
      @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
      @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{WEST, EAST}, .tx = .{RAMP} } });
      @set_color_config(2, 0, c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{WEST} } });
      const d = @get_color(3);
      @set_color_config(0, 0, d, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
      @set_color_config(2, 0, d, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
    }
    """
    found = sorted(elaborate(tmp_path, {"layout.csl": layout, "pe.csl": ""}).warnings, reverse=True)
    assert len(found) == 2
    assert "color 2 arrives at PE (1, 0) from EAST and WEST" in found[0]
    assert "layout.csl:7:7" in found[0]
    assert "color 3 of PE (0, 0) goes EAST, where no route takes it" in found[1]
