# CSL programs that are wrong, from the command line: one line with the position, or a stop with its reason.
from pathlib import Path

import pytest

from npuviz.targets.wavelet.csl.comptime import evaluator
from npuviz.targets.wavelet.load.compiled import save_run, save_wafer
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand
from tests.cli.refusals import Captured, misbehaved, refused
from tests.targets.wavelet.small import EASTWARD, compiled, line_with

TILE = '@set_tile_code(0, 0, "pe.csl", .{});'
LAYOUT = "layout {\n  @set_rectangle(1, 1);\n  %s\n  %s\n}\n"


def refused_program(folder: Path, capsys: Captured, pe: str = "", layout: str = "") -> str:
    (folder / "layout.csl").write_text(layout or LAYOUT % (TILE, ""))
    (folder / "pe.csl").write_text(pe)
    return refused(["run", str(folder / "layout.csl"), "--record", "none"], capsys)


@pytest.mark.parametrize(
    ("pe", "place", "reason"),
    [
        ("fn f() void {\n  var x: u16 = ;\n}", "pe.csl:2:", "unexpected"),
        ("fn f() void {", "pe.csl:1:", "ends too early"),
        ("const n: u16 = 70000;\ncomptime { @comptime_assert(n > 0); }", "pe.csl:1:", "does not fit"),
        ("const m = @import_module(\"<no_such>\");", "pe.csl:1:", "no_such"),
        ("const m = @import_module(\"other.csl\");", "pe.csl:1:", "other.csl"),
        ("const q = @get_input_queue(8);\ncomptime { @initialize_queue(q, .{}); }", "pe.csl:1:", "0 to 7"),
        ("const c = @get_color(64);\ncomptime { @comptime_print(c); }", "pe.csl:1:", "0 to 23"),
        ("fn f(n: u16) u16 { return f(n + 1); }\ncomptime { @comptime_print(f(0)); }", "pe.csl:1:", "calls"),
        ("comptime { @comptime_assert(false, \"no way\"); }", "pe.csl:1:", "no way"),
        ("fn f() void { nothing(); }\ncomptime { @export_symbol(f); }", "pe.csl:", "f"),
        ("\0\0", "pe.csl:1:", ""),
        ("const x = \"" + "a" * 200_000, "pe.csl:1:", ""),
    ],
)  # fmt: skip
def test_wrong_code(pe: str, place: str, reason: str, tmp_path: Path, capsys: Captured) -> None:
    line = refused_program(tmp_path, capsys, pe)
    assert place in line
    assert reason in line


# Two million rounds take ten seconds; the limit is the same rule wherever it lies.
@pytest.mark.parametrize("rounds", [20_000, pytest.param(evaluator.MAX_STEPS, marks=pytest.mark.slow)])
def test_comptime_that_never_ends(
    rounds: int, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator, "MAX_STEPS", rounds)
    pe = "comptime { var i: u32 = 0; while (true) { i += 1; i -= 1; } }"
    line = refused_program(tmp_path, capsys, pe)
    assert "pe.csl:1:" in line
    assert f"more than {rounds}" in line


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("", "no layout"),
        ("layout { @set_rectangle(0, 1); }", "layout.csl:1:"),
        ("layout { @set_rectangle(100000, 100000); }", "layout.csl:1:"),
        ('layout { @set_rectangle(1, 1);\n@set_tile_code(1, 0, "pe.csl", .{}); }', "layout.csl:2:"),
        ('layout { @set_rectangle(1, 1);\n@set_tile_code(0, 0, "none.csl", .{}); }', "none.csl"),
        ("param n: u16;\nlayout { @set_rectangle(n, 1); }", "layout.csl:"),
        (LAYOUT % (TILE, "@set_color_config(0, 0, @get_color(30), .{ .routes = .{} });"), "0 to 23"),
        (LAYOUT % (TILE, "@set_color_config(5, 0, @get_color(3), .{ .routes = .{} });"), "layout.csl:4:"),
        (LAYOUT % (TILE, "@set_color_config(0, 0, @get_color(3), .{ .routes = .{ .rx = .{UP} } });"), "UP"),
        ("layout { " + "@set_rectangle(1, 1); " * 3 + "}", "layout.csl:1:"),
        ("layout { " + "(" * 5000 + "}", "layout.csl:1:"),
    ],
)
def test_wrong_layouts(layout: str, reason: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "pe.csl").write_text("")
    (tmp_path / "layout.csl").write_text(layout)
    assert reason in refused(["run", str(tmp_path / "layout.csl"), "--record", "none"], capsys)


def test_more_than_48_kb(tmp_path: Path, capsys: Captured) -> None:
    pe = 'var big = @zeros([20000]f32);\nvar p: [*]f32 = &big;\ncomptime { @export_symbol(p, "p"); }'
    layout = LAYOUT % (TILE, '@export_name("p", [*]f32, true);')
    line = refused_program(tmp_path, capsys, pe, layout)
    assert "PE (0, 0)" in line
    assert "bytes" in line


@pytest.mark.parametrize(
    "setting", ["arch=wse9", "params=n", "params.n=x", "fabric-dims=2,2", "watch=9,9", "limit=0", "hop=99"]
)
def test_wrong_settings(setting: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "pe.csl").write_text("")
    (tmp_path / "layout.csl").write_text(LAYOUT % (TILE, ""))
    line = refused(["run", str(tmp_path / "layout.csl"), "--set", setting, "--record", "none"], capsys)
    assert setting.partition("=")[0].partition(".")[0] in line


def ran(folder: Path, pe: str, capsys: Captured, *options: str, width: int = 1, routes: str = "") -> str:
    """Run a program whose `main` the host launches and which gets stuck; why it stopped."""
    wafer = compiled(folder, pe, width, routes)
    save_wafer(folder / "out", wafer)
    save_run(folder / "out", [HostCommand(HOST_LAUNCH, "start")])
    out = misbehaved(["run", str(folder / "out"), "--record", "none", *options], capsys)
    return next(line for line in out.splitlines() if line.startswith("  stopped "))


def test_a_host_command_that_is_never_done(tmp_path: Path, capsys: Captured) -> None:
    text = ran(tmp_path, "fn main() void {}", capsys)
    assert "deadlock" in text
    assert "without unblock_cmd_stream()" in text


def test_a_run_that_never_ends_has_a_limit(tmp_path: Path, capsys: Captured) -> None:
    pe = "var n: u16 = 0;\nfn main() void { while (true) {\n n ^= 1; } }"
    text = ran(tmp_path, pe, capsys, "--set", "limit=2000")
    assert "hang" in text
    assert "has not ended after 2,000 cycles" in text
    assert "PE(0,0) is in start (pe.csl:" in text


def test_a_task_that_activates_itself_has_a_limit_too(tmp_path: Path, capsys: Captured) -> None:
    pe = """const t = @get_local_task_id(9);
    task go() void { @activate(t); }
    comptime { @bind_local_task(go, t); }
    fn main() void { @activate(t); }"""
    assert "hang" in ran(tmp_path, pe, capsys, "--set", "limit=2000")


@pytest.mark.parametrize(
    ("routes", "reason"),
    [
        (EASTWARD.split(";")[0] + ";", "layout.csl:9: a word of color 1 arrives from WEST"),
    ],
)
def test_routes_that_dangle(routes: str, reason: str, tmp_path: Path, capsys: Captured) -> None:
    pe = """const out = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = @get_output_queue(2) });
    comptime { if (x == 0) { @initialize_queue(@get_output_queue(2), .{ .color = c }); } }
    fn main() void { if (x == 0) { @mov32(out, @as(u32, 7)); } }"""
    text = ran(tmp_path, pe, capsys, width=2, routes=routes)
    assert "fault" in text
    assert reason in text


def test_endless_recursion_is_a_fault(tmp_path: Path, capsys: Captured) -> None:
    pe = "fn deeper(n: u16) u16 { return deeper(n + 1) + 1; }\n"
    pe += "var r: u16 = 0;\nfn main() void { r = deeper(r); }"
    text = ran(tmp_path, pe, capsys)
    assert "pe.csl:3: calls nest too deeply" in text


def test_run_lists_hazards(tmp_path: Path, capsys: Captured) -> None:
    pe = "fn main() void {\n @activate(@get_local_task_id(9));\n sys.unblock_cmd_stream(); }"
    save_wafer(tmp_path / "out", compiled(tmp_path, pe))
    save_run(tmp_path / "out", [HostCommand(HOST_LAUNCH, "start")])
    out = misbehaved(["run", str(tmp_path / "out"), "--record", "none"], capsys)
    line, why = [line for line in out.splitlines() if "task-unbound" in line]
    assert "the simulated chip misbehaved: hazard task-unbound" in why
    assert f"pe.csl:{line_with(pe, '@activate')}: PE(0,0): id 9 is activated" in line
