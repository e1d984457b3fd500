"""Broken CSL programs: two that are right, with a line left out, a length, a route or a queue changed."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from npuviz.sim.machine import Machine
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand
from tests.seeded.seed import Seed
from tests.targets.wavelet.samples import machine_of
from tests.targets.wavelet.small import EASTWARD, WESTWARD, compiled

MACHINE = "wavelet"

PASS_ON = """
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 64, .output_queue = oq });
const in = @get_dsd(fabin_dsd, .{ .extent = 64, .input_queue = iq });
var buf = @zeros([64]f32);
const all = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 64 });
const done = @get_local_task_id(9);
task end() void { sys.unblock_cmd_stream(); }
comptime {
  @bind_local_task(end, done);
  if (x == 0) { @initialize_queue(oq, .{ .color = c }); } else { @initialize_queue(iq, .{ .color = c }); }
}
fn main() void {
  if (x == 0) {
    @fmovs(out, all, .{ .async = true, .activate = done });
  } else {
    @fadds(all, all, all);
    @fmovs(all, in);
    @activate(done);
  }
}
"""
"""PE(0,0) sends 64 words to PE(1,0)."""

EXCHANGE = """
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = oq });
const in = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq });
var buf = @zeros([4]f32);
var got = @zeros([4]f32);
const four = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 4 });
const new = @get_dsd(mem1d_dsd, .{ .base_address = &got, .extent = 4 });
comptime {
  @initialize_queue(oq, .{ .color = if (x == 0) c else d });
  @initialize_queue(iq, .{ .color = if (x == 0) d else c });
}
fn main() void {
  @fmovs(out, four, .{ .async = true });
  @fmovs(new, in);
  sys.unblock_cmd_stream();
}
"""
"""Two PEs send each other four words."""


def machine_for(text: str, routes: str) -> Callable[[], Machine]:
    """A machine of two PEs that run a text."""

    def make() -> Machine:
        with tempfile.TemporaryDirectory() as folder:
            return machine_of(compiled(Path(folder), text, 2, routes), [HostCommand(HOST_LAUNCH, "start")])

    return make


def right() -> Iterator[tuple[str, Callable[[], Machine]]]:
    """The programs that the broken ones are made from."""
    yield "pass on", machine_for(PASS_ON, EASTWARD)
    yield "exchange", machine_for(EXCHANGE, EASTWARD + WESTWARD)


_PASS_ON = (
    ("a send that is shorter than what it sends", "lengths that differ", "operand-lengths",
     "fabout_dsd, .{ .extent = 64", "fabout_dsd, .{ .extent = 48", "deadlock"),
    ("a receiver that takes fewer words", "wavelets never consumed", "words-left",
     "fabin_dsd, .{ .extent = 64", "fabin_dsd, .{ .extent = 40", ""),
    ("a receive left out", "wavelets never consumed", "words-left", "    @fmovs(all, in);\n", "", ""),
    ("a send left out", "deadlock", "deadlock",
     "    @fmovs(out, all, .{ .async = true, .activate = done });", "    @activate(done);", ""),
    ("an activation left out", "deadlock", "deadlock", "    @activate(done);\n", "", "stream-blocked"),
    ("a task that is never bound", "a task without a binding", "task-unbound",
     "  @bind_local_task(end, done);\n", "", "deadlock"),
    ("a task that stays blocked", "deadlock", "task-blocked",
     "  @bind_local_task(end, done);", "  @bind_local_task(end, done); @block(done);", "deadlock"),
    ("an activation too many", "an activation that is lost", "activation-absorbed",
     "    @activate(done);", "    @activate(done); @activate(done);", ""),
    ("two sends on one queue", "a queue used twice", "queue-busy",
     "    @fmovs(out, all, .{ .async = true, .activate = done });",
     "    @fmovs(out, all, .{ .async = true, .ut_id = @get_ut_id(4) });\n"
     "    @fmovs(out, all, .{ .async = true, .activate = done, .ut_id = @get_ut_id(5) });", "words-left"),
    ("operands of two lengths", "lengths that differ", "operand-lengths",
     "    @fadds(all, all, all);",
     "    const part = @set_dsd_length(all, 3);\n    @fadds(all, all, part);", ""),
    ("a descriptor behind its array", "out of bounds", "out-of-bounds",
     "    @fadds(all, all, all);",
     "    const moved = @increment_dsd_offset(all, 4, f32);\n    @fadds(all, all, moved);", ""),
    ("a descriptor behind the memory", "out of bounds", "fault",
     "    @fadds(all, all, all);",
     "    const moved = @increment_dsd_offset(all, 13000, f32);\n    @fadds(all, all, moved);", ""),
    ("an assertion that does not hold", "an assertion", "fault",
     "    @fadds(all, all, all);", "    @assert(x == 0);", ""),
)  # fmt: skip
"""Name, kind, expected, what is replaced, by what, and a second finding that tells it as well."""

_ROUTES = (
    ("a route to the wrong side", "a wrong route", "leaves-rectangle", "tx = .{EAST}", "tx = .{NORTH}"),
    ("a route from the wrong side", "a wrong route", "route-refused", "rx = .{WEST}", "rx = .{SOUTH}"),
    ("a route that ends too early", "a wrong route", "fault",
     EASTWARD.strip().splitlines()[1], ""),
)  # fmt: skip

_EXCHANGE = (
    ("both receive before they send", "a wavelet order assumed", "deadlock",
     "  @fmovs(out, four, .{ .async = true });\n  @fmovs(new, in);\n",
     "  @fmovs(new, in);\n  @fmovs(out, four, .{ .async = true });\n"),
    ("both send on the color they receive", "a wrong color", "fault",
     "@initialize_queue(oq, .{ .color = if (x == 0) c else d });",
     "@initialize_queue(oq, .{ .color = if (x == 0) d else c });"),
    ("an unblock left out", "deadlock", "stream-blocked", "  sys.unblock_cmd_stream();\n", ""),
)  # fmt: skip


def _seed(name: str, kind: str, expected: set[str], text: str, routes: str) -> Seed:
    return Seed(name, MACHINE, kind, frozenset(expected - {""}), machine_for(text, routes))


def seeds() -> Iterator[Seed]:
    """All of them."""
    for name, kind, expected, old, new, other in _PASS_ON:
        assert old in PASS_ON, name
        yield _seed(name, kind, {expected, other}, PASS_ON.replace(old, new), EASTWARD)
    for name, kind, expected, old, new in _ROUTES:
        assert old in EASTWARD, name
        yield _seed(name, kind, {expected}, PASS_ON, EASTWARD.replace(old, new))
    for name, kind, expected, old, new in _EXCHANGE:
        assert old in EXCHANGE, name
        yield _seed(name, kind, {expected, "deadlock"}, EXCHANGE.replace(old, new), EASTWARD + WESTWARD)
