"""What is read off a state quickly is what is read off it plainly."""

from pathlib import Path

import numpy as np

from npuviz.sim.fabric import INJECT, PORT_STEPS
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.view.description import ROUTER
from npuviz.targets.wavelet.view.fabric import _ring_entries
from npuviz.targets.wavelet.view.observe import queue_entries
from tests.targets.wavelet.running import run
from tests.targets.wavelet.samples import stencil


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
