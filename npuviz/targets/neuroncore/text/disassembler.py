"""Disassemble instructions to text, one a line.

    DVE tensor_copy f32:sbuf[0:128,0x400,512x1] <- f32:psum[0:128,0x800,512x1] wait:S3>=12 signal:S5++

docs/neuron-isa.md has the grammar.
"""

import numpy as np

from npuviz.targets.neuroncore import isa
from npuviz.targets.neuroncore.text import mnemonics


def instruction_text(record: np.void) -> str:
    """Return an instruction as a line: engine, mnemonic, operands, and other fields that are not zero."""
    return f"{isa.ENGINE_NAMES[int(record['engine'])]} {mnemonic(record)}{_rest(record)}"


def mnemonic(record: np.void) -> str:
    """Return the opcode with its operators: `tensor_scalar.multiply.add`."""
    opcode = int(record["opcode"])
    text = isa.Opcode(opcode).name.lower()
    for names, number in zip(
        mnemonics.op_names(opcode), (int(record["op0"]), int(record["op1"])), strict=False
    ):
        text += f".{names.get(number, f'#{number}')}"
    return text


def _rest(record: np.void) -> str:
    opcode, flags = int(record["opcode"]), int(record["flags"])
    parts = [operands_text(record)]
    for field, named in (("op0", 1), ("op1", 2)):
        if record[field] and len(mnemonics.op_names(opcode)) < named:
            parts.append(f"{field}={int(record[field])}")
    if record["imm"].view(np.uint32).any():
        parts.append(f"imm={immediates_text(record)}")
    if record["cmd"]:
        parts.append(f"cmd={mnemonics.cmd_names(opcode).get(int(record['cmd']), str(int(record['cmd'])))}")
    if record["id"]:
        parts.append(f"id={int(record['id'])}")
    parts += [f"+{name}" for name in flag_names(flags)]
    parts += [f"wait:{each}" for each in waits_text(record)]
    parts += [f"signal{each}" for each in updates_text(record)]
    return "".join(f" {part}" for part in parts if part)


def operands_text(record: np.void) -> str:
    """Return the operands, `dst <- src0, src1 arg0=...`; an operand out of this order is named."""
    operands = record["operands"]
    there = [operands[position]["space"] != isa.Space.NONE for position in range(6)]
    text = operand_text(operands[isa.DST]) if there[isa.DST] else ""
    in_order = [there[isa.DST] and there[isa.SRC0], there[isa.DST] and there[isa.SRC0] and there[isa.SRC1]]
    sources = [operand_text(operands[isa.SRC0 + index]) for index in range(2) if in_order[index]]
    if sources:
        text += f" <- {', '.join(sources)}"
    parts = [text]
    for position in range(isa.SRC0, 6):
        is_placed = position < isa.ARG0 and in_order[position - isa.SRC0]
        if there[position] and not is_placed:
            parts.append(f"{isa.OPERAND_POSITIONS[position]}={operand_text(operands[position])}")
    return " ".join(part for part in parts if part)


def operand_text(operand: np.void) -> str:
    """Return `f32:sbuf[0:128,0x400,4x128,512x1]`: partitions, byte address, sizes x steps, outermost
    first.
    """
    first = int(operand["partition"])
    dims = list(zip(operand["sizes"].tolist(), operand["steps"].tolist(), strict=True))
    while len(dims) > 1 and dims[0] == (1, 0):
        dims.pop(0)
    pattern = ",".join(f"{size}x{step}" for size, step in dims)
    reserved = operand["reserved"].tobytes()
    extra = f"#{reserved.hex()}" if any(reserved) else ""
    dtype, space = mnemonics.SHORT_DTYPES[int(operand["dtype"])], mnemonics.SPACES[int(operand["space"])]
    end = first + int(operand["partitions"])
    return f"{dtype}:{space}[{first}:{end},{int(operand['address']):#x},{pattern}{extra}]"


def immediates_text(record: np.void) -> str:
    """Return the immediates up to the last that is not zero: fp32, or #integers."""
    is_integer = mnemonics.has_integers(int(record["opcode"]), int(record["flags"]))
    words = record["imm"].view(np.uint32)
    texts = [_immediate(int(word), is_integer) for word in words]
    while len(texts) > 1 and words[len(texts) - 1] == 0:
        texts.pop()
    return ",".join(texts)


def _immediate(word: int, is_integer: bool) -> str:
    if is_integer:
        return f"#{word - (1 << 32) if word >> 31 else word}"
    value = np.array([word], np.uint32).view(np.float32)[0]
    if np.isnan(value):
        return f"0x{word:08x}"
    return str(value)


def flag_names(flags: int) -> list[str]:
    """Return the names of the set flags; unknown bits as one number."""
    names = [each.name.lower() for each in isa.Flag if flags & each]
    unknown = flags & ~sum(isa.Flag)
    return [*names, *([f"0x{unknown:x}"] if unknown else [])]


def waits_text(record: np.void) -> list[str]:
    """Return the waits, `S3>=12`, `E1==1`; `-` for an unused one before another."""
    texts: list[str] = []
    gaps: list[str] = []
    for wait in record["waits"]:
        if not wait["used"]:
            gaps.append("-")
            continue
        sign = mnemonics.CONDITIONS[int(wait["condition"])]
        letter = mnemonics.WAIT_LETTERS[int(wait["used"])]
        texts += [*gaps, f"{letter}{int(wait['semaphore'])}{sign}{int(wait['value'])}"]
        gaps = []
    return texts


def updates_text(record: np.void) -> list[str]:
    """Return the updates, `:S5+=4`, `@read:E2!`; `:-` for an unused one before another."""
    texts: list[str] = []
    gaps: list[str] = []
    for update in record["updates"]:
        kind, value = int(update["kind"]), int(update["value"])
        if kind == isa.Update.NONE:
            gaps.append(":-")
            continue
        letter, sign = mnemonics.UPDATES[kind]
        moment = "@read" if update["when"] == isa.When.READ else ""
        shown = f"{value}" if value or sign[-1] == "=" else ""
        texts += [*gaps, f"{moment}:{letter}{int(update['semaphore'])}{sign}{shown}"]
        gaps = []
    return texts
