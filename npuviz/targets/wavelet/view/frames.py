"""Read calls and variables of the PEs of a wafer: the machine's half of source-level debugging."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuviz.sim.frames import Frame, FrameVariable
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.view.observe import Observer
from npuviz.targets.wavelet.view.variables import register_text, size_of, value_text
from npuviz.targets.wavelet.wafer import Function, PeProgram

MOST_FRAMES = 256
_CALLS = (k.OP_CALL, k.OP_CALLI)


class FrameViews:
    """The part of the wafer machine that implements the protocol of npuviz.sim.frames."""

    engine: Engine
    observer: Observer
    listing: WaveletListing

    def frames(self, element: int) -> Sequence[Frame]:
        """Return the calls under way on a PE, innermost first; () while it runs nothing."""
        node = self._node_of(element)
        b = self.observer.block(node) if node >= 0 else 0
        s = self.engine.state
        pe = sk.BLOCK(s, b)
        if b == 0 or int(pe.task) < 0:
            return ()
        number = self.observer.program_of(node)
        program, first = self.engine.wafer.programs[number], self.listing.first_of_program[number]
        data = self.observer.memory_words(node).view(np.uint8)
        found: list[Frame] = []
        registers, line = int(pe.frame), self._started_last(pe, program, first)
        while len(found) < MOST_FRAMES:
            frame = sk.FRAME(s, registers - sk.FRAME.num_words)
            function = program.functions[int(frame.function)]
            is_outermost = int(frame.pc) < 0
            if not found and not is_outermost and self._is_call(line, program, first):
                # The function that was called has started nothing yet: its caller stands at the call.
                registers, line = int(frame.caller), int(frame.call)
                continue
            variables = self._locals(function, line - first, frame, data)
            kind = "task" if is_outermost and int(pe.task) >> 16 else "function"
            found.append(Frame(function.name, kind, line, variables))
            if is_outermost:
                break
            registers, line = int(frame.caller), int(frame.call)
        return tuple(found)

    def globals_of(self, element: int) -> Sequence[FrameVariable]:
        """Return the global variables of a PE's program, by name."""
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

    def _started_last(self, pe: Any, program: PeProgram, first: int) -> int:
        """Return the instruction that the innermost frame started last: its first one if it has started
        none."""
        line, following = int(pe.line), first + int(pe.pc)
        if not first <= line < first + len(program.code):
            return following
        # After a return the frame is at its call, the instruction before the next one.
        return following - 1 if int(program.code[line - first, k.C_OP]) == k.OP_RET else line

    def _is_call(self, line: int, program: PeProgram, first: int) -> bool:
        return 0 <= line - first < len(program.code) and int(program.code[line - first, k.C_OP]) in _CALLS

    def _locals(self, function: Function, pc: int, frame: Any, data: np.ndarray) -> tuple[FrameVariable, ...]:
        found: dict[str, FrameVariable] = {}
        for variable in function.variables:
            if not variable.first <= pc < max(variable.last, variable.first + 1):
                continue
            if variable.register >= 0:
                text = register_text(int(frame.registers[variable.register]), variable.type)
                found[variable.name] = FrameVariable(variable.name, variable.type, text)
            else:
                address, size = int(frame.stack) + variable.offset, size_of(variable.type)
                text = value_text(_bytes(data, address, size), variable.type)
                found[variable.name] = FrameVariable(variable.name, variable.type, text, address, size)
        return tuple(found.values())


def _bytes(data: np.ndarray, address: int, size: int) -> bytes:
    return data[address : address + size].tobytes() if address >= 0 else b""
