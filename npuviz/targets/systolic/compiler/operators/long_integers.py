"""Integers of 64 bits on lanes of 32: each is two words, and what one word carries reaches the other in a
pass of its own.

Assumed: lanes add and compare words as they do accumulators of quantised layers, and the comparator of two
words gives their sign.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators import chunks
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.plan import Apply
from npuviz.targets.systolic.values.storage import FLOATS

LONG = frozenset(("int64", "uint64"))
"""Types of two words."""
WORDS = 2
_LOW, _HIGH = 0, 1
_BASE = np.float32(2.0**32)
_PIECES = 4
_PIECE_BITS = 16
MAX_SUMMED = 1 << 15
"""Most integers of a sum, so that sums of their pieces of 16 bits fit into a word."""

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Passes:
    """Writes passes of the vector unit on a chunk.

    count  elements of the result; a pass works on `words` of them for each, and its result has `made`
    """

    lowering: Lowering
    chunk: chunks.Chunk
    count: int

    def write(
        self,
        opcode: int,
        sources: tuple[int, ...],
        target: int,
        named: tuple[str, Apply],
        words: int = 1,
        made: int = 1,
    ) -> None:
        """Write one pass."""
        name, apply = named
        aux = self.lowering.function(("long", name, self.chunk.shape), apply, name)
        self.chunk.vector(opcode, sources, target, aux, words * self.count, result=made * self.count)

    def entry(self, key: str, words: int = 1) -> int:
        """Return the operand word of an entry for something between two passes."""
        return self.chunk.temporary(key, words * self.count)


Write = Callable[[Passes], None]


def lower_long(lowering: Lowering, node: Node, write: Write, entries: int) -> None:
    """Write the layer of an element-wise operator by passes on chunks.

    entries  words of the accumulator for each element
    """
    output = node.outputs[0]
    if lowering.tensor(output).num_elements == 0:
        raise CannotLower(f"tensor {lowering.tensor(output).name} is empty")
    walk, operands = chunks.plan_walk(lowering, output, node.inputs, entries)

    def emit(chunk: chunks.Chunk) -> None:
        write(Passes(lowering, chunk, chunk.num_elements))

    chunks.lower_chunks(lowering, node, output, operands, walk, emit)


def _words(values: Array) -> Array:
    """Return the words of integers along a new last axis, the lower one first."""
    whole = np.ascontiguousarray(values.astype(np.int64))
    return whole.view(np.uint32).reshape(*values.shape, WORDS)


def _joined(words: Array) -> Array:
    return np.ascontiguousarray(words.astype(np.uint32)).view(np.int64).reshape(words.shape[:-1])


def lower_sum(lowering: Lowering, node: Node) -> None:
    """Lower Add and Sub: all words, what the lower ones carry, and that to the upper ones."""
    is_sum = node.op_type == "Add"
    combine = np.add if is_sum else np.subtract

    def by_word(a: Array, b: Array) -> Array:
        return _joined(combine(_words(a), _words(b)))

    def carried(a: Array, b: Array) -> Array:
        return (_words(a)[..., _LOW] < _words(b)[..., _LOW]).astype(np.int32)

    def write(passes: Passes) -> None:
        chunk, name = passes.chunk, "sum" if is_sum else "difference"
        shape = chunk.shape
        words, carry = passes.entry("words", WORDS), passes.entry("carry")
        first, second = chunk.words
        made = (f"{name} of words", lambda a, b: np.broadcast_to(by_word(a, b), shape))
        passes.write(tk.OP_ADD, (first, second), words, made, WORDS, WORDS)
        compared = (words, first) if is_sum else (first, second)
        made = (f"carry of a {name}", lambda a, b: np.broadcast_to(carried(a, b), shape))
        passes.write(tk.OP_COMP, compared, carry, made)
        made = (f"{name} with its carry", lambda a, b: combine(a, b.astype(np.int64) << 32))
        passes.write(tk.OP_ADD, (words, carry), chunk.out, made, made=WORDS)

    lower_long(lowering, node, write, 2 * WORDS + 1)


_RELATIONS: Mapping[str, Callable[[Array], Array]] = {
    "Equal": lambda sign: sign == 0,
    "Greater": lambda sign: sign > 0,
    "GreaterOrEqual": lambda sign: sign >= 0,
    "Less": lambda sign: sign < 0,
    "LessOrEqual": lambda sign: sign <= 0,
}


def lower_comparison(lowering: Lowering, node: Node) -> None:
    """Lower a comparison: the sign of each pair of words, then that of the numbers."""
    relation = _RELATIONS.get(node.op_type)
    if relation is None:
        raise CannotLower("comparisons of integers of 64 bits", node.op_type)
    is_signed = lowering.tensor(node.inputs[0]).dtype == "int64"

    def signs(shape: tuple[int, ...], a: Array, b: Array) -> Array:
        a, b = _words(a).astype(np.int64), _words(b).astype(np.int64)
        if is_signed:
            a[..., _HIGH], b[..., _HIGH] = (each[..., _HIGH].astype(np.int32) for each in (a, b))
        return np.broadcast_to(np.sign(a - b), (*shape, WORDS)).astype(np.int32)

    def of_number(signs: Array, _: Array) -> Array:
        return relation(np.where(signs[..., _HIGH], signs[..., _HIGH], signs[..., _LOW]))

    def write(passes: Passes) -> None:
        found, kind = passes.entry("signs", WORDS), "signed" if is_signed else "unsigned"
        named = (f"signs of {kind} words", partial(signs, passes.chunk.shape))
        passes.write(tk.OP_COMP, tuple(passes.chunk.words), found, named, WORDS, WORDS)
        passes.write(tk.OP_COMP, (found,), passes.chunk.out, (node.op_type, of_number))

    lower_long(lowering, node, write, WORDS + 1)


def lower_cast(lowering: Lowering, node: Node) -> None:
    """Lower a Cast from or to integers of 64 bits."""
    source, target = (lowering.tensor(index).dtype for index in (node.inputs[0], node.outputs[0]))
    if source in LONG and target in FLOATS:
        lower_long(lowering, node, partial(_to_float, source == "int64"), 4)
    elif source in FLOATS:
        lower_long(lowering, node, _from_float, 4)
    elif target == "bool":
        lower_long(lowering, node, _to_truth, WORDS + 1)
    else:
        dtype = numpy_dtype(target)
        made = (f"{target} of {source}", lambda a, _: a.astype(np.int64).astype(dtype))
        words = WORDS if source in LONG or target in LONG else 1

        def write(passes: Passes) -> None:
            out = WORDS if target in LONG else 1
            passes.write(tk.OP_COMP, (passes.chunk.words[0],), passes.chunk.out, made, words, out)

        lower_long(lowering, node, write, WORDS)


def _to_truth(passes: Passes) -> None:
    found, source = passes.entry("set words", WORDS), passes.chunk.words[0]
    passes.write(tk.OP_COMP, (source,), found, ("set words", lambda a, _: _words(a) != 0), WORDS, WORDS)
    passes.write(
        tk.OP_COMP,
        (found,),
        passes.chunk.out,
        ("any word", lambda a, _: np.any(a, axis=-1, keepdims=True)[..., 0]),
    )


def _to_float(is_signed: bool, passes: Passes) -> None:
    """Convert both words, the lower one as signed, so that small negative numbers lose nothing."""

    def low(a: Array, _: Array) -> Array:
        return _words(a)[..., _LOW].astype(np.int32).astype(np.float32)

    def high(a: Array, _: Array) -> Array:
        words = _words(a)
        upper = words[..., _HIGH].astype(np.int32) if is_signed else words[..., _HIGH]
        return (upper.astype(np.int64) + (words[..., _LOW] >> 31)).astype(np.float32)

    source, upper, lower = passes.chunk.words[0], passes.entry("upper"), passes.entry("lower")
    kind = "signed" if is_signed else "unsigned"
    passes.write(tk.OP_COMP, (source,), upper, (f"upper word, {kind}", high), WORDS)
    passes.write(tk.OP_MUL, (upper,), upper, ("upper word's weight", lambda a, _: a * _BASE))
    passes.write(tk.OP_COMP, (source,), lower, ("lower word", low), WORDS)
    passes.write(tk.OP_ADD, (upper, lower), passes.chunk.out, ("number", np.add))


def _from_float(passes: Passes) -> None:
    """Cut a number at 2**32; its lower part is exact, since a float has 24 bits."""
    source, whole, upper = passes.chunk.words[0], passes.entry("whole"), passes.entry("upper")

    def joined(whole: Array, upper: Array) -> Array:
        lower = whole.astype(np.float64) - upper.astype(np.float64) * float(_BASE)
        return (upper.astype(np.int64) << 32) + lower.astype(np.int64)

    passes.write(tk.OP_COMP, (source,), whole, ("whole part", lambda a, _: np.trunc(a)))
    passes.write(tk.OP_MUL, (whole,), upper, ("over 2**32", lambda a, _: a / _BASE))
    passes.write(tk.OP_COMP, (upper,), upper, ("upper word", lambda a, _: np.floor(a)))
    passes.write(tk.OP_MAC, (whole, upper), passes.chunk.out, ("number", joined), WORDS, WORDS)


def write_row_sums(passes: Passes, middle: int) -> None:
    """Write the sums of `middle` integers each: those of their pieces of 16 bits, then what these carry."""
    chunk = passes.chunk
    wide = Passes(passes.lowering, chunk, passes.count * middle)
    pieces, sums = wide.entry("pieces", _PIECES), passes.entry("sums", _PIECES)
    wide.write(tk.OP_COMP, (chunk.words[0],), pieces, ("pieces of 16 bits", _split), WORDS, _PIECES)
    aux = passes.lowering.function(("long", "sums of pieces"), lambda a, _: a.sum(axis=1, keepdims=True))
    rows = passes.count * _PIECES
    chunk.vector(tk.OP_ADDTREE, (pieces,), sums, aux, middle, rows, rows)
    for place in range(_PIECES - 1):
        named = (f"carry of piece {place}", partial(_carry, place))
        passes.write(tk.OP_ADD, (sums,), sums, named, made=_PIECES)
    passes.write(tk.OP_COMP, (sums,), chunk.out, ("number of pieces", _of_pieces), WORDS, WORDS)


def _split(values: Array, _: Array) -> Array:
    whole = np.ascontiguousarray(values.astype(np.int64))
    return whole.view(np.uint16).reshape(*values.shape, _PIECES).astype(np.int32)


def _carry(place: int, pieces: Array, _: Array) -> Array:
    made = pieces.astype(np.int64)
    made[..., place + 1] += made[..., place] >> _PIECE_BITS
    made[..., place] &= (1 << _PIECE_BITS) - 1
    return made


def _of_pieces(pieces: Array, _: Array) -> Array:
    low = np.ascontiguousarray(pieces.astype(np.int64).astype(np.uint16))
    return low.view(np.int64).reshape(pieces.shape[:-1])


ROW_SUM_WORDS = 2 * _PIECES + WORDS
"""Words of the accumulator for each integer that is summed, at most."""
