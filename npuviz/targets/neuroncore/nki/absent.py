"""Packages that kernel files import for their tests, and that are not installed: names that cannot be used.

Kernels seldom use the framework that they are called from. A file that imports one unguarded is read with
these in its place. What the file calls of them while it is read gives names of no use again; a decision that
hangs on one, and any call from a kernel, raises ImportError.
"""

import importlib
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from npuviz.targets.neuroncore.nki.record.recording import is_recording

PACKAGES = frozenset(
    (
        *(
            "torch",
            "torch_xla",
            "torch_neuronx",
            "torchvision",
            "jax",
            "jaxlib",
            "jax_neuronx",
            "libneuronxla",
        ),
        *("neuronx_distributed", "neuronx_distributed_inference", "transformers", "neuron_dtypes", "einops"),
        *("pandas", "matplotlib", "tqdm", "tabulate", "absl", "qiskit", "seaborn", "yaml"),
        *("scipy", "sklearn", "tensorflow", "flax", "optax", "triton", "vllm", "vllm_neuron", "optimum"),
        *("libtorch_neuronx_lite", "accelerate", "datasets", "safetensors", "huggingface_hub", "PIL", "cv2"),
    )
)


class _Name:
    """Something of a package that is not there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "_Name":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        if is_recording():
            raise self._error()
        return _Name(f"{self._name}()")

    def __bool__(self) -> bool:
        raise self._error()

    def __iter__(self) -> Any:
        raise self._error()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._error()

    def _error(self) -> ImportError:
        package = self._name.partition(".")[0]
        return ImportError(f"{self._name} is used, and {package} is not installed")

    def __getitem__(self, key: object) -> "_Name":
        return self

    def __or__(self, other: object) -> "_Name":
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, value: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{self._name} (not installed)"


class _Package(ModuleType):
    """A package that is not there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "nki_jit":  # Ref: SDK226, the old name of nki.jit in torch_neuronx
            return importlib.import_module("neuronxcc.nki").jit
        return _Name(f"{self.__name__}.{name}")


class _Finder(MetaPathFinder, Loader):
    """Finds the packages that are missing."""

    def __init__(self, missing: set[str]) -> None:
        self._missing = missing

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a name of a missing package."""
        if fullname.partition(".")[0] not in self._missing:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A package whose names cannot be used."""
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


_MISSING: list[set[str]] = []


def is_taken_as_missing(error: BaseException) -> bool:
    """Whether an import failed for one of the packages, which from now on is there, with names of no use."""
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not _MISSING or package not in PACKAGES - _MISSING[-1]:
        return False
    importlib.import_module("numba")  # npuviz itself runs on it; it looks for packages of its own first
    _MISSING[-1].add(package)
    return True


@contextmanager
def missing_packages() -> Generator[None]:
    """Inside, packages that `is_taken_as_missing` knows can be imported; afterwards they are forgotten."""
    missing: set[str] = set()
    finder = _Finder(missing)
    _MISSING.append(missing)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        _MISSING.pop()
        sys.meta_path.remove(finder)
        for name in list(sys.modules):
            if isinstance(sys.modules[name], _Package):
                del sys.modules[name]
