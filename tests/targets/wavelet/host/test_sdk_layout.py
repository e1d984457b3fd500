"""Layouts that a host program builds: regions, ports, paths, streams, start values."""

import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.host.layout.regions import IntRectangle, IntVector
from npuviz.targets.wavelet.host.layout.routes import (
    Color,
    ColorGroups,
    Edge,
    Route,
    RoutingPosition,
    get_edge_routing,
)
from npuviz.targets.wavelet.host.layout.sdk_layout import SdkLayout
from npuviz.targets.wavelet.host.platform import SdkTarget, get_platform
from npuviz.targets.wavelet.host.runtime import SdkRuntime

TARGETS = pytest.mark.parametrize("target", list(SdkTarget))
DOUBLE = """
param count: u16;
param take: u16;
param give: u16;
const input = @get_input_queue(2);
const output = @get_output_queue(3);
const source = @get_dsd(fabin_dsd, .{ .extent = count, .input_queue = input });
const target = @get_dsd(fabout_dsd, .{
  .extent = count, .output_queue = output, .fabric_color = @get_color(give),
});
var factor = @constants([1]i16, 5);
const factor_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{count} -> factor[0] });
task main() void {
  @add16(target, source, factor_dsd, .{ .async = true });
}
const main_id = @get_local_task_id(8);
comptime {
  @bind_local_task(main, main_id);
  @activate(main_id);
  @initialize_queue(input, .{ .color = @get_color(take) });
  @initialize_queue(output, if (@is_arch("wse3")) .{ .color = @get_color(give) } else .{});
}
"""
TYPED = (
    DOUBLE.replace("take: u16", "take: color")
    .replace("give: u16", "give: color")
    .replace("@get_color(give)", "give")
    .replace("@get_color(take)", "take")
)
HOLD = """
param which: u16;
export var table = @zeros([2, 3]f32);
export var seen: u16 = 0;
task main() void { seen = which + @as(u16, table[1, 2]); }
const main_id = @get_local_task_id(8);
comptime {
  @bind_local_task(main, main_id);
  @activate(main_id);
}
"""
FROM_RAMP = RoutingPosition().set_input([Route.RAMP])
TO_RAMP = RoutingPosition().set_output([Route.RAMP])


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    (tmp_path / "double.csl").write_text(DOUBLE)
    (tmp_path / "typed.csl").write_text(TYPED)
    (tmp_path / "hold.csl").write_text(HOLD)


def step(layout, name, x, y, edges=(Edge.LEFT, Edge.RIGHT), file="double.csl"):
    region = layout.create_code_region(file, name, 1, 1)
    region.set_param_all("count", 6)
    take, give = region.color("take"), region.color("give")
    region.set_param_all(take)
    region.set_param_all(give)
    region.place(x, y)
    return (
        region.create_input_port(take, edges[0], [TO_RAMP], 6),
        region.create_output_port(give, edges[1], [FROM_RAMP], 6),
    )


@TARGETS
def test_streams_through_two_regions_and_a_path_round_a_corner(target):
    layout = SdkLayout(get_platform(None, None, target))
    first_in, first_out = step(layout, "first", 1, 1)
    second_in, second_out = step(layout, "second", 4, 4, (Edge.TOP, Edge.BOTTOM), "typed.csl")
    layout.connect(first_out, second_in)
    stream_in = layout.create_input_stream(first_in)
    stream_out = layout.create_output_stream(second_out)
    runtime = SdkRuntime(layout.compile("out"), memcpy_required=False)
    runtime.load()
    runtime.run()
    words = np.arange(6, dtype=np.uint32)
    back = np.zeros(6, np.uint32)
    runtime.send(stream_in, words, nonblock=True)
    runtime.receive(stream_out, back, 6, nonblock=True)
    runtime.stop()
    np.testing.assert_array_equal(back & 0xFFFF, words + 10)


@TARGETS
def test_start_values_and_parameters_of_single_pes(target):
    layout = SdkLayout(get_platform(None, None, target))
    region = layout.create_code_region("hold.csl", "hold", 2, 2)
    region.set_param_all("which", 100)
    region.set_param(IntVector(1, 0), "which", 200)
    region.set_param_range(IntRectangle(IntVector(0, 1), IntVector(2, 2)), "which", 300)
    matrix = np.arange(4 * 6, dtype=np.float32)
    region.set_symbol_all("table", matrix, 6, 4)
    runtime = SdkRuntime(layout.compile("out"))
    runtime.load()
    runtime.run()
    runtime.stop()
    blocks = matrix.reshape(2, 2, 2, 3).transpose(0, 2, 1, 3)
    for y in range(2):
        for x in range(2):
            block = blocks[y, x]
            np.testing.assert_array_equal(runtime.read_symbol(x, y, "table").reshape(2, 3), block)
            base = 300 if y else (200 if x else 100)
            assert runtime.read_symbol(x, y, "seen", "uint16") == [base + int(block[1, 2])]


def test_colors_that_meet_get_different_numbers():
    groups = ColorGroups()
    a, b, c, fixed = Color("a"), Color("b"), Color("c"), Color("fixed", 0)
    groups.join(a, b)
    uses = {groups.root(a): {(0, 0), (1, 0)}, c: {(1, 0)}, fixed: {(0, 0)}}
    found = groups.numbers(uses, 24)
    assert found[fixed] == 0
    assert len({found[groups.root(a)], found[c]}) == 2
    assert found[groups.root(b)] != 0
    with pytest.raises(UsageError, match="differ"):
        groups.join(fixed, Color("other", 3))


def layout_of(*regions):
    layout = SdkLayout(get_platform())
    return layout, [layout.create_code_region("hold.csl", *region) for region in regions]


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: layout_of(("a", 1, 1), ("a", 1, 1)), "exists already"),
        (lambda: layout_of(("a", 0, 1)), "expected 1 to"),
        (lambda: layout_of(("a", 1, 1), ("b", 1, 1))[0].compile("out"), "overlap"),
        (lambda: SdkLayout(get_platform()).compile("out"), "no code region"),
        (lambda: get_platform("10.0.0.1"), "simulates"),
        (lambda: Color("x", 24), "0 to 23"),
        (lambda: layout_of(("a", 2, 1))[1][0].set_param(IntVector(2, 0), "which", 1), "outside the region"),
        (
            lambda: layout_of(("a", 2, 1))[1][0].set_param_all("which", 1.5),  # pyright: ignore[reportArgumentType]
            "integer or a color",
        ),
        (lambda: layout_of(("a", 1, 1))[1][0].paint_all(Color("c"), []), "1 to 4"),
        (
            lambda: layout_of(("a", 1, 1))[1][0].create_input_port(Color("c"), Edge.LEFT, [FROM_RAMP], 1),
            "must not name inputs",
        ),
        (
            lambda: layout_of(("a", 2, 2))[1][0].set_symbol_all("table", np.zeros(9), 3, 3),
            "cannot be shared out",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(build, text):
    with pytest.raises(UsageError, match=text):
        build()


def test_edges_of_a_region():
    routing = get_edge_routing(Edge.BOTTOM, [TO_RAMP])
    assert routing.positions[0].outputs == (Route.RAMP,)
    _, (region,) = layout_of(("a", 2, 3))
    color = Color("c")
    region.paint_all(color, [FROM_RAMP], [routing])
    assert region.routes[(1, 1)][color][0].inputs == (Route.RAMP,)
    assert region.routes[(1, 2)][color][0].outputs == (Route.RAMP,)
