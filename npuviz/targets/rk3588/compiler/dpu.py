"""Express what the DPU does to results as register values: bias, scale, ReLU, second operand, conversion."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import frexp

from npuviz.formats.rk3588.registers import Word, registers, writer

dpu_word, rdma_word = writer("DPU"), writer("DPU_RDMA")
"""Writers of words for the DPU and for its memory reader: (register, field=value ...)."""

ALU_MAX, ALU_MIN, ALU_ADD = 0, 1, 2
DIVIDE, SUBTRACT = 3, 4
ABSOLUTE, NEGATIVE, FLOOR, CEIL = 5, 6, 7, 8
"""Codes of EW_CFG. Ref: XML."""
MULTIPLY = -1
_READS_SUMS, _READS_FACTORS = 1, 4
"""data_use of the readers of BS and BN. Ref: TRM."""
SCALE_BITS = 14
"""Bits of the fixed-point factors in 16-bit operands; one is left for the sign, one for rounding up to 1."""


@dataclass(frozen=True, slots=True)
class Requantisation:
    """y = round(x * scale >> shift) + offset. Ref: MESA (OUT_CVT)."""

    scale: int = 1
    shift: int = 0
    offset: int = 0


def requantisation(factor: float, offset: int = 0) -> Requantisation:
    """Return the nearest fixed-point form of a positive factor: a mantissa of 15 bits and a shift.

    Raises ValueError for factors that the registers cannot hold.
    """
    if not 2.0**-40 <= factor < 2.0**14:
        raise ValueError(f"a rescaling factor of {factor:g} is outside of what OUT_CVT can hold")
    mantissa, exponent = frexp(factor)
    scale = round(mantissa * (1 << 15))
    shift = 15 - exponent
    if scale == 1 << 15:
        scale, shift = 1 << 14, shift - 1
    while shift < 0:
        scale, shift = scale * 2, shift + 1
    if scale >= 1 << 15:
        raise ValueError(f"a rescaling factor of {factor:g} does not fit into 15 bits")
    return Requantisation(scale, shift, offset)


@dataclass(frozen=True, slots=True)
class Operand:
    """The second operand of EW: a cube in memory.

    alu       MULTIPLY or an ALU code
    relu      whether a ReLU follows
    stride    atoms of a channel surface, 0: one value per channel for all positions
    item      bytes of an element
    offset, scale  e' = (e + offset) * scale; scale 0: taken as it is
    constant  one value for all instead of a cube, as the pipeline holds it
    """

    address: int
    alu: int
    stride: int
    item: int
    offset: int = 0
    scale: int = 0
    relu: bool = False
    constant: int | None = None


_CHANNEL_BYTES: Mapping[str, int] = {
    "bias_address": 4, "main_address": 2, "sum_address": 4, "scale_address": 2
}  # fmt: skip
"""Bytes per channel of the operands that a stage reads beside the main input: summands and factors."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages after CORE or the main reader, in their order; None and 0 leave one out.

    bias_address   BS adds one value per channel from here; bias_constant  or one for all
    main_address, main_factor  BS multiplies by one value per channel, or by one of 16 bits for all, and
                   shifts down by main_shift
    sum_address    BN adds one value per channel
    scale_address  BN multiplies by one value per channel, and shifts down by scale_shift
    negative_only  stage whose product applies to negative values alone (PReLU): "", "BS" or "BN"
    relu           in the last of BS and BN that works; limit  ReLU-X as the pipeline holds it
    """

    bias_address: int | None = None
    bias_constant: int = 0
    main_address: int | None = None
    main_factor: int = 0
    main_shift: int = 0
    sum_address: int | None = None
    scale_address: int | None = None
    scale_shift: int = 0
    negative_only: str = ""
    relu: bool = False
    limit: int = 0
    operand: Operand | None = None
    out: Requantisation = Requantisation()

    @property
    def reads_memory(self) -> bool:
        """Whether DPU_RDMA has something to fetch beside the main input."""
        places = (self.bias_address, self.main_address, self.sum_address, self.scale_address)
        has_cube = self.operand is not None and self.operand.constant is None
        return has_cube or any(place is not None for place in places)

    @property
    def uses_bn(self) -> bool:
        """Whether BN does something."""
        return self.scale_address is not None or self.sum_address is not None

    def from_channel(self, channel: int) -> "Stages":
        """Return the stages for a task that begins at a channel."""
        if not channel:
            return self
        places = {
            name: place + channel * size
            for name, size in _CHANNEL_BYTES.items()
            if (place := getattr(self, name)) is not None
        }
        return replace(self, **places)

    @property
    def _limits_in_bn(self) -> bool:
        # Only after the factors of BN all channels have one scale.
        return self.relu and (self.sum_address is not None or (self.limit > 0 and self.uses_bn))

    def words(self, *, to_half: bool) -> list[Word]:
        """Return the words of the stages that are not bypassed, by the names of the register database."""
        found: list[Word] = []
        has_bias = self.bias_address is not None or self.bias_constant != 0
        has_main = self.main_address is not None or self.main_factor != 0
        if has_bias or has_main or (self.relu and not self._limits_in_bn):
            found += self._bs_words(has_bias, has_main)
        if self.uses_bn:
            found += self._bn_words()
        if self.operand is not None:
            found += _operand_words(self.operand)
        half = int(to_half)
        found.append(dpu_word("OUT_CVT_OFFSET", offset=self.out.offset))
        found.append(dpu_word("OUT_CVT_SCALE", fp32_to_fp16=half, scale=self.out.scale))
        found.append(dpu_word("OUT_CVT_SHIFT", shift=self.out.shift))
        return found

    def _bs_words(self, has_bias: bool, has_main: bool) -> list[Word]:
        has_relu = self.relu and not self._limits_in_bn
        return [
            dpu_word(
                "BS_CFG",
                alu_op=ALU_ADD,
                alu_source=int(self.bias_address is not None),
                relux=int(has_relu and self.limit > 0),
                relu_bypass=int(not has_relu),
                prelu=int(self.negative_only == "BS"),
                mul_bypass=int(not has_main),
                alu_bypass=int(not has_bias),
            ),
            dpu_word("BS_ALU_CFG", operand=self.bias_constant),
            dpu_word(
                "BS_MUL_CFG",
                operand=self.main_factor,
                shift=self.main_shift,
                mul_source=int(self.main_address is not None),
            ),
            dpu_word("BS_RELUX_CMP_VALUE", limit=self.limit if has_relu else 0),
        ]

    def _bn_words(self) -> list[Word]:
        has_relu, has_sum = self._limits_in_bn, self.sum_address is not None
        return [
            dpu_word(
                "BN_CFG",
                alu_op=ALU_ADD if has_sum else 0,
                alu_source=int(has_sum),
                relux=int(has_relu and self.limit > 0),
                relu_bypass=int(not has_relu),
                prelu=int(self.negative_only == "BN"),
                mul_bypass=int(self.scale_address is None),
                alu_bypass=int(not has_sum),
            ),
            dpu_word("BN_MUL_CFG", shift=self.scale_shift, mul_source=int(self.scale_address is not None)),
            dpu_word("BN_RELUX_CMP_VALUE", limit=self.limit if has_relu else 0),
        ]

    def reader_words(self) -> list[Word]:
        """Return the words of DPU_RDMA for bias, factors and the second operand.

        A stage reads either sums or factors from memory here, not both.
        """
        found: list[Word] = []
        for stage, sums, factors in (
            ("BS", self.bias_address, self.main_address),
            ("BN", self.sum_address, self.scale_address),
        ):
            assert sums is None or factors is None
            use = _READS_SUMS if sums is not None else _READS_FACTORS if factors is not None else 0
            found.append(rdma_word({"BS": "BRDMA_CFG", "BN": "NRDMA_CFG"}[stage], data_use=use))
            address = sums if sums is not None else factors
            if address is not None:
                found.append(rdma_word(f"{stage}_BASE_ADDR", address=address))
        if self.operand is None or self.operand.constant is not None:
            found.append(rdma_word("ERDMA_CFG", disable=1))
        else:
            size = {1: 1, 2: 2, 4: 3}[self.operand.item]
            # Mode 0 reads one value per channel. Ref: TRM.
            found.append(rdma_word("ERDMA_CFG", data_mode=int(self.operand.stride > 0), data_size=size))
            found.append(rdma_word("EW_BASE_ADDR", address=self.operand.address))
            found.append(rdma_word("EW_SURF_STRIDE", stride=self.operand.stride))
        return found


def _operand_words(operand: Operand) -> list[Word]:
    converts = operand.scale != 0
    multiplies = operand.alu == MULTIPLY
    return [
        dpu_word(
            "EW_CFG",
            convert_type=int(converts),
            data_mode=int(operand.stride > 0),
            data_size={1: 1, 2: 2, 4: 3}[operand.item],
            alu_op=0 if multiplies else operand.alu,
            relu_bypass=int(not operand.relu),
            convert_bypass=int(not converts),
            lut_bypass=1,
            source=int(operand.constant is None),
            op_type=int(multiplies),
        ),
        dpu_word("EW_OP_VALUE_0", operand=operand.constant or 0),
        dpu_word("EW_CVT_OFFSET_VALUE", offset=operand.offset),
        dpu_word("EW_CVT_SCALE_VALUE", scale=operand.scale if converts else 1),
    ]


_NOT_SET = ("S_STATUS", "S_POINTER", "OPERATION_ENABLE")


@cache
def _zeros(blocks: tuple[str, ...]) -> tuple[Word, ...]:
    database = registers()
    return tuple(
        database.encode(found.block, found.name)
        for _, found in sorted(database.by_offset.items())
        if found.block in blocks and found.name not in _NOT_SET and not found.name.startswith("LUT_")
    )


def with_zeros(words: list[Word], *blocks: str) -> list[Word]:
    """Return the words, and zeros for registers of these blocks that they do not write.

    Tables are left alone.
    """
    written = {word.offset for word in words}
    return words + [word for word in _zeros(blocks) if word.offset not in written]
