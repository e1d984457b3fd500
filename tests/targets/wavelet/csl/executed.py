"""Runs small CSL programs on the machine: one PE whose `main` leaves numbers in `out`."""

from pathlib import Path

from npuviz.sim.stop import NO_STOPS
from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.spec import make_spec
from npuviz.targets.wavelet.wafer import HOST_COPY_OUT, HOST_LAUNCH, HostCommand
from tests.targets.wavelet.csl.programs import write

WORDS = 16
FRAME = """
const npuviz_sys = @import_module("<memcpy/memcpy>");
var out = @zeros([16]i32);
var out_ptr: [*]i32 = &out;
fn npuviz_start() void { main(); npuviz_sys.unblock_cmd_stream(); }
comptime { @export_symbol(npuviz_start, "start"); @export_symbol(out_ptr, "out"); }
"""
LAYOUT = """layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{});
  @export_name("start", fn()void);
  @export_name("out", [*]i32, true);
}
"""
LIMIT = 200_000
REGION = (0, 0, 1, 1)


def numbers(folder: Path, text: str, count: int = 1, arch: str = "wse3") -> list[int]:
    """The first `count` words of `out` after `main` has run, as signed numbers."""
    files = {"layout.csl": LAYOUT, "pe.csl": text + FRAME}
    wafer = compile_program(write(folder, files), arch, fabric=(8, 3))
    engine = Engine(make_spec(arch, None, {})[0], wafer)
    engine.add_commands(
        [
            HostCommand(HOST_LAUNCH, "start", REGION),
            HostCommand(HOST_COPY_OUT, "out", REGION, WORDS),
        ]
    )
    engine.run(LIMIT, NO_STOPS, None, 1)
    assert engine.command_state(1)[0] == 2, "the program did not end"
    return engine.result(1).view("int32").reshape(-1).tolist()[:count]
