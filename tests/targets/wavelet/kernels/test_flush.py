"""Queues that are flushed: what runs when they are empty."""

from pathlib import Path

from npuviz.sim.stop import StopKind
from tests.targets.wavelet.running import variable
from tests.targets.wavelet.small import run


def test_a_flush_without_a_handler_leaves_the_other_tasks_alone(tmp_path: Path) -> None:
    text = """
    const then_id = @get_local_task_id(9);
    var seen: u16 = 0;
    task then() void { seen = 7; sys.unblock_cmd_stream(); }
    comptime {
      @bind_local_task(then, then_id);
      @block(then_id);
      @initialize_queue(@get_output_queue(2), .{ .color = c });
    }
    fn main() void { @activate(then_id); @queue_flush(@get_output_queue(2)); @unblock(then_id); }
    """
    stop, machine = run(tmp_path, text)
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "seen") == 7
