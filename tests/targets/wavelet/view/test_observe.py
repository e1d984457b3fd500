"""What is read off a state quickly is what is read off it plainly."""

from pathlib import Path

import numpy as np

from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.view.description import ROUTER
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
