"""A small assembler: hand-written programs of processing elements, for tests of the machine alone."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.wafer import (
    Channel,
    Export,
    Function,
    PeProgram,
    SourcePlace,
    Symbol,
    Task,
    Wafer,
)

RAMP, NORTH, EAST, SOUTH, WEST = (1 << port for port in range(5))
OPERATION = {
    name.removeprefix("O_").lower(): value for name, value in vars(k).items() if name.startswith("O_")
}


def mem(base: int, extent: int, stride: int = 1, **others: int) -> int:
    return isa.pack(k.KIND_MEM1D, base=base, extent=extent, stride=stride, **others)


def fabin(queue: int, extent: int, color: int = 31, **others: int) -> int:
    return isa.pack(k.KIND_FABIN, queue=queue, extent=extent, color=color, **others)


def fabout(queue: int, extent: int, color: int = 31, **others: int) -> int:
    return isa.pack(k.KIND_FABOUT, queue=queue, extent=extent, color=color, **others)


@dataclass
class Assembler:
    """Collects one program. `function` opens a function; instructions follow by name."""

    rows: list[list[int]] = field(default_factory=list[list[int]])
    functions: list[Function] = field(default_factory=list[Function])
    tasks: list[Task] = field(default_factory=list[Task])
    operations: list[list[int]] = field(default_factory=list[list[int]])
    symbols: list[Symbol] = field(default_factory=list[Symbol])
    exports: list[Export] = field(default_factory=list[Export])
    image: bytearray = field(default_factory=bytearray)
    others: dict[str, Any] = field(default_factory=dict[str, Any])
    line: int = 1

    def function(
        self, name: str, num_regs: int = 16, export: tuple[int, ...] | None = None, frame: int = 0
    ) -> int:
        number = len(self.functions)
        self.functions.append(Function(name, len(self.rows), num_regs, frame, SourcePlace(0, self.line)))
        if export is not None:
            self.exports.append(Export(name, function=number, arguments=export))
        return number

    def task(self, name: str, kind: int, id: int, arguments: tuple[int, ...] = (), num_regs: int = 16) -> int:
        number = self.function(name, num_regs)
        self.tasks.append(Task(name, kind, id, number, arguments))
        return number

    def variable(self, name: str, values: np.ndarray) -> int:
        """Place an exported array; returns its address."""
        self.image += b"\0" * (-len(self.image) % 16)
        address = len(self.image)
        self.image += np.ascontiguousarray(values).tobytes()
        text = f"[{values.size}]{values.dtype}"
        self.symbols.append(Symbol(name, address, values.nbytes, text, str(values.dtype), values.shape))
        self.exports.append(Export(name, symbol=len(self.symbols) - 1))
        return address

    def emit(
        self, name: str, a: int = 0, b: int = 0, c: int = 0, imm: int = 0, aux: int = 0, type: int = k.T_I16
    ) -> int:
        self.rows.append([getattr(k, f"OP_{name.upper()}"), a, b, c, imm, aux, type, self.line])
        self.line += 1
        return len(self.rows) - 1

    def sys(self, name: str, a: int = -1, b: int = -1, c: int = -1, aux: int = -1) -> int:
        return self.emit("sys", a, b, c, getattr(k, f"S_{name.upper()}"), aux)

    def jump_here(self, row: int) -> None:
        self.rows[row][k.C_IMM] = len(self.rows)

    def li(self, register: int, value: int) -> int:
        return self.emit("li", register, imm=value)

    def operation(self, name: str, **fields: int) -> int:
        """Append a row of the operation table; settings by the names of the O_ constants."""
        row = [-1] * k.OPERATION_WORDS
        row[k.O_OPERATION] = getattr(k, f"D_{name.upper()}")
        kinds = (k.O_DST_KIND, k.O_A_KIND, k.O_B_KIND, k.O_C_KIND, k.O_UNBLOCK_KIND, k.O_CONTROL_KIND)
        for column in (*kinds, k.O_ASYNC, k.O_CONTROL, k.O_SINGLE_STEP, k.O_SAVE_ADDRESS):
            row[column] = 0
        for key, value in fields.items():
            row[OPERATION[key]] = value
        self.operations.append(row)
        return len(self.operations) - 1

    def dsd(self, name: str, forms: str, registers: tuple[int, ...], **fields: int) -> int:
        """A DSD operation; `forms` has a letter per operand: d, s descriptors, v scalar, p pointer."""
        kinds = {"d": k.OPERAND_DSD, "s": k.OPERAND_DSD, "v": k.OPERAND_SCALAR, "p": k.OPERAND_POINTER}
        for place, (letter, register) in enumerate(zip(forms, registers, strict=True)):
            fields[("dst_kind", "a_kind", "b_kind", "c_kind")[place]] = kinds[letter]
            fields[("dst", "a", "b", "c")[place]] = register
        return self.emit("dsd", imm=self.operation(name, **fields))

    def ret(self, register: int = -1) -> int:
        return self.emit("ret", register)

    def unblock(self) -> int:
        return self.sys("unblock_commands")

    def program(self, memory_bytes: int = 0, **others: Any) -> PeProgram:
        image = np.frombuffer(bytes(self.image), np.uint8)
        stack = -(-len(image) // 8) * 8
        return PeProgram(
            name="test",
            code=np.array(self.rows, np.int64).reshape(-1, k.CODE_WORDS),
            places=tuple(SourcePlace(0, line + 1) for line in range(self.line + 1)),
            functions=tuple(self.functions),
            tasks=tuple(self.tasks),
            operations=np.array(self.operations, np.int64).reshape(-1, k.OPERATION_WORDS),
            shapes=np.array(self.others.get("shapes", []), np.int64).reshape(-1, 8),
            image=image,
            stack_base=stack,
            memory_bytes=max(memory_bytes, stack + 256),
            symbols=tuple(self.symbols),
            exports=tuple(self.exports),
            **others,
        )


def wafer(
    programs: list[PeProgram], program_of: list[list[int]],
    channels: dict[tuple[int, int], tuple[Channel, ...]] | None = None, arch: str = "wse3",
) -> Wafer:  # fmt: skip
    grid = np.array(program_of, np.int32)
    rows, columns = grid.shape
    exported = {e.name: ("", e.is_mutable) for program in programs for e in program.exports}
    return Wafer("test", arch, columns, rows, tuple(programs), grid, channels or {}, (columns + 7, rows + 2),
                 (4, 1), ("test.csl",), ("\n" * 200,), exported)  # fmt: skip


def route(color: int, receive: int, send: int, **others: Any) -> Channel:
    return Channel(color, ((receive, send), None, None, None), **others)
