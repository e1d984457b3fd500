"""Convolutions and matrix products in int8 and fp16: all shapes, tiles and cores give the right values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime.quantization import QuantType

from npuviz.targets.rk3588.task.work import Convolution
from tests.targets.rk3588.compiler.models import Finished, Model, checked, on_npu
from tests.targets.rk3588.hand_tasks import dump

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])
CORES = pytest.mark.parametrize("cores", ["1", "2", "3"])


def convolutions(finished: Finished) -> list[Convolution]:
    found = [task.work.convolution for task in finished.work]
    return [conv for conv in found if conv is not None]


@BOTH
@pytest.mark.parametrize(
    ("shape", "kernels", "kernel", "attributes"),
    [
        ((1, 3, 9, 11), 20, (3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 40, 8, 8), 33, (1, 1), {}),
        ((1, 16, 13, 10), 32, (5, 3), {"strides": [2, 1], "pads": [2, 0, 1, 1]}),
        ((1, 32, 12, 12), 16, (3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
        ((1, 24, 10, 10), 12, (3, 3), {"group": 2, "pads": [0, 1, 1, 0]}),
        ((1, 64, 9, 9), 64, (3, 3), {"group": 64, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ((1, 72, 7, 8), 72, (3, 3), {"group": 72, "pads": [1, 1, 1, 1]}),
        ((1, 136, 6, 6), 136, (5, 5), {"group": 136, "pads": [2, 2, 2, 2]}),
        ((1, 8, 7, 9), 8, (4, 4), {"auto_pad": "SAME_UPPER"}),
        ((1, 8, 7, 9), 8, (2, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ((1, 12, 30), 20, (5,), {"strides": [2], "pads": [2, 1]}),
        ((3, 6, 7, 7), 24, (3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 40, 5, 5), 40, (3, 3), {"group": 40}),
    ],
)
def test_shapes(
    tmp_path: Path,
    quantised: bool,
    shape: tuple[int, ...],
    kernels: int,
    kernel: tuple[int, ...],
    attributes: dict[str, Any],
) -> None:
    model = Model(*shape)
    model.conv("x", shape[1], kernels, *kernel, **attributes)
    on_npu(model.save(tmp_path, quantised=quantised), {"cores": "2"})


@BOTH
@CORES
def test_chains_on_several_cores(tmp_path: Path, quantised: bool, cores: str) -> None:
    """Rows, then kernels are what cores share."""
    model = Model(2, 16, 24, 20)
    x = model.add("Relu", model.conv("x", 16, 48, 3, 3, pads=[1, 1, 1, 1]))
    x = model.add("Relu", model.conv(x, 48, 96, 3, 3, strides=[4, 4], pads=[1, 1, 1, 1]))
    model.conv(x, 96, 256, 3, 2)
    finished = on_npu(model.save(tmp_path, quantised=quantised, per_channel=quantised), {"cores": cores})
    used = {task.core for task in finished.work}
    assert used == set(range(int(cores)))
    codes = {conv.co_work for conv in convolutions(finished)}
    assert codes == {"1": {0}, "2": {1, 4}, "3": {2, 5}}[cores]


@BOTH
def test_rows_are_cut_to_the_banks(tmp_path: Path, quantised: bool) -> None:
    """Later tiles keep the weights where all of them stay in CBUF."""
    model = Model(1, 32, 80, 16)
    model.conv("x", 32, 32 if quantised else 16, 3, 3, pads=[1, 1, 1, 1])
    path = model.save(tmp_path, quantised=quantised)
    small = {"cbuf_bank_bytes": "2048" if quantised else "4096"}
    found = convolutions(on_npu(path, small))
    assert len(found) > 2
    assert [conv.keeps_weights for conv in found] == [False] + [True] * (len(found) - 1)
    assert sum(conv.out_height for conv in found) == 80
    whole = convolutions(on_npu(path))
    assert [conv.out_height for conv in whole] == [80]


def test_weights_that_do_not_stay_are_read_again(tmp_path: Path) -> None:
    model = Model(1, 64, 60, 16)
    model.conv("x", 64, 256, 3, 3, pads=[1, 1, 1, 1])
    found = convolutions(on_npu(model.save(tmp_path), {"cbuf_bank_bytes": "8192"}))
    assert len(found) > 1
    assert not any(conv.keeps_weights for conv in found)


def test_what_no_tile_fits_goes_to_the_host(tmp_path: Path) -> None:
    model = Model(1, 2048, 5, 5)
    model.conv("x", 2048, 8, 3, 3)
    finished = checked(model.save(tmp_path), {"cbuf_bank_bytes": "1024"})
    assert finished.nodes_on_host() == {"Conv"}
    assert "CBUF" in finished.host_reasons[0]


def test_three_dimensions_go_to_the_host(tmp_path: Path) -> None:
    model = Model(1, 4, 5, 5, 5)
    model.conv("x", 4, 4, 3, 3, 3)
    finished = checked(model.save(tmp_path))
    assert "over 3 dimensions" in finished.host_reasons[0]


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("is_depthwise", [False, True])
def test_scales_of_kernels(tmp_path: Path, kind: QuantType, is_depthwise: bool) -> None:
    """Kernels of very different size: BN brings their sums to one scale."""
    model = Model(1, 32, 8, 8)
    groups = 32 if is_depthwise else 1
    spread = np.logspace(-2, 1, 32).astype(np.float32)[:, None, None, None]
    weights = np.random.default_rng(5).standard_normal((32, 32 // groups, 3, 3)).astype(np.float32)
    model.add("Conv", "x", model.constant(weights * spread), group=groups, pads=[1, 1, 1, 1])
    path = model.save(tmp_path, quantised=True, per_channel=True, kind=kind)
    finished = on_npu(path, {"cores": "2"})
    assert all(task.work.output is not None and task.work.output.bn.mul_from_memory for task in finished.work)


@BOTH
@pytest.mark.parametrize("function", ["Relu", "Relu6"])
def test_limits_are_part_of_the_task(tmp_path: Path, quantised: bool, function: str) -> None:
    model = Model(1, 16, 8, 8)
    x = model.conv("x", 16, 32, 3, 3)
    if function == "Relu":
        model.add("Relu", x)
    else:
        model.add("Clip", x, model.constant(np.float32(0)), model.constant(np.float32(0.7)))
    path = model.save(tmp_path, quantised=quantised, per_channel=quantised)
    finished = on_npu(path)
    assert len(finished.work) == 1
    shown = finished.machine.tensor(finished.program.graph.outputs[0])
    assert shown is not None
    assert shown.min() == 0
    assert shown.max() == pytest.approx(0.7, abs=0.01) or function == "Relu"


@pytest.mark.parametrize("function", ["Sigmoid", "Tanh", "Elu", "HardSwish", "Gelu", "Silu"])
def test_tables_are_part_of_the_task_in_halves(tmp_path: Path, function: str) -> None:
    model = Model(1, 16, 60, 8)
    x = model.conv("x", 16, 32, 3, 3)
    if function == "Silu":
        model.add("Mul", x, model.add("Sigmoid", x))
    else:
        model.add(function, x)
    finished = on_npu(model.save(tmp_path), {"cbuf_bank_bytes": "1024", "cores": "2"})
    assert {task.work.output.ew.has_lut for task in finished.work if task.work.output} == {True}
    # The entries are written once a core.
    long = [task.index for task in finished.work if len(task.words) > 1000]
    assert len(long) == 2 < len(finished.work)


@BOTH
@pytest.mark.parametrize(
    ("rows", "inner", "columns", "attributes"),
    [
        (1, 64, 10, {}),
        (4, 36, 16, {"transB": 1}),
        (40, 100, 70, {}),
        (7, 32, 32, {"alpha": 0.5, "beta": 2.0}),
    ],
)
def test_gemm(
    tmp_path: Path, quantised: bool, rows: int, inner: int, columns: int, attributes: dict[str, Any]
) -> None:
    model = Model(rows, inner)
    shape = (columns, inner) if "transB" in attributes else (inner, columns)
    model.add("Gemm", "x", model.weight(*shape), model.weight(columns, scale=0.2), **attributes)
    on_npu(model.save(tmp_path, quantised=quantised), {"cores": "3"})


@BOTH
@pytest.mark.parametrize("shape", [(12, 64), (1, 12, 64), (3, 5, 64)])
def test_matmul_with_a_constant(tmp_path: Path, quantised: bool, shape: tuple[int, ...]) -> None:
    model = Model(*shape)
    model.add("Add", model.add("MatMul", "x", model.weight(64, 48)), model.weight(48, scale=0.5))
    on_npu(model.save(tmp_path, quantised=quantised), {"cores": "2"})


@pytest.mark.parametrize(
    "name", ["fp16_4x64x16", "fp16_1x1024x1024", "fp16_256x512x512", "int8_1x32x32", "int8_512x512x512"]
)
def test_products_have_the_words_of_the_reference_streams(tmp_path: Path, name: str) -> None:
    """CNA and CORE: all words but addresses are those of the dump; only the DPU writes another type."""
    kind, sizes = name.split("_")
    rows, inner, columns = map(int, sizes.split("x"))
    model = Model(rows, inner)
    model.add("Gemm", "x", model.weight(inner, columns))
    finished = on_npu(model.save(tmp_path, quantised=kind == "int8"))
    (task,) = (task for task in finished.work if task.work.convolution is not None)
    assert _cna_and_core(task.words.tolist()) == _cna_and_core(dump(name))


def _cna_and_core(words: list[int]) -> dict[int, int]:
    addresses = {0x1070, 0x1110}
    return {
        word & 0xFFFF: word >> 16 & 0xFFFFFFFF
        for word in words
        if word >> 48 in (0x0201, 0x0801) and word & 0xFFFF not in addresses
    }


def test_more_kernels_than_a_task_holds(tmp_path: Path) -> None:
    model = Model(1, 16)
    model.add("MatMul", "x", model.weight(16, 9000))
    finished = on_npu(model.save(tmp_path))
    assert [conv.kernels for conv in convolutions(finished)] == [8192, 808]


def test_more_rows_than_a_task_holds(tmp_path: Path) -> None:
    model = Model(5000, 16)
    model.add("MatMul", "x", model.weight(16, 16))
    found = convolutions(on_npu(model.save(tmp_path)))
    assert sum(conv.out_height for conv in found) == 5000
    assert max(conv.height for conv in found) <= 2047


@pytest.mark.parametrize("activation", ["", "Sigmoid"])
def test_kernels_of_small_weights_keep_their_bias(tmp_path: Path, activation: str) -> None:
    """Kernels share a factor, of which each has 15 bits: a bias is far more than those of a small one say."""
    model = Model(1, 16, 10, 10)
    random = np.random.default_rng(5)
    weights = random.standard_normal((24, 16, 3, 3)) / 12
    weights[::2] *= 10.0 ** random.uniform(-7, 0, (12, 1, 1, 1))
    bias = model.constant((2 * random.standard_normal(24)).astype(np.float32))
    made = model.add("Conv", "x", model.constant(weights.astype(np.float32)), bias, pads=[1, 1, 1, 1])
    if activation:
        model.add(activation, made)
    on_npu(model.save(tmp_path, quantised=True, per_channel=True))
