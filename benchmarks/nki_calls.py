"""One call of each documented function of NKI, for `nki_documented`.

Keys are (generation, name), generation 0 for calls that both understand. A value is Python in a kernel with
the tiles a, b [128, 64] float32, n [128, 64] int32, h [128, 64] bfloat16, c [128, 1] float32 and, in
generation 2, d like a, to be written; `;` ends a line; `trn3 @ ` chooses a machine, `2 @ ` two instances.
"""

HEADS = {
    1: """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, xh, xn):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
    a, b, h, n = nl.load(x), nl.load(x), nl.load(xh), nl.load(xn)
    c = nl.load(x[:, 0:1])
    CALL
    nl.store(out, a)
    return out
""",
    2: """
import numpy as np
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl


def tile(dtype, shape=(128, 64), value=None):
    made = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    if value is not None:
        nisa.memset(dst=made, value=value)
    return made


@nki.jit
def kernel(x, xh, xn):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b, d, h, n, c = (tile(t) for t in (nl.float32,) * 3 + (nl.bfloat16, nl.int32, nl.float32))
    c = c[:, 0:1]
    one = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    for to, source in ((a, x), (b, x), (d, x), (h, xh), (n, xn), (c, x[:, 0:1])):
        nisa.dma_copy(dst=to, src=source)
    nisa.memset(dst=one, value=1)
    group = ncc.ReplicaGroup([[0]])
    own, other = (nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.private_hbm) for _ in range(2))
    nisa.dma_copy(dst=own, src=a)
    nisa.dma_copy(dst=other, src=a)
    CALL
    nisa.dma_copy(dst=out, src=a)
    return out
""",
}
"""Generation -> kernel in which CALL is replaced by a call."""
TAKES_ANY = frozenset(
    (
        *("affine_range", "sequential_range", "static_range", "dynamic_range", "arange"),
        *("allocation_scope", "enable_stack_allocator", "force_auto_alloc", "multi_buffer"),
        *("skip_middle_end_transformations", "alloc", "mod_alloc"),
    )
)
"""Functions whose parameter names are not checked."""

_UNARY = (
    *("abs", "arctan", "ceil", "cos", "erf", "erf_dx", "exp", "floor", "gelu", "gelu_apprx_sigmoid"),
    *("gelu_apprx_sigmoid_dx", "gelu_apprx_tanh", "gelu_dx", "mish", "negative", "reciprocal", "relu"),
    *("sigmoid", "sign", "silu", "silu_dx", "sin", "softplus", "square", "tan", "tanh", "trunc", "copy"),
)
_POSITIVE = ("log", "rsqrt", "sqrt")
_BINARY = (
    *("add", "divide", "equal", "greater", "greater_equal", "less", "less_equal", "maximum", "minimum"),
    *("multiply", "not_equal", "subtract", "abs_max", "abs_min", "fmod", "mod"),
)
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
_SHIFTS = ("left_shift", "right_shift")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_REDUCTIONS = ("sum", "max", "min", "mean", "prod", "var")
_COLLECTIVE = {
    "all_reduce": "ncc.all_reduce([own], [other], group, nl.add)",
    "all_gather": "ncc.all_gather([own], [other], group, 0)",
    "reduce_scatter": "ncc.reduce_scatter([own], [other], group, 0, nl.add)",
    "all_to_all": "ncc.all_to_all([own], [other], group, 0)",
    "collective_permute": "ncc.collective_permute([own], [other], [(0, 0)])",
    "collective_permute_implicit": "ncc.collective_permute_implicit([[own]], [[other]], group)",
    "collective_permute_implicit_reduce": (
        "ncc.collective_permute_implicit_reduce([[own]], [[own]], [[other]], group, nl.add)"
    ),
    "collective_permute_implicit_current_processing_rank_id": (
        "assert int(ncc.collective_permute_implicit_current_processing_rank_id(0, group)) == 0"
    ),
    "rank_id": "assert int(ncc.rank_id()) == 0",
}
_COUNTS = (
    "m = nl.ndarray((3, 1), dtype=nl.uint32, buffer=nl.private_hbm); "
    "nisa.dma_copy(dst=m, src=nl.shared_constant(np.array([[5], [1], [0]], np.uint32))); "
)
_PACKED = (
    "trn3 @ q = tile(nl.float8_e4m3fn_x4, (128, 16)); s = tile(nl.uint8, (128, 16), 0); "
    "nisa.quantize_mx(dst=q, src=h, dst_scale=s)"
)

CALLS: dict[tuple[int, str], str] = {
    **{(1, name): f"a[...] = nl.{name}(a)" for name in _UNARY},
    **{(1, name): f"a[...] = nl.{name}(nl.square(a))" for name in _POSITIVE},
    **{(1, name): f"a[...] = nl.{name}(a, b)" for name in _BINARY},
    **{(1, name): f"n[...] = nl.{name}(n, n)" for name in _BITS},
    **{(1, name): f"n[...] = nl.{name}(n, 1)" for name in _SHIFTS},
    **{(1, name): f"a[...] = nl.{name}(a, b)" for name in _LOGICAL},
    **{(1, name): f"c[...] = nl.{name}(a, axis=[1])" for name in _REDUCTIONS},
    **{(2, name): f"d = nl.{name}(a)" for name in _UNARY},
    **{(2, name): f"d = nl.{name}(nl.square(a))" for name in _POSITIVE},
    **{(2, name): f"d = nl.{name}(a, b)" for name in _BINARY},
    **{(2, name): f"n = nl.{name}(n, n)" for name in (*_BITS, *_SHIFTS)},
    **{(2, name): f"d = nl.{name}(nl.greater(a, b), nl.less(a, b))" for name in _LOGICAL},
    **{(2, name): f"d = nl.{name}(a, axis=1)" for name in _REDUCTIONS},
    **{(2, name): call for name, call in _COLLECTIVE.items()},
    (2, "all_gather_v"): _COUNTS + "ncc.all_gather_v([own], [other], group, m)",
    (2, "all_to_all_v"): _COUNTS + "ncc.all_to_all_v([own], [other], group, m)",
    # entry points and compiler
    (1, "baremetal"): "assert callable(nki.baremetal(lambda x: x))",
    (1, "benchmark"): "assert callable(nki.benchmark(lambda x: x))",
    (1, "profile"): "assert callable(nki.profile(lambda x: x))",
    (0, "jit"): "assert callable(nki.jit(lambda x: x))",
    (1, "simulate_kernel"): "assert callable(nki.simulate_kernel)",
    (2, "simulate"): "assert callable(nki.simulate(lambda x: x))",
    **{
        (1, name): f"assert callable(ncc.{name}(lambda x: x))"
        for name in ("enable_stack_allocator", "force_auto_alloc", "skip_middle_end_transformations")
    },
    (1, "allocation_scope"): "assert ncc.allocation_scope",
    (1, "multi_buffer"): "assert ncc.multi_buffer",
    (0, "no_reorder"): "with nl.no_reorder():;     pass",
    (1, "alloc"): "ncc.sbuf.alloc(lambda idx, pdim_size, fdim_size: (0, 0))",
    (1, "mod_alloc"): "ncc.sbuf.mod_alloc(base_addr=0)",
    (1, "auto_alloc"): "ncc.sbuf.auto_alloc()",
    # isa, generation 1
    (1, "activation"): "a[...] = nisa.activation(op=np.tanh, data=b, bias=c, scale=2.0)",
    (1, "activation_reduce"): "nisa.activation_reduce(op=np.exp, data=b, reduce_op=np.add, reduce_res=c)",
    (1, "affine_select"): "a[...] = nisa.affine_select(pred=i_p >= i_f, on_true_tile=b, on_false_value=0.0)",
    (1, "bn_stats"): "s = nisa.bn_stats(a)",
    (1, "bn_aggr"): "s = nisa.bn_aggr(nisa.bn_stats(a))",
    (1, "builtin_custom_op"): "nisa.builtin_custom_op('f', 'lib.so', {}, {}, [a], [b])",
    (1, "dma_copy"): "nisa.dma_copy(dst=a, src=x)",
    (1, "dma_transpose"): "t = nisa.dma_transpose(xh, mask=i_p < 64)",
    (0, "get_nc_version"): "assert nisa.get_nc_version() == nisa.nc_version.gen3",
    (1, "dropout"): "a[...] = nisa.dropout(b, prob=0.5); a[...] = nl.dropout(b, rate=0.5)",
    (1, "iota"): "n[0:1, :] = nisa.iota(i_f, dtype=nl.int32)",
    (1, "local_gather"): "s = nisa.local_gather(h, nl.zeros((128, 2), dtype=nl.uint16), 1, 8)",
    (1, "max8"): "s = nisa.max8(src=a)",
    (1, "memset"): "a[...] = nisa.memset((128, 64), 1.0, nl.float32)",
    (1, "nc_find_index8"): "s = nisa.nc_find_index8(data=a, vals=nisa.max8(src=a))",
    (1, "nc_match_replace8"): "s = nisa.nc_match_replace8(data=a, vals=nisa.max8(src=a), imm=0.0)",
    (1, "nc_matmul"): "s = nisa.nc_matmul(a, b)",
    (1, "nc_stream_shuffle"): "nisa.nc_stream_shuffle(src=a, dst=b, shuffle_mask=list(range(32)))",
    (1, "nc_transpose"): "s = nisa.nc_transpose(a)",
    (1, "range_select"): (
        "a[...] = nisa.range_select(on_true_tile=b, comp_op0=np.greater_equal, comp_op1=np.less, bound0=c, "
        "bound1=c, reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=c, reduce_op=np.max)"
    ),
    (1, "scalar_tensor_tensor"): (
        "a[...] = nisa.scalar_tensor_tensor(data=a, op0=np.add, operand0=1.0, op1=np.multiply, operand1=b)"
    ),
    (1, "select_reduce"): (
        "u = nl.greater(a, b, dtype=nl.uint8); "
        "nisa.select_reduce(dst=a, predicate=u, on_true=b, on_false=0.0, dtype=nl.float32)"
    ),
    (1, "sequence_bounds"): "s = nisa.sequence_bounds(segment_ids=nl.zeros((1, 64), dtype=nl.float32))",
    (1, "tensor_copy"): "a[...] = nisa.tensor_copy(b)",
    (1, "tensor_copy_dynamic_dst"): (
        "at = nl.load(xn[0:1, 0:1]); at[...] = nisa.memset((1, 1), 3, nl.int32); "
        "nisa.tensor_copy_dynamic_dst(dst=a[i_p, at + nl.arange(8)[None, :]], src=b[:, 0:8])"
    ),
    (1, "tensor_copy_dynamic_src"): (
        "at = nl.load(xn[0:1, 0:1]); at[...] = nisa.memset((1, 1), 3, nl.int32); "
        "s = nisa.tensor_copy_dynamic_src(b[i_p, at + nl.arange(8)[None, :]])"
    ),
    (1, "tensor_copy_predicated"): (
        "u = nl.greater(a, b, dtype=nl.uint8); nisa.tensor_copy_predicated(src=b, dst=a, predicate=u)"
    ),
    (1, "tensor_partition_reduce"): "s = nisa.tensor_partition_reduce(np.add, a)",
    (1, "tensor_reduce"): "c[...] = nisa.tensor_reduce(np.max, a, axis=[1], negate=True)",
    (1, "tensor_scalar"): "a[...] = nisa.tensor_scalar(b, np.add, 1.0, op1=np.multiply, operand1=c)",
    (1, "tensor_scalar_reduce"): (
        "a[...] = nisa.tensor_scalar_reduce(data=b, op0=np.add, operand0=1.0, reduce_op=np.add, reduce_res=c)"
    ),
    (1, "tensor_tensor"): "a[...] = nisa.tensor_tensor(a, b, np.add)",
    (1, "tensor_tensor_scan"): "a[...] = nisa.tensor_tensor_scan(a, b, 0.0, np.multiply, np.add)",
    # language, generation 1
    (1, "all"): "s = nl.all(nl.greater(a, b), axis=[1])",
    (1, "all_reduce"): "a[...] = nl.all_reduce(b, np.add, program_axes=[0])",
    (1, "atomic_rmw"): (
        "nl.store(out, a); i = nl.arange(1)[:, None]; nl.atomic_rmw(out[i_p, i_f], value=a, op=np.add)"
    ),
    (1, "arange"): "s = a[nl.arange(64)[:, None], nl.arange(8)[None, :]]",
    (1, "affine_range"): "for i in nl.affine_range(2):;     a[...] = nl.add(b, 1.0)",
    (1, "sequential_range"): "for i in nl.sequential_range(2):;     a[...] = nl.add(a, 1.0)",
    (1, "static_range"): "for i in nl.static_range(2):;     a[...] = nl.add(a, 1.0)",
    (1, "broadcast_to"): "s = nl.broadcast_to(a[0:1, :], shape=(128, 64))",
    (1, "device_print"): "nl.device_print('a', a)",
    (1, "ds"): "s = nl.load(x[nl.ds(0, 64), nl.ds(0, 8)])",
    (1, "empty_like"): "s = nl.empty_like(a)",
    (1, "expand_dims"): "s = nl.expand_dims(a, 2)",
    (1, "finfo"): "assert nl.finfo(nl.float32).min < 0",
    (1, "full"): "s = nl.full((128, 8), 2.0, dtype=nl.float32)",
    (1, "gather_flattened"): "s = nl.gather_flattened(a, nl.zeros((128, 8), dtype=nl.uint32))",
    (1, "gemm_grid"): "g = nl.gemm_grid().p",
    (1, "gemm_stationary_grid"): "g = nl.gemm_stationary_grid().p",
    (1, "invert"): "n[...] = nl.invert(n)",
    (1, "load"): "a[...] = nl.load(x)",
    (1, "load_transpose2d"): "s = nl.load_transpose2d(x)",
    (1, "logical_not"): "s = nl.logical_not(nl.greater(a, b))",
    (1, "loop_reduce"): (
        "for i in nl.affine_range(2):;     a[...] = nl.loop_reduce(b, op=np.add, loop_indices=[i])"
    ),
    (1, "matmul"): "s = nl.matmul(a[:, 0:32], b, transpose_x=True)",
    (1, "ndarray"): "s = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)",
    (0, "num_programs"): "assert nl.num_programs(axes=0) == 1",
    (1, "ones"): "s = nl.ones((128, 8), dtype=nl.float32)",
    (0, "power"): "d = nl.power(a, b)",
    (0, "program_id"): "assert nl.program_id(axis=0) == 0",
    (0, "program_ndim"): "assert nl.program_ndim() >= 0",
    (1, "rand"): "a[...] = nl.rand((128, 64))",
    (1, "random_seed"): "nl.random_seed(nl.load(xn[0:1, 0:1]), mask=None)",
    (1, "rms_norm"): "s = nl.rms_norm(a, nl.load(x), axis=[1], n=64)",
    (0, "shared_constant"): "s = nl.shared_constant(np.eye(8, dtype=np.float32))",
    (1, "shared_identity_matrix"): "s = nl.shared_identity_matrix(8, dtype=nl.float32)",
    (1, "softmax"): "a[...] = nl.softmax(b, axis=[1])",
    (1, "static_cast"): "s = nl.static_cast(input_data=1, dtype=nl.float32)",
    (1, "store"): "nl.store(out, value=a)",
    (1, "transpose"): "s = nl.transpose(a)",
    (1, "where"): "a[...] = nl.where(nl.greater(a, b), a, b)",
    (1, "zeros"): "s = nl.zeros((128, 8), dtype=nl.float32)",
    (1, "zeros_like"): "s = nl.zeros_like(a)",
    # methods of a tensor, generation 2
    (2, "__getitem__"): "nisa.tensor_copy(dst=d[:, 0:8], src=a[:, 8:16])",
    (2, "__setitem__"): "d[:, 0:8] = a[:, 8:16]",
    (2, "ap"): "nisa.tensor_copy(dst=d[:, 0:32], src=a.ap([[64, 128], [2, 32]], offset=1))",
    (2, "broadcast"): "nisa.tensor_copy(dst=d, src=c.broadcast(1, 64))",
    (2, "expand_dim"): "assert a.expand_dim(1).shape == (128, 1, 64)",
    (2, "flatten_dims"): "assert a.reshape((128, 8, 8)).flatten_dims(1, 2).shape == (128, 64)",
    (2, "get_pattern"): "assert [size for _, size in a.get_pattern()] == [128, 64]",
    (2, "indirect"): (
        "trn3 @ i = tile(nl.uint16, (128, 1), 3); nisa.tensor_copy(dst=d[:, 0:8], src=a.indirect(i, 8))"
    ),
    (2, "is_contiguous"): "assert a.is_contiguous()",
    (2, "is_indirect"): "assert not a.is_indirect()",
    (2, "permute"): "assert a.reshape((128, 4, 16)).permute((0, 2, 1)).shape == (128, 16, 4)",
    (2, "rearrange"): (
        "assert a.rearrange(('p', ('x', 'y')), ('p', 'y', 'x'), {'x': 4}).shape == (128, 16, 4)"
    ),
    (2, "reinterpret_cast"): "assert a.reinterpret_cast(nl.int32).dtype == nl.int32",
    (2, "reshape"): "assert a.reshape((128, 8, 8)).shape == (128, 8, 8)",
    (2, "reshape_dim"): "assert a.reshape_dim(1, (4, 16)).shape == (128, 4, 16)",
    (2, "select"): "assert a.reshape((128, 8, 8)).select(1, 3).shape == (128, 8)",
    (2, "slice"): "nisa.tensor_copy(dst=d[:, 0:8], src=a.slice(1, 0, 16, 2))",
    (2, "squeeze_dim"): "assert a.expand_dim(1).squeeze_dim(1).shape == (128, 64)",
    (2, "vector_select"): (
        "i = tile(nl.uint32, (128, 1), 3); nisa.dma_copy(dst=d, src=x.vector_select(0, i))"
    ),
    (2, "view"): "assert a.view(nl.bfloat16).shape == (128, 128)",
    # isa, generation 2
    (2, "get_nc_sub_version"): "assert nisa.get_nc_sub_version() == 0",
    (2, "dma_copy"): "nisa.dma_copy(dst=d, src=x)",
    (2, "tensor_copy"): "nisa.tensor_copy(dst=d, src=a, engine=nisa.engine.vector)",
    (2, "memset"): "nisa.memset(dst=d, value=1.0)",
    (2, "tensor_copy_predicated"): (
        "u = tile(nl.uint8); nisa.tensor_tensor(dst=u, data1=a, data2=b, op=nl.greater); "
        "nisa.tensor_copy_predicated(dst=d, src=a, predicate=u)"
    ),
    (2, "nc_matmul"): "nisa.nc_matmul(dst=p, stationary=a, moving=b)",
    (2, "quantize_mx"): _PACKED,
    (2, "nc_matmul_mx"): (
        f"{_PACKED}; r = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.psum); "
        "nisa.nc_matmul_mx(r, q, q, s, s)"
    ),
    (2, "nc_transpose"): (
        "t = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum); nisa.nc_transpose(dst=t, data=a)"
    ),
    (2, "dma_transpose"): "t = tile(nl.bfloat16, (64, 128)); nisa.dma_transpose(dst=t, src=xh)",
    (2, "tensor_tensor"): "nisa.tensor_tensor(dst=d, data1=a, data2=b, op=nl.add)",
    (2, "tensor_scalar"): "nisa.tensor_scalar(dst=d, data=a, op0=nl.add, operand0=c)",
    (2, "tensor_reduce"): "nisa.tensor_reduce(dst=c, op=nl.add, data=a, axis=1)",
    (2, "tensor_partition_reduce"): (
        "t = tile(nl.float32, (1, 64)); nisa.tensor_partition_reduce(dst=t, op=nl.add, data=a)"
    ),
    (2, "tensor_scalar_cumulative"): (
        "nisa.tensor_scalar_cumulative(dst=d, src=a, op0=nl.multiply, op1=nl.add, imm0=1.0)"
    ),
    (2, "activation"): "nisa.activation(dst=d, op=nl.exp, data=a, bias=c, scale=0.5)",
    (2, "activation_reduce"): (
        "nisa.activation_reduce(dst=d, op=nl.exp, data=a, reduce_op=nl.add, reduce_res=c)"
    ),
    (2, "activate2"): (
        "trn3 @ nisa.activate2(dst=d, op=nl.prelu, data=a, imm0=2.0, imm1=1.0, op0=nl.multiply, op1=nl.add, "
        "relu_param=0.1)"
    ),
    (2, "iota"): "nisa.iota(dst=n, pattern=[[1, 64]])",
    (2, "affine_select"): (
        "nisa.affine_select(dst=d, pattern=[[-1, 64]], channel_multiplier=1, on_true_tile=a, "
        "on_false_value=0.0, cmp_op=nl.greater_equal)"
    ),
    (2, "local_gather"): (
        "i = tile(nl.uint16, (128, 1), 0); t = tile(nl.float32, (128, 16)); "
        "nisa.local_gather(dst=t, src_buffer=a, index=i)"
    ),
    (2, "nc_n_gather"): (
        "i = tile(nl.uint32, (128, 8), 1); t = tile(nl.float32, (128, 8)); "
        "nisa.nc_n_gather(dst=t, data=a, indices=i)"
    ),
    (2, "bn_stats"): "t = tile(nl.float32, (128, 6)); nisa.bn_stats(dst=t, data=a)",
    (2, "bn_aggr"): (
        "t = tile(nl.float32, (128, 6)); nisa.bn_stats(dst=t, data=a); s = tile(nl.float32, (128, 2)); "
        "nisa.bn_aggr(dst=s, data=t)"
    ),
    (2, "tensor_tensor_scan"): (
        "nisa.tensor_tensor_scan(dst=d, data0=a, data1=b, initial=0.0, op0=nl.multiply, op1=nl.add)"
    ),
    (2, "nc_stream_shuffle"): "nisa.nc_stream_shuffle(dst=d, src=a, shuffle_mask=list(range(32)))",
    (2, "rng"): "u = tile(nl.uint32); nisa.rng(dst=u)",
    (2, "set_rng_seed"): "nisa.set_rng_seed(one)",
    (2, "rand_set_state"): (
        "u = tile(nl.uint32, (128, 6), 1); nisa.rand_set_state(u, engine=nisa.engine.gpsimd)"
    ),
    (2, "rand_get_state"): (
        "u = tile(nl.uint32, (128, 6)); nisa.rand_get_state(dst=u, engine=nisa.engine.gpsimd)"
    ),
    (2, "rand2"): "trn3 @ nisa.rand2(dst=d, min=0.0, max=1.0)",
    (2, "exponential"): "trn3 @ nisa.exponential(dst=d, src=a, max_value=c)",
    (2, "max8"): "t = tile(nl.float32, (128, 8)); nisa.max8(dst=t, src=a)",
    (2, "sequence_bounds"): (
        "s = tile(nl.int32, (1, 64), 1); t = tile(nl.int32, (1, 2, 64)); "
        "nisa.sequence_bounds(dst=t, segment_ids=s)"
    ),
    (2, "scalar_tensor_tensor"): (
        "nisa.scalar_tensor_tensor(dst=d, data=a, op0=nl.add, operand0=1.0, op1=nl.multiply, operand1=b)"
    ),
    (2, "tensor_scalar_reduce"): (
        "nisa.tensor_scalar_reduce(dst=d, data=a, op0=nl.add, operand0=1.0, reduce_op=nl.add, reduce_res=c)"
    ),
    (2, "core_barrier"): "nisa.core_barrier(own, (0, 1))",
    (2, "dma_compute"): "nisa.dma_compute(dst=own, srcs=[own, other], reduce_op=nl.add)",
    (2, "range_select"): (
        "nisa.range_select(dst=d, on_true_tile=a, comp_op0=nl.greater_equal, comp_op1=nl.less, bound0=c, "
        "bound1=c)"
    ),
    (2, "select_reduce"): (
        "u = tile(nl.uint8); nisa.tensor_tensor(dst=u, data1=a, data2=b, op=nl.greater); "
        "nisa.select_reduce(dst=d, predicate=u, on_true=a, on_false=0.0)"
    ),
    (2, "sendrecv"): (
        "2 @ other = 1 - nl.program_id(0); "
        "nisa.sendrecv(src=a, dst=d, send_to_rank=other, recv_from_rank=other, pipe_id=0)"
    ),
    (2, "register_alloc"): "r = nisa.register_alloc(3)",
    (2, "register_move"): "r = nisa.register_alloc(); nisa.register_move(r, 3)",
    (2, "register_load"): "r = nisa.register_alloc(); nisa.register_load(r, one)",
    (2, "register_store"): "r = nisa.register_alloc(3); nisa.register_store(one, r)",
    (2, "nc_find_index8"): (
        "t = tile(nl.float32, (128, 8)); nisa.max8(dst=t, src=a); i = tile(nl.uint32, (128, 8)); "
        "nisa.nc_find_index8(dst=i, data=a, vals=t)"
    ),
    (2, "nc_match_replace8"): (
        "t = tile(nl.float32, (128, 8)); nisa.max8(dst=t, src=a); "
        "nisa.nc_match_replace8(dst=d, data=a, vals=t, imm=0.0)"
    ),
    (2, "nonzero_with_count"): (
        "t = tile(nl.int32, (128, 65), 0); nisa.nonzero_with_count(dst=t, src=a)"
    ),
    (2, "topk"): (
        "v = tile(nl.bfloat16, (128, 8)); i = tile(nl.uint32, (128, 8)); "
        "nisa.topk(val_dst=v, idx_dst=i, src=h, n=100)"
    ),
    # language, generation 2
    **{
        (2, name): f"assert nl.{name}(nl.sbuf) in (True, False)"
        for name in ("is_hbm", "is_on_chip", "is_psum", "is_sbuf")
    },
    (2, "reciprocal"): "nisa.reciprocal(dst=d, data=a); d = nl.reciprocal(a)",
    (2, "dropout"): "nisa.dropout(dst=d, data=a, prob=0.5); d = nl.dropout(a, rate=0.5)",
    (2, "invert"): "n = nl.invert(n)",
    (2, "logical_not"): "d = nl.logical_not(nl.greater(a, b))",
    (2, "all"): "d = nl.all(nl.greater(a, b), axis=1)",
    (2, "softmax"): "d = nl.softmax(a, axis=1)",
    (2, "rms_norm"): "d = nl.rms_norm(a, b, axis=1, n=64)",
    (2, "where"): "d = nl.where(nl.greater(a, b), a, b)",
    (2, "ones"): "d = nl.ones((128, 8), dtype=nl.float32)",
    (2, "full"): "d = nl.full((128, 8), 2.0, dtype=nl.float32)",
    (2, "zeros"): "d = nl.zeros((128, 8), dtype=nl.float32)",
    (2, "zeros_like"): "d = nl.zeros_like(a)",
    (2, "empty_like"): "d = nl.empty_like(a)",
    (2, "random_seed"): "nl.random_seed(one)",
    (2, "rand"): "d = nl.rand((128, 64), dtype=nl.float32)",
    (2, "expand_dims"): "d = nl.expand_dims(a, 2)",
    (2, "broadcast_to"): "d = nl.broadcast_to(a[0:1, :], (128, 64))",
    (2, "transpose"): "d = nl.transpose(a)",
    (2, "matmul"): "d = nl.matmul(a[:, 0:32], b, transpose_x=True)",
    (2, "load_transpose2d"): "d = nl.load_transpose2d(xh)",
    (2, "gather_flattened"): "i = tile(nl.uint32, (128, 8), 1); d = nl.gather_flattened(a, i)",
    (2, "ds"): "d = a[:, nl.ds(0, 8)]",
    (2, "affine_range"): "for i in nl.affine_range(0, 4, 2):;     nisa.memset(dst=d, value=1.0)",
    (2, "sequential_range"): "for i in nl.sequential_range(2):;     nisa.memset(dst=d, value=1.0)",
    (2, "static_range"): "for i in nl.static_range(2):;     nisa.memset(dst=d, value=1.0)",
    (2, "dynamic_range"): "for i in nl.dynamic_range(2):;     nisa.memset(dst=d, value=1.0)",
    (2, "fori_loop"): "nl.fori_loop(0, 2, lambda i: nisa.memset(dst=d, value=1.0))",
    (2, "while_loop"): "r = nisa.register_alloc(0); nl.while_loop(r, lambda r: r)",
    (2, "ndarray"): "d = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 4096))",
    (2, "load"): "d = nl.load(x)",
    (2, "store"): "nl.store(out, a)",
    (2, "shared_identity_matrix"): "d = nl.shared_identity_matrix(8, dtype=nl.float32)",
    (2, "device_print"): "nl.device_print('a', a)",
}  # fmt: skip
