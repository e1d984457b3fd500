"""What `nki` and `neuronxcc.nki` offer on top: decorators, and runs of kernels from people's own scripts."""

import copy
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from npuviz.targets.neuroncore.nki.calls.language import Buffer
from npuviz.targets.neuroncore.nki.kernel import LAST, Kernel, run_kernel
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.saving import Files, benchmark_files, profile_files


def _decorator(default_mode: str) -> Callable[..., Any]:
    def jit(func: Any = None, mode: str = default_mode, platform_target: Any = None, **_: Any) -> Any:
        """Make a kernel of a function."""
        if func is None:
            return functools.partial(jit, mode=mode, platform_target=platform_target)
        return func if isinstance(func, Kernel) else _kernel(func, 1, mode, platform_target)

    return jit


def jit_second(fn: Any = None, mode: str = "auto", platform_target: Any = None, **_: Any) -> Any:
    """Make a kernel of a function of generation 2."""
    if fn is None:
        return functools.partial(jit_second, mode=mode, platform_target=platform_target)
    return fn if isinstance(fn, Kernel) else _kernel(fn, 2, mode, platform_target)


def _kernel(function: Any, version: int, mode: str, platform: Any) -> Kernel:
    return Kernel(function, version, mode=mode, platform=str(platform or ""))


jit_first = _decorator("auto")
trace_first = _decorator("trace")


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel of generation 1 on the machine."""
    made = kernel if isinstance(kernel, Kernel) else Kernel(kernel, 1)
    return run_kernel(made, args, kwargs)


def simulate(kernel: Any) -> Any:
    """A callable that runs a kernel of generation 2 on the machine."""
    made = kernel if isinstance(kernel, Kernel) else Kernel(kernel, 2)
    return made


class _Latency:
    """Latencies of a run, all alike: simulated time has no scatter."""

    def __init__(self, nanoseconds: float) -> None:
        self._nanoseconds = nanoseconds

    def get_latency_percentile(self, percentile: int) -> float:
        """Microseconds."""
        return self._nanoseconds / 1000


class _Measured(Kernel):
    """A kernel that keeps its simulated time."""

    benchmark_result: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = super().__call__(*args, **kwargs)
        if LAST:
            self.benchmark_result = SimpleNamespace(nc_latency=_Latency(LAST[-1].nanoseconds))
        return result


def benchmark(kernel: Any = None, **options: Any) -> Any:
    """A kernel whose `benchmark_result.nc_latency` is its simulated time, and that writes the files that
    `save_neff_name` and `save_trace_name` ask for."""
    if kernel is None:
        return functools.partial(benchmark, **options)
    if isinstance(kernel, Kernel):
        measured = _Measured(kernel.function, 1, kernel.grid, platform=kernel.platform)
    else:
        measured = _Measured(kernel, 1)
    measured.files = functools.partial(benchmark_files, options)
    return measured


def baremetal(kernel: Any = None, **options: Any) -> Any:
    """A kernel that runs on the simulated chip, and writes the files that its options ask for."""
    if kernel is None:
        return functools.partial(baremetal, **options)
    return _saved(kernel, functools.partial(benchmark_files, options))


def profile(func: Any = None, **options: Any) -> Any:
    """A kernel that runs on the simulated chip, and writes its NEFF, traces and reports into
    `working_directory`."""
    if func is None:
        return functools.partial(profile, **options)
    return _saved(func, functools.partial(profile_files, options))


def _saved(kernel: Any, files: Callable[[], Files]) -> Kernel:
    made = copy.copy(kernel) if isinstance(kernel, Kernel) else Kernel(kernel, 1)
    made.files = files
    return made


def passed_through(func: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator that changes nothing here."""
    if callable(func):
        return func
    return lambda inner: inner


def as_written(func: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator of kernels from whose loops the compiler takes nothing out."""
    if not callable(func):
        return as_written
    func.is_as_written = True  # type: ignore[attr-defined]
    return func


class _Placement:
    """ncc.sbuf, ncc.psum: where tiles go. npuviz places them itself and says so."""

    def __init__(self, space: str) -> None:
        self._space = space

    def auto_alloc(self) -> Buffer:
        """Anywhere."""
        return Buffer(self._space)

    def alloc(self, *_: Any, **__: Any) -> Buffer:
        """At a place that the kernel computes."""
        recording = current()
        recording.is_placed = True
        recording.note("places that the kernel gives its tiles are not used: npuviz places them (assumed)")
        made = Buffer(self._space)
        made.is_placed = True
        return made

    mod_alloc = alloc


sbuf_placement, psum_placement = _Placement("sbuf"), _Placement("psum")
