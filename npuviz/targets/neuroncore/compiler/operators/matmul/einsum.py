"""Lower Einsum of one operand (permutation, diagonal, sum) or two (a batched matrix product)."""

import itertools
from collections.abc import Sequence
from math import prod

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.matmul.matmul import require_floats
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import Matrix
from npuviz.targets.neuroncore.compiler.operators.matmul.product import multiply
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

_MAX_ROWS = 4096
_MAX_SCATTERED = 1 << 18
"""Most elements that are moved one by one by DMA."""
_ELLIPSIS = "0123456789"
"""Labels of the dimensions of an ellipsis, from the last backwards."""


def lower_einsum(b: Builder, node: Node) -> None:
    """Lower Einsum."""
    equation = attributes_of(node).text("equation", "").replace(" ", "")
    views = [b.hbm[tensor] for tensor in node.inputs]
    terms, result = _labels(equation, [len(view.shape) for view in views])
    out = b.hbm[node.outputs[0]]
    operands = [_diagonal(view, term) for view, term in zip(views, terms, strict=True)]
    try:
        if len(operands) == 1:
            _single(b, node, operands[0], out, result)
        elif len(operands) == 2:
            require_floats(b, node.inputs)
            _product(b, operands[0], operands[1], out, result)
        else:
            raise CannotLower(f"einsum of {len(operands)} operands")
    except ValueError as error:
        raise CannotLower(f"einsum {equation}: {error}") from None


def _labels(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the result, one letter a dimension, with ellipses expanded."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise CannotLower(f"einsum {equation} for {len(ranks)} operands")
    widest = 0
    for index, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        count = rank - len(term.replace("...", ""))
        widest = max(widest, count if "..." in term else 0)
        terms[index] = term.replace("...", _ELLIPSIS[:count][::-1])
        if len(terms[index]) != rank:
            raise CannotLower(f"einsum {equation}: {term} does not fit {rank} dimensions")
    if arrow:
        return terms, right.replace("...", _ELLIPSIS[:widest][::-1])
    letters = "".join(terms)
    once = sorted(label for label in set(letters) if letters.count(label) == 1 and label not in _ELLIPSIS)
    return terms, _ELLIPSIS[:widest][::-1] + "".join(once)


def _diagonal(view: HbmView, term: str) -> tuple[HbmView, str]:
    """Return the operand with each label once: the diagonal for a repeated label."""
    labels = "".join(dict.fromkeys(term))
    shape = tuple(view.shape[term.index(label)] for label in labels)
    steps = tuple(
        sum(step for step, other in zip(view.steps, term, strict=True) if other == label) for label in labels
    )
    return HbmView(view.variable, view.offset, view.dtype, shape, steps), labels


def _arranged(view: HbmView, labels: str, order: Sequence[str]) -> HbmView:
    """Return the view with dimensions in the given order; missing labels become dimensions of size 1."""
    kept = [label for label in order if label in labels]
    found = view.permute(*(labels.index(label) for label in kept))
    shape = iter(found.shape)
    return found.reshape(*(next(shape) if label in labels else 1 for label in order))


def _single(b: Builder, node: Node, operand: tuple[HbmView, str], out: HbmView, result: str) -> None:
    view, labels = operand
    summed = [label for label in labels if label not in result]
    arranged = _arranged(view, labels, [*result, *summed])
    if not summed:
        if out.num_elements > _MAX_SCATTERED:
            raise CannotLower("a large permutation; Transpose is the operator for it")
        b.dma.copy(out, arranged)
        return
    require_floats(b, node.inputs)
    outer = arranged.shape[: len(result)]
    rows = prod(outer[:-1])
    if rows > _MAX_ROWS or len(summed) > 4:
        raise CannotLower("a sum of too many small parts")
    for where in itertools.product(*(range(size) for size in outer[:-1])):
        part, target = arranged[where], out[where]
        if not result:
            part, target = part.reshape(1, *part.shape), target.reshape(1)
        for first, end in blocks(part.shape[0], NUM_PARTITIONS):
            with b.tiles.scope():
                values = b.dma.fetch(part[first:end])
                total = b.tiles.sbuf(end - first, (1,), out.dtype)
                b.isa.tensor_reduce(total, values, Alu.ADD, len(summed))
                b.dma.store(target[first:end].reshape(-1, 1), total)


def _product(
    b: Builder, left: tuple[HbmView, str], right: tuple[HbmView, str], out: HbmView, result: str
) -> None:
    if result and result[-1] in left[1] and result[-1] not in right[1]:
        left, right = right, left
    first, second = set(left[1]), set(right[1])
    batch = [label for label in result if label in first and label in second]
    rows = [label for label in result if label in first and label not in second]
    columns = [label for label in result if label in second and label not in first]
    depth = [label for label in left[1] if label in second and label not in result]
    if (first | second) - set(result) - set(depth):
        raise CannotLower("einsum that sums a dimension of one operand alone")
    a = _arranged(*left, [*batch, *rows, *depth])
    c = _arranged(*right, [*batch, *depth, *columns])
    target = _arranged(out, result, [*batch, *rows, *columns])
    sizes = target.shape[: len(batch)]
    m, n = _size(a, len(batch), len(rows)), _size(c, len(batch) + len(depth), len(columns))
    k = _size(a, len(batch) + len(rows), len(depth))
    a = a.broadcast_to((*sizes, *a.shape[len(batch) :]))
    c = c.broadcast_to((*sizes, *c.shape[len(batch) :]))
    for where in itertools.product(*(range(size) for size in sizes)):
        multiply(
            b,
            _matrix(a[where].reshape(m, k)),
            _matrix(c[where].reshape(k, n).permute(1, 0)),
            target[where].reshape(m, n),
        )


def _size(view: HbmView, first: int, count: int) -> int:
    return prod(view.shape[first : first + count])


def _matrix(view: HbmView) -> Matrix:
    """Return a matrix [X, K], as K-major if only its columns are contiguous."""
    if view.steps[0] == view.itemsize and view.steps[1] != view.itemsize:
        return Matrix(view.permute(1, 0), True)
    return Matrix(view, False)


LOWERINGS = {"Einsum": lower_einsum}
