"""Lists operators that no chip runs, with the reason and how to change the model."""

from collections.abc import Mapping
from dataclasses import replace

from npuviz.onnx.semantics.operators import RANDOM
from npuviz.onnx.semantics.trees import KINDS, tree_cost
from npuviz.program.graph import Node
from npuviz.program.program import HostReason

_SIZE = HostReason(
    "the size of the result depends on values",
    change="a result of a fixed size, such as TopK with a constant K",
)
_NO_TENSOR = HostReason("sequences, optionals and text are no tensors of the chip")
_BRANCH = HostReason("what runs depends on values", change="both branches, and Where to choose between them")
_TURNS = HostReason("what runs depends on values", change="a constant number of turns, at most 64")
_CHANCE = HostReason("random numbers", change="the numbers as an input of the model")

HOST_OPERATORS: Mapping[str, HostReason] = {
    **dict.fromkeys(("NonZero", "Unique", "NonMaxSuppression"), _SIZE),
    "If": _BRANCH,
    "Loop": _TURNS,
    # Bernoulli is a function: its body draws the numbers and is expanded.
    **dict.fromkeys(RANDOM - {"Bernoulli"}, _CHANCE),
    **dict.fromkeys(
        (
            *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
            *("SequenceLength", "SplitToSequence", "ConcatFromSequence", "Optional"),
            *("OptionalGetElement", "OptionalHasElement", "RegexFullMatch", "StringConcat"),
            *("StringNormalizer", "StringSplit"),
        ),
        _NO_TENSOR,
    ),
    "ImageDecoder": HostReason("a compressed picture is decoded by the host", change="pixels as an input"),
    "TfIdfVectorizer": HostReason("counting n-grams is work for the host"),
    "Det": HostReason("an elimination that depends on values"),
}
"""Operators of the standard that stay on the Host, each with its reason."""


def lacking(node: Node, machine: str) -> HostReason:
    """Return the reason why a node has no lowering. machine  beginning of the sentence, such as "the NPU
    has" """
    cost = tree_cost(node) if node.domain == "ai.onnx.ml" and node.op_type in KINDS else None
    if cost is not None:
        return HostReason(cost.text, node.op_type)
    known = HOST_OPERATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if known is None:
        return HostReason(f"{machine} no lowering for it", node.op_type)
    return replace(known, found=node.op_type)
