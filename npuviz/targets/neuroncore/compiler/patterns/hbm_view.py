"""Views: element patterns of variables in HBM, of any rank."""

from collections.abc import Sequence
from math import prod

from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.neuroncore import strides
from npuviz.targets.neuroncore.compiler.patterns.tile_view import bitcast_dims

_ITEM_BYTES: dict[str, int] = {}


def item_bytes(dtype: str) -> int:
    """Return the bytes of an element in HBM of a type of npuviz.program.dtypes."""
    found = _ITEM_BYTES.get(dtype)
    if found is None:
        found = _ITEM_BYTES[dtype] = numpy_dtype(dtype).itemsize
    return found


class HbmView:
    """An immutable pattern of a variable's elements, indexed like a numpy array.

    variable  index of the variable;  offset  byte offset of the first element
    shape, steps  outermost first; steps in bytes, any sign
    """

    __slots__ = ("dtype", "offset", "shape", "steps", "variable")

    def __init__(
        self,
        variable: int,
        offset: int,
        dtype: str,
        shape: tuple[int, ...],
        steps: tuple[int, ...] | None = None,
    ) -> None:
        self.variable = variable
        self.offset = offset
        self.dtype = dtype
        self.shape = shape
        self.steps = strides.dense_steps(shape, item_bytes(dtype)) if steps is None else steps

    def __repr__(self) -> str:
        return f"variable {self.variable}+{self.offset} {self.dtype}{self.shape}/{self.steps}"

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return item_bytes(self.dtype)

    @property
    def num_elements(self) -> int:
        """Product of the shape."""
        return prod(self.shape)

    def __getitem__(self, key: object) -> "HbmView":
        """Slice as numpy does, also with negative steps."""
        items = key if isinstance(key, tuple) else (key,)
        offset, shape, steps = strides.sliced(self.shape, self.steps, items)
        return self._with(shape, steps, self.offset + offset)

    def reshape(self, *shape: int) -> "HbmView":
        """Return the elements in another shape (one size may be -1). Raises ValueError if not a view."""
        new = strides.resolved_shape(self.num_elements, shape)
        return self._with(new, strides.reshaped_steps(self.shape, self.steps, new))

    def flatten(self) -> "HbmView":
        """Return the elements in one dimension. Raises ValueError if not a view."""
        return self.reshape(self.num_elements)

    def permute(self, *axes: int) -> "HbmView":
        """Return the view with its dimensions in another order."""
        if sorted(axes) != list(range(len(self.shape))):
            raise ValueError(f"{axes} is no order of {len(self.shape)} dimensions")
        return self._with(tuple(self.shape[axis] for axis in axes), tuple(self.steps[axis] for axis in axes))

    def broadcast_to(self, shape: Sequence[int]) -> "HbmView":
        """Return the view broadcast to `shape` by numpy's rules. Raises ValueError if they forbid it."""
        wanted = tuple(shape)
        extra = len(wanted) - len(self.shape)
        if extra < 0 or any(
            size not in (1, new) for size, new in zip(self.shape, wanted[extra:], strict=True)
        ):
            raise ValueError(f"cannot broadcast {self.shape} to {wanted}")
        steps = [
            step if size == new else 0
            for size, step, new in zip(self.shape, self.steps, wanted[extra:], strict=True)
        ]
        return self._with(wanted, (*(0,) * extra, *steps))

    def bitcast(self, dtype: str) -> "HbmView":
        """Return the bytes as another type; another item size needs a dense innermost dimension that fits."""
        old, new = self.itemsize, item_bytes(dtype)
        shape, steps = bitcast_dims(self.shape, self.steps, old, new, in_bytes=True)
        return HbmView(self.variable, self.offset, dtype, shape, steps)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        dims = strides.merged(zip(self.shape, self.steps, strict=True))
        return not dims or (len(dims) == 1 and dims[0][1] == self.itemsize)

    def _with(self, shape: tuple[int, ...], steps: tuple[int, ...], offset: int | None = None) -> "HbmView":
        return HbmView(self.variable, self.offset if offset is None else offset, self.dtype, shape, steps)
