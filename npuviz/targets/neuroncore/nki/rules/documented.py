"""The rules of operands of each function of nki.isa, generation 2."""

from collections.abc import Sequence
from typing import Any

from npuviz.targets.neuroncore.nki.record.element_types import packed_name
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.names import name_of
from npuviz.targets.neuroncore.nki.record.numbers import number
from npuviz.targets.neuroncore.nki.record.tensors import HBM, PSUM, SBUF, Tensor
from npuviz.targets.neuroncore.nki.rules import movement
from npuviz.targets.neuroncore.nki.rules.language import tells
from npuviz.targets.neuroncore.nki.rules.operands import (
    BITWISE,
    COMPARISONS,
    GPSIMD,
    INTEGERS,
    PACKED_BY_FOUR,
    PRODUCTS,
    SCALAR,
    TENSOR,
    UNARY,
    VECTOR,
    Given,
    Rule,
    bits_need_integers,
    elements,
    equals,
    from_version,
    has_elements,
    lies_in,
    none_of,
    not_both_in_psum,
    of_types,
    on_engines,
    one_of,
    one_value,
    same_elements,
    same_type,
    type_name,
    wrong,
)

_CHIP = (SBUF, PSUM)
_NO_BITS = "bitwise operators are not supported here"


# --- Vector, Scalar, GpSimd --------------------------------------------------------------------------


def _filled(call: str, given: Given) -> None:
    """memset: a number of the tile's kind; 0.0 is taken for integers too.

    # Ref: aws-neuron-sdk 81ce03ae, nki/migration/index.rst, nisa.memset; nki-library d2ad3a5, for 0.3,
    # core/utils/cross_partition_copy.py, fills tiles of any type with 0.0
    """
    dst, value = given.get("dst"), given.get("value")
    if not isinstance(dst, Tensor) or number(value) is None:
        return
    if packed_name(dst.dtype) in PACKED_BY_FOUR and number(value):
        raise wrong(call, f"value={value!r}: {dst!r} of packed elements takes 0 only")
    if type_name(dst) in INTEGERS and not isinstance(number(value), int) and number(value):
        raise wrong(call, f"value={value!r} is a float, {dst!r} holds integers; give an integer")


def _second_operand(call: str, given: Given) -> None:
    """An operator of two operands has its second one."""
    for op, operand in (("op0", "operand0"), ("op1", "operand1")):
        if given.get(op) is None or given.get(operand) is not None:
            continue
        if name_of(given[op]) not in UNARY and name_of(given[op]) != "bypass":
            raise wrong(call, f"{op} {name_of(given[op])} needs {operand}=")


def _used_operands(call: str, given: Given) -> None:
    """A second operand has its operator."""
    if given.get("op1") is None and given.get("operand1") is not None:
        raise wrong(call, f"operand1={given['operand1']!r} without op1=; leave it out")


def _operators_of_engine(call: str, given: Given) -> None:
    """The operators that Scalar and GpSimd have."""
    engine = int(given.get("engine") or 0)
    pair = tuple(name_of(given[each]) for each in ("op0", "op1") if given.get(each) is not None)
    if engine == GPSIMD and "rsqrt" not in pair:
        raise wrong(call, f"{', '.join(pair)} on the gpsimd engine: it has rsqrt only; use vector")
    if engine != SCALAR:
        return
    if pair not in (("multiply", "add"), ("multiply",), ("add",)):
        raise wrong(
            call,
            f"{', '.join(pair)} on the scalar engine: it has multiply and add, multiply, or add; use vector",
        )


def _reduced(call: str, given: Given) -> None:
    """The last free dimensions, to one element where all of them are taken."""
    data, dst, axis, op = (given.get(each) for each in ("data", "dst", "axis", "op"))
    if not isinstance(data, Tensor) or axis is None:
        return
    chosen: Sequence[Any] = [axis] if isinstance(axis, int) else list(axis)
    if not all(-data.ndim <= int(each) < data.ndim for each in chosen):
        raise wrong(call, f"axis={axis!r}: {data!r} has the dimensions 0 to {data.ndim - 1}")
    axes = sorted(int(each) % data.ndim for each in chosen)
    if axes and axes[0] == 0:
        raise wrong(call, f"axis={axis!r}: the partition dimension of {data!r}; use tensor_partition_reduce")
    if axes != list(range(data.ndim - len(axes), data.ndim)):
        raise wrong(call, f"axis={axis!r}: must be the last free dimensions of {data!r}; permute it")
    left = elements(data) // max(1, _product(data.shape[each] for each in axes))
    if isinstance(dst, Tensor) and elements(dst) != left:
        raise wrong(call, f"dst {dst!r} has {elements(dst)} elements in each partition, must be {left}")
    if given.get("negate") and name_of(op) in BITWISE:
        raise wrong(call, f"negate=True with {name_of(op)}: of arithmetic operators only")


def _product(sizes: Any) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def _bias_of_first_chip(call: str, given: Given) -> None:
    """On NeuronCore-v2 a bias is a column."""
    bias = number(given.get("bias"))
    if bias is not None and spec_in_use().version < 3:
        raise wrong(
            call, f"bias={bias!r}: on {spec_in_use().arch} a bias is a tile with one value a partition"
        )


def _initial(call: str, given: Given) -> None:
    """reduce_init is read by load_reduce, which needs it."""
    loads = int(given.get("reduce_cmd", 3)) == 4
    if given.get("reduce_init") is not None and not loads:
        raise wrong(call, f"reduce_init={given['reduce_init']!r} needs reduce_cmd.load_reduce")
    if given.get("reduce_init") is None and loads:
        raise wrong(call, "reduce_cmd.load_reduce needs reduce_init=")


def _no_scalar_copy(call: str, given: Given) -> None:
    """The first chip's Scalar does not copy."""
    if int(given.get("engine") or 0) == SCALAR and spec_in_use().version < 3:
        raise wrong(
            call, f"the scalar engine of {spec_in_use().arch} has no tensor_copy; use activation with nl.copy"
        )


def _shuffled(call: str, given: Given) -> None:
    """Partitions that a shuffle names."""
    mask = given.get("shuffle_mask")
    if not isinstance(mask, Sequence):
        return
    if len(mask) != 32:
        raise wrong(call, f"shuffle_mask has {len(mask)} entries, must be 32")
    for at, each in enumerate(mask):
        if number(each) is not None and not (0 <= int(each) < 32 or int(each) == 255):
            raise wrong(call, f"shuffle_mask[{at}] = {each}: must be 0 to 31, or 255 to keep a partition")


def _pattern(call: str, given: Given) -> None:
    """An access pattern of at most four dimensions, as many elements as a partition of dst."""
    pattern, dst = given.get("pattern"), given.get("dst")
    if not isinstance(pattern, Sequence) or not isinstance(dst, Tensor):
        return
    if len(pattern) > 4:
        raise wrong(call, f"pattern {list(pattern)} has {len(pattern)} dimensions, at most 4")
    count = _product(int(size) for _, size in pattern)
    if count != elements(dst):
        raise wrong(
            call, f"pattern {list(pattern)} has {count} elements, dst {dst!r} {elements(dst)} in a partition"
        )


def _state(call: str, given: Given) -> None:
    """Words of a generator's state."""
    tensor = given.get("src_seeds", given.get("dst"))
    words = 24 if int(given.get("engine", GPSIMD) or GPSIMD) == VECTOR else 6
    if isinstance(tensor, Tensor) and elements(tensor) not in (6, 24):
        raise wrong(call, f"{tensor!r} has {elements(tensor)} words in each partition, must be {words}")


def _generator(least: dict[int, int]) -> Rule:
    """The generation of the core from which on an engine has a generator."""

    def check(call: str, given: Given) -> None:
        version = least.get(int(given.get("engine") or 0))
        if version is not None:
            from_version(version)(f"{call} on this engine", given)

    return check


def _probability(call: str, given: Given) -> None:
    """A probability in a tile is a float, of 32 bits for integers."""
    data = given.get("data")
    if isinstance(data, Tensor):
        is_whole = type_name(data) in INTEGERS
        of_types(("float32",) if is_whole else PRODUCTS, "prob")(call, given)


def _seed(call: str, given: Given) -> None:
    """One seed of 32 bits."""
    tensor = given.get("src_seeds")
    if isinstance(tensor, Tensor) and (tensor.size != 1 or tensor.itemsize != 4):
        raise wrong(call, f"src_seeds {tensor!r} must be [1, 1] of 32 bits")


def _two_cores(call: str, given: Given) -> None:
    """The cores of a pair."""
    cores = given.get("cores")
    if isinstance(cores, Sequence) and tuple(int(k) for k in cores) != (0, 1):
        raise wrong(call, f"cores={tuple(cores)!r} must be (0, 1)")


_ACTIVATED: tuple[Rule, ...] = (lies_in(_CHIP, "dst", "data", "bias", "scale"), _bias_of_first_chip)
_DYNAMIC_COPY = (tells("removed in 0.4.0; nisa.tensor_copy of tensor.ap(pattern, scalar_offset=...)"),)
RULES: dict[str, tuple[Rule, ...]] = {
    "nc_matmul": (
        lies_in((SBUF,), "stationary", "moving"),
        lies_in((PSUM,), "dst"),
        of_types(PRODUCTS, "stationary", "moving"),
        movement.product_types,
        movement.tiles_of_array,
        movement.double_row_types,
    ),
    "nc_matmul_mx": (
        from_version(4),
        lies_in((SBUF,), "stationary", "moving", "stationary_scale", "moving_scale"),
        lies_in((PSUM,), "dst"),
        of_types(PACKED_BY_FOUR, "stationary", "moving"),
        of_types(("float8_e8m0fnu", "uint8"), "stationary_scale", "moving_scale"),
        movement.microscaled,
        movement.tiles_of_array,
    ),
    "nc_transpose": (on_engines(TENSOR, VECTOR), same_type("dst", "data"), movement.turned),
    "dma_copy": (movement.priority, movement.descriptors_by_hardware, movement.skips_nothing),
    "dma_transpose": (
        movement.priority,
        same_type("dst", "src"),
        movement.descriptors_by_hardware,
        movement.skipped_by_index("src"),
        movement.turned_shape,
    ),
    "dma_compute": (
        movement.skipped_by_index("dst", "srcs"),
        one_of("reduce_op", "add"),
        equals("unique_indices", True, "indices that occur twice are not supported, must be True"),
    ),
    "tensor_copy": (on_engines(VECTOR, SCALAR, GPSIMD), _no_scalar_copy),
    "tensor_copy_dynamic_src": _DYNAMIC_COPY,
    "tensor_copy_dynamic_dst": _DYNAMIC_COPY,
    "tensor_copy_predicated": (
        of_types(("uint8", "uint16", "uint32"), "predicate"),
        not_both_in_psum("src", "predicate"),
        same_type("dst", "src"),
    ),
    "memset": (on_engines(VECTOR, GPSIMD), _filled),
    "tensor_tensor": (
        on_engines(VECTOR, GPSIMD),
        bits_need_integers("op", operands=("dst", "data1", "data2")),
    ),
    "tensor_scalar": (
        bits_need_integers("op0", "op1", operands=("dst", "data")),
        on_engines(VECTOR, SCALAR, GPSIMD),
        _second_operand,
        _used_operands,
        _operators_of_engine,
    ),
    "scalar_tensor_tensor": (
        none_of(("op0", "op1"), BITWISE, _NO_BITS),
        not_both_in_psum("data", "operand1"),
    ),
    "tensor_reduce": (bits_need_integers("op", operands=("dst", "data")), _reduced),
    "tensor_partition_reduce": (
        one_of("op", "add", "sum", "average", "max", "maximum", "amax", "bitwise_or", "bitwise_and"),
    ),
    "tensor_scalar_reduce": (
        none_of(("op0",), BITWISE, _NO_BITS),
        one_of(
            "reduce_op", "add", "sum", "multiply", "prod", "max", "maximum", "amax", "min", "minimum", "amin"
        ),
        equals("reverse0", False, "not supported"),
        one_value("reduce_res", "data"),
        _initial,
    ),
    "tensor_scalar_cumulative": (
        none_of(("op0",), BITWISE, _NO_BITS),
        one_of("op1", "add", "subtract", "multiply", "max", "maximum", "min", "minimum"),
    ),
    "activation": _ACTIVATED,
    "activation_reduce": (*_ACTIVATED, one_value("reduce_res", "data")),
    "activate2": (from_version(4),),
    "exponential": (from_version(4),),
    "max8": (has_elements("src", 8, 16384), has_elements("dst", 8)),
    "nc_find_index8": (
        has_elements("data", 8, 16384),
        has_elements("vals", 8),
        has_elements("dst", 8),
        of_types(("uint16", "uint32"), "dst"),
    ),
    "nc_match_replace8": (has_elements("vals", 8),),
    "nc_stream_shuffle": (same_type("dst", "src"), same_elements("dst", "src"), _shuffled),
    "bn_stats": (has_elements("data", 1, 512),),
    "range_select": (
        from_version(3),
        of_types(("float32",), "bound0", "bound1"),
        one_value("bound0", "on_true_tile"),
        one_value("bound1", "on_true_tile"),
        one_of("comp_op0", *sorted(COMPARISONS - {"not_equal"})),
        one_of("comp_op1", *sorted(COMPARISONS - {"not_equal"})),
        one_of("reduce_op", "maximum", "max", "amax"),
    ),
    "select_reduce": (
        of_types(("uint8", "int8", "uint16", "int16", "uint32", "int32", "bool"), "predicate"),
        one_value("reduce_res", "on_true"),
        not_both_in_psum("predicate", "on_true"),
        one_of("reduce_op", "maximum", "max", "amax"),
    ),
    "iota": (lies_in((SBUF,), "dst"), _pattern),
    "affine_select": (
        lies_in((SBUF,), "dst", "on_true_tile"),
        one_of("cmp_op", *sorted(COMPARISONS)),
        _pattern,
    ),
    "nc_n_gather": (
        lies_in((SBUF,), "dst", "data", "indices"),
        of_types(("uint32",), "indices"),
        same_type("dst", "data"),
    ),
    "local_gather": (of_types(("uint16",), "index"), same_type("dst", "src_buffer")),
    "dropout": (same_type("dst", "data"), _probability, one_value("prob", "data")),
    "rng": (of_types(INTEGERS, "dst"), on_engines(VECTOR, GPSIMD), _generator({GPSIMD: 3})),
    "rand2": (from_version(4),),
    "set_rng_seed": (lies_in(_CHIP, "src_seeds"), _seed),
    "rand_set_state": (
        from_version(3),
        lies_in((SBUF,), "src_seeds"),
        of_types(("uint32",), "src_seeds"),
        _generator({VECTOR: 4}),
        _state,
    ),
    "rand_get_state": (from_version(3), _generator({VECTOR: 4}), of_types(("uint32",), "dst"), _state),
    "quantize_mx": (
        from_version(4),
        lies_in((SBUF,), "dst", "src", "dst_scale"),
        of_types(("float16", "bfloat16"), "src"),
        of_types(PACKED_BY_FOUR[:2], "dst"),
        of_types(("float8_e8m0fnu", "uint8"), "dst_scale"),
    ),
    "sendrecv": (from_version(3), lies_in((SBUF,), "src", "dst"), same_type("src", "dst")),
    "core_barrier": (from_version(3), lies_in((HBM,), "data"), _two_cores),
    "register_load": (lies_in((HBM, SBUF), "src"),),
    "register_store": (lies_in((HBM, SBUF), "dst"),),
    "nonzero_with_count": (
        from_version(3),
        lies_in((SBUF,), "dst", "src"),
        of_types(("float32", "int32"), "src"),
        of_types(("int32",), "dst"),
    ),
    "topk": (lies_in((SBUF,), "val_dst", "idx_dst", "src"), of_types(("bfloat16",), "src", "val_dst")),
}
"""The rules of each function."""
