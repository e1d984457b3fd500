"""What is read off a state quickly is what is read off it plainly."""

from pathlib import Path

import numpy as np

from npuviz.sim.fabric import INJECT, PORT_STEPS
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.origins import KIND_WAIT
from npuviz.targets.wavelet.view.description import ROUTER
from npuviz.targets.wavelet.view.fabric import _ring_entries
from npuviz.targets.wavelet.view.main_threads import WAITS, operation_name
from npuviz.targets.wavelet.view.observe import Observer, queue_entries
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand
from tests.targets.wavelet.running import run
from tests.targets.wavelet.samples import machine_of, stencil
from tests.targets.wavelet.small import EASTWARD, compiled


def test_channels_with_words_and_states_of_units(tmp_path: Path) -> None:
    machine = stencil(tmp_path, 4, 24, 2)
    num_held = num_busy = num_queued = 0
    while not machine.is_finished:
        run(machine, machine.cycle + 7)
        observer = machine.observer
        every = np.arange(16)
        held, queued = observer.held_at(every).tolist(), observer.queued_at(every).tolist()
        for node in range(16):
            waiting = [n for n in range(pk.NUM_QUEUES) if observer.layout(node).queue[n]]
            assert queued[node] == any(observer.queue(node, n).count for n in waiting)
            num_queued += queued[node]
            assert held[node] == bool(observer.held_channels(node))
            wanted = [(color, row.first_word) for color, row in observer.channels(node) if row.held]
            assert [(color, row.first_word) for color, row in observer.held_channels(node)] == wanted
            num_held += len(wanted)
        numbering = machine.numbering
        for state in machine.unit_states()[1:]:
            part, pe = (table[state.unit] for table in (numbering.unit_part, numbering.unit_pe))
            node = numbering.watched[pe].node
            if part == ROUTER:
                assert (state.status == "empty") == (not observer.held_channels(node))
            elif part >= 0:
                is_busy = bool(int(observer.block_row(node).threads) >> part & 1)
                assert (state.status != "free") == is_busy
                num_busy += is_busy
    assert num_held > 0
    assert num_queued > 0
    assert num_busy > 0


def plain_main(observer: Observer, node: int) -> tuple[str, str]:
    """What the main thread of a node does and in which task, read from its records one by one."""
    block, task = observer.block_row(node), ""
    if int(block.task) >= 0:
        frame = sk.FRAME(block, int(observer.layout(node).registers))
        program = observer._engine.wafer.programs[observer.program_of(node)]
        task = program.functions[int(frame.function)].name
    if int(block.halted):
        return "halted", task
    if not task:
        return "idle", ""
    if int(block.threads) >> sk.MAIN & 1:
        thread = observer.thread(node, sk.MAIN)
        name, why = operation_name(int(thread.op)), WAITS.get(observer.wait(node, sk.MAIN))
        return (f"{name}: {why[0]}" if why is not None else f"{name}, {int(thread.left)} left"), task
    return ("@map waits" if int(block.map_wait) > 0 else task), task


MAPS = """
var a = @zeros([8]i32);
var k: u16 = 0;
const input = @get_dsd(fabin_dsd, .{ .extent = 8, .fabric_color = c, .input_queue = @get_input_queue(2) });
const out_queue = @get_output_queue(2);
const output = @get_dsd(fabout_dsd, .{ .extent = 8, .fabric_color = c, .output_queue = out_queue });
const memory = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> a[i] });
fn twice(x: i32) i32 { return x * 2; }
fn main() void {
  if (x == 0) {
    while (k < 200) : (k += 1) {}
    @mov32(output, memory);
    while (k < 400) : (k += 1) {}
    @mov32(output, memory);
  } else {
    @mov32(memory, input);
    @map(twice, input, memory);
  }
  sys.unblock_cmd_stream();
}
comptime { @initialize_queue(@get_input_queue(2), .{ .color = c });
           @initialize_queue(out_queue, .{ .color = c }); }
"""


def test_main_threads_of_many_nodes_are_those_of_their_records(tmp_path: Path) -> None:
    maps = machine_of(compiled(tmp_path, MAPS, 2, EASTWARD), [HostCommand(HOST_LAUNCH, "start")])
    seen: set[str] = set()
    for machine, nodes in ((stencil(tmp_path, 4, 24, 2), 16), (maps, 2)):
        while not machine.is_finished and machine.cycle < 3000:
            run(machine, machine.cycle + 3)
            found = machine.observer.main_threads(np.arange(nodes))
            wanted = [plain_main(machine.observer, node) for node in range(nodes)]
            assert [(each.status, each.task) for each in found] == wanted
            seen |= {each.status for each in found}
    assert {"idle", "@map waits"} <= seen
    assert any(each.endswith(": waits for words") for each in seen)
    assert any(each.endswith(" left") for each in seen)


def test_a_task_that_waits_in_a_map_shows_work_and_then_the_wait(tmp_path: Path) -> None:
    machine = machine_of(compiled(tmp_path, MAPS, 2, EASTWARD), [HostCommand(HOST_LAUNCH, "start")])
    observer, num_waits = machine.observer, 0
    position = next(n for n, pe in enumerate(observer._numbering.watched) if pe.node == 1)
    track = observer._numbering.track_of[position, pk.TRACKS.main]
    while not machine.is_finished and machine.cycle < 3000:
        run(machine, machine.cycle + 3)
        block, shown = observer.block_row(1), [each for each in machine.activities() if each.track == track]
        waits = [each for each in shown if each.kind >= KIND_WAIT]
        if int(block.map_wait) > 0 and int(block.map_since) < machine.cycle:
            (wait,) = waits
            assert (wait.kind, wait.start) == (KIND_WAIT + sk.WAIT_INPUT, int(block.map_since))
            assert wait.planned_end < 0
            assert all(each.planned_end <= wait.start for each in shown if each is not wait)
            num_waits += 1
        elif int(block.task) >= 0 and not int(block.threads) >> sk.MAIN & 1:
            assert not waits
    assert num_waits > 20


def test_words_of_many_nodes_are_those_of_their_rings(tmp_path: Path) -> None:
    machine = stencil(tmp_path, 4, 24, 2)
    whole, (left, top) = machine.fabric.whole, machine.engine.wafer.offset
    num_waiting = num_moving = num_ramp = 0
    while not machine.is_finished:
        run(machine, machine.cycle + 7)
        observer, cycle, nodes = machine.observer, machine.cycle, machine.engine.program.nodes
        hop, ramp = int(observer.wafer.hop), int(observer.wafer.ramp)
        wanted: list[tuple[int | bool, ...]] = []
        for node in range(16):
            x, y = int(nodes.x[node]) + left, int(nodes.y[node]) + top
            for color, channel in observer.channels(node):
                outputs = int(channel.positions[int(channel.position)]) >> 8 & 0x1F
                way = next(port for port in (*range(5), 0) if outputs >> port & 1 or not outputs)
                for port in range(5):
                    for payload, identity, ready in _ring_entries(channel, port):
                        moves = ready >= cycle
                        step = PORT_STEPS[port] if moves and port else (0, 0)
                        place = x + step[0], y + step[1]
                        time = (ready - (hop if port else ramp), ready) if moves else (ready, -1)
                        by = (((port + 1 & 3) + 1) if port else INJECT) if moves else way
                        word = identity, color, payload & 0xFFFF_FFFF
                        wanted.append((*word, *place, not moves, by, *time))
                        num_waiting, num_moving = num_waiting + (not moves), num_moving + moves
            for number in range(pk.NUM_QUEUES):
                if not observer.layout(node).queue[number]:
                    continue
                queue = observer.queue(node, number)
                for entry in queue_entries(queue):
                    if int(entry.ready) > cycle:
                        data = int(entry.payload) & 0xFFFF_FFFF
                        ready = int(entry.ready)
                        word = int(entry.identity), int(queue.color), data
                        wanted.append((*word, x, y, False, 0, ready - ramp, ready))
                        num_ramp += 1
        words = machine.words(whole)
        fields = ("id", "color", "data", "column", "row", "waits", "port", "start", "arrival")
        assert list(zip(*(words[name].tolist() for name in fields), strict=True)) == wanted
    assert min(num_waiting, num_moving, num_ramp) > 0
