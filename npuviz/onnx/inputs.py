"""Provides the graph's inputs: arrays of the user, and seeded random numbers for the others."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.onnx.semantics.usual_inputs import usual_values
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor

_ROW_PICKERS = {
    "EmbedLayerNormalization": ((0, 2), (1, 4), (8, 3)),
    "GatherBlockQuantized": ((1, 0),),
    "RotaryEmbedding": ((1, 2), (3, 1)),  # ONNX Runtime's positions, and the standard's
}
"""Operator -> (number of the input with indices, number of the table whose rows they pick)."""
DRAWN_AT_ONCE = 1 << 20
"""Elements drawn at a time, since random numbers are twice as wide as most tensors."""
_NOTHING = np.zeros(0)
_ELEMENT_PICKERS = frozenset(("Gather", "GatherElements", "Scatter", "ScatterElements"))
_PASSING = frozenset(
    ("Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile",
     "Transpose", "Unsqueeze")
)  # fmt: skip
"""Operators whose results hold the integers of their first input (Concat: of all inputs)."""


@dataclass(frozen=True)
class Given:
    """Inputs of a run: arrays by name; all others are drawn from the seed."""

    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    seed: int = 0


class DrawnInputs(Mapping[str, np.ndarray]):
    """Arrays of inputs by name; those that are not given are drawn on first access. Thread-safe.

    tensors  in the order of drawing: accessing one draws those before it
    limits   input name -> one more than the largest integer it may hold
    given    arrays that are not drawn, of the tensors' shapes and types
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        limits: Mapping[str, int],
        given: Mapping[str, np.ndarray],
        seed: int,
    ) -> None:
        self._waiting = list(reversed(tensors))
        self._usual = usual_values({tensor.name: tensor.shape for tensor in tensors})
        self._names = tuple(dict.fromkeys(tensor.name for tensor in tensors))
        is_real = {tensor.name: numpy_dtype(tensor.dtype).kind not in "iu" for tensor in tensors}
        self._by_kind = sorted(self._names, key=is_real.__getitem__)
        self._limits = limits
        self._given = given
        self._drawn: dict[str, np.ndarray] = {}
        self._generator = np.random.default_rng(seed)
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._given:
            return self._given[name]
        if name not in self._names:
            raise KeyError(name)
        with self._lock:
            while name not in self._drawn:
                self._draw_next()
            return self._drawn[name]

    @property
    def drawn_names(self) -> list[str]:
        """Names of the inputs that are drawn, integers first: lengths, ids and rates are what a run depends
        on."""
        return [name for name in self._by_kind if name not in self._given]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def _draw_next(self) -> None:
        """Draw the next tensor, or skip its random numbers if it was given. Changes nothing if
        interrupted."""
        tensor, before = self._waiting[-1], self._generator.bit_generator.state
        is_kept = tensor.name not in self._given
        try:
            made = np.empty(tensor.num_elements if is_kept else 0, numpy_dtype(tensor.dtype))
            first = 0
            for part in _draw(tensor, self._limits.get(tensor.name, 2), self._generator):
                if is_kept:
                    made[first : first + len(part)] = part
                    first += len(part)
        except BaseException:
            self._generator.bit_generator.state = before
            raise
        usual = self._usual.get(tensor.name)
        if is_kept and usual is not None and made.dtype.kind != "O":
            # Drawn all the same, so that the inputs behind it stay what they are without it.
            made.fill(usual)
        if is_kept:
            self._drawn[tensor.name] = made.reshape(tensor.shape)
        self._waiting.pop()


def draw_inputs(graph: Graph, given: Mapping[str, np.ndarray], seed: int = 0) -> DrawnInputs:
    """Return every graph input by name, in its shape and type, drawn on first access.

    Missing floating-point inputs are standard normal, integers lie within the table they index
    (else 0 or 1), booleans are all true; masks and lengths are as `usual_values` says. Raises UsageError for
    an unknown name, another shape, or values that are no numbers of the type.
    """
    names = [tensor.name for tensor in graph.tensors]
    users = [
        User(
            node.op_type,
            tuple(names[index] if index >= 0 else "" for index in node.inputs),
            tuple(names[index] for index in node.outputs if index >= 0),
            _axis(node),
        )
        for node in graph.nodes
    ]
    shapes = {tensor.name: tensor.shape for tensor in graph.tensors}
    constants = {names[index]: values for index, values in graph.constants.items()}
    tensors = [graph.tensors[index] for index in graph.inputs]
    return draw(tensors, index_limits(users, shapes, constants), Given(given, seed))


def draw(tensors: Sequence[Tensor], limits: Mapping[str, int], given: Given) -> DrawnInputs:
    """Return inputs as `draw_inputs` does, for a graph that is not built yet.

    limits  input name -> one more than the largest integer it may hold
    """
    known = {tensor.name: tensor for tensor in tensors}
    arrays: dict[str, np.ndarray] = {}
    for name, values in given.inputs.items():
        if name not in known:
            raise UsageError(f"--input {name}: the model has no such input; it has {', '.join(known)}")
        if tuple(values.shape) != known[name].shape:
            raise UsageError(f"--input {name}: expected shape {known[name].shape}, found {values.shape}")
        _refuse_type(name, values.dtype, known[name].dtype)
        arrays[name] = np.asarray(values).astype(numpy_dtype(known[name].dtype))
    return DrawnInputs(tensors, limits, arrays, given.seed)


@dataclass(frozen=True, slots=True)
class User:
    """An operator by type, with the names of its inputs ("" for absent ones) and outputs, and its axis, if
    any."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    axis: int = 0


def index_limits(
    users: Sequence[User], shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """Return name -> one more than the largest useful integer of a tensor of indices or classes.

    That is the number of rows of the smallest table that its readers index, the depth of a OneHot, or the
    number of
    classes that an Equal compares with. Operators that only pass integers on get the limit of their results.
    users  in the order of the graph;  constants  known values by name
    """
    found: dict[str, int] = {}

    def limit(names: Iterable[str], size: int) -> None:
        for name in names:
            if name and name not in constants:
                found[name] = max(1, min(found.get(name, size), size))

    for user in reversed(users):
        op_type, inputs = user.op_type, user.inputs
        for indices, table in _ROW_PICKERS.get(op_type, ()):
            for rows in shapes.get(inputs[table], ())[:1] if max(indices, table) < len(inputs) else ():
                limit([inputs[indices]], rows)
        if op_type in _ELEMENT_PICKERS and len(inputs) > 1:
            shape = shapes.get(inputs[0], ())
            if -len(shape) <= user.axis < len(shape):
                limit(inputs[1:2], shape[user.axis])
        elif op_type == "OneHot" and len(inputs) > 1 and constants.get(inputs[1], _NOTHING).size:
            limit(inputs[:1], int(constants[inputs[1]].reshape(-1)[0]))
        elif op_type == "Equal":
            classes = max((_classes(constants[name]) for name in inputs if name in constants), default=0)
            if classes:
                limit(inputs, classes)
        elif op_type in _PASSING:
            sizes = [found[name] for name in user.outputs if name in found]
            if sizes:
                limit(inputs if op_type == "Concat" else inputs[:1], min(sizes))
    return found


def _axis(node: Node) -> int:
    axis = node.attributes.get("axis", 0)
    return axis if isinstance(axis, int) else 0


def _classes(values: np.ndarray) -> int:
    """Return the size of a constant that is 0, 1, 2, ..., 0 for any other constant."""
    flat = values.reshape(-1)
    is_counting = flat.size > 2 and flat.dtype.kind in "iu" and np.array_equal(flat, np.arange(flat.size))
    return flat.size if is_counting else 0


def _refuse_type(name: str, found: np.dtype, wanted: str) -> None:
    """Raise UsageError for values whose conversion to the wanted type would lose a fraction or imaginary
    part."""
    is_text, is_whole = numpy_dtype(wanted).kind == "O", numpy_dtype(wanted).kind in "iu"
    allowed = "OUS" if is_text else "biu" if is_whole else "biufV"
    if found.kind not in allowed:
        raise UsageError(f"--input {name}: expected values of type {wanted}, found {found}")


def _draw(tensor: Tensor, limit: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Draw the elements of a tensor in parts, (n,) of its type; the size of the parts does not change the
    numbers."""
    dtype = numpy_dtype(tensor.dtype)
    for first in range(0, tensor.num_elements, DRAWN_AT_ONCE):
        count = min(DRAWN_AT_ONCE, tensor.num_elements - first)
        if dtype.kind in "iu":
            yield generator.integers(0, limit, count).astype(dtype)
        elif dtype.kind == "b":
            yield np.ones(count, dtype)
        elif dtype.kind == "O":
            yield np.full(count, "", dtype)
        else:
            yield generator.standard_normal(count).astype(dtype)
