"""Provides npuviz under the name of the simulator that tests of nki-library import (`nki_cpu_simulator`).

Other imports of their harness (remote hosts, metrics, uploads) become mocks, since simulation mode does not
use them. Needs torch, pytest-html and allpairspy: put them on PYTHONPATH.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import ml_dtypes
import numpy as np

from npuviz.targets.neuroncore.nki.calls.collectives import rank_id
from npuviz.targets.neuroncore.nki.calls.entry_points import simulate
from npuviz.targets.neuroncore.nki.record.element_types import NAMES, dtype_of, is_float
from npuviz.targets.neuroncore.nki.record.recording import current

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

    def pytest_collection_finish(self, session: Any) -> None:
        """Let kernels whose ranks have inputs of their own run on a grid of cores and ranks."""
        setup: Any = importlib.import_module("test.utils.simulation_setup")
        kinds: Any = importlib.import_module("test.utils.common_dataclasses")
        orchestrator: Any = importlib.import_module("test.utils.test_orchestrator").Orchestrator
        inner, dump = setup.run_simulator_inference, orchestrator._dump_output_tensors  # noqa: SLF001

        def inference(kernel: Any) -> Any:
            is_by_rank = isinstance(kernel.kernel_input, kinds.PerRankLazyInputGenerator)
            return _run_ranks(kernel) if is_by_rank else inner(kernel)

        def dumped(self: Any, outputs: Any) -> str:
            if not isinstance(outputs, list):
                return dump(self, outputs)
            root = Path(self.fs_config.artifacts_output_directory_path) / kinds.INF_ARTIFACT_DIR_NAME
            for rank, each in enumerate(outputs):
                folder = root / f"output_worker_{rank}"
                folder.mkdir(parents=True, exist_ok=True)
                for name, values in each.items():
                    (folder / f"{name}.bin").write_bytes(values.tobytes())
            return str(root)

        setup.run_simulator_inference = inference
        orchestrator._dump_output_tensors = dumped  # noqa: SLF001 - what the harness calls with the results


def _run_ranks(kernel: Any) -> list[dict[str, np.ndarray]]:
    """Run a kernel of the harness on all of its ranks; returns their outputs by name, in the types wanted."""
    ranks = range(kernel.inference_args.collective_ranks)
    given = [kernel.kernel_input.for_rank(rank) for rank in ranks]
    wanted = [kernel.validation_args.golden_output.for_rank(rank) for rank in ranks]
    returned: dict[int, tuple[Any, ...]] = {}
    everything: list[Any] = []

    def ranked(inputs: Sequence[Sequence[Any]]) -> list[Any]:
        current().own_axes = 1
        result = kernel.kernel_func(**dict(zip(given[0], inputs[rank_id()], strict=True)))
        returned[rank_id()] = tuple(result) if isinstance(result, tuple | list) else (result,)
        everything[:] = [each for rank in sorted(returned) for each in returned[rank]]
        return everything  # the last instance may end before others, which add theirs

    cores = kernel.compiler_input.logical_nc_config
    found = iter(simulate(ranked)[cores, len(ranks)]([list(each.values()) for each in given]))
    return [{name: np.asarray(next(found), each.dtype) for name, each in rank.items()} for rank in wanted]
