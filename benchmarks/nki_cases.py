"""Calls of public kernels without a numpy test: inputs, and the results that they should return.

Only for kernels whose harness or docstring says what they compute. A case is found by the end of its file's
path; this file contains no code of the kernels.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from npuviz.targets.neuroncore.nki.kernel import Kernel

Array = Any
Pairs = Sequence[tuple[Array, Array]]
"""Pairs of (result of the kernel, expected result)."""
Case = Callable[[ModuleType], Pairs]
_DRAW = np.random.default_rng(0)


def _normal(*shape: int, scale: float = 1.0) -> Array:
    return (_DRAW.standard_normal(shape) * scale).astype(np.float32)


def _uniform(*shape: int) -> Array:
    return _DRAW.random(shape).astype(np.float32)


def _half(array: Array) -> Array:
    return array.astype(ml_dtypes.bfloat16)


def _exact(array: Array) -> Array:
    return np.asarray(array).astype(np.float64)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _attention(q: Array, k: Array, v: Array, scale: float = 1.0) -> Array:
    """Compute attention. q [.., s, d], k [.., d, t], v [.., t, e]"""
    return _softmax(_exact(q) @ _exact(k) * scale) @ _exact(v)


def _convolution(x: Array, w: Array, bias: Array, pool: int = 1) -> Array:
    """Compute a convolution without padding, with max pooling over pool x pool."""
    batch, _, height, width = x.shape
    count, _, rows, columns = w.shape
    high, wide = height - rows + 1, width - columns + 1
    out = np.zeros((batch, count, high, wide)) + _exact(bias)[None, :, None, None]
    for i in range(rows):
        for j in range(columns):
            part = _exact(x[:, :, i : i + high, j : j + wide])
            out += np.einsum("oc,bchw->bohw", _exact(w[:, :, i, j]), part)
    return out.reshape(batch, count, high // pool, pool, wide // pool, pool).max((3, 5)) if pool > 1 else out


def _named(module: ModuleType, *names: str) -> Any:
    """Return the first of several names that a module has, else its last kernel."""
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)
    return [value for value in vars(module).values() if isinstance(value, Kernel)][-1]


def kernel_count(module: ModuleType) -> int:
    """Count the functions under nki.jit in a module."""
    return sum(isinstance(value, Kernel) for value in vars(module).values())


# --- ucb-bar/autocomp, harnesses ---------------------------------------------------------------------


def _cumsum(m: ModuleType) -> Pairs:
    x = _uniform(256, 512)
    return [(m.ref(x), np.cumsum(_exact(x), -1))]


def _transpose(m: ModuleType) -> Pairs:
    x = _uniform(4, 128, 128)
    return [(m.ref(x, 1), x.transpose(0, 2, 1))]


def _maxpool(m: ModuleType) -> Pairs:
    x = _uniform(128, 128)
    return [(m.ref(x, 3), np.lib.stride_tricks.sliding_window_view(x, (3, 3)).max((2, 3)))]


def _rope(m: ModuleType) -> Pairs:
    x, c, s = _uniform(128, 512), _uniform(64, 512), _uniform(64, 512)
    return [(m.ref(x.copy(), c, s), np.concatenate([x[:64] * c - x[64:] * s, x[:64] * s + x[64:] * c]))]


def _conv1d(m: ModuleType) -> Pairs:
    x, w = _uniform(1, 128, 1, 64), _uniform(128, 1, 1, 3)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1)))
    wanted = sum(padded[:, :, :, i : i + 64] * w[:, 0, 0, i][None, :, None, None] for i in range(3))
    return [(m.ref(x, w, padding=((0, 0), (1, 1))), wanted)]


def _conv2d(m: ModuleType) -> Pairs:
    x, w = _uniform(1, 128, 16, 16), _uniform(128, 128, 3, 3)
    order = [0, 1, 2, 3]
    given = m._pre_transpose_filter(w) if hasattr(m, "_pre_transpose_filter") else w  # noqa: SLF001
    got = m.ref(
        x, given, padding=((1, 1), (1, 1)), stride=(1, 1), rhs_dilation=(1, 1),
        in_perm=order, kern_perm=order, out_perm=order,
    )  # fmt: skip
    return [(got, _convolution(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w, np.zeros(128)))]


def _heads(m: ModuleType) -> Pairs:
    heads, length, size = 2, 1024, 128
    q, k, v = _uniform(heads, length, size), _uniform(heads, size, length), _uniform(heads, length, size)
    causal = np.tril(np.ones((length, length), np.float32))
    kernel = _named(m, "ref", "flash_attention_core")
    out, logs, largest = kernel(
        q, k, v, causal, kernel_dtype="float32", acc_type="float32", num_heads=heads, seq_len=length,
        d_head=size,
    )  # fmt: skip
    scores = np.where(causal > 0, _exact(q) @ _exact(k), -9984.0)
    top = scores.max(-1, keepdims=True)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    return [(out, np.exp(scores - top) @ _exact(v)), (largest, top), (logs, np.log(total) + top)]


def _rmsnorm(m: ModuleType) -> Pairs:
    x, g = _uniform(256, 512), _uniform(512)
    root = np.sqrt((_exact(x) ** 2).mean(-1, keepdims=True))
    return [(_named(m, "ref", "nki_rmsnorm_kernel")(x, g), x / root * g)]


def _layernorm(m: ModuleType) -> Pairs:
    x, g, b = _uniform(256, 1024), _uniform(1024), _uniform(1024)
    wide = _exact(x)
    wanted = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * g + b
    return [(_named(m, "nki_layernorm_kernel_v2", "ref")(x, 1e-5, g, b), wanted)]


def _gemm(m: ModuleType) -> Pairs:
    x, y = _normal(1024, 2048, scale=0.1), _normal(1024, 1024, scale=0.1)
    return [(_named(m, "ref", "nki_matmul_fully_optimized_")(x, y), _exact(x).T @ _exact(y))]


def _small_gemm(m: ModuleType) -> Pairs:
    a, b = _normal(512, 512, scale=0.1), _normal(512, 512, scale=0.1)
    return [(m.ref(a, b), _exact(a).T @ _exact(b))]


def _turned_attention(m: ModuleType) -> Pairs:
    q, k, v = _uniform(128, 512), _uniform(128, 512), _uniform(128, 512)
    return [(m.ref(q, k, v), _attention(q.T, k, v.T))]


def _sd_attention(m: ModuleType) -> Pairs:
    q, k, v = _uniform(512, 64), _uniform(512, 64), _uniform(512, 64)
    return [(m.ref(q, k, v), _attention(q, k.T, v, 1 / 8))]


def _mamba(m: ModuleType) -> Pairs:
    batch, channels, length, states = 1, 256, 512, 4
    delta, u = _uniform(batch, channels, length), _normal(batch, channels, length)
    a = -_uniform(channels, states)
    b, c = _normal(batch, states, length), _normal(batch, states, length)
    out = np.zeros((batch, channels, length))
    state = np.zeros((batch, channels, states))
    for t in range(length):
        decay = np.exp(_exact(delta[:, :, t])[..., None] * a)
        state = decay * state + _exact(delta[:, :, t] * u[:, :, t])[..., None] * b[:, None, :, t]
        out[:, :, t] = (state * c[:, None, :, t]).sum(-1)
    return [(_named(m, "mamba_v3", "ref", "mamba_v1")(delta, u, a, b, c), out)]


def _fp32_attention(m: ModuleType) -> Pairs:
    q, k, v = (_normal(*s, scale=0.1) for s in ((1, 512, 128), (1, 128, 512), (1, 512, 128)))
    return [(m.ref(q, k, v, 1.0), _attention(q, k, v))]


def _delta_rule(m: ModuleType) -> Pairs:
    length, size = 64, 128
    q, k, v = (_normal(length, size, scale=0.1) for _ in range(3))
    decay = np.broadcast_to(-_uniform(length, 1) * 0.4, (length, size)).copy()
    rate = np.broadcast_to(1 / (1 + np.exp(-_normal(length, 1))), (length, size)).astype(np.float32)
    state, out = np.zeros((size, size)), []
    for t in range(length):
        state = state * np.exp(_exact(decay[t, 0]))
        state = state + np.outer(k[t], (v[t] - k[t] @ state) * rate[t, 0])
        out.append(q[t] @ state)
    return [(m.ref(q, k, v, decay, rate), np.array(out))]


# --- solutions of CS149's assignment, and others -----------------------------------------------------


def _cs149_conv(channels: int, size: tuple[int, int], pool: int) -> Case:
    def case(m: ModuleType) -> Pairs:
        kernel = _named(m, "fused_conv2d_maxpool", "conv2d")
        x, w = _uniform(1, channels, *size), _uniform(channels, channels, 3, 3)
        bias = _uniform(channels)
        more = {"pool_size": pool} if "pool_size" in kernel.parameters else {}
        return [(kernel(x, w, bias, **more), _convolution(x, w, bias, pool if more else 1))]

    return case


def _cs149_adds(m: ModuleType) -> Pairs:
    found: list[tuple[Array, Array]] = []
    for name, kernel in vars(m).items():
        if isinstance(kernel, Kernel) and "vector_add" in name:
            count = 128 if "naive" in name else 25600 if "tiled" in name else 256000
            a, b = _uniform(count), _uniform(count)
            found.append((kernel(a, b), a + b))
    return found


def _cs149_transpose(m: ModuleType) -> Pairs:
    x = _uniform(256, 512)
    return [(m.matrix_transpose(x), x.T)]


def _kernels_on_attention(m: ModuleType) -> Pairs:
    q, k, v = (_normal(128, 512, scale=0.3) for _ in range(3))
    found = [value for value in vars(m).values() if isinstance(value, Kernel)]
    return [(kernel(q, k, v), _attention(q.T, k, v.T)) for kernel in found]


def _kernels_on_rows(m: ModuleType) -> Pairs:
    x = _normal(128, 512, scale=0.3)
    return [(value(x), _softmax(_exact(x))) for value in vars(m).values() if isinstance(value, Kernel)]


def _fused_mlp(m: ModuleType) -> Pairs:
    found: list[tuple[Array, Array]] = []
    for kernel in [value for value in vars(m).values() if isinstance(value, Kernel)]:
        a, b, bias = _normal(256, 256, scale=0.05), _normal(256, 512), _normal(1, 512)
        if list(kernel.parameters) == ["y"]:
            found.append((kernel(b), _gelu(_exact(b))))
            continue
        linear = _exact(a).T @ _exact(b) + bias
        got = np.asarray(kernel(a, b, bias))
        wanted = min((linear, _gelu(linear)), key=lambda each: float(np.linalg.norm(got - each)))
        found.append((got, wanted))
    return found


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def _taylor_attention(m: ModuleType) -> Pairs:
    kernel, size, width = m.get_based_attn_kernel(128, 128, 2)
    q, k, v = (_normal(2, size, width, scale=0.1) for _ in range(3))
    out = (kernel[2] if isinstance(kernel, Kernel) else kernel)(q, k, v)
    scores = _exact(q) @ _exact(k).transpose(0, 2, 1)
    weights = np.tril(1 + scores + 0.5 * scores * scores)
    return [(out[0], weights @ _exact(v)), (out[1], weights.sum(-1, keepdims=True))]


# --- aws-neuron: samples and library -----------------------------------------------------------------


def _attention_versions(m: ModuleType) -> Pairs:
    found: list[tuple[Array, Array]] = []
    for name, kernel in sorted(vars(m).items()):
        if isinstance(kernel, Kernel) and name.startswith("attn_fwd"):
            length = 128 if name in ("attn_fwd_v1", "attn_fwd_v2") else 1024
            q, k, v = ((_uniform(128, length) - 0.5) * 2 for _ in range(3))
            found.append((kernel(q, k, v), _attention(q.T, k, v.T)))
    return found


def _products(m: ModuleType) -> Pairs:
    found: list[tuple[Array, Array]] = []
    for name, kernel in sorted(vars(m).items()):
        if not isinstance(kernel, Kernel) or "matmul" not in name:
            continue
        k, rows, columns = (128, 64, 512) if "basic" in name else (1024, 2048, 1024)
        a, b = (_half(_normal(k, n, scale=0.1)) for n in (rows, columns))
        found.append((kernel(a, b), _exact(a).T @ _exact(b)))
    return found


def _average_pool(m: ModuleType) -> Pairs:
    x = _uniform(32, 24, 24)
    wanted = _exact(x).reshape(32, 6, 4, 6, 4).mean((2, 4))
    return [(_named(m, "tensor_avgpool_kernel")(x, 4), wanted)]


def _transpose2d(m: ModuleType) -> Pairs:
    x = _uniform(4, 5 * 7)
    wanted = x.reshape(4, 5, 7).transpose(0, 2, 1).reshape(4, 35)
    return [(_named(m, "tensor_transpose2D_kernel_")(x, shape2D=(5, 7)), wanted)]


def _library_rope(m: ModuleType) -> Pairs:
    x, c, s = _normal(128, 1, 4, 256), _normal(64, 1, 256), _normal(64, 1, 256)
    a, b = x[:64], x[64:]
    turned = [a * c[:, :, None] - b * s[:, :, None], b * c[:, :, None] + a * s[:, :, None]]
    return [(m.RoPE(x, c, s), np.concatenate(turned))]


def _library_cumsum(m: ModuleType) -> Pairs:
    x = _normal(128, 512)
    return [(m.cumsum(x), np.cumsum(_exact(x), -1))]


def _library_max(m: ModuleType) -> Pairs:
    x = _normal(4, 2, 4096)
    largest, place = m.cascaded_max[2](x)
    return [(largest, x.max(-1, keepdims=True)), (place, x.argmax(-1)[..., None])]


def _library_attention(m: ModuleType) -> Pairs:
    q, k, v = (_half(_normal(1, 512, 128, scale=0.3)) for _ in range(3))
    got = m.attention_cte(
        q, np.ascontiguousarray(k.transpose(0, 2, 1)), v, scale=1.0, causal_mask=True, tp_q=True
    )
    scores = _exact(q) @ _exact(k).transpose(0, 2, 1)
    scores = np.where(np.tril(np.ones((512, 512))) > 0, scores, -1e30)
    return [(got, _softmax(scores) @ _exact(v))]


def _library_nonzero(m: ModuleType) -> Pairs:
    x = (_uniform(512, 16) > 0.7).astype(np.float32)
    places, counts = m.find_nonzero_indices[2](x)
    pairs: list[tuple[Array, Array]] = [(np.asarray(counts).reshape(-1), x.sum(0))]
    for column in range(16):
        wanted = np.flatnonzero(x[:, column])
        pairs.append((np.asarray(places)[column, : len(wanted)], wanted))
    return pairs


def _library_projection(m: ModuleType) -> Pairs:
    a, w = _half(_normal(1, 2, 128, 512)), _half(_normal(256, 1024, scale=0.1))
    wanted = np.einsum("bnds,ndh->bsh", _exact(a), _exact(w).reshape(2, 128, 1024))
    return [(m.output_projection_cte(a, w), wanted)]


def _library_qkv(m: ModuleType) -> Pairs:
    long, short = _half(_normal(1, 512, 512, scale=0.3)), _half(_normal(4, 1, 512, scale=0.3))
    w = _half(_normal(512, 512, scale=0.05))
    return [(m.qkv(long, w), _exact(long) @ _exact(w)), (m.qkv[2](short, w), _exact(short) @ _exact(w))]


def _library_loss(m: ModuleType) -> Pairs:
    x, wanted = _half(_normal(128, 2048)), _DRAW.integers(0, 2048, 128).astype(np.int32)
    loss, logs = m.cross_entropy_forward[2](x, wanted, chunk_size=1024)
    wide = _exact(x)
    top = wide.max(1)
    total = top + np.log(np.exp(wide - top[:, None]).sum(1))
    return [
        (np.asarray(loss).reshape(-1), total - wide[np.arange(128), wanted]),
        (np.asarray(logs).reshape(-1), total),
    ]


def _library_dynamic(m: ModuleType) -> Pairs:
    a, b = _half(_normal(256, 512)), _half(_normal(256, 512))
    got = m.dynamic_elementwise_add(a, b, np.array([[1]], np.int32))
    return [(np.asarray(got)[:128], (_exact(a) + _exact(b))[:128])]


_HARNESS = {
    "0_cumsum_test.py": _cumsum, "1_transpose_test.py": _transpose, "2_maxpool_test.py": _maxpool,
    "3_rope_test.py": _rope, "4_conv1d_test.py": _conv1d, "5_conv2d_test.py": _conv2d,
    "8_mha_test.py": _heads,
    "0_rmsnorm_test.py": _rmsnorm, "1_layernorm_test.py": _layernorm, "2_gemm_test.py": _gemm,
    "3_mamba_test.py": _mamba, "4_attention_test.py": _turned_attention,
    "5_sdattention_test.py": _sd_attention,
    "10_openfold3_trimul_test.py": _small_gemm, "15_gemm_test.py": _small_gemm,
    "12_flashvsr_fp32attn_test.py": _fp32_attention, "8_deltanet_recurrent_test.py": _delta_rule,
}  # fmt: skip
_CONVOLUTIONS = {
    "conv2d 128": _cs149_conv(128, (32, 16), 1),
    "conv2d 256": _cs149_conv(256, (32, 18), 1),
    "conv2d 128 pool": _cs149_conv(128, (34, 34), 2),
}
_TABLE: dict[str, dict[str, Case]] = {
    **{f"harnesses/{f}/{name}": {"ref": case} for f in (
        "trn-advanced-nki1", "trn-advanced-nki2", "trn-tutorial-nki1", "trn-tutorial-nki2", "trn-internal"
    ) for name, case in _HARNESS.items()},
    "part2/conv2d.py": _CONVOLUTIONS,
    "part2/conv_2d_small.py": _CONVOLUTIONS,
    "part1/kernels.py": {"vector_add": _cs149_adds, "matrix_transpose": _cs149_transpose},
    "kernels/baseline/attention.py": {"attention": _kernels_on_attention},
    "kernels/fused/attention.py": {"attention": _kernels_on_attention},
    "kernels/baseline/softmax.py": {"softmax": _kernels_on_rows},
    "kernels/fused/mlp.py": {"mlp": _fused_mlp},
    "kernels/baseline/mlp_gemm.py": {"mlp": _fused_mlp},
    "kernels/nki_attention.py": {"based": _taylor_attention},
    "attention_fwd_performance/attention_kernels.py": {"versions": _attention_versions},
    "matrix_multiplication/matrix_multiplication_nki_kernels.py": {"versions": _products},
    "average_pool2d/average_pool2d_nki_kernels.py": {"pool": _average_pool},
    "transpose2d/transpose2d_nki_kernels.py": {"transpose": _transpose2d},
    "fused_mamba/mamba_nki_kernels.py": {"mamba": _mamba},
    "core/cumsum/cumsum.py": {"cumsum": _library_cumsum},
    "core/embeddings/rope.py": {"rope": _library_rope},
    "core/max/cascaded_max.py": {"max": _library_max},
    "core/attention/attention_cte.py": {"causal": _library_attention},
    "core/subkernels/find_nonzero_indices.py": {"nonzero": _library_nonzero},
    "output_projection_cte/output_projection_cte.py": {"projection": _library_projection},
    "core/qkv/qkv.py": {"qkv": _library_qkv},
    "experimental/loss/cross_entropy.py": {"loss": _library_loss},
    "dynamic_shapes/dynamic_elementwise_add.py": {"dynamic": _library_dynamic},
}  # fmt: skip


def cases_of(path: Path) -> dict[str, Case]:
    """Return the cases of a kernel file by name, {} if it has none."""
    text = path.as_posix()
    return next((cases for end, cases in _TABLE.items() if text.endswith(f"/{end}")), {})
