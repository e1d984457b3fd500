"""The page of real models is read back: rows of other machines stay, and cycles are compared."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.real_model_classes import class_of, goal_rows
from benchmarks.real_model_page import comparison, figures_of_page
from benchmarks.real_models import host_texts, verdict

PAGE = """\
| model | kind |
| --- | --- |
| one | OCR | CNN | fp32 | 1,337 | 20 | rk3588 | 1.0 | 20 | 1,000 | 12 % | right | right | 1 |
| one | OCR | CNN | fp32 | 1,337 | 20 | systolic * | 1.0 | 20 | - | - | - | - | - |

| one | CNN | rk3588 | 12% | 2% | Softmax 8%: it is faster there; Pad 2%: no lowering |

- **one** on systolic: exit 2: it does not fit: 3 bytes
"""


def test_rows_and_reasons() -> None:
    found = figures_of_page(PAGE)
    assert {key: each["cycles"] for key, each in found.items()} == {
        "one, rk3588": 1000,
        "one, systolic": None,
    }
    assert found["one, rk3588"]["host"] == pytest.approx(0.12, abs=1e-4)
    assert found["one, rk3588"]["host"] > 0.12  # in the list of those over the goal, whatever was rounded
    assert found["one, rk3588"]["exchanged"] == 0.02
    assert found["one, rk3588"]["host_text"] == "Softmax 8%: it is faster there; Pad 2%: no lowering"
    assert verdict(found["one, rk3588"]) == ("right", "right")
    assert found["one, systolic"]["reasons"] == ["exit 2: it does not fit: 3 bytes"]


def test_what_stays_on_the_host_says_why_and_what_else_could_be() -> None:
    found = {
        "class": "CNN",
        "host": 0.24,
        "operators_on_host": 0.12,
        "cycles": 1000,
        "on_host": [["Softmax", 2, 0.12, "it is faster there"], ["Add", 1, 0.001, "too small to be named"]],
        "otherwise": ["partition=most", 0.05, 1300],
    }
    calls, softmax, otherwise = host_texts(found).split("; ")
    assert "inputs and outputs" in calls
    assert softmax == "Softmax x 2 12%: it is faster there"
    assert otherwise == "`partition=most`: Host 5%, 1.30 of the cycles"
    assert "inputs" not in host_texts({**found, "operators_on_host": 0.2})
    assert host_texts({"host_text": "as the page has it"}) == "as the page has it"


def test_only_what_was_measured_anew_is_compared() -> None:
    before = figures_of_page(PAGE)
    assert comparison(before, before) == []
    (line,) = comparison(before, {"one, rk3588": {"cycles": 1500}})
    assert line.split()[-3:] == ["1,000", "1,500", "1.500"]


def test_pages_without_classes_are_read() -> None:
    line = "| one | OCR | fp32 | 1,337 | 20 | rk3588 * | 1.0 | 20 | 1,000 | 2 % | right | right | 1 |"
    assert figures_of_page(line)["one, rk3588"]["cycles"] == 1000


def test_rows_over_the_goal_are_counted_by_what_bounds_them() -> None:
    runs = [
        ("CNN", "a", 0.11, 0.02),
        ("CNN", "a", 0.3, 0.11),
        ("CNN", "a", 0.1, 0.1),
        ("other", "b", 0.2, 0.2),
    ]
    assert goal_rows(runs) == [
        ["CNN", "a", "3", "2", "1", "1"],
        ["other", "b", "1", "0", "0", "0"],
        ["all", "all", "4", "2", "1", "1"],
    ]


def _conv(size: int) -> list[onnx.NodeProto]:
    return [helper.make_node("Conv", ["x", f"k{size}"], ["y"])]


_ATTENTION = [
    helper.make_node("MatMul", ["x", "w"], ["q"]),
    helper.make_node("MatMul", ["x", "q"], ["s"]),
    helper.make_node("Softmax", ["s"], ["y"]),
]
_CLASSES = {
    "CNN": _conv(3),
    "transformer": _ATTENTION,
    "other": [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Softmax", ["m"], ["y"])],
    "recurrent": [
        helper.make_node("Squeeze", ["x", "axis"], ["flat"]),
        helper.make_node("RNN", ["flat", "rw", "rr"], ["y"], hidden_size=8),
    ],
}


@pytest.mark.parametrize("name", _CLASSES)
def test_what_multiplies_most_gives_the_class(name: str, tmp_path: Path) -> None:
    assert class_of(_model(tmp_path, _CLASSES[name]), {}, {}) == name


def test_few_multiply_adds_do_not_give_the_class(tmp_path: Path) -> None:
    dense = [helper.make_node("MatMul", ["y", "w6"], ["z"])]
    assert class_of(_model(tmp_path, [*_conv(3), *dense], "z"), {}, {}) == "CNN"
    assert class_of(_model(tmp_path, [*_conv(1), *dense], "z"), {}, {}) == "other"


def _model(folder: Path, nodes: Sequence[onnx.NodeProto], last: str = "y") -> Path:
    weights = {
        "k1": (1, 1, 1, 1),
        "k3": (1, 1, 3, 3),
        "w": (8, 8),
        "w6": (6, 2),
        "rw": (1, 8, 8),
        "rr": (1, 8, 8),
    }
    if any("k1" in node.input for node in nodes):
        weights["w6"] = (8, 2)
    arrays = {name: np.full(shape, 0.1, np.float32) for name, shape in weights.items()}
    used = {name for node in nodes for name in node.input}
    initializers = [numpy_helper.from_array(value, name) for name, value in arrays.items() if name in used]
    if "axis" in used:
        initializers.append(numpy_helper.from_array(np.array([0], np.int64), "axis"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])
    made = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [given], [made], initializers)
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
