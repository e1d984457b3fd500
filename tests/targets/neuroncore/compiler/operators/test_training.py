"""Optimisers on the machine, against their definitions."""

import numpy as np
import pytest

from tests.targets.neuroncore.compiler.on_machine import check_node

DOMAIN = "ai.onnx.preview.training"


@pytest.mark.parametrize("count", [0, 3])
def test_adam(count: int) -> None:
    rng = np.random.default_rng(3)
    x, gradient, average, squares = (rng.random(700).astype(np.float32) + 0.1 for _ in range(4))
    rate, alpha, beta, epsilon, decay = 0.1, 0.95, 0.85, 1e-2, 0.01
    pulled = gradient + decay * x
    new_average = alpha * average + (1 - alpha) * pulled
    new_squares = beta * squares + (1 - beta) * pulled**2
    step = rate * np.sqrt(1 - beta**count) / (1 - alpha**count) if count else rate
    expected = [x - step * new_average / (np.sqrt(new_squares) + epsilon), new_average, new_squares]
    check_node(
        "Adam",
        [np.array(rate, np.float32), np.array(count, np.int64), x, gradient, average, squares],
        expected=[each.astype(np.float32) for each in expected],
        num_outputs=3,
        domain=DOMAIN,
        alpha=alpha,
        beta=beta,
        epsilon=epsilon,
        norm_coefficient=decay,
        rtol=1e-4,
    )


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_momentum_of_several_tensors(mode: str) -> None:
    rng = np.random.default_rng(4)
    shapes = [(3,), (5, 70)]
    tensors = [[rng.random(shape).astype(np.float32) for shape in shapes] for _ in range(3)]
    rate, alpha, beta = 0.1, 0.9, 0.5
    moved, velocities = [], []
    for x, gradient, velocity in zip(*tensors, strict=True):
        new = alpha * velocity + beta * gradient
        direction = new if mode == "standard" else gradient + alpha * new
        moved.append((x - rate * direction).astype(np.float32))
        velocities.append(new.astype(np.float32))
    scalars = [np.array(rate, np.float32), np.array(2, np.int64)]
    check_node(
        "Momentum",
        [*scalars, *(array for kind in tensors for array in kind)],
        expected=[*moved, *velocities],
        num_outputs=4,
        domain=DOMAIN,
        alpha=alpha,
        beta=beta,
        norm_coefficient=0.0,
        mode=mode,
    )
