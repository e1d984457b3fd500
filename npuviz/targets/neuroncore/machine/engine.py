"""The state and program words of one machine, and running the kernel on them."""

import numpy as np

from npuviz.program.graph import Graph
from npuviz.sim.events import EventBuffer
from npuviz.sim.parts.kernel_call import KernelCall
from npuviz.targets.neuroncore.kernels import advance as kernels
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.program_words import Numbering, build_program
from npuviz.targets.neuroncore.machine.state_words import build_state, grow_log, make_shape
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables

LAST_CYCLE = 1 << 58


class Engine:
    """Holds the kernels' state and program words, and advances them.

    state  (words,) int64 root state, owned; replaced when it grows or is restored
    """

    def __init__(self, spec: NeuronSpec, tables: Tables, graph: Graph, numbering: Numbering) -> None:
        self.spec = spec
        self.tables = tables
        self.shape = make_shape(spec, tables, len(graph.nodes))
        self.state = build_state(spec, tables, self.shape, len(graph.nodes))
        self.words = build_program(spec, tables, graph, numbering)
        self.event_margin = self._event_rows()

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> tuple[int, np.ndarray]:
        """Run the kernel; return its RESULT_ code and a hit word for each stop row."""
        call = KernelCall(min(until, LAST_CYCLE), stops, events, self.event_margin)
        while True:
            result = call.run(kernels.advance, self.state, self.words, call.x, call.rows, self.event_margin)
            if result != sk.RESULT_GROW_LOG:
                return result, call.finish()
            self.state = grow_log(self.state)

    def _event_rows(self) -> int:
        """Return the most event rows that one cycle may need.

        Every sequencer may complete and issue, every DMA engine may end a transfer, and each of these may
        free
        several allocations.
        """
        keys = self.tables.allocations["last"]
        freed = int(np.bincount(keys).max()) if len(keys) else 0
        return self.shape.sequencers * (16 + freed) + self.shape.engines * (12 + freed) + 64

    def used_state(self) -> np.ndarray:
        """Return the words in use, without the free part of the log (a view)."""
        return self.state[: self.shape.log + int(sk.CHIP(self.state).log_count) * sk.LOG_WORDS]

    def restore_state(self, words: np.ndarray) -> None:
        """Replace the state by a copy of words that `used_state` returned."""
        needed = self.shape.log + int(sk.CHIP(words).log_capacity) * sk.LOG_WORDS
        if len(self.state) != needed:
            self.state = np.zeros(needed, dtype=np.int64)
        self.state[: len(words)] = words
        self.state[len(words) :] = 0

    def log(self) -> np.ndarray:
        """Return the completions so far in order, (n, 2) int64 (a view).

        Columns: instruction, or -1 - trigger of a transfer; the time.
        """
        first, count = self.shape.log, int(sk.CHIP(self.state).log_count)
        return self.state[first : first + count * sk.LOG_WORDS].reshape(count, sk.LOG_WORDS)
