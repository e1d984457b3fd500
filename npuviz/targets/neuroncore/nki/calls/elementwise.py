"""Arithmetic of tiles with tiles and numbers, as Python operators and nl functions ask for it."""

from npuviz.targets.neuroncore.nki.calls.patterns import broadcast_partitions
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, NAMES, Dtype
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Box, Boxes
from npuviz.targets.neuroncore.nki.record.names import COMPARISONS, operator
from npuviz.targets.neuroncore.nki.record.numbers import is_column, number
from npuviz.targets.neuroncore.nki.record.recording import Recording, result_dtype
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor


def binary(
    recording: Recording,
    op: str,
    a: object,
    b: object,
    dtype: object = None,
    box: Box | Boxes | None = None,
) -> Tensor:
    """A new tile: a op b."""
    for each in (a, b):
        if isinstance(each, Tensor) and not each.is_on_chip:
            raise KernelError(f"{op}: {each!r} lies in HBM; load it first", "err_unsupported_memory")
    a, b = _over_partitions(a, b), _over_partitions(b, a)
    shape = _shape(a, b)
    kind = _dtype(op, a, b, dtype)
    target = recording.new(shape, kind, SBUF, result=True)
    before = len(recording.steps)
    binary_into(recording, target, op, a, b, box)
    if box is not None and (isinstance(box, Boxes) or len(recording.steps) == before):
        recording.keep_part(target, box)
    else:
        recording.keep_result(target, recording.steps[-1])
    return target


def _over_partitions(value: object, other: object) -> object:
    """A row [1, ...] beside a tile of more partitions, repeated over them."""
    if (
        not isinstance(value, Tensor)
        or not isinstance(other, Tensor)
        or value.shape[0] != 1
        or other.shape[0] == 1
    ):
        return value
    return broadcast_partitions(value, other.shape[0])


def _dtype(op: str, a: object, b: object, dtype: object) -> Dtype:
    if dtype is None and op in COMPARISONS:
        return NAMES["uint8"]
    return result_dtype(dtype, *(each if isinstance(each, Tensor) else number(each) for each in (a, b)))


def _shape(a: object, b: object) -> tuple[int, ...]:
    shapes = [each.shape for each in (a, b) if isinstance(each, Tensor)]
    if not shapes:
        raise KernelError("an operation on tiles has no tile among its operands")
    if len(shapes) == 1 or shapes[0] == shapes[1]:
        return shapes[0]
    rank = max(len(shape) for shape in shapes)
    padded = [(*shape[:1], *(1,) * (rank - len(shape)), *shape[1:]) for shape in shapes]
    if padded[0][0] != padded[1][0]:
        raise KernelError(
            f"operands of shapes {list(shapes[0])} and {list(shapes[1])} differ in partitions",
            "err_num_partition_mismatch",
        )
    made: list[int] = []
    for x, y in zip(*padded, strict=True):
        if x != y and 1 not in (x, y):
            raise KernelError(
                f"operands of shapes {list(shapes[0])} and {list(shapes[1])} do not go together"
            )
        made.append(max(x, y))
    return tuple(made)


def binary_into(
    recording: Recording, target: Tensor, op: str, a: object, b: object, box: Box | Boxes | None = None
) -> None:
    """target = a op b."""
    alu = operator(op)
    shape = target.shape
    first, second = number(a), number(b)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if is_column(b, shape) and a.shape == shape and b.dtype == FLOAT32 and a.size != b.size:
            _scalar(recording, target, a, alu, b, False, box)
        elif is_column(a, shape) and b.shape == shape and a.dtype == FLOAT32 and a.size != b.size:
            _scalar(recording, target, b, alu, a, True, box)
        else:
            left, right = a.free_broadcast(shape), b.free_broadcast(shape)
            left.pending, right.pending = a.pending, b.pending
            if left.storage.space == right.storage.space == PSUM:
                left = recording.result("tensor_copy", shape, left.dtype, (left,), box)
            recording.step("tensor_tensor", target, (left, right), box, op=alu, engine=None)
    elif isinstance(a, Tensor) and second is not None:
        _scalar(recording, target, a.free_broadcast(shape) if not a.pending else a, alu, second, False, box)
    elif isinstance(b, Tensor) and first is not None:
        _scalar(recording, target, b.free_broadcast(shape) if not b.pending else b, alu, first, True, box)
    else:
        raise KernelError(f"{op} of {a!r} and {b!r}")


def _scalar(
    recording: Recording,
    target: Tensor,
    data: Tensor,
    alu: object,
    operand: float | int | Tensor,
    reverse: bool,
    box: Box | Boxes | None,
) -> None:
    column = operand if isinstance(operand, Tensor) else None
    recording.step(
        "tensor_scalar",
        target,
        (data, column, None),
        box,
        op0=alu,
        x0=0.0 if column is not None else operand,
        reverse0=reverse,
        op1=operator(None),
        x1=0.0,
        reverse1=False,
        engine=None,
    )
