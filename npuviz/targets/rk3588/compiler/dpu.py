"""What the DPU does to results, as register values: bias, scale, ReLU, second operand, conversion."""

from dataclasses import dataclass
from math import frexp

from npuviz.formats.rk3588_registers import Word, registers

ALU_ADD = 2
MULTIPLY = -1
SCALE_BITS = 14
"""Bits of the fixed-point factors in 16-bit operands; one is left for the sign, one for rounding up to 1."""


@dataclass(frozen=True, slots=True)
class Requantisation:
    """y = round(x * scale >> shift) + offset. Ref: MESA (OUT_CVT)."""

    scale: int = 1
    shift: int = 0
    offset: int = 0


def requantisation(factor: float, offset: int = 0) -> Requantisation:
    """The nearest fixed-point form of a positive factor: a mantissa of 15 bits and a shift.

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
    """The second operand of EW: a cube in memory. alu: MULTIPLY or an ALU code; relu: behind it.

    stride  atoms of a channel surface; item  bytes of an element
    offset, scale  e' = (e + offset) * scale; scale 0: taken as it is
    """

    address: int
    alu: int
    stride: int
    item: int
    offset: int = 0
    scale: int = 0
    relu: bool = False


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages behind CORE or the main reader, in their order; None and 0 leave one out.

    bias_address  of one value a channel; bias_constant  of all
    main_factor  BS multiplies by it; scale_address  BN multiplies by one int16 a channel >> scale_shift
    relu  in BS; limit  ReLU-X as the pipeline holds it
    """

    bias_address: int | None = None
    bias_constant: int = 0
    main_factor: int = 0
    scale_address: int | None = None
    scale_shift: int = 0
    relu: bool = False
    limit: int = 0
    operand: Operand | None = None
    out: Requantisation = Requantisation()

    @property
    def reads_memory(self) -> bool:
        """Whether DPU_RDMA has something to fetch beside the main input."""
        return self.bias_address is not None or self.scale_address is not None or self.operand is not None

    def words(self, *, to_half: bool) -> list[Word]:
        """Words of the stages that are not bypassed, by the names of the register database."""
        found: list[Word] = []
        has_bias = self.bias_address is not None or self.bias_constant != 0
        if has_bias or self.main_factor or self.relu:
            found.append(
                _dpu(
                    "BS_CFG",
                    alu_op=ALU_ADD,
                    alu_source=int(self.bias_address is not None),
                    relux=int(self.limit > 0),
                    relu_bypass=int(not self.relu),
                    mul_bypass=int(not self.main_factor),
                    alu_bypass=int(not has_bias),
                )
            )
            found.append(_dpu("BS_ALU_CFG", operand=self.bias_constant))
            found.append(_dpu("BS_MUL_CFG", operand=self.main_factor))
            found.append(_dpu("BS_RELUX_CMP_VALUE", limit=self.limit))
        if self.scale_address is not None:
            found.append(_dpu("BN_CFG", relu_bypass=1, alu_bypass=1))
            found.append(_dpu("BN_MUL_CFG", shift=self.scale_shift, mul_source=1))
        if self.operand is not None:
            found += _operand_words(self.operand)
        half = int(to_half)
        found.append(_dpu("OUT_CVT_OFFSET", offset=self.out.offset))
        found.append(_dpu("OUT_CVT_SCALE", fp32_to_fp16=half, scale=self.out.scale))
        found.append(_dpu("OUT_CVT_SHIFT", shift=self.out.shift))
        return found

    def reader_words(self) -> list[Word]:
        """Words of DPU_RDMA for bias, scales and the second operand."""
        found = [_rdma("BRDMA_CFG", data_use=1 if self.bias_address is not None else 0)]
        if self.bias_address is not None:
            found.append(_rdma("BS_BASE_ADDR", address=self.bias_address))
        found.append(_rdma("NRDMA_CFG", data_use=4 if self.scale_address is not None else 0))
        if self.scale_address is not None:
            found.append(_rdma("BN_BASE_ADDR", address=self.scale_address))
        if self.operand is None:
            found.append(_rdma("ERDMA_CFG", disable=1))
        else:
            size = {1: 1, 2: 2, 4: 3}[self.operand.item]
            found.append(_rdma("ERDMA_CFG", data_mode=1, data_size=size))
            found.append(_rdma("EW_BASE_ADDR", address=self.operand.address))
            found.append(_rdma("EW_SURF_STRIDE", stride=self.operand.stride))
        return found


def _operand_words(operand: Operand) -> list[Word]:
    converts = operand.scale != 0
    multiplies = operand.alu == MULTIPLY
    return [
        _dpu(
            "EW_CFG",
            convert_type=int(converts),
            data_mode=1,
            data_size={1: 1, 2: 2, 4: 3}[operand.item],
            alu_op=0 if multiplies else operand.alu,
            relu_bypass=int(not operand.relu),
            convert_bypass=int(not converts),
            lut_bypass=1,
            source=1,
            op_type=int(multiplies),
        ),
        _dpu("EW_CVT_OFFSET_VALUE", offset=operand.offset),
        _dpu("EW_CVT_SCALE_VALUE", scale=operand.scale if converts else 1),
    ]


def _dpu(name: str, **fields: int) -> Word:
    return registers().encode("DPU", name, **fields)


def _rdma(name: str, **fields: int) -> Word:
    return registers().encode("DPU_RDMA", name, **fields)
