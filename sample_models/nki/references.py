"""What the kernels beside this file should compute, in numpy: for --reference and --check."""

import numpy as np


def vector_add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b."""
    return a + b


def matmul(a_transposed: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b, a given transposed."""
    return a_transposed.T @ b


def softmax(x: np.ndarray) -> np.ndarray:
    """exp(x) / sum(exp(x)) along the rows."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def flash_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """softmax(q.T @ k) @ v."""
    return softmax(q.T @ k) @ v
