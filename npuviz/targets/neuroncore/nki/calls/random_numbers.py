"""Random numbers: bits of a generator whose state is a seed and a count of draws."""

from collections.abc import Sequence

from npuviz.targets.neuroncore.isa import Alu
from npuviz.targets.neuroncore.nki.calls import compute
from npuviz.targets.neuroncore.nki.calls.operands import engine_of, tile
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, NAMES, dtype_of
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.numbers import number
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Tensor

_NOTE = (
    "random numbers: the vendor's generators are not public, npuviz draws others of the same distribution "
    "(assumed)"
)
_WORD = 1 << 32
STATE_WORDS = (6, 24)
"""Of a partition's state: of GpSimd, of Vector. Ref: SDK isa, rand_get_state."""


def seed(value: object) -> None:
    """Begin anew with a seed: a number, or the first element of a tensor."""
    recording = current()
    found = number(value)
    if found is None:
        if not isinstance(value, Tensor):
            raise KernelError(f"a seed is a number or a tensor of integers, found {value!r}")
        found = int(recording.observed(value).reshape(-1)[0])
    recording.random_state = (int(found) % _WORD, 0)


def set_state(value: Tensor) -> None:
    """Go on from a state as `get_state` gives it: seed and count of draws; other numbers are one too."""
    words = current().observed(value).reshape(value.shape[0], -1)[0]
    current().random_state = (int(words[0]) % _WORD, int(words[1]) % _WORD if words.size > 1 else 0)


def get_state(dst: object) -> None:
    """dst = the state: seed and count of draws, then zeros; the same in every partition."""
    target = tile(dst, "rand_get_state dst")
    size = target.size // target.shape[0]
    if target.dtype != NAMES["uint32"] or size not in STATE_WORDS:
        raise KernelError(f"rand_get_state: {target!r}: expected uint32 and 6 or 24 words in each partition")
    recording = current()
    recording.note(_NOTE)
    flat = target.reshape(target.shape[0], size)
    recording.step("memset", flat, (), value=0)
    for column, word in enumerate(recording.random_state):
        recording.step("memset", flat.slice(1, column, column + 1), (), value=word)


def bits(dst: object, engine: object = None) -> Tensor:
    """dst = random bits."""
    target = tile(dst, "rng dst")
    if target.dtype.kind not in "iu":
        raise KernelError(f"rng: {target!r} is no tile of integers")
    recording = current()
    recording.note(_NOTE)
    first, count = recording.random_state
    recording.random_state = (first, count + 1)
    recording.step("random_bits", target, (), seed=first, count=count, engine=engine_of(engine))
    return target


def uniform(shape: Sequence[int], low: object = 0.0, high: object = 1.0) -> Tensor:
    """A new tile of fp32 numbers from low to below high: 24 random bits each."""
    recording = current()
    drawn = bits(recording.new(tuple(shape), NAMES["uint32"], SBUF))
    compute.tensor_scalar(drawn, drawn, "right_shift", 8)
    made = recording.new(tuple(shape), FLOAT32, SBUF)
    recording.step("tensor_copy", made, (drawn,), engine=None)
    a, b = number(low), number(high)
    if a is None or b is None:
        compute.tensor_scalar(made, made, "multiply", 2.0**-24)
        width = recording.actions.binary("subtract", high, low, FLOAT32)
        compute.tensor_scalar(made, made, "multiply", width, op1="add", operand1=low)
    else:
        compute.tensor_scalar(made, made, "multiply", (b - a) * 2.0**-24, op1="add", operand1=a)
    return made


def rand2(dst: object, low: object, high: object) -> None:
    """dst = uniform numbers."""
    target = tile(dst, "rand2 dst")
    made = uniform(target.shape, low, high)
    current().step("tensor_copy", target, (made,), engine=None)


def rand(shape: Sequence[int], dtype: object = "float32") -> Tensor:
    """A new tile of uniform numbers in [0, 1)."""
    made, kind = uniform(shape), dtype_of(dtype)
    return made if kind == FLOAT32 else current().actions.copied(made, kind)


def dropout(
    dst: object, data: object, probability: object, box: object = None, dtype: object = None
) -> Tensor:
    """data, with elements set to 0 with a probability: a number, or one a partition."""
    from npuviz.targets.neuroncore.nki.calls import elementwise

    recording = current()
    source = tile(data, "dropout data")
    drawn = rand(source.shape)
    kept = compute.tensor_scalar(None, drawn, "greater_equal", probability)
    if dst is None:
        return elementwise.binary(recording, "multiply", source, kept, dtype or source.dtype, box)  # type: ignore[arg-type]
    target = tile(dst, "dropout dst")
    recording.step("tensor_tensor", target, (source, kept), op=Alu.MULTIPLY, engine=None)
    return target
