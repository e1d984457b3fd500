"""The cost table: issue cycles of each instruction by engine, each row with its source.

Cycles are those of the instruction's engine. N is the number of elements per partition. The sources
of the published formulas call them estimates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.costs.facts import Facts
from npuviz.targets.neuroncore.isa import DST, RES, SRC0, SRC1, Alu, Dtype, Engine, Flag, Opcode, Space
from npuviz.targets.neuroncore.spec import NeuronSpec

MIN_ISSUE = 64
"""Rough minimum of cycles between two instructions of an engine. Ref: SDK226 (MIN_II)."""
CONTROL_CYCLES = 16
"""Assumed: cycles of a register move, branch or trigger of a sequencer."""
TRANSPOSE_MODE_VERSION = 3
"""First NeuronCore version whose PE has a transpose mode. Ref: ARCH3."""
READ_OUT_CYCLES = 64
"""Cycles to write accumulators to memory. Ref: ARCH2 for NC-v2; assumed for the others."""
_HALF = np.array([Dtype.BFLOAT16, Dtype.FLOAT16])

Formula = Callable[[Facts, NeuronSpec], np.ndarray]


@dataclass(frozen=True, slots=True)
class Cost:
    """One row of the cost table; formulas of N get the wide-stride penalty of v1 and v2 in addition."""

    formula: Formula
    text: str
    source: str


def _at_least(cycles: np.ndarray) -> np.ndarray:
    return np.maximum(MIN_ISSUE, cycles)


def _divided(count: np.ndarray, divisor: np.ndarray | int) -> np.ndarray:
    return -(-count // divisor)


def _control(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    return np.full(len(facts.instructions), CONTROL_CYCLES, np.int64)


def _nop(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    return np.maximum(CONTROL_CYCLES, facts.instructions["id"].astype(np.int64))


def _fixed(nanoseconds: Callable[[NeuronSpec], float]) -> Formula:
    def formula(facts: Facts, spec: NeuronSpec) -> np.ndarray:
        engines = np.array(spec.clocks_hz, np.float64)[facts.instructions["engine"]]
        return np.ceil(nanoseconds(spec) * engines / 1e9).astype(np.int64)

    return formula


def _dma_copy(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    software = _fixed(lambda each: each.software_dge_ns)(facts, spec)
    return np.where(facts.has_flag(Flag.SOFTWARE), software, CONTROL_CYCLES)


def passes(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    """Return the cycles of a moving row on PE: more for fp32, halved for each operand of zeros and ones.

    Ref: SDK nc_matmul (is_stationary_onezero, is_moving_onezero: 2x in fp32); ARCH3 (transpose mode, from
    NC-v3 on: 2x in fp32).
    """
    is_fp32 = (facts.is_tensor & (facts.dtype == Dtype.FLOAT32))[:, [SRC0, SRC1]].any(axis=1)
    halves = [
        facts.has_flag(flag).astype(np.int64) for flag in (Flag.STATIONARY_ONEZERO, Flag.MOVING_ONEZERO)
    ]
    saved = 1 << sum(halves)
    if spec.version >= TRANSPOSE_MODE_VERSION:
        is_turned = facts.has_flag(Flag.TRANSPOSE) | (facts.instructions["opcode"] == Opcode.NC_TRANSPOSE)
        saved = np.where(is_turned, 2, saved)
    fp32 = np.maximum(1, spec.matmul_fp32_passes // saved)
    return np.where(is_fp32, fp32, 1) * spec.matmul_row_cycles


def _matmul(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    rows = np.where(facts.has_flag(Flag.DOUBLE_ROW), 2, 1)
    stationary, moving = facts.count[:, SRC0] // rows, facts.count[:, SRC1] // rows
    return np.maximum(np.minimum(MIN_ISSUE, stationary), moving) * passes(facts, spec)


def _matmul_mx(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    stationary, moving = facts.count[:, SRC0], facts.count[:, SRC1]
    return np.maximum(np.minimum(MIN_ISSUE, stationary), moving) * spec.matmul_row_cycles


def _pe_transpose(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    partitions = facts.instructions["operands"]["partitions"][:, SRC0].astype(np.int64)
    rows = np.maximum(partitions, np.minimum(MIN_ISSUE, facts.count[:, SRC0]))
    return rows * passes(facts, spec)


def _times(numerator: int, denominator: int = 1) -> Formula:
    def formula(facts: Facts, spec: NeuronSpec) -> np.ndarray:
        return _at_least(_divided(facts.elements * numerator, denominator))

    return formula


def _plus(fixed: int, factor: int) -> Formula:
    def formula(facts: Facts, spec: NeuronSpec) -> np.ndarray:
        return fixed + facts.elements * factor

    return formula


def _read_out(facts: Facts) -> np.ndarray:
    return np.where(facts.is_tensor[:, RES], READ_OUT_CYCLES, 0)


def _activation(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    return _at_least(facts.elements) + _read_out(facts)


def fast_factor(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    """Return the elements per cycle of a DVE lane in TENSOR_COPY and TENSOR_SCALAR: 1, 2 or 4."""
    one = np.ones(len(facts.instructions), np.int64)
    if spec.version < 3:
        return one
    all_sbuf = facts.in_space(Space.SBUF)
    is_half = facts.all_of(_HALF)
    is_contiguous = facts.is_contiguous()
    wide = all_sbuf & is_contiguous & facts.all_of(np.array([Dtype.FLOAT32]))
    one_psum = (facts.space[:, :3] == Space.PSUM).sum(axis=1) == 1
    double = (is_half & (all_sbuf | one_psum)) | wide
    return np.where(is_half & all_sbuf & is_contiguous, 4, np.where(double, 2, one))


def _dve_move(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    return _at_least(_divided(facts.elements, fast_factor(facts, spec))) + _read_out(facts)


def _activation_move(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    is_double = facts.all_of(_HALF) & (spec.version >= 4)
    return _at_least(_divided(facts.elements, np.where(is_double, 2, 1)))


def _predicated(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    return _at_least(facts.elements * np.where(facts.in_space(Space.SBUF), 2, 1))


def _accumulating(factor: int) -> Formula:
    def formula(facts: Facts, spec: NeuronSpec) -> np.ndarray:
        return _at_least(facts.elements * factor) + _read_out(facts)

    return formula


def _exponential(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    return _at_least(_divided(facts.elements, 4)) + _read_out(facts)


def _indirect_copy(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    return _at_least(np.ascontiguousarray(facts.instructions["imm"]).view(np.int32)[:, 0].astype(np.int64))


def _local_gather(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    imm = facts.instructions["imm"].view(np.int32)
    each, count = np.maximum(imm[:, 0].astype(np.int64), 1), imm[:, 1].astype(np.int64)
    rate = np.minimum(4 / facts.bytes[:, SRC0], each)
    return 150 + np.ceil(count * each * (28 + 4 * each) / (4 * each) / rate).astype(np.int64)


def _topk(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    count = facts.instructions["imm"].view(np.int32)[:, 0].astype(np.int64)
    return _at_least(4 * count + facts.count[:, DST])


_FAST_ALU = np.array([Alu.ADD, Alu.MULTIPLY, Alu.SUBTRACT])


_TWO_INPUTS = (
    "v3+: Assumed, from shares of time: Vector at TENSOR_TENSOR and SCALAR_TENSOR_TENSOR of fp32 in SBUF "
    "beside Scalar at activations of as many elements (KDA, adamw_v1, rope_v2_layoutB_scalar_w512)"
)
"""Source of the rate of two inputs in SBUF.

# Assumed: 0.64 / 4 of the time a SCALAR_TENSOR_TENSOR and 0.28 / 2 an activation of 2048 elements, 0.66 / 3
# a TENSOR_TENSOR and 0.92 / 4 an activation of 512: 1.14 and 0.96 times, with clocks of 0.96 and 1.2 GHz
# about N cycles. At 2N, as on v2, both were about 2.
"""


def _tensor_tensor(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    inputs = facts.space[:, [SRC0, SRC1]]
    mixed = (inputs == Space.PSUM).sum(axis=1) == 1
    is_bf16 = facts.all_of(np.array([Dtype.BFLOAT16]))
    is_simple = np.isin(facts.instructions["op0"], _FAST_ALU) & facts.is_contiguous()
    from_sbuf = facts.in_space(Space.SBUF, (SRC0, SRC1))
    is_fast = mixed | (from_sbuf & is_bf16 & is_simple)
    if spec.version >= 3:
        is_fast |= from_sbuf
    return _at_least(facts.elements * np.where(is_fast, 1, 2))


def _scalar_tensor_tensor(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    chosen = facts.instructions
    is_fast = (
        facts.all_of(np.array([Dtype.BFLOAT16]))
        & (chosen["op0"] == Alu.SUBTRACT)
        & (chosen["op1"] == Alu.MULTIPLY)
        & (facts.elements % 2 == 0)
    ) | (spec.version >= 3)
    return _at_least(facts.elements * np.where(is_fast, 1, 2))


def _reduce(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    is_fast = facts.all_of(np.array([Dtype.BFLOAT16]), (DST, SRC0)) & np.isin(
        facts.instructions["op0"], np.array([Alu.ADD, Alu.MAXIMUM])
    )
    return _at_least(_divided(facts.elements, np.where(is_fast, 2, 1)))


def _memset(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    is_fast = facts.all_of(_HALF, (DST,)) & (facts.instructions["imm"][:, 0] == 0)
    return _at_least(_divided(facts.elements, np.where(is_fast, 2, 1)))


def _pool_scalar(facts: Facts, spec: NeuronSpec) -> np.ndarray:
    operators = np.stack([facts.instructions["op0"], facts.instructions["op1"]], axis=1)
    is_rsqrt = (operators == Alu.RSQRT).any(axis=1)
    return _at_least(facts.elements * np.where(is_rsqrt, 4, 1))


_N = "max(64, N)"
_2N = "max(64, 2N)"
_FAST = f"{_N}; v3+: N/4 all SBUF, 16-bit, contiguous; N/2 strided or one side PSUM, or fp32 in SBUF"

COSTS: Mapping[tuple[Opcode, Engine], Cost] = {
    (Opcode.NC_MATMUL, Engine.PE): Cost(
        _matmul, "max(min(64, Ns), Nm), fp32 x4, halved for each operand of zeros and ones", "SDK226"
    ),
    (Opcode.NC_TRANSPOSE, Engine.PE): Cost(
        _pe_transpose,
        "max(P, min(64, F)), fp32 x4; v3+: fp32 x2",
        "SDK226; ARCH3: transpose mode; assumed: without it fp32 takes the passes of a matmul",
    ),
    (Opcode.NC_TRANSPOSE, Engine.DVE): Cost(_times(1), _N, "SDK226"),
    (Opcode.ACTIVATION, Engine.ACTIVATION): Cost(
        _activation, f"{_N}, + 64 with read-out", "SDK226; read-out ARCH2"
    ),
    (Opcode.TABLE_LOAD, Engine.ACTIVATION): Cost(
        _fixed(lambda spec: spec.table_load_ns), "table_load_ns", "Assumed: see presets.py"
    ),
    (Opcode.TENSOR_COPY, Engine.DVE): Cost(_dve_move, _FAST, "SDK226; ARCH3"),
    (Opcode.TENSOR_COPY, Engine.ACTIVATION): Cost(
        _activation_move, f"{_N}; v4: N/2 for 16-bit", "SDK226; ARCH4"
    ),
    (Opcode.TENSOR_COPY, Engine.POOL): Cost(_times(1), _N, "SDK226"),
    (Opcode.TENSOR_COPY_PREDICATED, Engine.DVE): Cost(
        _predicated, f"{_N} with an operand in PSUM, else {_2N}", "SDK226"
    ),
    (Opcode.TENSOR_TENSOR, Engine.DVE): Cost(
        _tensor_tensor,
        f"{_N} if one input is in PSUM, or bf16 in SBUF with add, mul, sub and unit stride; else {_2N}; "
        f"v3+: {_N}",
        f"SDK226; {_TWO_INPUTS}",
    ),
    (Opcode.TENSOR_TENSOR, Engine.POOL): Cost(_times(2), _2N, "Assumed: two reads of one port"),
    (Opcode.TENSOR_SCALAR, Engine.DVE): Cost(_dve_move, f"{_FAST}; + 64 with reduction", "SDK226; ARCH3"),
    (Opcode.TENSOR_SCALAR, Engine.ACTIVATION): Cost(
        _activation_move, f"{_N}; v4: N/2 for 16-bit", "SDK226; ARCH4"
    ),
    (Opcode.TENSOR_SCALAR, Engine.POOL): Cost(
        _pool_scalar, f"{_N}, 4N for rsqrt", "SHARED for rsqrt; assumed for integers"
    ),
    (Opcode.SCALAR_TENSOR_TENSOR, Engine.DVE): Cost(
        _scalar_tensor_tensor,
        "N if bf16, subtract then multiply, N even; else 2N; v3+: N; at least 64",
        f"SDK226; {_TWO_INPUTS}",
    ),
    (Opcode.TENSOR_TENSOR_SCAN, Engine.DVE): Cost(_times(2), _2N, "SDK226"),
    (Opcode.TENSOR_REDUCE, Engine.DVE): Cost(
        _reduce, "N/2 if bf16 and add or max, else N; at least 64", "SDK226"
    ),
    (Opcode.TENSOR_REDUCE, Engine.POOL): Cost(_times(2), _2N, "Assumed: integer reductions only"),
    (Opcode.BN_STATS, Engine.DVE): Cost(_times(1), _N, "SDK226"),
    (Opcode.BN_AGGR, Engine.DVE): Cost(_times(13, 3), "max(64, 13N/3)", "SDK226"),
    (Opcode.RECIPROCAL, Engine.DVE): Cost(
        _times(11, 4),
        "max(64, 11N/4)",
        "BENCH: a profile of silu on trn1 leaves 2.73N; SDK226 prints 8N",
    ),
    (Opcode.MEMSET, Engine.DVE): Cost(_memset, f"{_N}, N/2 for 16-bit zeros", "SDK226"),
    (Opcode.MEMSET, Engine.POOL): Cost(_memset, f"{_N}, N/2 for 16-bit zeros", "SDK226"),
    (Opcode.MAX8, Engine.DVE): Cost(_times(1), _N, "SDK226: N"),
    (Opcode.FIND_INDEX8, Engine.DVE): Cost(_times(1), _N, "SDK226: N"),
    (Opcode.MATCH_REPLACE8, Engine.DVE): Cost(_times(1), _N, "SDK226, printed as min, read as max"),
    (Opcode.STREAM_SHUFFLE, Engine.DVE): Cost(_times(1), _N, "SDK226"),
    (Opcode.IOTA, Engine.POOL): Cost(_plus(150, 1), "150 + N", "SDK226"),
    (Opcode.AFFINE_SELECT, Engine.POOL): Cost(_plus(150, 1), "150 + N", "SDK226"),
    (Opcode.GATHER, Engine.POOL): Cost(
        _plus(150, 8), "150 + 8N", "Assumed: local_gather of single elements (SDK226), its C inverted"
    ),
    (Opcode.PARTITION_REDUCE, Engine.POOL): Cost(
        _plus(150, 16), "150 + 16N", "Assumed: each GpSimd processor walks its 16 partitions"
    ),
    (Opcode.TENSOR_SCALAR_CUMULATIVE, Engine.DVE): Cost(
        _accumulating(2), f"{_2N}; + 64 with read-out", "Assumed: one result at a time, as in a scan"
    ),
    (Opcode.RANGE_SELECT, Engine.DVE): Cost(
        _accumulating(1), f"{_N}; + 64 with read-out", "SDK226; read-out ARCH2"
    ),
    (Opcode.SELECT_REDUCE, Engine.DVE): Cost(
        _accumulating(2), f"{_2N}; + 64 with read-out", "Assumed: two inputs, as tensor_copy_predicated"
    ),
    (Opcode.TENSOR_SCALAR_REDUCE, Engine.DVE): Cost(
        _dve_move, f"{_FAST}; + 64 with read-out", "SDK226; ARCH3: as tensor_scalar"
    ),
    (Opcode.EXPONENTIAL, Engine.DVE): Cost(
        _exponential, "max(64, N/4); + 64 with read-out", "ARCH4: four times the rate of Scalar"
    ),
    (Opcode.LOCAL_GATHER, Engine.POOL): Cost(
        _local_gather,
        "150 + n x max(1, element bytes x e / 4) x (28 + 4e) / 4e of n indices of e elements",
        "SDK226, its C inverted (as printed, overhead would make it faster)",
    ),
    (Opcode.INDIRECT_COPY, Engine.DVE): Cost(
        _indirect_copy, "max(64, imm0)", "Assumed: one element a cycle, as tensor_copy of fp32 in PSUM"
    ),
    (Opcode.SEQUENCE_BOUNDS, Engine.POOL): Cost(
        _plus(150, 2), "150 + 2N", "Assumed: a pass in each direction"
    ),
    (Opcode.NONZERO_WITH_COUNT, Engine.POOL): Cost(
        _plus(150, 1), "150 + N", "Assumed: one pass, as affine_select"
    ),
    (Opcode.TOPK, Engine.POOL): Cost(_topk, "max(64, 4n + K) of n elements", "SDK"),
    (Opcode.QUANTIZE_MX, Engine.DVE): Cost(_times(1), _N, "Assumed: one pass over the source"),
    (Opcode.NC_MATMUL_MX, Engine.PE): Cost(
        _matmul_mx, "max(min(64, Ns), Nm)", "ARCH4: four times the products of bf16 in the same time"
    ),
    (Opcode.RNG, Engine.DVE): Cost(_times(1), _N, "Assumed: one element a cycle"),
    (Opcode.RNG, Engine.POOL): Cost(_times(1), _N, "Assumed: one element a cycle"),
    (Opcode.HOST_CALL, Engine.HOST): Cost(
        _fixed(lambda spec: spec.host_call_ns),
        "host_call_ns + host_operator_ns for each further operator called + the larger of operations / "
        "host_operations_per_ns and bytes / host_bytes_per_ns",
        "Assumed: see presets.py; npuviz.onnx.host_work counts",
    ),
}
"""Rows of data instructions, by opcode and engine."""

CONTROL_COSTS: Mapping[Opcode, Cost] = {
    Opcode.NOP: Cost(_nop, "max(16, id)", "Assumed"),
    Opcode.DMA_COPY: Cost(
        _dma_copy,
        "16, and dge_ns until it is complete; software DGE: software_dge_ns",
        "DGE; assumed for software",
    ),
    **dict.fromkeys(
        (
            Opcode.END,
            Opcode.REG_MOVE,
            Opcode.REG_ALU,
            Opcode.BRANCH,
            Opcode.CORE_BARRIER,
            Opcode.DMA_TRIGGER,
        ),
        Cost(_control, "16", "Assumed"),
    ),
}
"""Rows of control instructions, which are the same on every sequencer."""


def cost_of(opcode: int, engine: int) -> Cost | None:
    """Return the row of an instruction; None if the engine does not have it."""
    try:
        return CONTROL_COSTS.get(Opcode(opcode)) or COSTS.get((Opcode(opcode), Engine(engine)))
    except ValueError:
        return None
