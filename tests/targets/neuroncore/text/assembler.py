"""Text to programs: the inverse of `program_text`."""

import re
from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from npuviz.base.errors import SourceError
from npuviz.targets.neuroncore.isa import (
    DST,
    ENGINE_NAMES,
    INSTRUCTION_DTYPE,
    MAX_UPDATES,
    MAX_WAITS,
    OPERAND_POSITIONS,
    SRC0,
    Flag,
    Opcode,
    Update,
    When,
)
from npuviz.targets.neuroncore.neff.encoding import ACCESS_DTYPES, OPS, TRIGGERS
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, Transfer
from npuviz.targets.neuroncore.text.mnemonics import (
    CONDITIONS,
    SHORT_DTYPES,
    SPACES,
    UPDATES,
    WAIT_LETTERS,
    cmd_names,
    op_names,
)

DTYPE_OF: Mapping[str, int] = {name: index for index, name in enumerate(SHORT_DTYPES)}
SPACE_OF: Mapping[str, int] = {name: number for number, name in SPACES.items()}
ENGINE_OF: Mapping[str, int] = {name: index for index, name in enumerate(ENGINE_NAMES)}
OPCODE_OF: Mapping[str, Opcode] = {each.name.lower(): each for each in Opcode}
POSITION_OF: Mapping[str, int] = {name: index for index, name in enumerate(OPERAND_POSITIONS)}
CONDITION_OF: Mapping[str, int] = {sign: number for number, sign in CONDITIONS.items()}
UPDATE_OF: Mapping[tuple[str, str], int] = {signs: number for number, signs in UPDATES.items()}
FLAG_OF: Mapping[str, int] = {each.name.lower(): each.value for each in Flag}
_OPERAND = re.compile(r"(\w+):(\w+)\[(\d+):(\d+),(0x[0-9a-f]+|\d+),([^\]#]+)(?:#([0-9a-f]{16}))?\]")
_ACCESS = re.compile(r"(\w+):(sb|v\d+)\[(-?0x[0-9a-f]+|-?\d+),([^\]]+)\]")
_DIM = re.compile(r"(\d+)x(-?\d+)")
_WAIT = re.compile(r"([SE])(\d+)(>=|<=|==|!=|>|<|\?)(\d+)")
_UPDATE = re.compile(r"([SE])(\d+)(\+\+|--|\+=|-=|:=|!|~)(\d*)")
_WORD = re.compile(r'"[^"]*"|[^\s"]+(?:"[^"]*")?')


def assemble(text: str, file: str = "program") -> tuple[np.ndarray, dict[int, Transfer]]:
    """(instructions, transfer of each DMA_COPY by instruction) of a text.

    Empty lines and what follows `;` count for nothing. Raises SourceError with line and column.
    """
    records: list[np.ndarray] = []
    transfers: dict[int, Transfer] = {}
    for number, full in enumerate(text.splitlines(), 1):
        line = full.partition(";")[0].rstrip()
        if not line:
            continue
        parser = _Line(line, file, number)
        if not line[0].isspace():
            records.append(parser.instruction())
            continue
        index = len(records) - 1
        if index < 0 or records[-1]["opcode"][0] != Opcode.DMA_COPY:
            parser.fail("this line belongs to a dma_copy, and there is none before it")
        core_id = int(records[-1]["id"][0])
        if parser.words[0] == "transfer":
            transfers[index] = parser.transfer(core_id)
        elif index not in transfers:
            parser.fail("expected a transfer line before descriptors")
        else:
            transfers[index] = _with(transfers[index], parser.descriptor())
    for index, record in enumerate(records):
        if record["opcode"][0] == Opcode.DMA_COPY and index not in transfers:
            raise SourceError(file, 1, 1, f"instruction {index}: a dma_copy without a transfer line below it")
    joined = np.concatenate(records) if records else np.zeros(0, INSTRUCTION_DTYPE)
    return joined, transfers


def _with(transfer: Transfer, descriptor: Descriptor) -> Transfer:
    return Transfer(
        transfer.id,
        transfer.core,
        transfer.queue,
        (*transfer.descriptors, descriptor),
        transfer.trigger,
        transfer.semaphore,
        transfer.event,
        transfer.remote_semaphores,
        transfer.first_queue,
    )


class _Line:
    """One line, cut into words."""

    def __init__(self, line: str, file: str, number: int) -> None:
        self.line, self.file, self.number = line, file, number
        self.words = _WORD.findall(line)
        self.word = ""

    def fail(self, text: str, hint: str = "") -> NoReturn:
        """Raise the SourceError of the current word."""
        column = max(0, self.line.find(self.word)) + 1
        raise SourceError(self.file, self.number, column, text, hint)

    def integer(self, text: str, low: int, high: int) -> int:
        """A decimal or hexadecimal integer within bounds."""
        try:
            value = int(text, 0)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            self.fail(f"expected an integer from {low} to {high}, found {text[:40]!r}")
        return value

    # instructions

    def instruction(self) -> np.ndarray:
        """A record array of one."""
        found = np.zeros(1, INSTRUCTION_DTYPE)
        if len(self.words) < 2:
            self.fail("expected an engine and an instruction")
        self.word = self.words[0]
        if self.word not in ENGINE_OF:
            self.fail(f"unknown engine {self.word[:40]!r}", f"there are {', '.join(ENGINE_OF)}")
        found["engine"] = ENGINE_OF[self.word]
        self.word = self.words[1]
        self._mnemonic(found)
        position, waits, updates = DST, 0, 0
        for word in self.words[2:]:
            self.word = word
            if word == "<-":
                position = SRC0
            elif word.startswith("wait:"):
                waits = self._wait(found, waits, word[5:])
            elif word.startswith("signal"):
                updates = self._signal(found, updates, word[6:])
            elif word.startswith("+"):
                found["flags"] |= self._flag(word[1:])
            elif "[" not in word.partition("=")[2] and "=" in word:
                self._field(found, *word.split("=", 1))
            else:
                key, _, body = word.rpartition("=")
                at = POSITION_OF.get(key, -1) if key else position
                if at < 0 or (not key and position > SRC0 + 1):
                    self.fail(f"operand {word[:40]!r} has no place here")
                self._operand(found["operands"][0][at : at + 1], body.rstrip(","))
                position += not key
        return found

    def _mnemonic(self, found: np.ndarray) -> None:
        name, *operators = self.word.split(".")
        if name not in OPCODE_OF:
            self.fail(f"unknown instruction {name[:40]!r}")
        opcode = OPCODE_OF[name]
        found["opcode"] = opcode
        tables = op_names(opcode)
        if len(operators) != len(tables):
            self.fail(f"{name} takes {len(tables)} operators, found {len(operators)}")
        for field, names, text in zip(("op0", "op1"), tables, operators, strict=False):
            numbers = {each: number for number, each in names.items()}
            if text.startswith("#"):
                found[field] = self.integer(text[1:], 0, 255)
            elif text in numbers:
                found[field] = numbers[text]
            else:
                self.fail(f"unknown operator {text[:40]!r}", f"there are {', '.join(numbers)}")

    def _field(self, found: np.ndarray, key: str, text: str) -> None:
        if key == "imm":
            words = [self._immediate(each) for each in text.split(",")]
            if len(words) > 3:
                self.fail("at most three immediates")
            found["imm"].view(np.uint32)[0, : len(words)] = words
        elif key == "cmd":
            names = {each: number for number, each in cmd_names(int(found["opcode"][0])).items()}
            found["cmd"] = names[text] if text in names else self.integer(text, 0, 255)
        elif key in ("op0", "op1"):
            found[key] = self.integer(text, 0, 255)
        elif key == "id":
            found["id"] = self.integer(text, 0, 0xFFFFFFFF)
        else:
            self.fail(f"unknown key {key[:40]!r}", "keys are imm, cmd, op0, op1, id and operand names")

    def _immediate(self, text: str) -> int:
        if text.startswith("#"):
            return self.integer(text[1:], -(1 << 31), (1 << 32) - 1) & 0xFFFFFFFF
        if text.startswith("0x"):
            return self.integer(text, 0, 0xFFFFFFFF)
        try:
            with np.errstate(over="ignore"):
                return int(np.array([text], np.float64).astype(np.float32).view(np.uint32)[0])
        except ValueError:
            self.fail(f"expected a number, found {text[:40]!r}")

    def _flag(self, text: str) -> int:
        if text.startswith("0x"):
            return self.integer(text, 0, 0xFFFF)
        if text not in FLAG_OF:
            self.fail(f"unknown flag {text[:40]!r}", f"there are {', '.join(FLAG_OF)}")
        return FLAG_OF[text]

    def _wait(self, found: np.ndarray, place: int, text: str) -> int:
        if place >= MAX_WAITS:
            self.fail(f"an instruction has at most {MAX_WAITS} waits")
        if text != "-":
            match = _WAIT.fullmatch(text)
            if not match:
                self.fail(f"expected a wait such as S3>=12, found {text[:40]!r}")
            wait = found["waits"][0][place : place + 1]
            wait["used"] = WAIT_LETTERS.index(match[1])
            wait["semaphore"] = self.integer(match[2], 0, 0xFFFF)
            wait["condition"] = CONDITION_OF[match[3]]
            wait["value"] = self.integer(match[4], 0, 0xFFFFFFFF)
        return place + 1

    def _signal(self, found: np.ndarray, place: int, text: str) -> int:
        if place >= MAX_UPDATES:
            self.fail(f"an instruction has at most {MAX_UPDATES} updates")
        if text != ":-":
            when = When.READ if text.startswith("@read:") else When.COMPLETE
            match = _UPDATE.fullmatch(text.removeprefix("@read").removeprefix(":"))
            kind = UPDATE_OF.get((match[1], match[3])) if match else None
            if not match or kind is None:
                self.fail(f"expected an update such as :S5++ or :E2!, found {text[:40]!r}")
            update = found["updates"][0][place : place + 1]
            update["semaphore"] = self.integer(match[2], 0, 0xFFFF)
            update["kind"], update["when"] = Update(kind), when
            update["value"] = self.integer(match[4] or "0", 0, 0xFFFFFFFF)
        return place + 1

    def _operand(self, record: np.ndarray, text: str) -> None:
        match = _OPERAND.fullmatch(text)
        if not match or match[1] not in DTYPE_OF or match[2] not in SPACE_OF:
            self.fail(f"expected an operand such as f32:sbuf[0:128,0x400,512x1], found {text[:60]!r}")
        first = self.integer(match[3], 0, 255)
        dims = self._dims(match[6], 65535, 32768)
        record["dtype"], record["space"] = DTYPE_OF[match[1]], SPACE_OF[match[2]]
        record["partition"] = first
        record["partitions"] = self.integer(match[4], first, first + 255) - first
        record["address"] = self.integer(match[5], 0, 0xFFFFFFFF)
        dims = [(1, 0)] * (4 - len(dims)) + dims
        record["sizes"], record["steps"] = [size for size, _ in dims], [step for _, step in dims]
        if match[7]:
            record["reserved"] = np.frombuffer(bytes.fromhex(match[7]), np.uint8)

    def _dims(self, text: str, largest: int, reach: int) -> list[tuple[int, int]]:
        dims: list[tuple[int, int]] = []
        for each in text.split(","):
            match = _DIM.fullmatch(each)
            if not match:
                self.fail(f"expected sizes and steps such as 512x1, found {each[:40]!r}")
            dims.append((self.integer(match[1], 0, largest), self.integer(match[2], -reach, reach - 1)))
        if len(dims) > 4:
            self.fail(f"at most 4 dimensions, found {len(dims)}")
        return dims

    # transfers

    def transfer(self, number: int) -> Transfer:
        """A transfer without descriptors."""
        values = {"queue": "0", "trigger": '"static"', "semaphore": "-1", "event": "-1", "remote": ""}
        first_queue = False
        for word in self.words[1:]:
            self.word = word
            key, _, text = word.partition("=")
            if word == "first_queue":
                first_queue = True
            elif key in values:
                values[key] = text
            else:
                self.fail(f"unknown key {key[:40]!r}", f"keys are {', '.join(values)}, first_queue")
        trigger = values["trigger"].strip('"')
        if trigger not in TRIGGERS:
            self.fail(f"unknown trigger {values['trigger'][:40]}", f"there are {', '.join(TRIGGERS)}")
        return Transfer(
            number,
            0,
            self.integer(values["queue"], 0, 0xFFFFFFFF),
            (),
            TRIGGERS[TRIGGERS.index(trigger)],
            self.integer(values["semaphore"], -1, 0xFFFF),
            self.integer(values["event"], -1, 0xFFFF),
            tuple(self.integer(each, 0, 0xFFFF) for each in values["remote"].split(",") if each),
            first_queue,
        )

    def descriptor(self) -> Descriptor:
        """A descriptor line."""
        self.word = self.words[0]
        op = self.word
        if op not in OPS or len(self.words) < 4 or self.words[2] != "<-":
            self.fail(f"expected a descriptor: one of {', '.join(OPS)}, a target, <- and sources")
        accesses: list[Access] = []
        values: dict[str, str] = {}
        for word in self.words[1:]:
            self.word = word
            key, _, text = word.partition("=")
            if "[" in word:
                accesses.append(self._access(word.rstrip(",")))
            elif key in ("scales", "constant", "shape", "element"):
                values[key] = text
            elif word != "<-":
                self.fail(f"unknown key {key[:40]!r}")
        if len(accesses) < 2:
            self.fail("a descriptor has a target and a source")
        return Descriptor(
            OPS[OPS.index(op)],
            accesses[0],
            tuple(accesses[1:]),
            tuple(self._float(each) for each in values.get("scales", "").split(",") if each),
            self._float(values["constant"]) if "constant" in values else None,
            tuple(self.integer(each, 0, 0xFFFFFFFF) for each in values.get("shape", "").split(",") if each),
            self.integer(values.get("element", "0"), 0, 0xFFFFFFFF),
        )

    def _float(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            self.fail(f"expected a number, found {text[:40]!r}")

    def _access(self, text: str) -> Access:
        match = _ACCESS.fullmatch(text)
        if not match or match[1] not in ACCESS_DTYPES:
            self.fail(f"expected an access such as uint8:v3[0x100,64x1], found {text[:60]!r}")
        dims = self._dims(match[4], 0xFFFFFFFF, 1 << 63)
        variable = SBUF if match[2] == "sb" else self.integer(match[2][1:], 0, (1 << 31) - 2)
        offset = self.integer(match[3], -(1 << 63), (1 << 63) - 1)
        sizes, steps = tuple(size for size, _ in dims), tuple(step for _, step in dims)
        return Access(variable, offset, steps, sizes, match[1])
