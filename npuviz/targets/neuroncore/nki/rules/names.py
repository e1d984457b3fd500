"""The names that each stand-in module has: those of NKI's documentation, and what old files take from it.

# Ref: aws-neuron-sdk 49ee15c5 (SDK 2.26), general/nki/api/nki, generation 1; 81ce03ae (0.6.0), nki/api/nki,
# generation 2, with migration/index.rst and release-notes/components/nki.rst for what 0.2 to 0.4 had besides
"""

import dis
from collections.abc import Callable, Mapping
from typing import Any

from npuviz.targets.neuroncore.nki.record.errors import Undocumented
from npuviz.targets.neuroncore.nki.record.variable_names import users_frame

LANGUAGE = (
    "abs", "add", "affine_range", "all", "arctan", "bfloat16", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bool_", "broadcast_to", "ceil", "constants", "copy", "cos", "device_print", "divide", "dropout", "ds",
    "empty_like", "equal", "erf", "erf_dx", "exp", "expand_dims", "float16", "float32", "float8_e4m3",
    "float8_e5m2", "floor", "fmod", "full", "gather_flattened", "gelu", "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx", "gelu_apprx_tanh", "gelu_dx", "greater", "greater_equal", "hbm", "int16",
    "int32", "int8", "invert", "left_shift", "less", "less_equal", "load", "load_transpose2d", "log",
    "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "max", "maximum", "mean", "min",
    "minimum", "mish", "mod", "multiply", "nc", "ndarray", "negative", "no_reorder", "not_equal",
    "num_programs", "ones", "par_dim", "power", "private_hbm", "prod", "program_id", "program_ndim", "psum",
    "rand", "random_seed", "reciprocal", "relu", "right_shift", "rms_norm", "rsqrt", "sbuf",
    "sequential_range", "shared_constant", "shared_hbm", "shared_identity_matrix", "sigmoid", "sign",
    "silu", "silu_dx", "sin", "softmax", "softplus", "sqrt", "square", "static_range", "store", "subtract",
    "sum", "tan", "tanh", "tfloat32", "tile_size", "transpose", "trunc", "uint16", "uint32", "uint8", "var",
    "where", "zeros", "zeros_like",
)  # fmt: skip
"""Names of nki.language in both generations."""
LANGUAGE_FIRST = (
    "all_reduce", "arange", "atomic_rmw", "bfp16", "finfo", "fp32", "gemm_grid", "gemm_stationary_grid",
    "loop_reduce", "mgrid", "spmd_dim", "static_cast",
)  # fmt: skip
LANGUAGE_SECOND = (
    "DType", "MemoryRegion", "NKIObject", "NkiTensor", "abs_max", "abs_min", "average", "bypass",
    "dynamic_range", "float4_e2m1fn_x4", "float8_e4m3fn", "float8_e4m3fn_x4", "float8_e5m2_x4",
    "float8_e8m0fnu", "fori_loop", "is_hbm", "is_on_chip", "is_psum", "is_sbuf", "prelu", "while_loop",
)  # fmt: skip
ISA = (
    "activation", "activation_reduce", "affine_select", "bn_aggr", "bn_stats", "dge_mode", "dma_copy",
    "dma_engine", "dma_transpose", "dropout", "engine", "get_nc_version", "gpsimd_engine", "iota",
    "local_gather", "matmul_perf_mode", "max8", "memset", "nc_find_index8", "nc_match_replace8", "nc_matmul",
    "nc_stream_shuffle", "nc_transpose", "nc_version", "oob_mode", "range_select", "reciprocal", "reduce_cmd",
    "scalar_engine", "scalar_tensor_tensor", "select_reduce", "sequence_bounds", "tensor_copy",
    "tensor_copy_dynamic_dst", "tensor_copy_dynamic_src", "tensor_copy_predicated", "tensor_engine",
    "tensor_partition_reduce", "tensor_reduce", "tensor_scalar", "tensor_scalar_reduce", "tensor_tensor",
    "tensor_tensor_scan", "unknown_engine", "vector_engine",
)  # fmt: skip
"""Names of nki.isa in both generations."""
ISA_FIRST = ("builtin_custom_op", "fp32")
ISA_SECOND = (
    "NkiInstruction", "NkiValidationError", "VirtualRegister", "activate2", "core_barrier", "dma_compute",
    "exponential", "get_nc_sub_version", "nc_matmul_mx", "nc_n_gather", "nonzero_with_count", "quantize_mx",
    "rand2", "rand_get_state", "rand_set_state", "register_alloc", "register_load", "register_move",
    "register_store", "rng", "sendrecv", "set_rng_seed", "tensor_scalar_cumulative", "topk",
)  # fmt: skip

ENTRIES_FIRST = ("baremetal", "benchmark", "compiler", "profile", "simulate_kernel", "trace")
"""Names of neuronxcc.nki itself that nki does not have."""

_SLICES = "take slices, nl.ds(start, size), or tensor.ap(pattern)"
_LEAST = "give the number itself: float(np.finfo(np.float32).min)"
INSTEAD_SECOND = {
    "nl.arange": _SLICES,
    "nl.fp32": _LEAST,
    "nl.bfp16": _LEAST,
    "nl.finfo": _LEAST,
    "nl.static_cast": "numbers take the type of the tile that they meet",
    "nl.atomic_rmw": "nisa.dma_compute adds to rows by index",
    "nl.loop_reduce": "nisa.tensor_tensor adds to a tile that is made before the loop",
    "nl.all_reduce": "nki.collectives.all_reduce, or nisa.sendrecv between two cores",
    "nl.spmd_dim": "the grid of a kernel is kernel[lnc]",
    "nisa.builtin_custom_op": "compute it by other functions",
    "nisa.fp32": _LEAST,
    "nki.benchmark": "run kernels by npuviz, which measures them, or nki.simulate",
    "nki.baremetal": "call the kernel, or nki.simulate",
    "nki.profile": "open the kernel in npuviz",
    "nki.simulate_kernel": "nki.simulate(kernel)(*args)",
    "nki.trace": "nki.jit",
    "nki.compiler": "give tensors their place by address=(partition, byte) of nl.ndarray",
}
"""What to do without names of generation 1 in generation 2."""
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
_PACKAGES = ("neuronxcc.nki", "nki")


def keep_public(
    module: dict[str, Any],
    prefix: str,
    names: tuple[str, ...],
    others: tuple[str, ...],
    version: int,
    kept: Mapping[str, object] | None = None,
) -> Callable[[str], object]:
    """Take all but public names out of a module; what asks for another one is told about it.

    others   names of the module in the other generation
    kept     what files use although it is not documented any more, by name; not listed
    returns  the module's `__getattr__`
    """
    for name in [each for each in module if not each.startswith("_") and each not in names]:
        del module[name]
    public = module["__all__"] = sorted(each for each in names if each in module)
    module["__dir__"] = lambda: public

    def missing(name: str) -> object:
        if kept and name in kept:
            return kept[name]
        error = Undocumented(f"{prefix}.{name}", _of_other(prefix, name, others, version, INSTEAD_SECOND))
        if _is_imported():
            raise ImportError(str(error))  # of an AttributeError Python tells nothing there
        raise error

    return missing


def _is_imported() -> bool:
    """Whether the user's line takes a name out of a module by `from ... import`."""
    frame = users_frame()
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


def _of_other(
    prefix: str, name: str, others: tuple[str, ...], version: int, instead: Mapping[str, str]
) -> str:
    """What is said about a name that only the other generation has; "" if it has it neither."""
    if name not in others:
        return ""
    there, here = (_PACKAGES[other - 1] for other in (3 - version, version))
    text = f"{prefix}.{name} is a name of {there}, generation {3 - version} of NKI; {here} does not have it"
    advice = instead.get(f"{prefix}.{name}", "") if version == 2 else ""
    return f"{text}: {advice}" if advice else text
