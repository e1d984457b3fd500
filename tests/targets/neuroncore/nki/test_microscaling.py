"""Microscaled types: values of the host in each form, scales, and sums in PSUM."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from npuviz.targets.neuroncore.nki.calls.language import float8_e4m3fn_x4, float8_e8m0fnu
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import SECOND, loaded, ran, random

_HOST = (
    SECOND
    + """

@nki.jit
def kernel(elements, powers, x):
    weights = nl.ndarray((64, 32), nl.float8_e4m3fn_x4)
    nisa.dma_copy(weights, elements)
    weight_scale = nl.ndarray((64, 32), nl.SCALE)
    nisa.memset(weight_scale, 0)
    for quadrant in range(2):
        nisa.dma_copy(weight_scale[quadrant * 32 : quadrant * 32 + 4, :],
                      powers[quadrant * 4 : quadrant * 4 + 4, :])
    raw = nl.ndarray(x.shape, nl.bfloat16)
    nisa.dma_copy(raw, x)
    moving = nl.ndarray((64, 48), nl.float8_e5m2_x4)
    moving_scale = nl.ndarray((64, 48), nl.uint8)
    nisa.quantize_mx(moving, raw, moving_scale)
    total = nl.ndarray((32, 48), nl.float32, buffer=nl.psum)
    kept = nl.ndarray((32, 48), nl.float32)
    nisa.memset(kept, 0.0)
    BODY
    out = nl.ndarray((32, 48), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, kept)
    return out
"""
)
_PRODUCT = "nisa.nc_matmul_mx(total, weights, moving, weight_scale, moving_scale"
_ADDED = "nisa.tensor_tensor(kept, kept, total, nl.add)"


def _quantised(x: np.ndarray, kind: type, largest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(elements, exponents of scales with 127 added, the values that both stand for); nki.md 2.5."""
    groups = x.astype(np.float64).reshape(x.shape[0] // 8, 8, -1, 4)
    powers = np.floor(np.log2(np.abs(groups).max((1, 3)))) - (largest - 1)
    scale = 2.0 ** powers[:, None, :, None]
    elements = (groups / scale).astype(kind)
    values = (elements.astype(np.float64) * scale).reshape(x.shape)
    return elements.reshape(x.shape), (powers + 127).astype(np.uint8), values


def _inputs() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Arguments of the kernel, and one product."""
    x = random(64, 192, seed=1).astype(ml_dtypes.bfloat16)
    elements, powers, weights = _quantised(random(64, 128), ml_dtypes.float8_e4m3fn, 8)
    moving = _quantised(x.astype(np.float64), ml_dtypes.float8_e5m2, 15)[2]
    wanted = np.einsum("kmi,kni->mn", weights.reshape(64, 32, 4), moving.reshape(64, 48, 4))
    return {"elements": elements.view(np.uint32), "powers": powers, "x": x}, wanted


def _ran(tmp_path: Path, body: str, inputs: dict[str, np.ndarray], scale: str = "uint8") -> np.ndarray:
    text = _HOST.replace("SCALE", scale).replace("BODY", body.replace("\n", "\n    "))
    return ran(tmp_path, text, inputs, preset="trn3")


@pytest.mark.parametrize("elements", [np.uint32, float8_e4m3fn_x4])
@pytest.mark.parametrize("powers", [np.uint8, ml_dtypes.float8_e8m0fnu, float8_e8m0fnu])
@pytest.mark.parametrize("scale", ["uint8", "float8_e8m0fnu"])
def test_the_host_gives_integers_or_microscaled_types(tmp_path: Path, elements, powers, scale: str) -> None:
    inputs, wanted = _inputs()
    inputs["elements"] = inputs["elements"].view(elements)
    inputs["powers"] = inputs["powers"].view(powers)
    found = _ran(tmp_path, f"{_PRODUCT})\n{_ADDED}", inputs, scale)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("body", "factor", "more"),
    [
        (f"{_PRODUCT})\n{_ADDED}\n{_PRODUCT})\n{_ADDED}", 3, 0),
        (f"{_PRODUCT})\n{_ADDED}\n{_PRODUCT}, accumulate=False)\n{_ADDED}", 2, 0),
        (f"{_PRODUCT})\n{_ADDED}\n{_PRODUCT}, accumulate=True)\n{_ADDED}", 3, 0),
        (f"nisa.memset(total, 2.0)\n{_PRODUCT})\n{_ADDED}", 1, 2),
        (f"nisa.memset(total, 2.0)\n{_PRODUCT}, accumulate=False)\n{_ADDED}", 1, 0),
    ],
    ids=["read between", "begun anew", "asked for", "after memset", "over memset"],
)
def test_products_are_added_to_what_psum_holds(tmp_path: Path, body: str, factor: int, more: int) -> None:
    inputs, wanted = _inputs()
    np.testing.assert_allclose(_ran(tmp_path, body, inputs), factor * wanted + more, rtol=1e-5, atol=1e-4)


def test_columns_that_were_not_written_yet_begin_at_0(tmp_path: Path) -> None:
    part = (
        _PRODUCT.replace("total", "total[:, 8:24]")
        .replace("moving,", "moving[:, 8:24],")
        .replace("moving_scale", "moving_scale[:, 8:24]")
    )
    inputs, wanted = _inputs()
    found = _ran(tmp_path, f"{part})\n{_PRODUCT})\n{_ADDED}", inputs)
    wanted[:, 8:24] *= 2
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def test_scales_of_another_width_are_refused(tmp_path: Path) -> None:
    inputs, _ = _inputs()
    inputs["powers"] = inputs["powers"].astype(np.float32)
    with pytest.raises(
        KernelError, match=r"kernel.py:\d+: .*nc_matmul_mx: stationary_scale .* must be float8_e8m0fnu"
    ):
        loaded(
            tmp_path, _HOST.replace("SCALE", "float32").replace("BODY", f"{_PRODUCT})"), inputs, preset="trn3"
        )
