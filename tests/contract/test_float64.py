"""No machine has float64: each says what becomes of it, in a note or as the reason of a call of the Host."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from npuviz.base.progress import NoProgress
from npuviz.onnx.passes.narrow_floats import NOTE
from npuviz.program.program import Program
from npuviz.sim.target import LoadRequest
from npuviz.workbench.choosing import targets


def loaded(target: str, folder: Path, **settings: str) -> Program:
    """A model of two operators in float64."""
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, [4, 8]) for name in "xy"]
    nodes = [helper.make_node("Mul", ["x", "c"], ["t"]), helper.make_node("Exp", ["t"], ["y"])]
    constant = onnx.numpy_helper.from_array(np.array(0.1), "c")
    graph = helper.make_graph(nodes, "case", ends[:1], ends[1:], [constant])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return targets()[target].load(LoadRequest(path, "", None, settings, {}), NoProgress())[1]


def notes(program: Program) -> list[str]:
    return [note.text for note in program.notes if note.code == NOTE]


@pytest.mark.parametrize(
    "name", sorted(name for name, each in targets().items() if ".onnx" in each.file_kinds)
)
def test_what_becomes_of_float64_is_said(name: str, tmp_path: Path) -> None:
    program = loaded(name, tmp_path)
    reasons = [str(note.reason) for note in program.notes if note.reason is not None]
    on_host = [node for node, place in program.placement.items() if place == "Host"]
    assert notes(program) or len(on_host) == len(program.graph.nodes)
    assert all("4 tensors of float64 are held" in text for text in notes(program))
    assert all("no float64" in reason for reason in reasons)


def test_the_note_names_the_type(tmp_path: Path) -> None:
    assert notes(loaded("systolic", tmp_path)) == [
        "4 tensors of float64 are held and computed as bfloat16; --set element_type=float32 keeps more of it"
    ]
    assert notes(loaded("systolic", tmp_path, element_type="float32")) == [
        "4 tensors of float64 are held and computed as float32"
    ]
    assert "bfloat16" in notes(loaded("neuroncore", tmp_path, dtype="bf16"))[0]
