"""Det as an elimination: zeros on the diagonal, singular matrices, batches, sizes."""

from pathlib import Path

import numpy as np
import pytest

from tests.onnx.passes.own_bodies.written import expanded, model_of, result_of


@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (3, 4, 4), (1, 7, 7), (12, 12), (5, 1, 1), (2, 3, 2, 2), (32, 32)]
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_equals_numpy(shape: tuple[int, ...], kind: type, tmp_path: Path) -> None:
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(kind)
    x[..., 0, 0] = 0.25 if shape[-1] == 1 else 0
    wanted = np.asarray(np.linalg.det(x.astype(np.float64)), kind)
    found = result_of(expanded(model_of("Det", {"x": x}, wanted), tmp_path), {"x": x})
    np.testing.assert_allclose(found, wanted, 1e-3 if kind == np.float32 else 1e-9)


def test_the_sign_turns_with_each_exchange(tmp_path: Path) -> None:
    orders = [[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0]]
    x = np.eye(3, dtype=np.float32)[orders]
    wanted = np.array([1, -1, 1, -1], np.float32)
    found = result_of(expanded(model_of("Det", {"x": x}, wanted), tmp_path), {"x": x})
    np.testing.assert_array_equal(found, wanted)


def test_singular_matrices_have_none(tmp_path: Path) -> None:
    x = np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.diag([1.0, 0, 2])]).astype(np.float32)
    wanted = np.zeros(3, np.float32)
    found = result_of(expanded(model_of("Det", {"x": x}, wanted), tmp_path), {"x": x})
    np.testing.assert_array_equal(found, wanted)


def test_large_matrices_and_coarse_machines_keep_the_operator(tmp_path: Path) -> None:
    large = np.zeros((33, 33), np.float32)
    model = model_of("Det", {"x": large}, np.zeros((), np.float32))
    assert [node.name for node in expanded(model, tmp_path).nodes] == ["op"]
    small = model_of("Det", {"x": large[:2, :2]}, np.zeros((), np.float32))
    assert [node.name for node in expanded(small, tmp_path, is_precise=False).nodes] == ["op"]
