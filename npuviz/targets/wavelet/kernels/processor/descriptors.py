"""Change one field of a packed descriptor, for the instructions that do so."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels import isa


@kernel
def descriptor_instruction(registers, instruction, op):
    """Run OP_DSD_SET or OP_DSD_MOVE."""
    imm, kind = instruction.imm, 0
    word = registers[instruction.b]
    value = registers[instruction.c]
    if op == isa.OP_DSD_MOVE:
        kind = isa.F_BASE
        value = ((word >> isa.SHIFT_BASE) & isa.MASK_BASE) + value * imm
    else:
        kind = imm
    shift, mask = field_place(kind)
    registers[instruction.a] = (word & ~(mask << shift)) | ((value & mask) << shift)


@kernel
def field_place(field):
    """Return (shift, mask) of a descriptor field; a test keeps them equal to FIELDS of isa.py."""
    if field == isa.F_BASE:
        return isa.SHIFT_BASE, isa.MASK_BASE
    if field == isa.F_EXTENT:
        return isa.SHIFT_EXTENT, isa.MASK_EXTENT
    if field == isa.F_STRIDE:
        return isa.SHIFT_STRIDE, isa.MASK_STRIDE
    if field == isa.F_QUEUE:
        return isa.SHIFT_QUEUE, isa.MASK_QUEUE
    if field == isa.F_COLOR:
        return isa.SHIFT_COLOR, isa.MASK_COLOR
    if field == isa.F_KIND:
        return isa.SHIFT_KIND, isa.MASK_KIND
    if field == isa.F_SIMD:
        return isa.SHIFT_SIMD, 3
    if field == isa.F_PRIORITY:
        return isa.SHIFT_PRIORITY, 3
    if field == isa.F_ZERO:
        return isa.SHIFT_ZERO, 3
    if field == isa.F_DSR_FILE:
        return isa.SHIFT_DSR_FILE, 3
    if field == isa.F_DSR_ID:
        return isa.SHIFT_DSR_ID, 0x1F
    if field == isa.F_INDEX_OFFSET:
        return isa.SHIFT_INDEX_OFFSET, 1
    if field == isa.F_CONTROL:
        return isa.SHIFT_CONTROL, 1
    if field == isa.F_CONTROL_TRANSFORM:
        return isa.SHIFT_CONTROL_TRANSFORM, 1
    return isa.SHIFT_ADVANCE_SWITCH, 1
