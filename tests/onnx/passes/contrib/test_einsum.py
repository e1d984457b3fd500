"""Einsum written as a product of matrices computes the same."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from npuviz.onnx.model_form import AS_IT_IS, ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from tests.onnx.cases import random, save, value

_SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "g": 1}
_WRITTEN = ModelForm(whole=lambda _: False)


def _read(path: Path, equation: str, form: ModelForm) -> list[str]:
    """What the operator is read as, after its result was held against NumPy's."""
    terms = equation.split("->")[0].replace(" ", "").split(",")
    given = {f"x{i}": random(*(_SIZES[letter] for letter in term)) for i, term in enumerate(terms)}
    node = helper.make_node("Einsum", list(given), ["y"], "n", equation=equation)
    inputs = [value(name, list(array.shape)) for name, array in given.items()]
    graph = read_model(save(path / "m.onnx", [node], inputs, [value("y", None)]), form=form)
    (found,) = run_reference(graph, given, graph.outputs).values()
    np.testing.assert_allclose(found, np.einsum(equation, *given.values()), rtol=1e-4, atol=1e-5)
    return [each.op_type for each in graph.nodes]


@pytest.mark.parametrize(
    "equation",
    ["abcd,cde->abce", "ab,bc->ac", "abc,abd->acd", "abcd,ace -> abde", "gab,cb->gca", "abcd,dcae->eba",
     "abc,cbe->ae", "ab,cb->ca", "ga,ab->gb"],
)  # fmt: skip
def test_products(tmp_path: Path, equation: str) -> None:
    assert "Einsum" not in _read(tmp_path, equation, _WRITTEN)


@pytest.mark.parametrize(
    "equation", ["ab->ba", "ab,ab->ab", "ab,bc,cd->ad", "ab,bc->a", "aa,ab->ab", "ab,cd->abcd"]
)
def test_other_forms_stay(tmp_path: Path, equation: str) -> None:
    assert _read(tmp_path, equation, _WRITTEN) == ["Einsum"]


def test_a_machine_that_has_it_gets_it_whole(tmp_path: Path) -> None:
    assert _read(tmp_path, "ab,bc->ac", AS_IT_IS) == ["Einsum"]
