"""Kernels called with tensors of a framework give tensors back; here one with torch's interface."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.targets.neuroncore.nki.command import environment
from npuviz.targets.neuroncore.nki.user_python import imported, stand_ins
from tests.targets.neuroncore.nki.running import FIRST, SECOND, random

ADDS = (
    SECOND
    + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    one, other = nl.load(a), nl.load(b)
    nl.store(out, nl.add(one, other))
    return out
"""
)
WRITES = (
    FIRST
    + """
@nki.jit
def kernel(a):
    nl.store(a, nl.load(a) * 2)
    return a
"""
)


class Tensor:
    """Numbers under the interface of torch; bfloat16 are held as integers, as numpy has no such type."""

    def __init__(self, bits: np.ndarray, dtype: str) -> None:
        self.bits, self.dtype = bits, f"torch.{dtype}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    def detach(self) -> "Tensor":
        return self

    cpu = contiguous = detach

    def numpy(self) -> np.ndarray:
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.bits

    def view(self, dtype: str) -> "Tensor":
        return Tensor(self.bits, dtype)

    def copy_(self, other: "Tensor") -> None:
        self.bits[...] = other.bits


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: Any = ModuleType("torch")
    made.bfloat16, made.int16, made.uint8 = "bfloat16", "int16", "uint8"
    made.from_numpy = lambda values: Tensor(values, str(values.dtype))
    monkeypatch.setattr(Tensor, "__module__", "torch")
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


def _kernel(folder: Path, text: str) -> Any:
    path = folder / "kernel.py"
    path.write_text(text)
    with stand_ins():
        return imported(path).kernel


def test_tensors_come_back_as_tensors(tmp_path: Path, torch: Any) -> None:
    kernel, a = _kernel(tmp_path, ADDS), random(4, 8)
    found = kernel(torch.from_numpy(a), torch.from_numpy(a))
    assert (type(found), found.dtype) == (Tensor, "torch.float32")
    np.testing.assert_array_equal(found.bits, a + a)
    assert isinstance(kernel(a, a), np.ndarray)


def test_bfloat16_goes_through_integers(tmp_path: Path, torch: Any) -> None:
    kernel, a = _kernel(tmp_path, ADDS), random(4, 8).astype(ml_dtypes.bfloat16)
    tensor = Tensor(a.view(np.int16), "bfloat16")
    found = kernel(tensor, tensor)
    assert found.dtype == "torch.bfloat16"
    np.testing.assert_array_equal(found.bits.view(ml_dtypes.bfloat16), np.add(a, a))


def test_a_tensor_that_the_kernel_writes_changes(tmp_path: Path, torch: Any) -> None:
    tensor = torch.from_numpy(random(4, 8))
    _kernel(tmp_path, WRITES)(tensor)
    np.testing.assert_array_equal(tensor.bits, random(4, 8) * 2)


def test_scripts_that_take_tensors_to_a_device_find_the_host(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("def device(kind):\n    return f'device {kind}'\n")
    script = tmp_path / "script.py"
    script.write_text(
        FIRST
        + """
import torch_xla
import torch_xla.core.xla_model as xm
from torch_neuronx import nki_jit
from torch_neuronx.xla_impl.ops import nki_jit as same

@nki_jit
def kernel(a):
    nl.store(a, nl.load(a) * 2)
    return a

a = np.ones((4, 4), np.float32)
kernel(a)
xm.mark_step()
torch_xla.sync()
print(a.sum(), nki_jit is same, xm.xla_device(), torch_xla.device() == xm.xla_device())
try:
    xm.all_reduce("sum", [a])
except AttributeError as error:
    print(error)
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "32.0 True device cpu True"
    assert second == "torch_xla.core.xla_model.all_reduce is not part of npuviz's stand-in"


def test_packages_of_devices_that_are_installed_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "framework_shims" in environment()["PYTHONPATH"]
    (tmp_path / "torch_xla").mkdir()
    (tmp_path / "torch_xla" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "framework_shims" not in environment()["PYTHONPATH"]


VERSION = """
@nki.jit(platform_target={platform!r})
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), float(nisa.get_nc_version().value)))
    return out
"""


@pytest.mark.parametrize("header", [FIRST, SECOND])
@pytest.mark.parametrize(
    ("platform", "override", "version"),
    [(None, "", 3), ("trn1", "", 2), ("gen2", "gen4", 4), (None, "trn3", 4), (None, "inf2", 2)],
)
def test_scripts_choose_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, platform: str, override: str, version: int
) -> None:
    (tmp_path / "kernels.py").write_text(header + VERSION.format(platform=platform))
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", override)
    with stand_ins():
        assert imported(tmp_path / "kernels.py").kernel(np.zeros((4, 4), np.float32))[0, 0] == version


def test_an_unknown_machine_of_a_script_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels.py").write_text(SECOND + VERSION.format(platform=None))
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    with stand_ins(), pytest.raises(UsageError, match="NEURON_PLATFORM_TARGET_OVERRIDE 'trn9': expected one"):
        imported(tmp_path / "kernels.py").kernel(np.zeros((4, 4), np.float32))


def test_kernels_wrapped_for_torch_are_the_kernels(tmp_path) -> None:
    text = ADDS + (
        "from torch_neuronx.nki_hop import wrap_nki\nfrom torch_neuronx import nki as same\n"
        "import numpy as np\n\nassert same is nki\nx = np.ones((4, 4), np.float32)\n"
        "assert (wrap_nki(kernel)(x, x) == 2).all()\n"
    )
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
