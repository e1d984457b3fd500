"""Provides npuviz under the name of the simulator that tests of nki-library import (`nki_cpu_simulator`).

Other imports of their harness (remote hosts, metrics, uploads) become mocks, since simulation mode does not
use them. Needs torch, pytest-html and allpairspy: put them on PYTHONPATH.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import ml_dtypes
import numpy as np

from npuviz.targets.neuroncore.nki.calls.entry_points import simulate
from npuviz.targets.neuroncore.nki.record.element_types import NAMES, dtype_of, is_float

_MOCKED = (
    *("aws_embedded_metrics", "boto3", "botocore", "fabric2", "invoke", "paramiko", "plotext"),
    *("pandas", "debugpy"),
)


class _Mocks(MetaPathFinder, Loader):
    """Finds mocks for missing packages, and for modules of the harness that its public repository lacks."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a mocked module, None for others."""
        is_mocked = fullname.partition(".")[0] in _MOCKED or fullname.startswith("test.utils.")
        return ModuleSpec(fullname, self, is_package=True) if is_mocked else None

    def create_module(self, spec: ModuleSpec) -> Any:
        """Make a mock that has every attribute."""
        made = MagicMock(name=spec.name)
        made.__path__, made.__spec__, made.__name__ = [], spec, spec.name
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a mock has no code."""


def _module(name: str, like: ModuleType | None = None, **more: Any) -> Any:
    made = ModuleType(name)
    made.__dict__["__path__"] = []
    made.__dict__.update({key: value for key, value in vars(like).items() if key[:2] != "__"} if like else {})
    made.__dict__.update(more)
    sys.modules[name] = made
    return made


def install() -> None:
    """Install npuviz as `nki_cpu_simulator`, and mocks of the harness's packages."""
    isa, language, typing = (importlib.import_module(f"nki.{name}") for name in ("isa", "language", "typing"))
    nki = importlib.import_module("nki")
    language.__dict__["dtypes"] = language
    name = "nki_cpu_simulator.nki"
    _module("nki_cpu_simulator", nki=(root := _module(name, nki, cpu_simulate=simulate)))
    root.builtin, root.compiler = _module(f"{name}.builtin"), _module(f"{name}.compiler")
    root.tensor = _module(f"{name}.tensor", tensor=nki.__dict__["tensor"])
    root.isa, root.language, root.typing = isa, language, typing
    sys.modules |= {
        f"{name}.isa": isa,
        f"{name}.isa.constants": importlib.import_module("nki.isa.constants"),
        f"{name}.language": language,
        f"{name}.language.dtypes": language,
        f"{name}.typing": typing,
    }
    types: Any = MagicMock(name="neuron_dtypes")
    sys.modules["neuron_dtypes"] = types
    types.__spec__ = ModuleSpec("neuron_dtypes", None)
    types.static_cast = lambda array, dtype: np.asarray(array).astype(dtype)
    types.sizeinbytes = lambda dtype: dtype_of(dtype).itemsize
    types.finfo = ml_dtypes.finfo
    types.is_float_type = lambda dtype: is_float(dtype_of(dtype))
    for name, dtype in NAMES.items():
        setattr(types, name, dtype)
    sys.meta_path.append(_Mocks())


class Harness:
    """A pytest plugin that adapts the harness."""

    def pytest_sessionstart(self, session: Any) -> None:
        """Set the attribute for a compiled kernel, which the harness reads although simulation compiles
        nothing."""
        module = importlib.import_module("test.utils.test_orchestrator")
        module.Orchestrator._compiled_kernel = None  # noqa: SLF001 - set before its tests read it
