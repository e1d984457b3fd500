"""The bytes of both memories, as instructions that end change them; numpy, apart from the timing."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from npuviz.program.instruction import Operand
from npuviz.sim.replay.contents import Edit, Report
from npuviz.sim.replay.engine import Replay
from toychip.isa import ADD, MUL
from toychip.load.program import Payload


@dataclass(frozen=True)
class Kept:
    """Copies of the memories."""

    memories: tuple[np.ndarray, ...]

    def arrays(self) -> Iterable[np.ndarray]:
        """What it holds."""
        return self.memories


class ToyContents:
    """See npuviz.sim.replay.contents.Contents. A log entry is an instruction that has ended."""

    def __init__(self, payload: Payload, sizes: tuple[int, ...], addresses: dict[int, int]) -> None:
        self._payload = payload
        self._sizes, self._addresses = sizes, addresses
        self.restore(None)

    def apply(self, entry: int, undoable: bool) -> None:
        """Copy, multiply or add a block."""
        instruction = self._payload.instructions[entry]
        operands = [self._floats(read) for read in instruction.reads]
        kind = self._payload.kinds[entry]
        result = operands[0]
        if kind in (MUL, ADD):
            result = operands[0] * operands[1] if kind == MUL else operands[0] + operands[1]
        self._floats(instruction.writes[0])[:] = result

    def apply_edit(self, edit: Edit, undoable: bool) -> None:
        """Write bytes by hand."""
        self.memories[edit.memory][edit.address : edit.address + len(edit.data)] = list(edit.data)

    def keep(self) -> Kept:
        """The present state."""
        return Kept(tuple(memory.copy() for memory in self.memories))

    def restore(self, kept: Kept | None) -> None:
        """Back to a kept state, or to the beginning."""
        if kept is not None:
            self.memories = [memory.copy() for memory in kept.memories]
            return
        self.memories = [np.zeros(size, np.uint8) for size in self._sizes]
        for tensor, values in self._payload.inputs.items():
            address = self._addresses[tensor]
            self.memories[0][address : address + values.nbytes] = values.view(np.uint8)

    def _floats(self, operand: Operand) -> np.ndarray:
        memory = self.memories[operand.memory]
        return memory[operand.address : operand.address + operand.size_bytes].view(np.float32)


def make_values(payload: Payload, sizes: tuple[int, ...], addresses: dict[int, int]) -> Replay[ToyContents]:
    """Contents at any place of a log."""

    def make(_report: Report) -> ToyContents:
        return ToyContents(payload, sizes, addresses)

    return Replay(make)
