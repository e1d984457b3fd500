"""Compute how long instructions take, the ports they occupy, and the engines that can run them.

Costs are computed for whole instruction arrays; `estimate` and `allowed_engines` tell a compiler about
one instruction. The formulas and their sources are in table.py.
"""

from functools import lru_cache

import numpy as np

from npuviz.onnx.host_work import Processor, host_work
from npuviz.program.graph import Graph, Node
from npuviz.targets.neuroncore.costs.facts import Facts, Pattern
from npuviz.targets.neuroncore.costs.table import (
    CONTROL_COSTS,
    CONTROL_CYCLES,
    COSTS,
    cost_of,
    fast_factor,
    passes,
)
from npuviz.targets.neuroncore.isa import (
    DST,
    INSTRUCTION_DTYPE,
    RES,
    SRC0,
    SRC1,
    Alu,
    Engine,
    Flag,
    Opcode,
    Space,
)
from npuviz.targets.neuroncore.spec import NeuronSpec

WIDE_STRIDE_BYTES = 16
"""A larger innermost step halves the bandwidth. Ref: ARCH2, NC-v2 (assumed for NC-v1)."""

TINY_ELEMENTS = 32
"""Up to so many elements a partition, two Vector instructions in a row do not overlap (overhead not hidden).

Each of them takes `dve_tiny_cycles` more instead. Ref: ARCH2: where N << 128 (assumed: a quarter).
"""

PORT_SBUF = 1 << 0
"""SBUF port that DVE and Pool share (v1, v2). Ref: ARCH2."""
PORT_PSUM = 1 << 1
"""PSUM port that DVE and Activation share (v1, v2). Ref: ARCH2."""
PORT_FAST = 1 << 2
"""Bus that DVE's fast modes share with Pool (v3 and later). Ref: ARCH3."""
PORT_BANK = 1 << 8
"""PSUM bank 0 as DVE and Activation use it (v3 and later); bank b is bit 8 + b. Ref: ARCH3."""

_PE_OPCODES = (Opcode.NC_MATMUL, Opcode.NC_MATMUL_MX, Opcode.NC_TRANSPOSE)
_UNSTRIDED = frozenset({*CONTROL_COSTS, Opcode.TABLE_LOAD, Opcode.HOST_CALL})


def issue_cycles(instructions: np.ndarray, spec: NeuronSpec) -> np.ndarray:
    """Return the cycles for which each instruction keeps its engine from issuing the next: (n,) int64.

    Cycles are those of the instruction's engine. An opcode that the engine lacks takes CONTROL_CYCLES.
    """
    result = np.full(len(instructions), CONTROL_CYCLES, np.int64)
    pairs = instructions["opcode"].astype(np.int64) * 8 + instructions["engine"]
    for pair in np.unique(pairs).tolist():
        opcode, engine = divmod(pair, 8)
        row = cost_of(opcode, engine)
        if row is None:
            continue
        where = np.flatnonzero(pairs == pair)
        facts = Facts(instructions[where])
        cycles = row.formula(facts, spec)
        if spec.version <= 2 and opcode not in _UNSTRIDED:
            is_wide = (facts.inner_step_bytes()[:, :3] > WIDE_STRIDE_BYTES).any(axis=1)
            cycles = np.where(is_wide, np.maximum(cycles, 2 * facts.elements), cycles)
        result[where] = cycles
    return result + np.where(_is_tiny(instructions, spec), spec.dve_tiny_cycles, 0)


def _is_tiny(instructions: np.ndarray, spec: NeuronSpec) -> np.ndarray:
    """Return whether a Vector instruction and the next are so short that they do not overlap, (n,) bool."""
    found = np.zeros(len(instructions), bool)
    if not spec.dve_tiny_cycles:
        return found
    is_control = np.isin(instructions["opcode"], np.array([*CONTROL_COSTS]))
    where = np.flatnonzero((instructions["engine"] == Engine.DVE) & ~is_control)
    if len(where) > 1:
        few = Facts(instructions[where]).elements <= TINY_ELEMENTS
        found[where[:-1]] = few[:-1] & few[1:] & (np.diff(where) == 1)
    return found


def array_cycles(instructions: np.ndarray, spec: NeuronSpec) -> np.ndarray:
    """Return the cycles PE would need for each instruction with its whole array busy in each: (n,) int64.

    # Ref: EXPL, profile-schema-reference.rst: PE's utilization is its BF16-equivalent FLOPs, fp32 times four,
    # by those of the whole array.
    """
    found = np.zeros(len(instructions), np.int64)
    on_pe = instructions["engine"] == Engine.PE
    where = np.flatnonzero(on_pe & np.isin(instructions["opcode"], np.array(_PE_OPCODES)))
    if not len(where):
        return found
    facts = Facts(instructions[where])
    pairs = np.where(facts.has_flag(Flag.DOUBLE_ROW), 2, 1)
    partitions = facts.instructions["operands"]["partitions"][:, SRC0].astype(np.int64)
    is_transpose = facts.instructions["opcode"] == Opcode.NC_TRANSPOSE
    moving = np.where(is_transpose, partitions, facts.count[:, SRC1] // pairs)
    elements = partitions * (facts.count[:, SRC0] // pairs) * moving * passes(facts, spec)
    found[where] = elements // (spec.matmul_max_contraction * spec.matmul_max_stationary)
    return found


def latency_cycles(instructions: np.ndarray, spec: NeuronSpec) -> np.ndarray:
    """Return the cycles of its engine from the end of each instruction's issue to completion: (n,) int64.

    Control instructions, DMA triggers and tiny Vector instructions in a row complete as they issue.
    Descriptors that the hardware makes (DGE) are ready `dge_ns` later; the next instruction does not wait.
    """
    latency = np.array([*spec.latency_cycles, 0, 0], np.int64)[instructions["engine"] & 7]
    is_control = np.isin(instructions["opcode"], np.array([*CONTROL_COSTS, Opcode.HOST_CALL]))
    latency = np.where(is_control | _is_tiny(instructions, spec), 0, latency)
    is_dge = (instructions["opcode"] == Opcode.DMA_COPY) & ((instructions["flags"] & Flag.SOFTWARE) == 0)
    clocks = np.array([*spec.clocks_hz, 0, 0], np.float64)[instructions["engine"] & 7]
    return np.where(is_dge, np.ceil(spec.dge_ns * clocks / 1e9).astype(np.int64), latency)


def to_base(cycles: np.ndarray, engine: np.ndarray, spec: NeuronSpec) -> np.ndarray:
    """Convert engine cycles to base cycles, rounded up: (n,) int64. Exact for up to 2**30 cycles."""
    gcd = np.gcd.reduce(np.array(spec.clocks_hz, np.int64))
    clocks = (np.array([*spec.clocks_hz, spec.pe_hz, spec.pe_hz], np.int64) // gcd)[engine & 7]
    return -(-(cycles * (spec.pe_hz // gcd)) // clocks)


def port_masks(instructions: np.ndarray, spec: NeuronSpec) -> np.ndarray:
    """Return masks of the exclusive ports that instructions hold while they issue: (n,) int64, PORT_* bits.

    Instructions of different engines with a common bit do not issue at the same time.
    """
    result = np.zeros(len(instructions), np.int64)
    engine, opcode = instructions["engine"], instructions["opcode"]
    is_data = (opcode >= Opcode.ACTIVATION) & (opcode != Opcode.TABLE_LOAD) | (opcode == Opcode.NC_TRANSPOSE)
    for unit in (Engine.ACTIVATION, Engine.POOL, Engine.DVE):
        where = np.flatnonzero((engine == unit) & is_data)
        if not len(where):
            continue
        facts = Facts(instructions[where])
        bits = np.zeros(len(where), np.int64)
        if spec.version <= 2:
            if unit != Engine.ACTIVATION:
                bits |= np.where(facts.touches(Space.SBUF), PORT_SBUF, 0)
            if unit != Engine.POOL:
                bits |= np.where(facts.touches(Space.PSUM), PORT_PSUM, 0)
        elif unit == Engine.POOL:
            bits |= np.where(facts.touches(Space.SBUF), PORT_FAST, 0)
        else:
            bits |= facts.psum_banks(spec.psum_bank_bytes) * PORT_BANK
            if unit == Engine.DVE:
                is_move = np.isin(
                    facts.instructions["opcode"], np.array([Opcode.TENSOR_COPY, Opcode.TENSOR_SCALAR])
                )
                bits |= np.where(is_move & (fast_factor(facts, spec) > 1), PORT_FAST, 0)
        result[where] = bits
    return result


@lru_cache(maxsize=1 << 16)
def estimate(
    spec: NeuronSpec,
    opcode: int,
    engine: int,
    operands: tuple[Pattern | None, ...],
    op0: int = 0,
    op1: int = 0,
    flags: int = 0,
    imm0: float = 0.0,
) -> int:
    """Return the base cycles for which an instruction would keep an engine busy (operands by position)."""
    one = np.zeros(1, INSTRUCTION_DTYPE)
    one["opcode"], one["engine"], one["op0"], one["op1"], one["flags"] = opcode, engine, op0, op1, flags
    one["imm"][0, 0] = imm0
    one["operands"]["sizes"] = 1
    for position, pattern in enumerate(operands):
        if pattern is None:
            continue
        record = one["operands"][0, position : position + 1]
        record["space"], record["dtype"] = pattern.space, pattern.dtype
        record["partitions"] = pattern.partitions
        dims = len(pattern.sizes)
        record["sizes"][0, 4 - dims :] = pattern.sizes
        record["steps"][0, 4 - dims :] = pattern.steps
    return int(to_base(issue_cycles(one, spec), one["engine"], spec)[0])


_EVERY = (Engine.PE, Engine.ACTIVATION, Engine.POOL, Engine.DVE, Engine.SP)
_SCALAR_PAIRS = frozenset(
    {
        (Alu.MULTIPLY, Alu.ADD),
        (Alu.MULTIPLY, Alu.SUBTRACT),
        (Alu.MULTIPLY, Alu.BYPASS),
        (Alu.ADD, Alu.BYPASS),
        (Alu.SUBTRACT, Alu.BYPASS),
        (Alu.BYPASS, Alu.BYPASS),
    }
)
"""(op0, op1) that Scalar can compute. Ref: SDK isa, activate2; assumed to hold for tensor_scalar too."""


def allowed_engines(
    spec: NeuronSpec,
    opcode: int,
    operands: tuple[Pattern | None, ...] = (),
    op0: int = 0,
    op1: int = 0,
    flags: int = 0,
) -> tuple[Engine, ...]:
    """Return the engines that can run an instruction with these operands; () if none can."""
    if opcode == Opcode.HOST_CALL:
        return (Engine.HOST,)
    if opcode == Opcode.DMA_COPY:
        return _dge_engines(spec, flags)
    if opcode in CONTROL_COSTS:
        return tuple(each for each in _EVERY if each != Engine.POOL or spec.has_pool)
    found = [each for code, each in COSTS if code == opcode]
    spaces = [each.space if each else Space.NONE for each in operands] + [Space.NONE] * 6
    if not spec.has_pool or Space.PSUM in spaces:
        found = [each for each in found if each != Engine.POOL]
    if opcode == Opcode.NC_TRANSPOSE:
        on_pe = spaces[DST] == Space.PSUM and spaces[SRC0] == Space.SBUF
        return (Engine.PE,) if on_pe else (Engine.DVE,)
    if opcode == Opcode.TENSOR_TENSOR and spaces[SRC0] == spaces[SRC1] == Space.PSUM:
        return ()
    is_integer = bool(flags & Flag.INTEGER)
    if opcode == Opcode.TENSOR_SCALAR:
        has_reduction = spaces[RES] != Space.NONE
        is_scalar = (op0, op1) in _SCALAR_PAIRS and not flags & (Flag.REVERSE0 | Flag.REVERSE1)
        if is_integer or has_reduction or not is_scalar:
            found = [each for each in found if each != Engine.ACTIVATION]
        if has_reduction or not (is_integer or Alu.RSQRT in (op0, op1)):
            found = [each for each in found if each != Engine.POOL]
    if opcode == Opcode.TENSOR_REDUCE and not is_integer:
        found = [each for each in found if each != Engine.POOL]
    if is_integer and opcode in (Opcode.TENSOR_TENSOR, Opcode.TENSOR_SCALAR, Opcode.TENSOR_REDUCE):
        found = [each for each in found if each == Engine.POOL]
    return tuple(found)


def _dge_engines(spec: NeuronSpec, flags: int) -> tuple[Engine, ...]:
    """Return the engines that can start a DMA_COPY.

    Ref: DGE (hardware: Sync or Scalar, no gather or scatter; software: GpSimd).
    """
    if flags & (Flag.SOFTWARE | Flag.GATHER_SOURCE | Flag.SCATTER_TARGET):
        return (Engine.POOL,) if spec.has_pool else ()
    return (Engine.SP, Engine.ACTIVATION) if spec.has_hardware_dge else ()


def host_cycles(spec: NeuronSpec, graph: Graph, node: Node) -> int:
    """Return the base cycles of a graph node on the Host. Assumed, see presets."""
    return max(1, spec.to_cycles(processor_of(spec).nanoseconds(host_work(graph, node))))


def processor_of(spec: NeuronSpec) -> Processor:
    """Return the processor that runs Host operators."""
    return Processor(
        spec.host_processor,
        spec.host_call_ns,
        spec.host_operator_ns,
        spec.host_operations_per_ns,
        spec.host_bytes_per_ns,
    )
