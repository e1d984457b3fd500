"""What nki.language takes and the vendor's compiler does not, generation 2.

# Ref: aws-neuron-sdk 81ce03ae, release-notes/components/nki.rst, 0.3.0 to 0.6.0: known issues of nki.language
"""

from typing import Any

from npuviz.targets.neuroncore.nki.calls.language import mgrid
from npuviz.targets.neuroncore.nki.record.numbers import number
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor
from npuviz.targets.neuroncore.nki.rules.operands import Given, Rule, lies_in, warn, wrong

_BINARY = (
    "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor",
    "left_shift", "right_shift",
)  # fmt: skip


def tells(text: str) -> Rule:
    """The compiler has no instruction for a function."""

    def check(call: str, _: Given) -> None:
        warn(call, text)

    return check


def _same_shapes(call: str, given: Given) -> None:
    """Two tiles of an operation have one shape."""
    a, b = given.get("x"), given.get("y")
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape != b.shape:
        warn(call, f"x {a!r} and y {b!r}: operations of nl do not broadcast; use nisa.tensor_scalar")


def _power(call: str, given: Given) -> None:
    """Both operands of a power are tiles."""
    if not all(isinstance(given.get(each), Tensor) for each in ("x", "y")):
        warn(call, "takes two tiles, not a number; use nl.square or nisa.tensor_scalar with nl.power")


def _transposed(call: str, given: Given) -> None:
    """The first operand of a product comes transposed."""
    if not given.get("transpose_x"):
        warn(call, "without transpose_x=True is not compiled; give x transposed")


def _not_in_psum(call: str, given: Given) -> None:
    """GpSimd, which computes it, does not reach PSUM."""
    x = given.get("x")
    if isinstance(x, Tensor) and x.buffer == PSUM:
        warn(call, f"x {x!r} lies in PSUM, refused since 0.5; use nisa.activation with op=nl.rsqrt")


def _program_axis(call: str, given: Given) -> None:
    """An axis that the grid has."""
    axis, count = number(given.get("axis", 0)), max(1, len(current().program))
    if axis is not None and not -count <= axis < count:
        raise wrong(call, f"invalid program axis {axis}, the grid has {count}")


class _Grid:
    """nl.mgrid, which kernels take from generation 1 with them.

    # Ref: aws-neuron-sdk 81ce03ae, nki/migration/index.rst, "Update indexing syntax for mgrid and arange"; of
    # the two only arange is listed as removed, and nki/api/nki/language does not have mgrid
    """

    def __getitem__(self, key: Any) -> Any:
        warn("nl.mgrid", "generation 2 does not document it; take slices, nl.ds(start, size) or tensor.ap")
        return mgrid[key]


KEPT = {"mgrid": _Grid()}
"""Names that are not documented for generation 2, and that kernels use."""
LANGUAGE_RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(_BINARY, (_same_shapes,)),
    "divide": (tells("there is no such instruction; multiply by nl.reciprocal"),),
    "mod": (tells("there is no such instruction"),),
    "fmod": (tells("there is no such instruction"),),
    "power": (_power,),
    "matmul": (_transposed,),
    "rsqrt": (_not_in_psum,),
    "store": (lies_in((SBUF,), "value"),),
    "program_id": (_program_axis,),
}
"""The rules of functions of nki.language."""
