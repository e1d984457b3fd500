"""Hold the state and program words of one machine, and run its kernel."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuviz.sim.events import EventBuffer
from npuviz.sim.parts.kernel_call import KernelCall
from npuviz.targets.rk3588.kernels import advance as kernels
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.state_words import Numbering, build_program, build_state, make_shape
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables
from npuviz.targets.rk3588.task.cost import costs_of

LAST_CYCLE = 1 << 58


class Engine:
    """The state and the program words that kernels work on.

    state  (words,) int64 root state, owned
    costs  how much work each task is
    hosts  cycles of each Host call
    """

    def __init__(
        self, spec: RknnSpec, tables: Tables, num_nodes: int, numbering: Numbering, hosts: Sequence[int]
    ) -> None:
        self.spec = spec
        self.tables = tables
        self.costs = costs_of(tables, spec)
        self.shape = make_shape(spec, tables, num_nodes)
        self.state = build_state(spec, tables, self.shape, num_nodes)
        self.words = build_program(spec, tables, self.costs, numbering, hosts)
        self.event_margin = spec.cores * 40 + 16

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> tuple[int, np.ndarray]:
        """Run the kernel; return its RESULT_ code and a hit word per stop row."""
        call = KernelCall(min(until, LAST_CYCLE), stops, events, self.event_margin)
        result = call.run(kernels.advance, self.state, self.words, call.x, call.rows, self.event_margin)
        return result, call.finish()

    def used_state(self) -> np.ndarray:
        """Return the words in use: all of them (a view)."""
        return self.state

    def restore_state(self, words: np.ndarray) -> None:
        """Replace the state by words that an earlier `used_state` returned."""
        self.state[:] = words

    def log(self) -> np.ndarray:
        """Return (n, 2) int64 completions so far, in order (a view): task, or -1 - host call; and the
        time."""
        count = int(self.state[sk.CHIP.log_count])
        return self.state[self.shape.log : self.shape.log + 2 * count].reshape(count, 2)

    def record(self, task: int) -> Any:
        """Return the row sk.RESULT of a finished task; zeros before it has finished."""
        return sk.RESULT(self.state, self.shape.records, task)
