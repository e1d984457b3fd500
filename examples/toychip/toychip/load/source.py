"""Program texts: `input NAME COUNT`, `mul OUT LEFT RIGHT`, `add OUT LEFT RIGHT`, a line each."""

from pathlib import Path

from npuviz.base.errors import SourceError
from npuviz.formats.binary import read_text
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor

LIMIT = 1 << 20
"""Bytes of a text, and elements of a tensor."""


def read_source(path: Path) -> Graph:
    """The graph of a program text. Raises FormatError or SourceError."""
    tensors: list[Tensor] = []
    nodes: list[Node] = []
    known: dict[str, int] = {}
    for number, line in enumerate(read_text(path, LIMIT).splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        problem = _problem(words, known, tensors)
        if problem:
            raise SourceError(str(path), number, 1, problem)
        known[words[1]] = len(tensors)
        if words[0] == "input":
            tensors.append(Tensor(len(tensors), words[1], (int(words[2]),), "float32", "input"))
            continue
        operands = tuple(known[name] for name in words[2:])
        kind = words[0].title()
        nodes.append(Node(len(nodes), f"{kind} {words[1]}", kind, "", operands, (len(tensors),)))
        shape = tensors[operands[0]].shape
        tensors.append(Tensor(len(tensors), words[1], shape, "float32", "output", nodes[-1].id))
    if not nodes:
        raise SourceError(str(path), 1, 1, "a program without mul or add")
    inputs = tuple(tensor.id for tensor in tensors if tensor.kind == "input")
    outputs = tuple(node.outputs[0] for node in nodes)
    return Graph(path.stem, tuple(nodes), tuple(tensors), inputs, outputs)


def _problem(words: list[str], known: dict[str, int], tensors: list[Tensor]) -> str:
    """What is wrong with a line, "" if nothing."""
    wanted = {"input": 3, "mul": 4, "add": 4}.get(words[0][:8])
    if wanted is None:
        return f"expected input, mul or add, found {words[0][:20]!r}"
    if len(words) != wanted:
        return f"{words[0]} takes {wanted - 1} words, found {len(words) - 1}"
    if words[1] in known:
        return f"{words[1][:20]} is defined twice"
    if words[0] == "input":
        is_size = words[2].isdecimal() and len(words[2]) < 8 and 1 <= int(words[2]) <= LIMIT
        return "" if is_size else f"expected 1..{LIMIT} elements, found {words[2][:20]!r}"
    missing = [name for name in words[2:] if name not in known]
    if missing:
        return f"{missing[0][:20]} is not defined"
    sizes = [tensors[known[name]].num_elements for name in words[2:]]
    return "" if sizes[0] == sizes[1] else f"operands of {sizes[0]} and {sizes[1]} elements"
