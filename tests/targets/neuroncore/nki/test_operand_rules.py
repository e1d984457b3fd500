# Operands that the documentation of nki.isa excludes, each named with its function, line and what was found.
import re

import numpy as np
import pytest

from npuviz.base.errors import NpuvizError
from npuviz.targets.neuroncore.nki.calls.isa import second
from npuviz.targets.neuroncore.nki.record.errors import REFUSED
from npuviz.targets.neuroncore.nki.rules.documented import RULES
from tests.targets.neuroncore.nki.running import SECOND, loaded, ran, random

HEAD = (
    SECOND
    + """
def new(shape, dtype=nl.float32, value=0):
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.memset(tile, value)
    return tile

def sums(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)

@nki.jit
def kernel(a):
    out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y, column = new((128, 128)), new((128, 128)), new((128, 1))
    integers, half, halves = new((128, 128), nl.int32), new((128, 128), nl.bfloat16), new((64, 128))
    p = sums((128, 128))
    nisa.nc_matmul(dst=p, stationary=x, moving=x)
"""
)
TABLE = [
    ("nc_matmul", "nisa.nc_matmul(y, x, x)", "dst sbuf .* must lie in PSUM"),
    ("nc_matmul", "nisa.nc_matmul(sums((128, 128)), x, p)", "moving psum .* must lie in SBUF"),
    ("nc_matmul", "nisa.nc_matmul(p, half, x)", "bfloat16.*float32 goes with float32 only"),
    ("nc_matmul", "nisa.nc_matmul(p, integers, integers)", "stationary .*int32.* must be float32, bfloat16"),
    (
        "nc_matmul",
        "nisa.nc_matmul(sums((128, 128), nl.bfloat16), x, x)",
        "dst .*bfloat16.* must be float32 on",
    ),
    ("nc_matmul", "nisa.nc_matmul(p, x, x, tile_size=(64, 128))", r"tile_position=\(\) and .* give both"),
    (
        "nc_matmul",
        "nisa.nc_matmul(p, halves, halves, tile_position=(16, 0), tile_size=(64, 128))",
        "start_row must be a multiple of 64, up to 64",
    ),
    (
        "nc_matmul",
        "nisa.nc_matmul(p, x, x, tile_position=(0, 0), tile_size=(64, 128))",
        r"stationary .*\[128, 128\] is larger than tile_size=\(64, 128\)",
    ),
    (
        "nc_matmul",
        "trn1 @ t = new((32, 32)); "
        "nisa.nc_matmul(sums((32, 32)), t, t, tile_position=(0, 0), tile_size=(32, 32))",
        "a row_size of 32 must be 64 or 128",
    ),
    (
        "nc_matmul",
        "t = new((128, 2, 64), nl.float8_e4m3); "
        "nisa.nc_matmul(sums((64, 64)), t, t, perf_mode=nisa.matmul_perf_mode.double_row, "
        "tile_position=(0, 0), tile_size=(128, 64))",
        "double_row does not go together with column tiling",
    ),
    (
        "nc_matmul",
        "nisa.nc_matmul(p, x, x, perf_mode=nisa.matmul_perf_mode.double_row)",
        "double_row: stationary .*float32.* must be float8_e4m3, float8_e5m2 or float8_e4m3fn",
    ),
    (
        "nc_matmul",
        "t = new((128, 64), nl.float8_e4m3fn); nisa.nc_matmul(sums((64, 64)), t, t)",
        "float8_e4m3fn needs trn3",
    ),
    (
        "nc_matmul",
        "trn3 @ t, u = new((128, 64), nl.float8_e4m3fn), new((128, 64), nl.float8_e4m3); "
        "nisa.nc_matmul(sums((64, 64)), t, u)",
        "float8_e4m3 and float8_e4m3fn do not go together",
    ),
    (
        "nc_matmul_mx",
        "trn3 @ t, s = nl.ndarray((30, 64), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf), new((30, "
        "64), nl.uint8); nisa.nc_matmul_mx(sums((64, 64)), t, t, s, s)",
        r"stationary .*\[30, 64\]: partitions must be a multiple of 32",
    ),
    ("nc_transpose", "nisa.nc_transpose(half, x)", "dst .*bfloat16.* and data .*float32.* same element type"),
    ("nc_transpose", "nisa.nc_transpose(y, x, engine=nisa.engine.tensor)", "dst sbuf .* must lie in PSUM"),
    ("dma_copy", "nisa.dma_copy(x, a, priority=1)", r"needs NeuronCore-v4 \(trn3\), this one is trn2"),
    ("dma_copy", "trn3 @ nisa.dma_copy(x, a, priority=9)", "priority=9 must be 0 .* to 3"),
    (
        "dma_copy",
        "nisa.dma_copy(half, a, dge_mode=nisa.dge_mode.hwdge)",
        "hwdge: dst .*bfloat16.* same element",
    ),
    (
        "dma_copy",
        "trn1 @ nisa.dma_copy(x, a, dge_mode=nisa.dge_mode.hwdge)",
        r"NeuronCore-v3 \(trn2\) or newer",
    ),
    ("dma_transpose", "nisa.dma_transpose(half, a)", "same element type"),
    ("dma_transpose", "nisa.dma_transpose(y, a, dge_mode=nisa.dge_mode.hwdge)", "turns elements of 2 bytes"),
    ("dma_transpose", "nisa.dma_transpose(halves, a)", r"dst .*\[64, 128\] must be \[128, 128\]"),
    ("dma_compute", "nisa.dma_compute(out, [a, a], nl.add, unique_indices=False)", "unique_indices=False"),
    (
        "tensor_tensor",
        "nisa.tensor_tensor(y, x, x, nl.bitwise_and)",
        "with bitwise_and: dst .*float32.* int8",
    ),
    (
        "tensor_tensor",
        "nisa.tensor_tensor(y, p, x, nl.add, engine=nisa.engine.gpsimd)",
        "data1 .* PSUM, which",
    ),
    (
        "tensor_tensor",
        "nisa.tensor_tensor(y, x, x, nl.add, engine=nisa.engine.tensor)",
        "engine tensor must be",
    ),
    (
        "tensor_scalar",
        "nisa.tensor_scalar(integers, integers, nl.add, 1, op1=nl.bitwise_and, operand1=1)",
        "both",
    ),
    (
        "tensor_scalar",
        "nisa.tensor_scalar(integers, integers, nl.bitwise_and, 1, engine=nisa.engine.gpsimd)",
        "bitwise_and must run on the vector engine",
    ),
    (
        "tensor_scalar",
        "nisa.tensor_scalar(y, x, nl.add, 1.0, op1=nl.multiply)",
        "op1 multiply needs operand1=",
    ),
    (
        "tensor_scalar",
        "nisa.tensor_scalar(y, x, nl.maximum, 1.0, engine=nisa.engine.scalar)",
        "maximum on the scalar engine: it has multiply and add",
    ),
    (
        "scalar_tensor_tensor",
        "nisa.scalar_tensor_tensor(y, x, nl.bitwise_or, 1, nl.add, x)",
        "op0 bitwise_or",
    ),
    ("tensor_reduce", "nisa.tensor_reduce(column, nl.add, x, axis=0)", "axis=0: the partition dimension"),
    (
        "tensor_reduce",
        "nisa.tensor_reduce(new((128, 8)), nl.add, x.reshape((128, 16, 8)), axis=1)",
        r"axis=1: must be the last free dimensions of .*\[128, 16, 8\]",
    ),
    ("tensor_reduce", "nisa.tensor_reduce(new((128, 4)), nl.add, x, axis=1)", "dst .* has 4 .* must be 1"),
    (
        "tensor_reduce",
        "nisa.tensor_reduce(new((128, 1), nl.int32), nl.bitwise_or, integers, axis=1, negate=True)",
        "negate=True with bitwise_or",
    ),
    ("tensor_partition_reduce", "nisa.tensor_partition_reduce(y[0:1], nl.minimum, x)", "op minimum must be"),
    (
        "tensor_scalar_reduce",
        "nisa.tensor_scalar_reduce(y, x, nl.add, 2.0, nl.add, column, reduce_init=1.0)",
        "reduce_init=1.0 needs reduce_cmd.load_reduce",
    ),
    (
        "tensor_scalar_reduce",
        "nisa.tensor_scalar_reduce(y, x, nl.subtract, 2.0, nl.add, column, reverse0=True)",
        "reverse0=True: not supported",
    ),
    (
        "tensor_scalar_cumulative",
        "nisa.tensor_scalar_cumulative(y, x, nl.multiply, nl.divide, 1.0)",
        "op1 div",
    ),
    (
        "tensor_copy_predicated",
        "nisa.tensor_copy_predicated(y, x, x)",
        "predicate .* must be uint8, uint16 or",
    ),
    (
        "tensor_copy",
        "trn1 @ nisa.tensor_copy(y, x, engine=nisa.engine.scalar)",
        "the scalar engine of trn1 has no",
    ),
    ("memset", "nisa.memset(integers, 2.0)", "value=2.0 is a float, .*int32"),
    (
        "memset",
        "trn3 @ nisa.memset(nl.ndarray((32, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf), 1)",
        "value=1: .* takes 0 only",
    ),
    ("activation", "trn1 @ nisa.activation(y, nl.exp, x, bias=1.0)", "bias=1.0: on trn1 a bias is a tile"),
    (
        "activate2",
        "nisa.activate2(y, nl.gelu, x, 2.0, 0.5, nl.multiply, nl.add)",
        r"v4 \(trn3\) or newer only",
    ),
    ("exponential", "nisa.exponential(y, x)", r"NeuronCore-v4 \(trn3\) or newer only, this one is v3"),
    ("rand2", "nisa.rand2(y, 0.0, 1.0)", r"NeuronCore-v4 \(trn3\)"),
    (
        "max8",
        "nisa.max8(new((128, 8)), column)",
        "src .* has 1 elements in each partition, must be 8 to 16384",
    ),
    (
        "nc_find_index8",
        "nisa.nc_find_index8(y[:, 0:8], x, x[:, 0:8])",
        "dst .*float32.* must be uint16 or uint",
    ),
    (
        "nc_stream_shuffle",
        "nisa.nc_stream_shuffle(y, x, [0] * 16)",
        "shuffle_mask has 16 entries, must be 32",
    ),
    (
        "nc_stream_shuffle",
        "nisa.nc_stream_shuffle(y, x, [40] * 32)",
        r"shuffle_mask\[0\] = 40: must be 0 to 31",
    ),
    (
        "bn_stats",
        "nisa.bn_stats(y[:, 0:6], new((128, 600)))",
        "has 600 elements in each partition, must be 1 to",
    ),
    (
        "range_select",
        "b = new((128, 1), nl.int32); nisa.range_select(y, x, nl.greater_equal, nl.less, b, b)",
        "bound0 .*int32.* must be float32",
    ),
    ("range_select", "nisa.range_select(y, x, nl.add, nl.less, column, column)", "comp_op0 add must be"),
    ("select_reduce", "nisa.select_reduce(y, x, x, 0.0)", "predicate .*float32.* must be uint8, int8"),
    ("iota", "nisa.iota(sums((128, 16), nl.int32), [[1, 16]])", "dst psum .* must lie in SBUF"),
    ("iota", "nisa.iota(integers, [[1, 8]])", "has 8 elements, dst .* 128 in a partition"),
    ("iota", "nisa.iota(integers, [[1, 2]] * 5)", "has 5 dimensions, at most 4"),
    (
        "affine_select",
        "nisa.affine_select(y, [[1, 128]], 1, x, 0.0, cmp_op=nl.add)",
        "cmp_op add must be equal",
    ),
    ("nc_n_gather", "nisa.nc_n_gather(y, x, integers)", "indices .*int32.* must be uint32"),
    ("local_gather", "nisa.local_gather(y, x, integers)", "index .*int32.* must be uint16"),
    ("dropout", "nisa.dropout(half, x, 0.1)", "same element type"),
    ("rng", "nisa.rng(y)", "dst .*float32.* must be int8"),
    ("set_rng_seed", "nisa.set_rng_seed(new((128, 1), nl.uint32))", r"must be \[1, 1\] of 32 bits"),
    ("rand_set_state", "nisa.rand_set_state(new((128, 5), nl.uint32))", "has 5 words in each partition"),
    ("sendrecv", "nisa.sendrecv(x, half, 1, 1, 0)", "same element type"),
    ("core_barrier", "nisa.core_barrier(x, (0, 1))", "data .* must lie in HBM"),
    ("core_barrier", "nisa.core_barrier(out, (0, 2))", r"cores=\(0, 2\) must be \(0, 1\)"),
    (
        "register_load",
        "nisa.register_load(nisa.register_alloc(0), sums((1, 1), nl.int32))",
        "must lie in HBM or",
    ),
    ("topk", "nisa.topk(half[0:16, 0:8], new((16, 8), nl.uint32), x[0:16], 1024)", "src .* must be bfloat16"),
    (
        "quantize_mx",
        "trn3 @ t = nl.ndarray((32, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf); "
        "nisa.quantize_mx(t, new((32, 64)), new((32, 16), nl.uint8))",
        "src .*float32.* must be float16 or bfloat16",
    ),
    (
        "scalar_tensor_tensor",
        "nisa.scalar_tensor_tensor(y, p, nl.multiply, 2.0, nl.add, p)",
        "data psum .* and operand1 psum .* lie both in PSUM",
    ),
    (
        "nc_stream_shuffle",
        "nisa.nc_stream_shuffle(y[:, 0:64], x, list(range(32)))",
        "dst .* and src .*: 64 and 128 elements",
    ),
    (
        "nonzero_with_count",
        "nisa.nonzero_with_count(new((128, 129)), integers)",
        "dst .*float32.* must be int32",
    ),
    (
        "dma_copy",
        "nisa.dma_copy(x, a, engine=nisa.engine.vector)",
        "engine vector: sync or scalar trigger a DMA",
    ),
    (
        "tensor_scalar",
        "nisa.tensor_scalar(y, x, nl.add, 1.0, engine=nisa.engine.gpsimd)",
        "add on the gpsimd engine: it has rsqrt only",
    ),
    ("tensor_scalar", "nisa.tensor_scalar(y, x, nl.add, 1.0, operand1=2.0)", "operand1=2.0 without op1="),
    (
        "tensor_reduce",
        "nisa.tensor_reduce(column, nl.add, x, axis=3)",
        "axis=3: .*dimensions 0 to 1",
    ),
    (
        "tensor_scalar_reduce",
        "nisa.tensor_scalar_reduce(y, x, nl.add, 1.0, nl.add, None, reduce_cmd=nisa.reduce_cmd.load_reduce)",
        "reduce_cmd.load_reduce needs reduce_init=",
    ),
    (
        "rand_set_state",
        "nisa.rand_set_state(new((128, 24), nl.uint32), engine=nisa.engine.vector)",
        "on this engine: NeuronCore-v4",
    ),
    ("rng", "trn1 @ nisa.rng(integers, engine=nisa.engine.gpsimd)", "on this engine: NeuronCore-v3"),
    ("dropout", "nisa.dropout(y, x, new((128, 2)))", r"prob .*\[128, 2\] must be \[128, 1\]"),
    (
        "dropout",
        "nisa.dropout(integers, integers, new((128, 1), nl.bfloat16))",
        "prob .*bfloat16.* must be float32",
    ),
    ("nl.store", "nl.store(out, p)", "value psum .* must lie in SBUF"),
    ("nl.program_id", "nl.program_id(3)", "invalid program axis 3, the grid has 1"),
]


@pytest.mark.parametrize(("name", "line", "message"), TABLE, ids=[line[:60] for _, line, _ in TABLE])
def test_operands_that_the_documentation_excludes_are_named(tmp_path, name, line, message) -> None:
    preset, _, call = line.rpartition(" @ ")
    text = HEAD + f"    {call}\n"
    with pytest.raises(NpuvizError) as caught:
        loaded(tmp_path, text, {}, preset=preset or "trn2", **{"shape.a": "128x128"})
    found = str(caught.value)
    assert found.startswith(f"kernel.py:{len(text.splitlines())}: NkiValidationError: {name}")
    assert re.search(message, found)
    assert "\n" not in found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.permute((0, 0))", r"permuted by \(0, 0\): each dimension is named once"),
        ("x.permute((1, 0))", "on the chip the partition dimension comes first"),
        (
            "a.ap([[128, 128], [1, 128]], scalar_offset=nisa.register_alloc(0), vector_offset=integers)",
            "takes vector_offset or scalar_offset, not both",
        ),
        (
            "x.ap([[256, 64], [1, 128]])",
            "a step of 256: partitions are taken one after the other, 128 elements",
        ),
        ("nisa.tensor_copy(dst=y, source=x)", "unexpected keyword argument 'source', missing .* 'src'"),
        (
            "nisa.nonzero_with_count(integers, integers)",
            r"dst .*\[128, 128\] must have one element more in each partition than src .*: 129",
        ),
    ],
)
def test_views_and_arguments_say_what_was_found(tmp_path, line, message) -> None:
    text = HEAD + f"    {line}\n"
    with pytest.raises(NpuvizError, match=f"^kernel.py:{len(text.splitlines())}: .*{message}"):
        loaded(tmp_path, text, {}, **{"shape.a": "128x128"})


@pytest.mark.parametrize(
    "line",
    [
        "nisa.dropout(half, half, new((128, 1), nl.bfloat16))",
        "nisa.tensor_reduce(column, nl.add, x, axis=-1)",
        "nisa.tensor_scalar(y, x, nl.rsqrt, 0.0, engine=nisa.engine.gpsimd)",
    ],
)
def test_what_the_documentation_allows_runs(tmp_path, line) -> None:
    text = HEAD + f"    {line}\n    nisa.dma_copy(out, x)\n    return out\n"
    _, program = loaded(tmp_path, text, {"a": random(128, 128)}, preset="trn2")
    assert not any(REFUSED in each.text for each in program.notes)


def test_each_function_with_rules_is_one_of_the_documentation() -> None:
    assert all(hasattr(second, name) for name in RULES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nl.divide(x, x)", "nl.divide: there is no such instruction; multiply by nl.reciprocal"),
        ("nl.power(x, 2.0)", "nl.power: takes two tiles"),
        ("nl.add(x, column)", r"nl.add: x .*\[128, 128\] and y .*\[128, 1\]: .* do not broadcast"),
        ("nl.matmul(x, x)", "nl.matmul: without transpose_x=True"),
        ("nl.rsqrt(p)", "nl.rsqrt: x psum .* lies in PSUM, refused since 0.5"),
    ],
)
def test_what_the_compiler_does_not_take_is_a_warning_with_its_line(tmp_path, call, message) -> None:
    text = HEAD + f"    z = {call}\n    nisa.tensor_copy(y, z)\n    nisa.dma_copy(out, y)\n    return out\n"
    line = len(HEAD.splitlines()) + 1
    _, program = loaded(tmp_path, text, {"a": random(128, 128)})
    found = [each.text for each in program.notes if each.severity == "warning"]
    assert any(re.search(f"^{REFUSED}: kernel.py:{line}: {message}", each) for each in found)


@pytest.mark.parametrize(
    "kind", ["int8", "int16", "int32", "uint8", "uint16", "uint32", "bfloat16", "float16"]
)
def test_a_zero_of_floats_fills_any_type(tmp_path, kind) -> None:
    body = f"    tile = new((128, 128), nl.{kind}, 5)\n    nisa.memset(tile[:, 8:64], 0.0)\n"
    text = HEAD + body + "    nisa.tensor_copy(y, tile)\n    nisa.dma_copy(out, y)\n    return out\n"
    expected = np.full((128, 128), 5, dtype=np.float32)
    expected[:, 8:64] = 0
    np.testing.assert_array_equal(ran(tmp_path, text, {"a": random(128, 128)}), expected)
