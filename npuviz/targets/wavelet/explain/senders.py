"""Find which lines of a PE's program would send words of a color, and which would activate a task.

They are found in its code and the present contents of its memory: descriptors are followed back to the
constant or the variable that they come from. Other values (an argument, a computed id) are not guessed.
"""

from collections.abc import Iterator

import numpy as np

from npuviz.targets.wavelet.isa import unpack
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.view.observe import Observer
from npuviz.targets.wavelet.wafer import PeProgram

DEEPEST = 8
"""Most steps by which a value is followed back to its origin."""
_CALLS = (k.OP_CALL,)


class Senders:
    """Search the programs of PEs; never changes anything."""

    def __init__(self, engine: Engine, observer: Observer, listing: WaveletListing) -> None:
        self._engine = engine
        self._observer = observer
        self._listing = listing

    def of_color(self, node: int, color: int) -> list[int]:
        """Return the instructions (listing) of a PE that send words of a color when they run, rising."""
        found: list[int] = []
        program = self._program(node)
        for pc in np.flatnonzero(program.code[:, k.C_OP] == k.OP_DSD).tolist():
            operation = program.operations[int(program.code[pc, k.C_IMM])]
            if int(operation[k.O_DST_KIND]) == k.OPERAND_DSD:
                word = self._value(node, program, pc, int(operation[k.O_DST]))
                if word is not None and self._color(node, word) == color:
                    found.append(pc)
        for pc in np.flatnonzero(program.code[:, k.C_OP] == k.OP_MAP_OPEN).tolist():
            word = self._value(node, program, pc, int(program.code[pc, k.C_B]))
            if word is not None and self._color(node, word) == color:
                found.append(pc)
        return [self._first(node) + pc for pc in sorted(found)]

    def of_task(self, node: int, task: int) -> list[int]:
        """Return the instructions of a PE that activate a local task, or start an operation whose end does,
        rising."""
        program = self._program(node)
        code, found = program.code, list[int]()
        for pc in np.flatnonzero(code[:, k.C_OP] == k.OP_ACTIVATE).tolist():
            if self._value(node, program, pc, int(code[pc, k.C_A])) == task:
                found.append(pc)
        for pc in np.flatnonzero((code[:, k.C_OP] == k.OP_DSD) | (code[:, k.C_OP] == k.OP_DSR_LOAD)).tolist():
            row = int(code[pc, k.C_IMM])
            register = (
                int(program.operations[row, k.O_ACTIVATE]) if 0 <= row < len(program.operations) else -1
            )
            if register >= 0 and self._value(node, program, pc, register) == task:
                found.append(pc)
        return [self._first(node) + pc for pc in sorted(found)]

    def tasks_of(self, node: int, instruction: int) -> list[int]:
        """Return the tasks and exported functions (their numbers) of a PE's program from which calls reach an
        instruction."""
        program = self._program(node)
        entries = [function.entry for function in program.functions]
        starts = sorted(entries)
        owner = entries.index(
            starts[int(np.searchsorted(starts, instruction - self._first(node), "right")) - 1]
        )
        callers: dict[int, set[int]] = {}
        for pc in np.flatnonzero(np.isin(program.code[:, k.C_OP], _CALLS)).tolist():
            by = entries.index(starts[int(np.searchsorted(starts, pc, "right")) - 1])
            callers.setdefault(int(program.code[pc, k.C_IMM]), set()).add(by)
        reached, todo = {owner}, [owner]
        while todo:
            new = callers.get(todo.pop(), set()) - reached
            reached |= new
            todo += new
        roots = {task.function for task in program.tasks}
        roots |= {export.function for export in program.exports if export.function >= 0}
        return sorted(reached & roots)

    # --- inside ----------------------------------------------------------------------------------------

    def _program(self, node: int) -> PeProgram:
        return self._engine.wafer.programs[self._observer.program_of(node)]

    def _first(self, node: int) -> int:
        return self._listing.first_of_program[self._observer.program_of(node)]

    def _value(self, node: int, program: PeProgram, pc: int, register: int, depth: int = 0) -> int | None:
        """Return the contents of a register before an instruction, None if they do not come from constants
        and variables."""
        if depth > DEEPEST:
            return None
        for at in self._before(program, pc):
            row = program.code[at]
            op = int(row[k.C_OP])
            if int(row[k.C_A]) != register or op not in _WRITERS:
                continue
            if op == k.OP_LI:
                return int(row[k.C_IMM])
            if op == k.OP_MOV:
                return self._value(node, program, at, int(row[k.C_B]), depth + 1)
            if op == k.OP_LD and int(row[k.C_B]) < 0:
                return self._load(node, int(row[k.C_IMM]), int(row[k.C_TYPE]))
            if op in (k.OP_DSD_SET, k.OP_DSD_MOVE):
                return self._changed(node, program, at, depth)
            return None
        return None

    def _changed(self, node: int, program: PeProgram, at: int, depth: int) -> int | None:
        """Return a descriptor in which a field was replaced; None if that field is its queue or color."""
        row = program.code[at]
        word = self._value(node, program, at, int(row[k.C_B]), depth + 1)
        is_place = int(row[k.C_OP]) == k.OP_DSD_SET and int(row[k.C_IMM]) in (k.F_QUEUE, k.F_COLOR)
        return None if is_place else word

    def _before(self, program: PeProgram, pc: int) -> Iterator[int]:
        """Return the instructions of the same function before one, the nearest first."""
        begin = max((f.entry for f in program.functions if f.entry <= pc), default=0)
        return iter(range(pc - 1, begin - 1, -1))

    def _load(self, node: int, address: int, kind: int) -> int | None:
        size = _SIZES.get(kind, 0)
        data = self._observer.memory_words(node).view(np.uint8)
        if not size or not 0 <= address <= len(data) - size:
            return None
        return int.from_bytes(data[address : address + size].tobytes(), "little")

    def _color(self, node: int, word: int) -> int:
        """Return the color of a descriptor of output words, -1 for other descriptors."""
        if unpack(word, k.F_KIND) == k.KIND_DSR:
            dsrs = int(self._observer.layout(node).dsrs)
            file, number = unpack(word, k.F_DSR_FILE), unpack(word, k.F_DSR_ID)
            if not dsrs or file > 2 or number > 15:
                return -1
            word = int(sk.DSR(self._observer.block_row(node), dsrs, file * 16 + number).word)
        if unpack(word, k.F_KIND) != k.KIND_FABOUT:
            return -1
        color, queue = unpack(word, k.F_COLOR), unpack(word, k.F_QUEUE)
        if color >= 24 and queue < 8:
            color = int(self._observer.block_row(node).out[queue])
        return color


_SIZES = {k.T_U8: 1, k.T_I8: 1, k.T_U16: 2, k.T_I16: 2, k.T_U32: 4, k.T_I32: 4, k.T_WORD: 8}
_WRITERS = frozenset(
    value
    for name, value in vars(k).items()
    if name.startswith("OP_")
    and value
    not in (
        *(k.OP_ST, k.OP_STX, k.OP_COPY, k.OP_FILL, k.OP_JZ, k.OP_JNZ, k.OP_RET, k.OP_ASSERT, k.OP_DSD),
        *(k.OP_NOP, k.OP_JMP, k.OP_DSR_LOAD, k.OP_MAP_OPEN, k.OP_MAP_TEST, k.OP_MAP_WRITE),
        *(k.OP_ACTIVATE, k.OP_BLOCK, k.OP_UNBLOCK),
    )
)
"""Instructions whose column `a` names the register that they write."""
