"""Calls and variables of the processing elements of a wafer: the machine's half of source-level debugging."""

from collections.abc import Sequence

import numpy as np

from npuviz.sim.frames import Frame, FrameVariable
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.processor.task import FRAME_WORDS
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.view.observe import Observer
from npuviz.targets.wavelet.view.variables import register_text, size_of, value_text
from npuviz.targets.wavelet.wafer import Function, PeProgram

# Words in front of a frame's registers; as FRAME_WORDS of task_kernels says.
RETURN_PC, CALLER, STACK, FUNCTION, CALL = 0, 1, 3, 4, 5
MOST_FRAMES = 256
_CALLS = (k.OP_CALL, k.OP_CALLI)


class FrameViews:
    """Part of the wafer machine: see npuviz.sim.frames for the protocol."""

    engine: Engine
    observer: Observer
    listing: WaveletListing

    def frames(self, element: int) -> Sequence[Frame]:
        """Calls under way on a PE, innermost first; () while it runs nothing."""
        node = self._node_of(element)
        b = self.observer.block(node) if node >= 0 else 0
        s = self.engine.state
        if b == 0 or int(s[b + sk.B_TASK]) < 0:
            return ()
        number = self.observer.program_of(node)
        program, first = self.engine.wafer.programs[number], self.listing.first_of_program[number]
        data = self.observer.memory_words(node).view(np.uint8)
        found: list[Frame] = []
        registers, line = int(s[b + sk.B_FRAME]), self._started_last(b, program, first)
        while len(found) < MOST_FRAMES:
            head = registers - FRAME_WORDS
            function = program.functions[int(s[head + FUNCTION])]
            is_outermost = int(s[head + RETURN_PC]) < 0
            if not found and not is_outermost and self._is_call(line, program, first):
                # The function that was called has started nothing yet: its caller stands at the call.
                registers, line = int(s[head + CALLER]), int(s[head + CALL])
                continue
            variables = self._locals(function, line - first, registers, int(s[head + STACK]), data)
            kind = "task" if is_outermost and int(s[b + sk.B_TASK]) >> 16 else "function"
            found.append(Frame(function.name, kind, line, variables))
            if is_outermost:
                break
            registers, line = int(s[head + CALLER]), int(s[head + CALL])
        return tuple(found)

    def globals_of(self, element: int) -> Sequence[FrameVariable]:
        """Global variables of a PE's program, by name."""
        node = self._node_of(element)
        if node < 0 or self.observer.program_of(node) < 0:
            return ()
        program = self.engine.wafer.programs[self.observer.program_of(node)]
        data = self.observer.memory_words(node).view(np.uint8)
        return tuple(
            FrameVariable(
                symbol.name,
                symbol.type,
                value_text(_bytes(data, symbol.address, symbol.size_bytes), symbol.type, symbol.dtype),
                symbol.address,
                symbol.size_bytes,
            )
            for symbol in sorted(program.symbols, key=lambda symbol: symbol.name)
        )

    # --- inside ----------------------------------------------------------------------------------------

    def _node_of(self, element: int) -> int:
        wafer, grid = self.engine.wafer, self.engine.program.nodes.grid
        columns = max(wafer.fabric[0], wafer.offset[0] + wafer.columns)
        x, y = element % columns - wafer.offset[0], element // columns - wafer.offset[1]
        return int(grid[y, x]) if 0 <= y < grid.shape[0] and 0 <= x < grid.shape[1] else -1

    def _started_last(self, b: int, program: PeProgram, first: int) -> int:
        """The instruction that the innermost frame started last: its first one if it has started none."""
        s = self.engine.state
        line, following = int(s[b + sk.B_LINE]), first + int(s[b + sk.B_PC])
        if not first <= line < first + len(program.code):
            return following
        # After a return the frame stands at its call, which lies before the instruction that is next.
        return following - 1 if int(program.code[line - first, k.C_OP]) == k.OP_RET else line

    def _is_call(self, line: int, program: PeProgram, first: int) -> bool:
        return 0 <= line - first < len(program.code) and int(program.code[line - first, k.C_OP]) in _CALLS

    def _locals(
        self, function: Function, pc: int, registers: int, stack: int, data: np.ndarray
    ) -> tuple[FrameVariable, ...]:
        found: dict[str, FrameVariable] = {}
        for variable in function.variables:
            if not variable.first <= pc < max(variable.last, variable.first + 1):
                continue
            if variable.register >= 0:
                text = register_text(int(self.engine.state[registers + variable.register]), variable.type)
                found[variable.name] = FrameVariable(variable.name, variable.type, text)
            else:
                address, size = stack + variable.offset, size_of(variable.type)
                text = value_text(_bytes(data, address, size), variable.type)
                found[variable.name] = FrameVariable(variable.name, variable.type, text, address, size)
        return tuple(found.values())


def _bytes(data: np.ndarray, address: int, size: int) -> bytes:
    return data[address : address + size].tobytes() if address >= 0 else b""
