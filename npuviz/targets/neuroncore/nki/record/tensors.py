"""Tensors of a kernel while it is recorded: memory that is not placed yet, and views of it."""

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn, Protocol

import numpy as np

from npuviz.targets.neuroncore import strides
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.nki.record.element_types import dtype_of
from npuviz.targets.neuroncore.nki.record.errors import KernelError, Undocumented, without_value
from npuviz.targets.neuroncore.nki.record.index import Box, Boxes, Index, Mask, whole
from npuviz.targets.neuroncore.nki.record.variable_names import is_asked_for, running_statement

HBM, SBUF, PSUM = "hbm", "sbuf", "psum"


Scope = tuple[tuple[str, int, str, int], ...]
"""Loops under way, outermost first: file, line, function, turn."""
Site = tuple[object, str]
"""What makes one tile in each turn of a loop, and that loop's function."""


class Storage:
    """Memory of one tensor.

    space     HBM, SBUF or PSUM;  kind  of HBM: "input", "output", "constant", "scratch"
    shape     on chip (partitions, elements of each partition)
    place     index of the place that made it
    first, last  steps that touch it, -1 before the first
    scope     loops in whose body a tile of generation 1 is made, see `scopes`
    site      of a tile in a loop of generation 1: what it shares its buffers with
    """

    __slots__ = (
        "data", "dtype", "first", "id", "is_hidden", "is_written", "kind", "last", "name",
        "place", "reads", "scope", "shape", "site", "space",
    )  # fmt: skip

    def __init__(
        self, number: int, space: str, shape: tuple[int, ...], dtype: np.dtype[Any], name: str, place: int
    ) -> None:
        self.id = number
        self.space = space
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.place = place
        self.kind = "scratch"
        self.data: np.ndarray | None = None
        self.first = self.last = -1
        self.reads = 0
        self.is_written = False
        self.is_hidden = False
        self.site: Site | None = None
        self.scope: Scope = ()


class Actions(Protocol):
    """What Python's syntax on tensors asks for, and what stands above them."""

    def subscripted(self, tensor: "Tensor", key: object) -> "Tensor":
        """The view that a subscript names."""
        ...

    def binary(self, op: str, a: object, b: object, dtype: object = None) -> "Tensor":
        """A new tile: a op b."""
        ...

    def binary_into(self, target: "Tensor", op: str, a: object, b: object) -> None:
        """target = a op b."""
        ...

    def copied(self, tensor: "Tensor", dtype: object) -> "Tensor":
        """A copy of another type."""
        ...

    def broadcast(self, tensor: "Tensor", shape: tuple[int, ...]) -> "Tensor":
        """The tensor repeated to a shape, over partitions too."""
        ...


class Recorder(Protocol):
    """Who records what happens to tensors.

    storages  by id
    """

    actions: Actions
    version: int
    storages: list[Storage]

    def assign(self, target: "Tensor", value: object) -> None:
        """`t[...] = value`."""
        ...

    def add_in_place(self, target: "Tensor", value: object) -> "Tensor":
        """`t[...] += value`."""
        ...

    def note(self, text: str) -> None:
        """Say something about the program, once."""
        ...

    def observed(self, tensor: "Tensor") -> np.ndarray:
        """The values that a tensor has now."""
        ...


class Tensor:
    """A view of a storage. Never changed.

    shape, steps  on chip the first dimension is the partition, with step 1; other steps in elements
    start         first partition;  offset  elements before the first one (on chip in each partition)
    pending       expressions over the dimensions and the size that each must stay below
    is_element    named by a number for each dimension
    picks         (tile, offsets) of a view by .indirect()
    """

    __slots__ = (
        *("dtype", "is_element", "offset", "pending", "picks", "recording", "row_index", "shape", "start"),
        *("steps", "storage"),
    )
    __array_ufunc__ = None

    def __init__(
        self,
        recording: Recorder,
        storage: Storage,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        steps: tuple[int, ...] | None = None,
        offset: int = 0,
        start: int = 0,
    ) -> None:
        self.recording = recording
        self.storage = storage
        self.dtype = dtype
        self.shape = shape
        if steps is None:
            steps = (
                strides.dense_steps(shape) if storage.space == HBM else (1, *strides.dense_steps(shape[1:]))
            )
        self.steps = steps
        self.offset = offset
        self.start = start
        self.pending: tuple[tuple[Index, int], ...] = ()
        self.row_index: tuple[Tensor, int] | None = None
        self.picks: tuple[Tensor, Tensor] | None = None
        self.is_element = False

    def __copy__(self) -> "Tensor":
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> "Tensor":
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise KernelError(f"{self!r} is memory of the chip, it cannot be pickled: nl.copy makes another tile")

    # --- what kernels ask ----------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def buffer(self) -> str:
        """Name of the memory."""
        return self.storage.space

    @property
    def name(self) -> str:
        """Name of the storage."""
        return self.storage.name

    @property
    def is_on_chip(self) -> bool:
        """Whether it lies in SBUF or PSUM."""
        return self.storage.space != HBM

    def __len__(self) -> int:
        return self.shape[0]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Undocumented(f"tensor.{name}")

    def __repr__(self) -> str:
        return f"{self.storage.space} tensor {self.storage.name} {self.dtype}{list(self.shape)}"

    def __bool__(self) -> bool:
        if not self.is_on_chip or is_asked_for(self):
            return True  # kernels ask whether an optional argument is there
        raise without_value(repr(self), running_statement(), self.size == 1)

    def __iter__(self) -> Any:
        raise KernelError(f"{self!r} cannot be iterated over", "err_dynamic_control_flow_not_supported")

    def known_integer(self) -> int:
        """Its only element, an integer, as it is now. Raises KernelError."""
        if self.size != 1 or self.dtype.kind not in "iu":
            raise KernelError(f"{self!r} is no single integer", "err_dynamic_control_flow_not_supported")
        return int(self.recording.observed(self).reshape(-1)[0])

    @property
    def key(self) -> tuple[object, ...]:
        """What tells views of one storage apart."""
        own = (self.start, self.offset, self.shape, self.steps, self.dtype.itemsize)
        return own if self.picks is None else (*own, self.picks[1].storage.id, *self.picks[1].key)

    # --- subscripts ----------------------------------------------------------------------------

    def __getitem__(self, key: object) -> "Tensor":
        return self.recording.actions.subscripted(self, key)

    def boxed(self, box: Box | None) -> "Tensor":
        """The part inside of a box; dimensions of size 1 stay. Raises KernelError outside of the tensor."""
        found = self
        if box is not None:
            offset, start = self.offset, self.start
            shape = list(self.shape)
            shift = len(box) - len(shape)
            for dim in range(len(shape)):
                first, end = box[0 if dim == 0 and self.is_on_chip else dim + shift]
                if shape[dim] == 1:
                    continue
                shape[dim] = end - first
                if dim == 0 and self.is_on_chip:
                    start += first
                else:
                    offset += first * self.steps[dim]
            found = self.viewed(tuple(shape), self.steps, offset, start)
        for expression, size in self.pending:
            low, high = expression.bounds(box)
            if low < 0 or high >= size:
                raise KernelError(
                    f"index {high if high >= size else low} of {self.storage.name} {self.storage.dtype}"
                    f"{list(self.storage.shape)} in a dimension of {size}",
                    "err_tensor_access_out_of_bound",
                )
        return found

    def __setitem__(self, key: object, value: object) -> None:
        self.recording.assign(self[key], value)

    # --- views ---------------------------------------------------------------------------------

    def viewed(
        self,
        shape: tuple[int, ...],
        steps: tuple[int, ...],
        offset: int | None = None,
        start: int | None = None,
    ) -> "Tensor":
        """The same storage with another pattern."""
        if self.picks is not None:
            if (shape, steps, offset or self.offset) == (self.shape, self.steps, self.offset):
                return self
            raise KernelError(f"{self!r}: a view by .indirect() has no further views")
        return Tensor(
            self.recording,
            self.storage,
            self.dtype,
            shape,
            steps,
            self.offset if offset is None else offset,
            self.start if start is None else start,
        )

    def reshape(self, *sizes_or_shape: Any, shape: Any = None) -> "Tensor":
        """The same elements in another shape; on chip the partition dimension stays."""
        sizes = _sizes(sizes_or_shape, shape)
        try:
            if not self.is_on_chip:
                made = strides.resolved_shape(self.size, sizes)
                return self.viewed(made, strides.reshaped_steps(self.shape, self.steps, made))
            made = strides.resolved_shape(self.size, sizes)
            if made[0] != self.shape[0]:
                raise ValueError("the partition dimension stays what it is")
            steps = strides.reshaped_steps(self.shape[1:], self.steps[1:], made[1:])
            return self.viewed(made, (1, *steps))
        except ValueError as error:
            raise KernelError(f"{self!r} reshaped to {list(sizes)}: {error}") from None

    def expand_dims(self, axis: int) -> "Tensor":
        """With a dimension of size 1 at `axis`."""
        at = axis % (self.ndim + 1)
        if at == 0 and self.is_on_chip:
            raise KernelError(f"{self!r}: the partition dimension comes first")
        return self.viewed((*self.shape[:at], 1, *self.shape[at:]), (*self.steps[:at], 0, *self.steps[at:]))

    def permute(self, dims: Sequence[int]) -> "Tensor":
        """The dimensions in another order. Raises KernelError."""
        if sorted(dims) != list(range(self.ndim)) or (self.is_on_chip and dims[0] != 0):
            rule = "each dimension is named once; on the chip the partition dimension comes first"
            raise KernelError(f"{self!r} permuted by {tuple(dims)}: {rule}")
        return self.viewed(tuple(self.shape[d] for d in dims), tuple(self.steps[d] for d in dims))

    def free_broadcast(self, shape: tuple[int, ...]) -> "Tensor":
        """Repeated to `shape` in the free dimensions (HBM: in all). Raises KernelError."""
        if self.shape == shape:
            return self
        extra = len(shape) - self.ndim
        own, steps = self.shape, self.steps
        if extra > 0:
            split = 1 if self.is_on_chip else 0
            own = (*own[:split], *(1,) * extra, *own[split:])
            steps = (*steps[:split], *(0,) * extra, *steps[split:])
        fits = len(own) == len(shape) and all(a in (1, b) for a, b in zip(own, shape, strict=True))
        if not fits or (self.is_on_chip and own[0] != shape[0]):
            raise KernelError(f"{self!r} does not broadcast to {list(shape)}")
        made = tuple(step if a == b else 0 for a, b, step in zip(own, shape, steps, strict=True))
        return self.viewed(shape, made)

    def as_type(self, dtype: np.dtype[Any]) -> "Tensor":
        """The same bytes as another type; the last dimension grows or shrinks."""
        old, new = self.dtype.itemsize, dtype.itemsize
        if self.picks is not None:
            raise KernelError(f"{self!r}: a view by .indirect() has no other type")
        found = self.viewed(self.shape, self.steps)
        found.dtype = dtype
        if old == new:
            return found
        scaled = self.shape[-1] * old
        if scaled % new or self.steps[-1] != 1 or (self.offset * old) % new:
            raise KernelError(f"{self!r} viewed as {dtype}: the last dimension becomes fractional")
        if any(step * old % new for step in self.steps[(1 if self.is_on_chip else 0) : -1]):
            raise KernelError(f"{self!r} viewed as {dtype}: a step becomes fractional")
        head = self.steps[:1] if self.is_on_chip else ()
        rest = tuple(step * old // new for step in self.steps[len(head) : -1])
        found.shape = (*self.shape[:-1], scaled // new)
        found.steps = (*head, *rest, 1)
        found.offset = self.offset * old // new
        return found

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> "Tensor":
        """Elements start..end of a dimension."""
        return self[
            tuple(slice(start, end, step) if d == dim % self.ndim else slice(None) for d in range(self.ndim))
        ]

    def select(self, dim: int, index: Any) -> "Tensor":
        """One element of a dimension, which is dropped (the partition dimension stays)."""
        at = whole(index)
        return self[tuple(at if d == dim % self.ndim else slice(None) for d in range(self.ndim))]

    def broadcast(self, dim: int, size: int) -> "Tensor":
        """A dimension of size 1 repeated."""
        times = whole(size)
        return self.free_broadcast(
            tuple(times if d == dim % self.ndim else n for d, n in enumerate(self.shape))
        )

    def expand_dim(self, dim: int) -> "Tensor":
        """With a dimension of size 1."""
        return self.expand_dims(dim)

    def squeeze_dim(self, dim: int) -> "Tensor":
        """Without a dimension of size 1."""
        at = dim % self.ndim
        if self.shape[at] != 1 or (at == 0 and self.is_on_chip):
            raise KernelError(f"{self!r}: dimension {dim} is not dropped")
        return self.viewed(
            (*self.shape[:at], *self.shape[at + 1 :]), (*self.steps[:at], *self.steps[at + 1 :])
        )

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> "Tensor":
        """A dimension as several."""
        at = dim % self.ndim
        sizes = strides.resolved_shape(self.shape[at], tuple(shape))
        return self.reshape(*self.shape[:at], *sizes, *self.shape[at + 1 :])

    def flatten_dims(self, start_dim: int, end_dim: int) -> "Tensor":
        """Dimensions start..end, both included, as one."""
        first, last = start_dim % self.ndim, end_dim % self.ndim
        return self.reshape(*self.shape[:first], prod(self.shape[first : last + 1]), *self.shape[last + 1 :])

    def broadcast_to(self, *sizes_or_shape: Any, shape: Any = None) -> "Tensor":
        """Repeated to a shape, over partitions too."""
        return self.recording.actions.broadcast(self, _sizes(sizes_or_shape, shape))

    def astype(self, dtype: Any) -> "Tensor":
        """A copy of another type."""
        return self.recording.actions.copied(self, dtype)

    def view(self, dtype: Any) -> "Tensor":
        """The same bytes as another type."""
        return self.as_type(dtype_of(dtype))

    reinterpret_cast = view

    def assert_shape(self, shape: Sequence[int]) -> "Tensor":
        """Itself, if it has this shape."""
        if tuple(shape) != self.shape:
            raise KernelError(f"{self!r}: expected shape {list(shape)}", "err_annotation_shape_mismatch")
        return self

    def get_pattern(self) -> list[list[int]]:
        """[step, size] of each dimension."""
        return [list(pair) for pair in zip(self.steps, self.shape, strict=True)]

    # --- operators -----------------------------------------------------------------------------

    def _binary(self, op: str, other: object, reverse: bool = False) -> "Tensor":
        if isinstance(other, Index) and op == "add":  # of a subscript: table[i_p, start + i_f]
            return other + self.known_integer()  # type: ignore[return-value]
        first, second = (other, self) if reverse else (self, other)
        return self.recording.actions.binary(op, first, second)

    def _compared(self, op: str, other: object) -> "Tensor | bool":
        """A new tile; beside None, which kernels ask for an argument that may be missing, an answer."""
        if other is None and op in ("equal", "not_equal"):
            return op == "not_equal"
        return self._binary(op, other)

    def __neg__(self) -> "Tensor":
        return self.recording.actions.binary("multiply", self, -1.0)

    def __iadd__(self, other: object) -> "Tensor":
        return self.recording.add_in_place(self, other)


def _operators() -> None:
    """Give Tensor Python's operators."""
    names = {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power",
        "mod": "mod", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "lshift": "left_shift", "rshift": "right_shift",
    }  # fmt: skip
    for python, op in names.items():
        setattr(Tensor, f"__{python}__", lambda self, other, op=op: self._binary(op, other))
        setattr(Tensor, f"__r{python}__", lambda self, other, op=op: self._binary(op, other, True))
    compare = {
        "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
        "ne": "not_equal",
    }  # fmt: skip
    for python, op in compare.items():
        setattr(Tensor, f"__{python}__", lambda self, other, op=op: self._compared(op, other))
    Tensor.__hash__ = object.__hash__


_operators()


def _sizes(given: tuple[Any, ...], shape: Any) -> tuple[int, ...]:
    """A shape that is given as sizes, as one sequence, or by name."""
    if shape is not None:
        given = (shape,)
    wanted = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
    return tuple(int(size) for size in wanted)


def box_of(mask: object, shape: tuple[int, ...]) -> Box | None:
    """The box of a mask, None without one. Raises KernelError, also for a mask that leaves no box."""
    return mask.box(shape) if isinstance(mask, Mask) else _all_or_nothing(mask, shape)


def boxes_of(mask: object, shape: tuple[int, ...]) -> Box | Boxes | None:
    """The box or the boxes of a mask, None without one. Raises KernelError."""
    return mask.boxes(shape) if isinstance(mask, Mask) else _all_or_nothing(mask, shape)


def _all_or_nothing(mask: object, shape: tuple[int, ...]) -> Box | None:
    """The box of a mask that is None, True or False. Raises KernelError for anything else."""
    if mask is None or mask is True:
        return None
    if mask is False:
        return tuple((0, 0) for _ in shape)
    raise KernelError(
        f"mask={mask!r} is no comparison of indices: for values of tiles use nl.where or multiply by it",
        "err_unsupported_expression_in_mask",
    )


def check_partitions(shape: Sequence[int], what: str) -> None:
    """Raise KernelError for a tile with too many partitions or too few dimensions."""
    if len(shape) < 2:
        raise KernelError(f"{what}: a tile has at least two dimensions (Insufficient rank)")
    if shape[0] > NUM_PARTITIONS:
        raise KernelError(
            f"{what}: size of partition dimension {shape[0]} exceeds architecture limitation of "
            f"{NUM_PARTITIONS}",
            "err_num_partition_exceed_arch_limit",
        )
