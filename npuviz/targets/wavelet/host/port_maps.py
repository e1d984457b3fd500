"""Read port maps of SDK 0.9 and before: a text says which PE holds which element of an array, and where.

`{ A[j=0:3][i=0:5] -> [PE[i//3, j//2] -> index[i%3, j%2]] }` has an element A[j][i] on PE (i // 3, j // 2);
there it lies at (i % 3, j % 2) of a local array, the last index fastest.
"""

import ast
import re
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.base.names import echo

_MAP = re.compile(
    r"\{\s*\w+\s*((?:\[[^\]]*\]\s*)+)->\s*\[\s*PE\s*\[([^\]]*)\]\s*->\s*index\s*\[([^\]]*)\]\s*\]\s*\}"
)
_RANGE = re.compile(r"\[\s*(\w+)\s*=\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?\]")
_OPERATORS: dict[type[ast.operator], np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.FloorDiv: np.floor_divide,
    ast.Div: np.floor_divide,
    ast.Mod: np.mod,
}
Place = tuple[int, int, int, int, int]
"""px, py, w, h, elements per PE."""


@dataclass(frozen=True)
class PortMap:
    """A port map that has been evaluated.

    shape   of the array
    place   rectangle and elements per PE
    target  index in [h][w][elements], flat, of every element of the array
    """

    shape: tuple[int, ...]
    place: Place
    target: np.ndarray


def port_map(text: str) -> PortMap:
    """Read a port map. Raises UsageError."""
    found = _MAP.fullmatch(" ".join(text.split()))
    ranges = _RANGE.findall(found[1]) if found else []
    if found is None or not ranges:
        raise UsageError(f"port map {echo(text)}: expected {{ A[i=0:n] -> [PE[x, y] -> index[k]] }}")
    bounds = [(int(low), int(high or low)) for _, low, high in ranges]
    shape = tuple(high - low + 1 for low, high in bounds)
    if min(shape) < 1:
        raise UsageError(f"port map {echo(text)}: an empty range")
    grids = np.meshgrid(*(np.arange(low, high + 1) for low, high in bounds), indexing="ij")
    names = {name: grid for (name, _, _), grid in zip(ranges, grids, strict=True)}
    pe = _values(found[2], names, text, shape)
    index = _values(found[3], names, text, shape)
    if len(pe) != 2:
        raise UsageError(f"port map {echo(text)}: PE needs two coordinates")
    px, py = int(pe[0].min()), int(pe[1].min())
    width, height = int(pe[0].max()) - px + 1, int(pe[1].max()) - py + 1
    local = np.zeros(shape, np.int64)
    for part in index:
        local = local * (int(part.max()) + 1) + part
    elements = int(local.max()) + 1
    target = ((pe[1] - py) * width + pe[0] - px) * elements + local
    return PortMap(shape, (px, py, width, height, elements), target.reshape(-1))


def _values(text: str, names: dict[str, np.ndarray], whole: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Evaluate the expressions in a list for every element of the array."""
    parts = [part for part in text.split(",") if part.strip()]
    try:
        trees = [ast.parse(part.strip(), mode="eval").body for part in parts]
    except SyntaxError:
        raise UsageError(f"port map {echo(whole)}: {echo(text)} is no list of expressions") from None
    return [np.broadcast_to(_value(tree, names, whole), shape) for tree in trees]


def _value(node: ast.expr, names: dict[str, np.ndarray], whole: str) -> np.ndarray:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return np.array(node.value, np.int64)
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        right = _value(node.right, names, whole)
        if isinstance(node.op, ast.FloorDiv | ast.Div | ast.Mod) and not right.all():
            raise UsageError(f"port map {echo(whole)}: division by zero")
        return _OPERATORS[type(node.op)](_value(node.left, names, whole), right)
    raise UsageError(f"port map {echo(whole)}: {echo(ast.unparse(node))} is not supported")


def convert_input_tensor(text: str, array: np.ndarray) -> tuple[int, int, int, int, int, np.ndarray]:
    """Return rectangle, elements per PE and 32-bit words for `memcpy_h2d` in row-major order. Raises
    UsageError."""
    found = port_map(text)
    if array.size != found.target.size:
        raise UsageError(f"port map {echo(text)}: describes {found.target.size} elements, found {array.size}")
    words = np.zeros(int(np.prod(found.place[2:])), _word(array.dtype))
    words[found.target] = array.reshape(-1)
    return (*found.place, words)


def _word(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.itemsize == 4 else np.dtype(np.uint32)


def prepare_output_tensor(
    text: str, dtype: np.dtype | type | str
) -> tuple[int, int, int, int, int, np.ndarray]:
    """Return rectangle, elements per PE and room for the words of `memcpy_d2h` in row-major order.

    Raises UsageError.
    """
    found = port_map(text)
    return (*found.place, np.zeros(int(np.prod(found.place[2:])), _word(np.dtype(dtype))))


def format_output_tensor(text: str, dtype: np.dtype | type | str, words: np.ndarray) -> np.ndarray:
    """Return the array that a port map describes, out of the words of `memcpy_d2h`. Raises UsageError."""
    found = port_map(text)
    return words.reshape(-1)[found.target].reshape(found.shape).astype(np.dtype(dtype))
