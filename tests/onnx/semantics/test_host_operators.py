"""Why operators stay on the Host, and what a model can do about it."""

from typing import Any

import pytest

from npuviz.onnx.semantics.host_operators import lacking
from npuviz.program.graph import Node


def node(op_type: str, domain: str = "") -> Node:
    values: dict[str, Any] = {"id": 0, "name": "n", "op_type": op_type, "domain": domain}
    return Node(**values, inputs=(), outputs=(), attributes={})


@pytest.mark.parametrize(
    ("op_type", "change"),
    [
        ("Loop", "a constant number of turns, at most 64"),
        ("If", "both branches, and Where to choose between them"),
        ("RandomNormalLike", "the numbers as an input of the model"),
    ],
)
def test_what_no_chip_runs_says_what_to_do(op_type: str, change: str) -> None:
    found = lacking(node(op_type), "the cores have")
    assert (found.found, found.change) == (op_type, change)


def test_other_operators_lack_a_lowering_on_this_machine() -> None:
    assert str(lacking(node("Tan"), "the cores have")) == "the cores have no lowering for it (Tan)"
    assert str(lacking(node("Loop", "ai.company"), "the NPU has")) == "the NPU has no lowering for it (Loop)"
