"""Costs against the published table, ports, latencies, engine rules, and the choice of table sets."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.targets.neuroncore.activation_tables import SET_FUNCTIONS, TABLE_SETS, choose_loads, sets_of
from npuviz.targets.neuroncore.costs.facts import Pattern
from npuviz.targets.neuroncore.costs.instructions import (
    PORT_BANK,
    PORT_FAST,
    PORT_PSUM,
    PORT_SBUF,
    allowed_engines,
    estimate,
    issue_cycles,
    latency_cycles,
    port_masks,
    to_base,
)
from npuviz.targets.neuroncore.costs.table import CONTROL_COSTS, COSTS
from npuviz.targets.neuroncore.isa import Activation, Alu, Engine, Flag, Opcode, Space
from npuviz.targets.neuroncore.spec import make_spec
from tests.targets.neuroncore.text.assembler import assemble

TRN1, TRN2, TRN3, INF1 = (make_spec(name)[0] for name in ("trn1", "trn2", "trn3", "inf1"))


def pattern_of(operand: np.void) -> Pattern | None:
    """The pattern of an operand record, None for an absent one."""
    if operand["space"] == Space.NONE:
        return None
    sizes, steps = operand["sizes"].tolist(), operand["steps"].tolist()
    return Pattern(
        int(operand["space"]), int(operand["dtype"]), int(operand["partitions"]), tuple(sizes), tuple(steps)
    )


def cycles(line, spec=TRN1):
    return int(issue_cycles(assemble(expanded(line))[0], spec)[0])


def expanded(line):
    """`f32:s8/100x2` stands for f32:sbuf[0:8,0x0,100x2]; p is PSUM, the step is 1 if it is not given."""

    def operand(match):
        space = "sbuf" if match[2] == "s" else "psum"
        return f"{match[1]}:{space}[0:{match[3]},0x0,{match[4]}x{match[5] or 1}]"

    return re.sub(r"(\w+):([sp])(\d+)/(\d+)(?:x(\d+))?", operand, line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # nc_matmul: max(min(64, Ns), Nm); fp32 x4
        ("PE nc_matmul f32:p128/512 <- bf16:s128/128, bf16:s128/512", 512),
        ("PE nc_matmul f32:p128/512 <- f32:s128/128, f32:s128/512", 2048),
        ("PE nc_matmul f32:p16/8 <- bf16:s128/16, bf16:s128/8", 16),
        ("PE nc_matmul f32:p128/8 <- bf16:s128/128, bf16:s128/8", 64),
        ("PE nc_transpose f32:p32/128 <- bf16:s128/32", 128),
        ("DVE nc_transpose f32:s32/32 <- f32:s32/32", 64),
        ("Activation activation.exp f32:s128/100 <- f32:s128/100", 100),
        ("Activation activation.exp f32:s128/1 <- f32:s128/1", 64),
        ("Activation activation.exp f32:s128/100 <- f32:s128/100 res=f32:s128/1x0", 164),
        ("DVE tensor_copy f32:s128/100 <- f32:s128/100", 100),
        ("Pool tensor_copy f32:s128/10 <- f32:s128/10", 64),
        ("DVE tensor_copy_predicated f32:s8/100 <- f32:s8/100, f32:s8/100", 200),
        ("DVE tensor_copy_predicated f32:s8/100 <- f32:p8/100, f32:s8/100", 100),
        ("DVE tensor_tensor.add f32:s8/100 <- f32:s8/100, f32:s8/100", 200),
        ("DVE tensor_tensor.add f32:s8/100 <- f32:p8/100, f32:s8/100", 100),
        ("DVE tensor_tensor.add bf16:s8/100 <- bf16:s8/100, bf16:s8/100", 100),
        ("DVE tensor_tensor.power bf16:s8/99 <- bf16:s8/99, bf16:s8/99", 198),
        ("DVE tensor_tensor.add bf16:s8/99x2 <- bf16:s8/99, bf16:s8/99", 198),
        ("DVE tensor_scalar.multiply.add f32:s8/99 <- f32:s8/99 imm=1,2", 99),
        ("DVE tensor_scalar.multiply.add f32:s8/99 <- f32:s8/99 res=f32:s8/1x0", 163),
        ("Pool tensor_scalar.rsqrt.bypass f32:s8/99 <- f32:s8/99", 396),
        ("DVE scalar_tensor_tensor.subtract.multiply bf16:s8/98 <- bf16:s8/98, bf16:s8/98", 98),
        ("DVE scalar_tensor_tensor.subtract.multiply bf16:s8/99 <- bf16:s8/99, bf16:s8/99", 198),
        ("DVE tensor_tensor_scan.multiply.add f32:s8/99 <- f32:s8/99, f32:s8/99", 198),
        ("DVE tensor_reduce.add f32:s8/1 <- f32:sbuf[0:8,0x0,4x100,100x1] cmd=2", 400),
        ("DVE tensor_reduce.maximum bf16:s8/1 <- bf16:s8/401 cmd=1", 201),
        ("DVE bn_stats f32:s8/6 <- f32:s8/300", 300),
        ("DVE bn_aggr f32:s8/2 <- f32:s8/30", 130),
        ("DVE reciprocal f32:s8/30 <- f32:s8/30", 83),
        ("DVE memset bf16:s8/300", 150),
        ("Pool memset bf16:s8/300 imm=1", 300),
        ("DVE max8 f32:s8/8 <- f32:s8/300", 300),
        ("Pool iota i32:s8/300", 450),
        ("SP dma_trigger", 16),
        ("SP nop id=500", 500),
        ("Activation table_load id=3", 1697),
    ],
)
def test_published_costs(line, expected):
    assert cycles(line) == expected


@pytest.mark.parametrize(
    ("line", "trn1", "trn2", "trn3"),
    [
        ("DVE tensor_copy bf16:s8/512 <- bf16:s8/512", 512, 128, 128),
        ("DVE tensor_copy bf16:s8/512 <- bf16:s8/512x2", 512, 256, 256),
        ("DVE tensor_copy bf16:s8/512 <- bf16:p8/512", 512, 256, 256),
        ("DVE tensor_copy f32:s8/512 <- f32:s8/512", 512, 256, 256),
        ("DVE tensor_copy f32:s8/512 <- f32:p8/512", 512, 512, 512),
        ("DVE tensor_tensor.add f32:s8/512 <- f32:s8/512, f32:s8/512", 1024, 512, 512),
        ("DVE scalar_tensor_tensor.add.add f32:s8/512 <- f32:s8/512, f32:s8/512", 1024, 512, 512),
        ("Activation tensor_copy bf16:s8/512 <- bf16:s8/512", 512, 512, 256),
        # PE in fp32: zeros and ones take half (SDK nc_matmul), transpose mode too (ARCH3, from v3 on).
        ("PE nc_matmul f32:p128/512 <- f32:s128/128, f32:s128/512 +stationary_onezero", 1024, 1024, 1024),
        ("PE nc_matmul f32:p128/512 <- f32:s128/128, f32:s128/512 +moving_onezero", 1024, 1024, 1024),
        ("PE nc_matmul bf16:p128/512 <- bf16:s128/128, bf16:s128/512 +moving_onezero", 512, 512, 512),
        ("PE nc_matmul f32:p128/128 <- f32:s128/128, f32:s128/128 +transpose", 512, 256, 256),
        ("PE nc_matmul f32:p128/128 <- f32:s128/128, f32:s128/128 +transpose +moving_onezero", 256, 256, 256),
        ("PE nc_transpose f32:p128/128 <- f32:s128/128", 512, 256, 256),
        # An innermost step over 16 bytes halves the bandwidth of v2.
        ("DVE tensor_copy f32:s8/512 <- f32:s8/512x5", 1024, 512, 512),
        ("DVE tensor_copy f32:s8/512 <- f32:s8/512x4", 512, 512, 512),
    ],
)
def test_costs_differ_by_generation(line, trn1, trn2, trn3):
    assert [cycles(line, spec) for spec in (TRN1, TRN2, TRN3)] == [trn1, trn2, trn3]


def test_the_chain_of_one_element_scalar_instructions():
    """264 Scalar cycles from start to start on v2 (PERF), 189 ns."""
    code, _ = assemble(expanded("Activation activation.exp f32:s1/1 <- f32:s1/1"))
    total = issue_cycles(code, TRN1) + latency_cycles(code, TRN1)
    assert total.tolist() == [264]
    base = to_base(total, code["engine"], TRN1)
    assert base.tolist() == [528]
    assert base[0] / TRN1.base_hz * 1e9 == pytest.approx(189, abs=0.5)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(Engine), st.sampled_from([TRN1, TRN2, TRN3, INF1]))
def test_base_cycles_are_exact(count, engine, spec):
    found = int(to_base(np.array([count]), np.array([engine]), spec)[0])
    clock = spec.clocks_hz[engine]
    assert (found - 1) * clock < count * spec.pe_hz <= found * clock or count == found == 0


def test_control_has_no_latency():
    code, _ = assemble(expanded("DVE nop\nActivation dma_trigger\nDVE memset f32:s1/1"))
    assert latency_cycles(code, TRN2).tolist() == [0, 0, 100]


def test_descriptors_take_time():
    """Hardware DGE: about 600 ns until they are there; GpSimd is busy making its own."""
    lines = "SP dma_copy\n    transfer\nPool dma_copy +software\n    transfer"
    code, _ = assemble(lines)
    assert latency_cycles(code, TRN2).tolist() == [720, 0]
    assert issue_cycles(code, TRN2).tolist() == [16, 1440]


def masks(text, spec):
    return port_masks(assemble(text)[0], spec).tolist()


PORTS = """
DVE tensor_copy bf16:sbuf[0:8,0x0,512x1] <- bf16:sbuf[0:8,0x0,512x1]
Pool tensor_copy f32:sbuf[0:8,0x0,8x1] <- f32:sbuf[0:8,0x0,8x1]
DVE tensor_copy f32:sbuf[0:8,0x0,512x1] <- f32:psum[0:8,0x800,512x1]
Activation activation.exp f32:psum[0:8,0x400,512x1] <- f32:sbuf[0:8,0x0,512x1]
PE nc_matmul f32:psum[0:8,0x0,8x1] <- f32:sbuf[0:8,0x0,8x1], f32:sbuf[0:8,0x0,8x1]
Pool nop
"""


def test_ports_by_generation():
    assert masks(PORTS, TRN1) == [PORT_SBUF, PORT_SBUF, PORT_SBUF | PORT_PSUM, PORT_PSUM, 0, 0]
    assert masks(PORTS, TRN2) == [PORT_FAST, PORT_FAST, PORT_BANK << 1, PORT_BANK * 3, 0, 0]


def test_negative_steps_reach_back_over_banks():
    line = "DVE tensor_copy f32:sbuf[0:8,0x0,2x1] <- f32:psum[0:8,0x1000,2x-512]"
    assert masks(line, TRN2) == [PORT_BANK * 6]


def test_every_row_is_for_an_opcode_of_its_own():
    assert not {opcode for opcode, _ in COSTS} & set(CONTROL_COSTS)
    covered = {opcode for opcode, _ in COSTS} | set(CONTROL_COSTS)
    assert covered == set(Opcode)
    assert all(row.source and row.text for row in (*COSTS.values(), *CONTROL_COSTS.values()))


@pytest.mark.parametrize("spec", [TRN1, TRN2, TRN3], ids=lambda spec: spec.arch)
def test_the_estimate_of_one_is_the_cost_of_many(spec):
    text = "\n".join(line for line in PORTS.strip().splitlines())
    code, _ = assemble(text)
    expected = to_base(issue_cycles(code, spec), code["engine"], spec)
    for record, wanted in zip(code, expected.tolist(), strict=True):
        patterns = tuple(pattern_of(operand) for operand in record["operands"])
        found = estimate(
            spec,
            int(record["opcode"]),
            int(record["engine"]),
            patterns,
            int(record["op0"]),
            int(record["op1"]),
        )
        assert found == wanted


def pattern(space=Space.SBUF, dtype=0):
    return Pattern(space, dtype, 128, (64,), (1,))


def test_engines_that_may_run_an_instruction():
    on_chip, in_psum = pattern(), pattern(Space.PSUM)
    copy = allowed_engines(TRN2, Opcode.TENSOR_COPY, (on_chip, on_chip))
    assert set(copy) == {Engine.DVE, Engine.ACTIVATION, Engine.POOL}
    assert Engine.POOL not in allowed_engines(TRN2, Opcode.TENSOR_COPY, (on_chip, in_psum))
    assert Engine.POOL not in allowed_engines(INF1, Opcode.TENSOR_COPY, (on_chip, on_chip))
    assert allowed_engines(TRN2, Opcode.TENSOR_TENSOR, (on_chip, in_psum, in_psum)) == ()
    integer = allowed_engines(TRN2, Opcode.TENSOR_TENSOR, (on_chip,) * 3, flags=Flag.INTEGER)
    assert integer == (Engine.POOL,)
    assert allowed_engines(INF1, Opcode.TENSOR_TENSOR, (on_chip,) * 3, flags=Flag.INTEGER) == ()
    scalar = allowed_engines(TRN2, Opcode.TENSOR_SCALAR, (on_chip, on_chip), Alu.MULTIPLY, Alu.ADD)
    assert set(scalar) == {Engine.DVE, Engine.ACTIVATION}
    power = allowed_engines(TRN2, Opcode.TENSOR_SCALAR, (on_chip, on_chip), Alu.POWER)
    assert power == (Engine.DVE,)
    rsqrt = allowed_engines(TRN2, Opcode.TENSOR_SCALAR, (on_chip, on_chip), Alu.RSQRT)
    assert set(rsqrt) == {Engine.DVE, Engine.POOL}
    assert allowed_engines(TRN2, Opcode.NC_TRANSPOSE, (in_psum, on_chip)) == (Engine.PE,)
    assert allowed_engines(TRN2, Opcode.NC_TRANSPOSE, (on_chip, on_chip)) == (Engine.DVE,)


def test_who_makes_descriptors():
    assert allowed_engines(TRN2, Opcode.DMA_COPY) == (Engine.SP, Engine.ACTIVATION)
    assert allowed_engines(TRN1, Opcode.DMA_COPY) == ()
    assert allowed_engines(TRN1, Opcode.DMA_COPY, flags=Flag.SOFTWARE) == (Engine.POOL,)
    assert allowed_engines(TRN2, Opcode.DMA_COPY, flags=Flag.GATHER_SOURCE) == (Engine.POOL,)
    assert allowed_engines(INF1, Opcode.DMA_COPY, flags=Flag.SOFTWARE) == ()


# --- table sets --------------------------------------------------------------------------------


def test_the_measured_sets():
    assert len(TABLE_SETS) == 21
    assert TABLE_SETS[0] == "exp_and_others"
    assert {Activation.EXP, Activation.TANH, Activation.COPY} <= SET_FUNCTIONS[0]
    assert all(sets_of(function) for function in Activation)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(Activation), max_size=6), st.integers(-1, 20))
def test_loads_are_enough_and_fewest(functions, loaded):
    loads = choose_loads(functions, loaded)
    current = loaded
    for function, load in zip(functions, loads, strict=True):
        current = load if load >= 0 else current
        assert current >= 0
        assert function in SET_FUNCTIONS[current]
    found = sum(load >= 0 for load in loads)
    assert found == _fewest(functions, loaded)


def _fewest(functions, loaded):
    """By trying: the fewest loads for a short program."""
    best = {loaded: 0}
    for function in functions:
        following = {}
        for (current, count), chosen in itertools.product(best.items(), range(21)):
            if function in SET_FUNCTIONS[chosen]:
                total = count + (chosen != current)
                following[chosen] = min(total, following.get(chosen, total))
        best = following
    return min(best.values())


def test_tiny_instructions_of_vector_in_a_row_do_not_overlap():
    """Ref: ARCH2: 100 cycles more where many with N << 128 follow each other; not so in a profile of trn1."""
    tiny, long = (f"DVE tensor_copy f32:s128/{count} <- f32:s128/{count}" for count in (8, 512))
    code = np.concatenate([assemble(expanded(line))[0] for line in (tiny, tiny, long, tiny)])
    issue, later = issue_cycles(code, TRN2), latency_cycles(code, TRN2)
    assert (issue[0], later[0]) == (64 + TRN2.dve_tiny_cycles, 0) == (164, 0)
    assert issue[1:].tolist() == [64, 256, 64]
    assert later[1:].tolist() == [TRN2.dve_latency] * 3
    assert issue_cycles(code, TRN1).tolist() == [64, 64, 512, 64]
    assert latency_cycles(code, TRN1).tolist() == [TRN1.dve_latency] * 4
