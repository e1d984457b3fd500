"""Collect the instructions of one function: rows, jump targets, source places, registers, frame memory."""

from dataclasses import dataclass, field

from npuviz.targets.wavelet.kernels import isa

Row = list[int]

LONGEST_PREDICATED = 4
"""Most moves that become predicated instead of a jump. Assumed; FAB shows one and two."""


class Label:
    """A place in the code that jumps lead to, set later by `Emitter.set_label`."""

    __slots__ = ("position", "users")

    def __init__(self) -> None:
        self.position = -1
        self.users: list[int] = []


@dataclass
class Stack:
    """Give out registers, or bytes of a function's frame; those taken after a mark can be given back."""

    next: int = 0
    most: int = 0

    def take(self, size: int = 1, align: int = 1) -> int:
        """Return the first of `size` consecutive fresh ones."""
        first = -(-self.next // align) * align
        self.next = first + size
        self.most = max(self.most, self.next)
        return first

    def release(self, mark: int) -> None:
        """Give back all taken since `next` was `mark`."""
        self.next = mark


@dataclass
class Emitter:
    """The code of one function, with positions relative to its first instruction.

    rows   instructions of isa.CODE_WORDS words; the last word is `line`, an index of the wafer's places
    """

    rows: list[Row] = field(default_factory=list[Row])
    line: int = 0
    jumps: list[int] = field(default_factory=list[int])
    is_reachable: bool = True
    last_label: int = -1

    @property
    def position(self) -> int:
        """Position of the next instruction."""
        return len(self.rows)

    def emit(
        self, op: int, a: int = 0, b: int = 0, c: int = 0, imm: int = 0, aux: int = 0, kind: int = 0
    ) -> int:
        """Append an instruction and return its position. Nothing is appended after a jump or return."""
        if not self.is_reachable:
            return len(self.rows)
        self.rows.append([op, a, b, c, imm, aux, kind, self.line])
        if op in (isa.OP_JMP, isa.OP_RET):
            self.is_reachable = False
        return len(self.rows) - 1

    def jump(self, label: Label, op: int = isa.OP_JMP, register: int = 0) -> None:
        """Append a jump to `label`, or a branch on `register` (of OP_MAP_TEST: the number of cursors)."""
        if not self.is_reachable:
            return
        self.jumps.append(len(self.rows))
        if label.position < 0:
            label.users.append(len(self.rows))
        self.emit(op, a=register, imm=max(label.position, 0))

    def drop_negation(self, register: int) -> int:
        """Remove a negation into `register` that ends the code; return the register it negates, -1 for
        none."""
        row = self.rows[-1] if self.rows else None
        if row is None or row[isa.C_OP] != isa.OP_NEG or row[isa.C_A] != register:
            return -1
        if not self.is_reachable or self.last_label == len(self.rows):
            return -1
        self.rows.pop()
        return row[isa.C_B]

    def set_label(self, label: Label) -> None:
        """Let `label` be the position of the next instruction."""
        while label.users and self._drop_last_jump(label):
            pass
        label.position = self.last_label = len(self.rows)
        if label.users:
            self.is_reachable = True
        for user in label.users:
            self.rows[user][isa.C_IMM] = label.position

    def _drop_last_jump(self, label: Label) -> bool:
        last = len(self.rows) - 1
        if label.users[-1] != last or self.rows[last][isa.C_OP] != isa.OP_JMP:
            return False
        if self.last_label == last + 1:
            return False  # another label already points behind this jump
        label.users.pop()
        self.jumps.pop()
        self.rows.pop()
        self.is_reachable = True
        return True

    def finish(self, entry: int) -> list[Row]:
        """Return the rows with jumps made absolute for code that starts at `entry`, and chains of jumps
        shortened."""
        for position in self.jumps:
            self._lead(position)
        self.jumps = [at for at in self.jumps if self.rows[at][isa.C_OP] != isa.OP_RET]
        for position in self.jumps:
            self.rows[position][isa.C_IMM] += entry
        return self.rows

    def _lead(self, position: int) -> None:
        """Let a jump to a jump go to the end of the chain, and one to a return return, as compilers do."""
        row = self.rows[position]
        target, passed = row[isa.C_IMM], {position}
        # A jump over a few moves may become a predicate, which is recognised by its target.
        is_near = position < target <= position + 1 + LONGEST_PREDICATED
        if row[isa.C_OP] not in (isa.OP_JMP, isa.OP_JZ, isa.OP_JNZ) or is_near:
            return
        while self.rows[target][isa.C_OP] == isa.OP_JMP and target not in passed:
            passed.add(target)
            target = self.rows[target][isa.C_IMM]
        row[isa.C_IMM] = target
        if row[isa.C_OP] == isa.OP_JMP and self.rows[target][isa.C_OP] == isa.OP_RET:
            self.rows[position] = [*self.rows[target][:-1], row[-1]]
