"""Rewrites Einsum of two tensors as a matrix product with Transposes and Reshapes around it."""

from math import prod

from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer


def write_einsum(writer: Writer, node: NodeProto) -> None:
    """Rewrite Einsum in which no term repeats a letter: letters of both terms and the result become batch
    axes of the product, letters of both terms only are summed over.

    Raises CannotWrite for other forms.
    """
    text = writer.attribute("equation", b"")
    equation = (text.decode() if isinstance(text, bytes) else str(text)).replace(" ", "")
    before, _, result = equation.partition("->")
    terms = before.split(",")
    if len(terms) != 2 or "->" not in equation or not all(term.isalpha() for term in (*terms, result)):
        raise CannotWrite
    if any(len(set(term)) < len(term) for term in (*terms, result)):
        raise CannotWrite
    one, two = terms
    both = [letter for letter in one if letter in two]
    counted = [letter for letter in both if letter in result]
    summed = [letter for letter in both if letter not in result]
    own = [[letter for letter in term if letter not in both] for term in terms]
    if not summed or set(result) != {*counted, *own[0], *own[1]}:
        raise CannotWrite
    sizes = _sizes(writer, node, terms)
    rows, columns = (prod(sizes[letter] for letter in letters) for letters in own)
    first = [*(sizes[letter] for letter in counted)]
    inner = prod(sizes[letter] for letter in summed)
    left = _brought(writer, node.input[0], one, [*counted, *own[0], *summed], [*first, rows, inner], sizes)
    right = _brought(
        writer, node.input[1], two, [*counted, *summed, *own[1]], [*first, inner, columns], sizes
    )
    order = [*counted, *own[0], *own[1]]
    made = writer.add("MatMul", [left, right])
    is_last = order == list(result)
    made = writer.reshape(made, [sizes[letter] for letter in order], writer.wanted(0) if is_last else "")
    if not is_last:
        writer.add("Transpose", [made], writer.wanted(0), perm=[order.index(letter) for letter in result])


def _sizes(writer: Writer, node: NodeProto, terms: list[str]) -> dict[str, int]:
    """Return letter -> size. Raises CannotWrite for shapes that are unknown, contradict each other or are
    empty."""
    found: dict[str, int] = {}
    for name, term in zip(node.input, terms, strict=True):
        shape = writer.shape(name)
        if len(shape) != len(term):
            raise CannotWrite
        for letter, size in zip(term, shape, strict=True):
            if size < 1 or found.setdefault(letter, size) != size:
                raise CannotWrite
    return found


def _brought(
    writer: Writer, name: str, term: str, order: list[str], shape: list[int], sizes: dict[str, int]
) -> str:
    """Transpose a term to an order of letters, and reshape it."""
    if order != list(term):
        name = writer.add("Transpose", [name], perm=[term.index(letter) for letter in order])
    return name if shape == [sizes[letter] for letter in order] else writer.reshape(name, shape)


WRITERS = {"Einsum": write_einsum}
