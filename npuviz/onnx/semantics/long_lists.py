"""Takes long lists out of a model's structure while it is read, and puts them back for execution.

Ensembles of trees are attributes with millions of numbers, which each pass would copy one by one. Their
operators are of the domain ai.onnx.ml, about whose numbers no pass of the reader asks.
"""

from collections.abc import Sequence

import onnx

LONG = 1 << 12
"""Elements from which on a list is taken out."""

_DOMAIN = "ai.onnx.ml"
_MARK = "npuviz list "
"""Begins the description of an attribute whose list was taken out; its number follows."""


def take_out_lists(graph: onnx.GraphProto) -> tuple[onnx.AttributeProto, ...]:
    """Replace the long lists of a graph's own nodes by their first element, in place; returns them."""
    found: list[onnx.AttributeProto] = []
    for node in graph.node:
        if node.domain != _DOMAIN:
            continue
        for attribute in node.attribute:
            if max(len(attribute.ints), len(attribute.floats), len(attribute.strings)) < LONG:
                continue
            whole = onnx.AttributeProto()
            whole.CopyFrom(attribute)
            for values in (attribute.ints, attribute.floats, attribute.strings):
                del values[1:]
            attribute.doc_string = f"{_MARK}{len(found)}"
            found.append(whole)
    return tuple(found)


def put_back_lists(graph: onnx.GraphProto, lists: Sequence[onnx.AttributeProto]) -> None:
    """Put lists that `take_out_lists` took out of a graph back into a copy of it, in place."""
    if not lists:
        return
    for node in graph.node:
        for attribute in node.attribute if node.domain == _DOMAIN else ():
            number = attribute.doc_string.removeprefix(_MARK)
            if number != attribute.doc_string and number.isdigit() and int(number) < len(lists):
                attribute.CopyFrom(lists[int(number)])
