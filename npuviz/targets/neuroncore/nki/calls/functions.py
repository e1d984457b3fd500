"""nki.language: arithmetic, reductions and composites of tiles."""

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from npuviz.targets.neuroncore.nki.calls import (
    compute,
    elementwise,
    exchange,
    patterns,
    products,
    random_numbers,
)
from npuviz.targets.neuroncore.nki.calls import movement as move
from npuviz.targets.neuroncore.nki.calls.language import broadcast_to
from npuviz.targets.neuroncore.nki.calls.operands import refuse_unknown, tile
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, is_float
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Mask, is_empty
from npuviz.targets.neuroncore.nki.record.numbers import number
from npuviz.targets.neuroncore.nki.record.recording import current, result_dtype
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor, box_of, boxes_of

# --- element by element ------------------------------------------------------------------------------


def _binary(op: str) -> Any:
    def apply(x: Any, y: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
        recording = current()
        shapes = [each.shape for each in (x, y) if isinstance(each, Tensor)]
        box = boxes_of(mask, builtins.max(shapes, key=len)) if mask is not None and shapes else None
        return elementwise.binary(recording, op, x, y, dtype, box)

    apply.__name__ = apply.__qualname__ = op
    apply.__doc__ = f"x {op} y, element by element."
    return apply


def _unary(op: str) -> Any:
    def apply(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
        return compute.unary(op, x, dtype, mask)

    apply.__name__ = apply.__qualname__ = op
    apply.__doc__ = f"{op} of each element."
    return apply


add = _binary("add")
subtract = _binary("subtract")
multiply = _binary("multiply")
divide = _binary("divide")
power = _binary("power")
abs_max = _binary("abs_max")
abs_min = _binary("abs_min")
maximum = _binary("maximum")
minimum = _binary("minimum")
mod = _binary("mod")
fmod = _binary("fmod")
equal = _binary("equal")
not_equal = _binary("not_equal")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
less = _binary("less")
less_equal = _binary("less_equal")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
bitwise_and = _binary("bitwise_and")
bitwise_or = _binary("bitwise_or")
bitwise_xor = _binary("bitwise_xor")
left_shift = _binary("left_shift")
right_shift = _binary("right_shift")
exp = _unary("exp")
log = _unary("log")
sqrt = _unary("sqrt")
tanh = _unary("tanh")
sigmoid = _unary("sigmoid")
relu = _unary("relu")
gelu = _unary("gelu")
gelu_dx = _unary("gelu_dx")
gelu_apprx_tanh = _unary("gelu_apprx_tanh")
gelu_apprx_sigmoid = _unary("gelu_apprx_sigmoid")
gelu_apprx_sigmoid_dx = _unary("gelu_apprx_sigmoid_dx")
silu = _unary("silu")
silu_dx = _unary("silu_dx")
softplus = _unary("softplus")
mish = _unary("mish")
erf = _unary("erf")
erf_dx = _unary("erf_dx")
arctan = _unary("arctan")
sign = _unary("sign")
abs = _unary("abs")
square = _unary("square")
rsqrt = _unary("rsqrt")


def _only_named(name: str) -> Any:
    def refused(*_: Any, **__: Any) -> None:
        raise KernelError(f"nl.{name} is given to instructions, not called")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"{name}, for instructions that take an operator or a function."
    return refused


average, bypass, prelu = (_only_named(each) for each in ("average", "bypass", "prelu"))


def reciprocal(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """1 / x."""
    return compute.reciprocal(None, x, mask, dtype)


def negative(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """-x."""
    return elementwise.binary(current(), "multiply", x, -1.0, dtype or x.dtype, boxes_of(mask, x.shape))


def invert(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """All bits turned."""
    return elementwise.binary(current(), "bitwise_xor", x, -1, dtype or x.dtype, boxes_of(mask, x.shape))


def logical_not(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """1 where x is 0."""
    return elementwise.binary(current(), "equal", x, 0, dtype or "uint8", boxes_of(mask, x.shape))


def _sine(x: Any, shift: float, dtype: Any, mask: Any = None) -> Tensor:
    """sin(x + shift); generation 2 brings the angle to -pi .. pi, all that Scalar's function is made for."""
    if current().version > 1:
        current().note("sin, cos, tan: Vector brings angles to -pi .. pi in two instructions (assumed)")
        turned = compute.tensor_scalar(
            None, x, "add", shift + math.pi, op1="mod", operand1=2 * math.pi, dtype=FLOAT32
        )
        x = compute.tensor_scalar(None, turned, "subtract", math.pi)
    elif shift:
        x = elementwise.binary(current(), "add", x, shift, FLOAT32)
    return compute.unary("sin", x, dtype, mask)


def sin(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """sin of each element."""
    return _sine(x, 0.0, dtype or x.dtype, mask)


def cos(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """sin(x + pi / 2)."""
    return _sine(x, math.pi / 2, dtype or x.dtype, mask)


def tan(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """sin / cos."""
    return elementwise.binary(current(), "divide", sin(x), cos(x), dtype or x.dtype, boxes_of(mask, x.shape))


def floor(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """The integer below: rounded, less one where that is above."""
    recording = current()
    rounded = move.tensor_copy(None, move.tensor_copy(None, x, dtype="int32"), dtype=FLOAT32)
    above = elementwise.binary(recording, "greater", rounded, x, FLOAT32)
    return elementwise.binary(
        recording, "subtract", rounded, above, dtype or x.dtype, boxes_of(mask, x.shape)
    )


def ceil(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """The integer above."""
    return negative(floor(negative(x)), dtype=dtype or x.dtype, mask=mask)


def trunc(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """The integer towards 0."""
    recording = current()
    return elementwise.binary(
        recording,
        "multiply",
        floor(compute.unary("abs", x)),
        compute.unary("sign", x),
        dtype or x.dtype,
        boxes_of(mask, x.shape),
    )


def where(condition: Any, x: Any, y: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """x where the condition is not 0, or a comparison of indices holds, else y."""
    recording = current()
    if isinstance(condition, Mask):
        shapes = [each.shape for each in (x, y) if isinstance(each, Tensor)]
        if not shapes:
            raise KernelError("nl.where of a comparison of indices: x or y is a tile")
        condition = patterns.predicate_of(condition, builtins.max(shapes, key=math.prod))
    condition = tile(condition, "nl.where condition")
    shape = condition.shape
    kind = result_dtype(dtype, *(each if isinstance(each, Tensor) else number(each) for each in (x, y)))
    made = recording.new(shape, kind, SBUF)
    for value, chosen in ((y, None), (x, condition)):
        if number(value) is not None:
            filled = made if chosen is None else recording.new(shape, kind, SBUF)
            recording.step("memset", filled, (), value=number(value))
            value = filled
        elif value.dtype != kind or value.shape != shape:
            value = move.tensor_copy(None, value.free_broadcast(shape), dtype=kind)
        if chosen is None and value is not made:
            recording.step("tensor_copy", made, (value,), engine=None)
        elif chosen is not None:
            if is_float(chosen.dtype):
                chosen = elementwise.binary(recording, "not_equal", chosen, 0.0, "uint8")
            move.tensor_copy_predicated(made, value, chosen)
    return made


# --- reductions and composites -----------------------------------------------------------------------


def _reduction(op: str, alu: str) -> Any:
    def apply(
        x: Any, axis: Any, dtype: Any = None, keepdims: bool = False, mask: Any = None, **_: Any
    ) -> Tensor:
        return compute.tensor_reduce(None, alu, x, axis, keepdims=keepdims, mask=mask, dtype=dtype)

    apply.__name__ = apply.__qualname__ = op
    apply.__doc__ = f"{op} over free dimensions."
    return apply


sum = _reduction("sum", "add")
max = _reduction("max", "maximum")
min = _reduction("min", "minimum")
prod = _reduction("prod", "multiply")
all = _reduction("all", "minimum")


def _count(x: Tensor, axis: Any) -> int:
    return math.prod(x.shape[dim] for dim in compute.reduced_axes(x, axis, "mean"))


def _masked(
    work: Callable[[Tensor], Tensor], x: Tensor, mask: Any, axis: Any = None, keep: bool = True
) -> Tensor:
    """What `work` makes of the part of x that a mask leaves, in a tile as large as without the mask.

    axis  dimensions that work reduces, None if it reduces none
    """
    box = box_of(mask, x.shape)
    assert box is not None
    recording = current()
    reduced = () if axis is None else compute.reduced_axes(x, axis, "a masked reduction")
    sizes = [1 if dim in reduced else size for dim, size in enumerate(x.shape)]
    part = [(0, 1) if dim in reduced else each for dim, each in enumerate(box)]
    if not keep:
        kept = [dim for dim in range(x.ndim) if dim not in reduced]
        sizes = [*(sizes[dim] for dim in kept), *(1,) * (len(kept) == 1)]
        part = [*(part[dim] for dim in kept), *((0, 1),) * (len(kept) == 1)]
    if _is_empty(box):
        return recording.new(sizes, x.dtype, SBUF)
    found = work(x.boxed(box))
    made = recording.new(sizes, found.dtype, SBUF)
    recording.assign(made.boxed(tuple(part)), found)
    recording.keep_part(made, tuple(part))
    return made


def _is_empty(box: Any) -> bool:
    """Whether a box has no element."""
    return builtins.any(end <= first for first, end in box)


def mean(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False, mask: Any = None, **_: Any) -> Tensor:
    """The mean over free dimensions."""
    if mask is not None:
        return _masked(lambda part: mean(part, axis, dtype=dtype, keepdims=keepdims), x, mask, axis, keepdims)
    total = compute.tensor_reduce(None, "add", x, axis, keepdims=keepdims, dtype=FLOAT32)
    return elementwise.binary(current(), "multiply", total, 1.0 / _count(x, axis), dtype or x.dtype)


def var(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False, mask: Any = None, **_: Any) -> Tensor:
    """The population variance over free dimensions."""
    if mask is not None:
        return _masked(lambda part: var(part, axis, dtype=dtype, keepdims=keepdims), x, mask, axis, keepdims)
    recording = current()
    middle = mean(x, axis, dtype=FLOAT32, keepdims=True)
    distance = elementwise.binary(recording, "subtract", x, middle.free_broadcast(x.shape), FLOAT32)
    return mean(compute.unary("square", distance), axis, dtype=dtype or x.dtype, keepdims=keepdims)


def softmax(
    x: Any, axis: Any = -1, dtype: Any = None, mask: Any = None, compute_dtype: Any = None, **_: Any
) -> Tensor:
    """exp(x - max) / sum over free dimensions."""
    if mask is not None:
        return _masked(lambda part: softmax(part, axis, dtype=dtype), x, mask)
    recording = current()
    lowest = compute.tensor_reduce(None, "maximum", x, axis, True, keepdims=True, dtype=FLOAT32)
    shifted = elementwise.binary(recording, "add", x, lowest.free_broadcast(x.shape), FLOAT32)
    powers = compute.unary("exp", shifted, FLOAT32)
    total = compute.tensor_reduce(None, "add", powers, axis, keepdims=True, dtype=FLOAT32)
    share = compute.reciprocal(None, total)
    return elementwise.binary(recording, "multiply", powers, share.free_broadcast(x.shape), dtype or x.dtype)


def rms_norm(
    x: Any,
    w: Any,
    axis: Any,
    n: int,
    epsilon: float = 1e-6,
    dtype: Any = None,
    compute_dtype: Any = None,
    mask: Any = None,
    **_: Any,
) -> Tensor:
    """x / sqrt(mean of squares + epsilon) * w."""
    if mask is not None:
        box = box_of(mask, x.shape)
        weights = w.boxed(box) if isinstance(w, Tensor) and w.shape[0] > 1 else w
        return _masked(lambda part: rms_norm(part, weights, axis, n, epsilon, dtype=dtype), x, mask)
    recording = current()
    total = compute.tensor_reduce(
        None, "add", compute.unary("square", x, FLOAT32), axis, keepdims=True, dtype=FLOAT32
    )
    scaled = compute.tensor_scalar(None, total, "multiply", 1.0 / n, op1="add", operand1=float(epsilon))
    root = compute.unary("rsqrt", scaled)
    normal = elementwise.binary(recording, "multiply", x, root.free_broadcast(x.shape), FLOAT32)
    if isinstance(w, Tensor) and w.shape[0] == 1 < x.shape[0]:
        w = broadcast_to(w, shape=x.shape)
    return elementwise.binary(recording, "multiply", normal, w, dtype or x.dtype)


def matmul(x: Any, y: Any, transpose_x: bool = False, mask: Any = None, **_: Any) -> Tensor:
    """x @ y: the product lies in PSUM.

    mask  columns of y, and so of the product, that take part; where it leaves nothing, nothing runs
    """
    # Ref: aws-neuron-sdk 49ee15c5, general/nki/api/nki.api.shared.rst, NKI API Masking: an instruction is
    # skipped or made smaller; rows of one of the two operands are masked by their subscripts
    x, y = tile(x, "nl.matmul x"), tile(y, "nl.matmul y")
    shape = (math.prod(x.shape[1:]) if transpose_x else x.shape[0], math.prod(y.shape[1:]))
    if (part := box_of(mask, shape)) is not None and is_empty(part):
        made = current().new(shape, FLOAT32, PSUM, result=True)
        current().keep_part(made, part)
        return made
    x, y = (move.tensor_copy(None, each) if each.buffer == PSUM else each for each in (x, y))
    if not transpose_x:
        turned = move.nc_transpose(None, x, 1)
        x = move.tensor_copy(None, turned)
    return products.nc_matmul(None, x, y, mask=mask)


def atomic_rmw(dst: Any, value: Any, op: Any, mask: Any = None, **_: Any) -> None:
    """What lies at `dst` in HBM, by row indices too, combined with a tile."""
    if current().version > 1:
        raise KernelError("nl.atomic_rmw is of generation 1; nisa.dma_compute combines")
    move.dma_copy(dst, value, mask, op)


def loop_reduce(
    x: Any, op: Any, loop_indices: Sequence[Any], *, dtype: Any = None, mask: Any = None, **_: Any
) -> Any:
    """A reduction over the iterations of loops."""
    is_first = builtins.all(getattr(each, "is_first", int(each) == 0) for each in loop_indices)
    return current().loop_sum(x, op, is_first)


def all_reduce(
    x: Any,
    op: Any,
    program_axes: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    parallel_reduce: bool = True,
    asynchronous: bool = False,
    **_: Any,
) -> Tensor:
    """A reduction over instances of the grid."""
    if current().version > 1:
        raise KernelError("nl.all_reduce is of generation 1; nki.collectives reduces in generation 2")
    if mask is not None:
        raise KernelError("nl.all_reduce with mask= : put the mask into the subscript of its operand")
    axes = program_axes if isinstance(program_axes, Sequence) else (program_axes,)
    return exchange.all_reduce(x, op, [int(axis) for axis in axes], dtype)


def random_seed(seed: Any, *_: Any, mask: Any = None, **__: Any) -> None:
    """The seed of the numbers that nl.rand draws; a mask that leaves nothing keeps the old one."""
    if box_of(mask, seed.shape if isinstance(seed, Tensor) else (1, 1)) != ((0, 0), (0, 0)):
        random_numbers.seed(seed)


def rand(
    shape: Sequence[int], dtype: Any = "float32", buffer: Any = None, name: str = "", **_: Any
) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return random_numbers.rand(shape, dtype)


def dropout(x: Any, rate: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """x, with elements set to 0."""
    return random_numbers.dropout(None, x, rate, box_of(mask, x.shape), dtype)


refuse_unknown(globals(), "nl")
