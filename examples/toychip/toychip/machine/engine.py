"""State and program words, and the one way to move them."""

import numpy as np

from npuviz.sim.events import EventBuffer
from npuviz.sim.parts.kernel_call import KernelCall
from toychip.isa import DRAM
from toychip.kernels.advance import MARGIN, advance
from toychip.kernels.records import CHIP, FAR, INSTRUCTION, LOG, NODE, PROGRAM, UNITS
from toychip.load.program import Payload
from toychip.spec import ToySpec


class Engine:
    """See npuviz.sim.parts.kernel_machine.KernelEngine."""

    event_margin = MARGIN

    def __init__(self, spec: ToySpec, payload: Payload, num_nodes: int) -> None:
        self.words = _program_words(spec, payload)
        self.state = _state_words(payload, num_nodes)

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> tuple[int, np.ndarray]:
        """Run the kernel."""
        call = KernelCall(min(until, FAR - 1), stops, events, MARGIN)
        result = call.run(advance, self.state, self.words, call.x, call.rows)
        return result, call.finish()

    def used_state(self) -> np.ndarray:
        """All words (a view)."""
        return self.state

    def restore_state(self, words: np.ndarray) -> None:
        """Take over words that `used_state` gave."""
        self.state[:] = words

    def log(self) -> np.ndarray:
        """(n, 2) int64: instructions that have ended, and when (a view)."""
        first, count = int(self.state[CHIP.log]), int(self.state[CHIP.log_count])
        return self.state[first : first + count * LOG.num_words].reshape(count, LOG.num_words)


def _state_words(payload: Payload, num_nodes: int) -> np.ndarray:
    count = len(payload.instructions)
    nodes = CHIP.num_words
    done = nodes + num_nodes * NODE.num_words
    log = done + count
    state = np.zeros(log + count * LOG.num_words, np.int64)
    chip = CHIP(state)
    chip.nodes, chip.done, chip.log = nodes, done, log
    for number in range(UNITS):
        unit = chip.units[number]
        unit.running = unit.since = -1
        unit.until = FAR
    for instruction in payload.instructions:
        NODE(state, nodes, instruction.node).left += 1
    return state


def _program_words(spec: ToySpec, payload: Payload) -> np.ndarray:
    count = len(payload.instructions)
    words = np.zeros(PROGRAM.num_words + count * INSTRUCTION.num_words, np.int64)
    program = PROGRAM(words)
    program.count, program.queue = count, spec.queue
    for instruction, kind, after in zip(payload.instructions, payload.kinds, payload.after, strict=True):
        row = INSTRUCTION(words, PROGRAM.instructions, instruction.index)
        size = instruction.writes[0].size_bytes
        touches_dram = any(each.memory == DRAM for each in (*instruction.reads, *instruction.writes))
        # The ALU takes an element a cycle.
        moving = spec.latency - (-size // spec.bytes_per_cycle)
        row.cycles = moving if touches_dram else size // 4
        row.unit, row.kind, row.node = instruction.unit - 1, kind, instruction.node
        row.num_after = len(after)
        for place, other in enumerate(after):
            row.after[place] = other
        accesses = [(read, 0) for read in instruction.reads] + [(write, 1) for write in instruction.writes]
        for place in range(3):
            row.accesses[place].memory = -1
        for place, (operand, is_write) in enumerate(accesses):
            access = row.accesses[place]
            access.memory, access.is_write = operand.memory, is_write
            access.low, access.high = operand.address, operand.address + operand.size_bytes
    return words
